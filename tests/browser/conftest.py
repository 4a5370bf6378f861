"""A real browser, where Debian's chromium and playwright are installed; nothing is downloaded."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manyheads.models import load
from manyheads.tasks.seq2seq.model import Translator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TEXT = "Ich habe gestern ein neues Buch gekauft."

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens a page, and fails where it said something or asked for anything from outside."""
    said: list[str] = []
    pages: list[Any] = []

    def visit(url: str, width: int = 1280, **settings: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, **settings)
        pages.append(page)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        own = url.split("#")[0]
        page.on(
            "request",
            lambda asked: asked.url.startswith((own, "data:", "blob:")) or said.append(asked.url),
        )
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        return page

    yield visit
    for page in pages:
        page.close()
    assert said == []


@pytest.fixture(scope="session")
def model() -> Translator:
    return load("de-en", "cpu")


@pytest.fixture(scope="session")
def page_file(model: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    model.inspect(TEXT).save(path)
    return path
