"""Models in the formats of others."""
