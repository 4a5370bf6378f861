"""Settings to and from YAML: every mistake at once, with its place and what was perhaps meant."""

from manyheads.config.files import Mistakes, inline, load, part, peek, read, text_of, write

__all__ = ["Mistakes", "inline", "load", "part", "peek", "read", "text_of", "write"]
