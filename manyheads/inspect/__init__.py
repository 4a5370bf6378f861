"""Looking inside: what attention saw, and pictures of it."""
