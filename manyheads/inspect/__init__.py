"""Look inside a model: its attention weights, and pictures of them."""
