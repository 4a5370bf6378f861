"""Graphs: molecules, and nodes of one graph."""
