"""Text classification: classes or numbers of texts, tags of words."""
