"""inspect: what a model looked at, as a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from manyheads.tasks.verbs import InspectOptions


def write_page(model: Any, options: InspectOptions) -> None:
    chosen = asdict(options)
    out = chosen.pop("out")
    model.inspect(**chosen).save(out)
    print(f"page: {out}")
