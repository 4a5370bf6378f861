"""Read and write settings as YAML: report every mistake at once, with its place and a hint."""

from manyheads.config.fields import load, peek_field, read, read_part, write, write_inline
from manyheads.config.tree import Mistakes, text_of

__all__ = [
    "Mistakes",
    "load",
    "peek_field",
    "read",
    "read_part",
    "text_of",
    "write",
    "write_inline",
]
