"""A model as a small skeleton plus large tensors that stay on disk."""
