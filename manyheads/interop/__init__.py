"""Import and export of models in other formats."""
