"""Image modelling: images that a model draws pixel by pixel, completes and scores."""
