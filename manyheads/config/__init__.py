"""Settings to and from YAML: every mistake at once, with its place and what was perhaps meant."""

from manyheads.config.fields import inline, load, part, peek, read, write
from manyheads.config.tree import Mistakes, text_of

__all__ = ["Mistakes", "inline", "load", "part", "peek", "read", "text_of", "write"]
