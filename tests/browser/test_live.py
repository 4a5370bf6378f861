"""The live page: typed, changed, compared, saved."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from manyheads.inspect.server import PageServer
from manyheads.tasks.seq2seq.model import Translator

Open = Callable[..., Any]
TEXT = "Ich habe gestern ein neues Buch gekauft."


@pytest.fixture
def server(model: Translator) -> Iterator[PageServer]:
    made = PageServer(lambda text, what_if: model.inspect(text, what_if=what_if), text="Hallo!")
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def settled(page: Any) -> None:
    page.wait_for_selector("body:not(.busy)")


def test_a_person_asks_what_if(visit: Open, server: PageServer, tmp_path: Path) -> None:
    page = visit(server.url)
    page.fill("#text", TEXT)
    page.keyboard.press("Enter")
    page.wait_for_selector(".keys >> text=gekauft.")
    page.click("#ranking tbody tr:first-child button")
    page.click("#off")
    page.wait_for_selector("#changed:not([hidden])")
    assert "times less likely" in page.inner_text("#compared")
    page.click(".queries li:nth-child(2) button")
    page.click("#candidates li:nth-child(2) [aria-label^='force']")
    page.wait_for_selector("#compared mark")
    assert page.inner_text("#compared mark") == "had"
    page.focus("#large canvas[tabindex]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.click("#only-this")
    page.wait_for_selector("#edits button:nth-child(3)")
    assert page.inner_text("#edits button:nth-child(3)").startswith("in head")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    assert [one["id"] for one in axe.run(page).response["violations"]] == []
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "kept.html")
    kept = visit((tmp_path / "kept.html").as_uri())
    assert kept.locator("#tried-list dt").count() == 3
    page.click("#edits button:first-child")
    page.wait_for_selector("#edits button:nth-child(3)", state="detached")
    settled(page)
    assert page.locator("#edits button").count() == 2
