"""What a model is for: a folder for each task, and what they share."""
