"""Which models to look at: named, changed in git, or all."""
