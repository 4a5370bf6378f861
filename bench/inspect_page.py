"""How long it takes to make a page of attention, and how large it is; and, where a browser is
installed, how long a large page takes to open, to draw and to react.

python bench/inspect_page.py --browser --json results/inspect-cpu.json
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from manyheads.inspect.attention_page import AttentionPage, LayerMap, TokenRow
from manyheads.models import load

SENTENCE = "Ich habe gestern ein neues Buch gekauft, weil es regnet und ich nichts zu lesen hatte."


def seconds_of(act: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return round(median(times), 3)


TOKENS, HEADS, LAYERS = 512, 8, 5
TIMES = """() => {
  const page = manyheads, time = (act) => {
    const began = performance.now();
    act();
    return performance.now() - began;
  };
  page.look("queries", 1);
  const hovers = [20, 21, 22, 23, 24].map((at) => time(() => page.look("queries", at)));
  const maps = time(() => page.grid.draw(page.grid.shown));
  return [maps, hovers.sort((a, b) => a - b)[2]];
}"""


def large_page() -> AttentionPage:
    """Make a page with weights about as spread as the attention of trained networks."""
    torch.manual_seed(0)
    at = torch.arange(TOKENS)
    row = TokenRow(
        "tokens", [f"word{i % 97}" for i in range(TOKENS)], range(TOKENS), [False] * TOKENS
    )

    def weights(head: int) -> torch.Tensor:
        scores = torch.randn(TOKENS, 16) @ torch.randn(16, TOKENS) * (0.3 + 0.15 * head)
        return (scores - (at[:, None] - at).abs() * 0.02 * (head % 3)).softmax(-1)

    layers = [torch.stack([weights(head) for head in range(HEADS)]) for _ in range(LAYERS)]
    maps = [
        LayerMap(f"{i}.self", "encoder", i, "tokens", "tokens", each)
        for i, each in enumerate(layers)
    ]
    return AttentionPage([row], maps, {"model": "large"})


def time_browser(rounds: int) -> dict[str, Any]:
    """Time a page of 512 tokens and 40 heads: to open, to draw all small maps, to hover a token."""
    from playwright.sync_api import sync_playwright

    times = []
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        large_page().save(path)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for _ in range(rounds):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            began = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("body[data-ready]")
            opened = time.perf_counter() - began
            times.append([opened, *page.evaluate(TIMES)])
            page.close()
        browser.close()
        size = path.stat().st_size
    opened, maps, hover = (round(median(each), 3) for each in zip(*times, strict=True))
    return {
        "large_tokens": TOKENS,
        "large_heads": HEADS * LAYERS,
        "large_bytes": size,
        "open_seconds": opened,
        "draw_milliseconds": maps,
        "hover_milliseconds": hover,
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--model", default="de-en")
    reader.add_argument("--rounds", type=int, default=5)
    reader.add_argument("--browser", action="store_true", help="Chromium and playwright are there")
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
    if given.browser:
        found |= time_browser(given.rounds)
    print(json.dumps(found, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
