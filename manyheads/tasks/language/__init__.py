"""Language modelling: text that a model continues."""
