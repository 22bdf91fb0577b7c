"""The GitHub Action: what `action.yml` runs."""
