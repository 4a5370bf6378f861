"""512 tokens and 40 heads in one file; how fast it is, bench/inspect_page.py measures."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[2] / "bench" / "inspect_page.py"


def test_a_large_page_is_small_enough_and_says_what_a_token_reads(
    visit: Callable[..., Any], tmp_path: Path
) -> None:
    path, script = tmp_path / "page.html", runpy.run_path(str(BENCH), run_name="loaded")
    script["large_page"]().save(path)
    assert path.stat().st_size <= 4e6
    page = visit(path.as_uri())
    assert page.locator(".queries button").count() == script["TOKENS"]
    maps, hover = page.evaluate(script["TIMES"])
    print(f"{path.stat().st_size / 1e6:.1f} MB, maps in {maps:.0f} ms, a token in {hover:.1f} ms")
    assert page.inner_text("#said").startswith("“word24” reads “word")
