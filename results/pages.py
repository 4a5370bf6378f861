"""The pictures of docs/inspect.md, taken of the page in a browser.

python results/pages.py --music bach.mid
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from manyheads.inspect.server import LiveModel, PageServer
from manyheads.models import load
from manyheads.tasks.music.midi import load_midi

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BOOK = "Ich habe gestern ein neues Buch gekauft."
DOOR = "The door is open because it is broken."
IT = "#part=encoder&heads=encoder.1.self/4"


@contextmanager
def serving(name: str, text: str) -> Iterator[str]:
    model = load(name, "cpu")
    server = PageServer([LiveModel(name, model.inspect_live, text=text)])
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.url
    server.shutdown()


def shoot(page: Any, url: str, name: str, height: int) -> None:
    """The upper part of a page, once it is there."""
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    if name == "inspect":
        page.hover(".queries li:nth-child(2) button")
    if name == "inspect-what-if":
        page.click("#off")
        page.wait_for_selector("#compared mark")
    size = page.viewport_size["width"]
    clip = {"x": 0, "y": 0, "width": size, "height": height}
    page.screenshot(path=IMAGES / f"{name}.png", clip=clip)


def main() -> None:
    from playwright.sync_api import sync_playwright

    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--music", type=Path, required=True)
    piece = load_midi(reader.parse_args().music)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = {name: Path(folder) / f"{name}.html" for name in ("book", "door", "bach")}
        load("de-en", "cpu").inspect(BOOK).save(files["book"])
        load("en-de", "cpu").inspect(DOOR).save(files["door"])
        load("chorales", "cpu").inspect(piece).save(files["bach"])
        book, door, bach = (path.as_uri() for path in files.values())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1080, "height": 760})
        shoot(page, book, "inspect", 560)
        shoot(page, f"{door}{IT}&side=queries&at=5", "inspect-it", 550)
        shoot(page, f"{bach}#heads=3.self/4&side=queries&at=264", "inspect-notes", 520)
        with serving("en-de", DOOR) as url:
            shoot(page, url + IT, "inspect-what-if", 380)
        browser.close()


if __name__ == "__main__":
    main()
