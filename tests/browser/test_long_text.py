"""A page of a long text opens; live, a part of it is asked for."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import books
from typed import trained

from manyheads.inspect.server import LiveModel, PageServer
from manyheads.models import load

SETTINGS = [*books.LANGUAGE, "data.context=2048", "training.tokens_per_batch=2048"]


def test_a_long_text_is_seen_in_groups_and_in_part(
    visit: Callable[..., Any], tmp_path: Path
) -> None:
    book = books.book(tmp_path)
    settings = [*SETTINGS, "training.steps=1"]
    model = load(trained(tmp_path / "run", "language", "--text", book, settings=settings), "cpu")
    text = book.read_text("utf-8").replace("\n", " ")[:1200]
    model.inspect(text).save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri())
    assert page.inner_text("#long").startswith("groups of 3 tokens, the largest weight of each")
    assert not page.is_visible("#tokens"), "a file asks nobody"
    page.click(".queries li:nth-child(9) button")
    assert " was written with " in page.inner_text("#instead")
    with PageServer([LiveModel("book", model.inspect_live, text=text)]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = visit(server.url)
        groups = page.locator(".queries button").count()
        page.fill("#tokens", "600:610")
        page.keyboard.press("Enter")
        page.wait_for_selector("#long-about:has-text('tokens 600:610 of 1,2')")
        page.click("#pieces")
        assert page.locator(".queries button").count() == 10 < groups
        page.click("#around")
        page.wait_for_selector("#long-about:has-text('groups of 3')")
        page.click(".queries li:nth-child(151) button")
        page.click("#around")
        page.wait_for_selector("#long-about:has-text('tokens 194:706 of 1,2')")
        server.shutdown()
