"""Metrics of outputs against references: no model, no task, only text and numbers."""
