"""Processes of our own for code that may crash, hang or exhaust memory on a stranger's model."""
