"""Programs for GPUs, in Triton."""
