"""The GitHub Action: what its steps run."""
