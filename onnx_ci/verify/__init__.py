"""Proof that a candidate still computes what the original does."""
