"""The commands, one module each; entry.cli loads the one that is called."""
