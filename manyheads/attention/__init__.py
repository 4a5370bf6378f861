"""The heart: who may attend to whom (patterns), how place enters (positions), how the sum is
computed (kernels)."""
