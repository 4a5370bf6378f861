"""manyheads: train, run and look inside Transformer sequence models."""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# The names are listed once, in the stub that type checkers read, and loaded when first used.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_IMPORTS = [node for node in _STUB.body if isinstance(node, ast.ImportFrom)]
_MODULE_OF = {alias.name: node.module or "" for node in _IMPORTS for alias in node.names}
# Names that scripts often use themselves: `from manyheads import *` leaves them out.
_BY_NAME = {"line", "read", "plan", "kernel", "choose", "sample"}
__all__ = [name for name in _MODULE_OF if name not in _BY_NAME]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"manyheads has no {name!r}; it has {', '.join(_MODULE_OF)}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return [*_MODULE_OF, "__version__"]
