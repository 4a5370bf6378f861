"""Predictions for graphs: molecules and other graphs, or the nodes of one graph."""
