"""Read a pattern from its text: `read(str(pattern)) == pattern`."""

from __future__ import annotations

import ast
import operator

from manyheads.attention.calls import Notation
from manyheads.attention.patterns import PATTERNS, Pattern

NOTATION = Notation(
    "pattern",
    "Causal() & Window(2)",
    PATTERNS,
    "manyheads.patterns",
    {ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Invert: operator.invert},
    "patterns join with &, | and ~, as in",
)


def read(text: str) -> Pattern:
    """Return the pattern that the text writes; only constructors of patterns are called."""
    pattern: Pattern = NOTATION.read(text)
    return pattern
