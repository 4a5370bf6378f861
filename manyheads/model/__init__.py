"""Transformers from parts: blocks, stacks, and the three shapes."""
