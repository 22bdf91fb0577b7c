"""Endings of files that are likely to be a model's external data."""

DATA_ENDINGS = (".data", "_data", ".bin", ".weights", ".weight", ".dat", ".raw", ".pb")
