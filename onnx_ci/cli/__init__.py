"""The commands: arguments in, a report and an exit code out."""
