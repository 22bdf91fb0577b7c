"""The GitHub Action: its inputs, its modes, and what it tells, comments, commits and pushes."""
