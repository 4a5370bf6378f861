"""The heart: patterns (who may attend to whom), positions (where), kernels (how)."""
