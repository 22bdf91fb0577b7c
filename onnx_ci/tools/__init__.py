"""Runs in a child process only: other libraries at work on a whole model, one module each."""
