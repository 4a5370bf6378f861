"""The heart: patterns (which query sees which key), positions, and kernels (how it is computed)."""
