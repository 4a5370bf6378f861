"""Extractive question answering: the answer is a span of the text."""
