"""Inputs for a model: made up from its graph, or read from the user's samples."""
