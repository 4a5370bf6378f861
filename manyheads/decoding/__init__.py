"""From scores of the next token to whole sequences."""
