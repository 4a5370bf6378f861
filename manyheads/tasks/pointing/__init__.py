"""An answer to a question about a text, found in the text."""
