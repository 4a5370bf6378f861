"""From logits of the next token to whole sequences."""
