"""The policy file: read, checked, matched against paths, described as a schema."""
