"""Decoding: generate sequences from the logits of the next token."""
