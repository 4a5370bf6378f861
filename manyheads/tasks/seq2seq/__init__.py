"""Text in, text out: translation, summaries, answers."""
