"""Masked language models, and vectors of texts."""
