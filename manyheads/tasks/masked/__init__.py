"""Hidden words, and vectors of texts."""
