"""The repository: what changed, where the content of models is, what it was, where originals are kept."""
