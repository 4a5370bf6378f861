"""How good outputs are beside references: no model, no task, only text and numbers."""
