"""How long a page of what a model looked at takes, and how large it is.

python bench/inspect_page.py --json results/inspect-cpu.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from manyheads.models import load

SENTENCE = "Ich habe gestern ein neues Buch gekauft, weil es regnet und ich nichts zu lesen hatte."


def seconds_of(act: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return round(median(times), 3)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--model", default="de-en")
    reader.add_argument("--rounds", type=int, default=5)
    reader.add_argument("--json", type=Path)
    given = reader.parse_args()
    model = load(given.model, "cpu")
    page = model.inspect(SENTENCE)
    heads = sum(one.weights.shape[0] for one in page.maps)
    found = {
        "model": given.model,
        "tokens": [len(row.tokens) for row in page.rows],
        "heads": heads,
        "inspect_seconds": seconds_of(lambda: model.inspect(SENTENCE), given.rounds),
        "translate_seconds": seconds_of(lambda: model.translate(SENTENCE), given.rounds),
        "html_seconds": seconds_of(page.html, given.rounds),
        "html_bytes": len(page.html().encode()),
    }
    print(json.dumps(found, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
