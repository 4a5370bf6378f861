"""Kernels, the ways to compute attention: one protocol, several kernels, and how one is chosen."""

from manyheads.attention.kernels.base import Kernel, Plan, Work, refuse_nonfinite
from manyheads.attention.kernels.choose import KERNELS, Fastest, KernelChoice, choose, kernel, plan
from manyheads.attention.kernels.wrappers import Checked, Edit, Edited, Recorded, Seen, is_wrapper

__all__ = [
    "KERNELS",
    "Checked",
    "Edit",
    "Edited",
    "Fastest",
    "Kernel",
    "KernelChoice",
    "Plan",
    "Recorded",
    "Seen",
    "Work",
    "choose",
    "is_wrapper",
    "kernel",
    "plan",
    "refuse_nonfinite",
]
