"""The live page: typed, changed, compared, saved."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import tunes

from manyheads.inspect.server import LiveModel, PageServer
from manyheads.tasks.seq2seq.model import Translator

Open = Callable[..., Any]
TEXT = "Ich habe gestern ein neues Buch gekauft."


@pytest.fixture
def server(model: Translator) -> Iterator[PageServer]:
    made = PageServer(
        [
            LiveModel("de-en", model.inspect_live, text="Hallo!"),
            LiveModel("singer", tunes.singer().inspect_live, "seconds"),
        ]
    )
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
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#edits button:nth-child(3)")
    assert page.inner_text("#edits button:nth-child(3)").startswith("in head")
    assert page.evaluate("document.activeElement.textContent").startswith("in head")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    assert [one["id"] for one in axe.run(page).response["violations"]] == []
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "kept.html")
    kept = visit((tmp_path / "kept.html").as_uri())
    assert kept.locator("#tried-list dt").count() == 4
    assert kept.inner_text("#tried-list dt:first-child") == "as it is"
    page.click("#edits button:first-child")
    page.wait_for_selector("#edits button:nth-child(3)", state="detached")
    settled(page)
    assert page.locator("#edits button").count() == 2


def test_another_model_is_chosen_and_writes_music_on(visit: Open, server: PageServer) -> None:
    page = visit(server.url)
    page.select_option("#model", "singer")
    page.wait_for_selector("#roll:not([hidden])")
    assert not page.locator("#text").is_visible()
    page.fill("#seconds input", "2")
    page.keyboard.press("Enter")
    page.wait_for_selector("#both:has-text('notes in 2 s')")
    page.click("#ranking tbody tr:first-child button")
    page.click("#off")
    page.wait_for_selector("#changed:not([hidden])")
    assert page.locator("#compared dd.log").count() == 2
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    assert [one["id"] for one in axe.run(page).response["violations"]] == []
    page.select_option("#model", "de-en")
    page.wait_for_selector(".keys >> text=Hallo")
    assert page.locator("#roll").is_hidden()


def test_nothing_is_there_before_a_text_is_typed(browser: Any, model: Translator) -> None:
    """Nor after one that the model which was chosen cannot read."""

    def refuse(*_: Any) -> Any:
        raise ValueError("this is no molecule")

    with PageServer([LiveModel("de-en", model.inspect_live), LiveModel("mol", refuse)]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(color_scheme="dark")
        page.goto(server.url)
        assert page.get_attribute("html", "data-theme") == "dark"
        assert not page.is_visible("#grid-title")
        assert page.evaluate("document.activeElement.id") == "text"
        page.keyboard.type("Hallo!")
        page.keyboard.press("Enter")
        page.wait_for_selector("#grid-title", state="visible")
        page.select_option("#model", "mol")
        page.wait_for_selector("#grid-title", state="hidden")
        assert page.inner_text("#wrong") == "this is no molecule"
        assert page.inner_text("#title") == "What mol looks at"
        page.close()
        server.shutdown()
