"""What a model is for: one file a task, six verbs each."""
