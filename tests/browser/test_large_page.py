"""512 tokens and 40 heads: opened, drawn and hovered over at once."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from manyheads.inspect.attention_page import AttentionPage, LayerMap, TokenRow

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
  return { maps, hover: hovers.sort((a, b) => a - b)[2] };
}"""


def large_page() -> AttentionPage:
    """About as spread as attention of trained networks."""
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


def test_it_opens_draws_and_hovers_at_once(visit: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    large_page().save(path)
    assert path.stat().st_size <= 4e6
    began = time.perf_counter()
    page = visit(path.as_uri())
    opened = time.perf_counter() - began
    found = page.evaluate(TIMES)
    print(f"{path.stat().st_size / 1e6:.1f} MB, opened in {opened:.2f} s, {found}")
    # Twice what is meant: another may be at work on the same machine.
    assert opened <= 3
    assert found["maps"] <= 500
    assert found["hover"] <= 10
