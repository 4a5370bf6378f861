"""What is said about a text: classes, numbers, tags."""
