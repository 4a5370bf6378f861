"""Take the pictures of docs/inspect.md from the page in a browser.

python results/pages.py --music bach.mid --digit seven.png --molecules runs/esol
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
from manyheads.tasks.image.commands import read_like
from manyheads.tasks.music.midi import load_midi

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BOOK = "Ich habe gestern ein neues Buch gekauft."
DOOR = "The door is open because it is broken."
ASPIRIN, ACID = "CC(=O)Oc1ccccc1C(=O)O", "#heads=1.self/1&side=queries&at=10"
IT = "#part=encoder&heads=encoder.1.self/4"


@contextmanager
def serving(name: str, text: str) -> Iterator[str]:
    model = load(name, "cpu")
    server = PageServer([LiveModel(name, model.inspect_live, text=text)])
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.url
    server.shutdown()


def shoot(page: Any, url: str, name: str, height: int) -> None:
    """Take a picture of the upper part of a page, once it has loaded."""
    page.goto("about:blank")
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


def save_pages(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str]]:
    """Save each page; yield its name and its address."""
    door = load("en-de", "cpu").inspect(DOOR)
    digits, molecules = load("digits", "cpu"), load(given.molecules, "cpu")
    pages = {
        "book": load("de-en", "cpu").inspect(BOOK),
        "door": door,
        "versus": door.compare(load("en-de", "cpu").inspect(DOOR.replace("door", "book"))),
        "bach": load("chorales", "cpu").inspect(load_midi(given.music)),
        "digit": digits.inspect(read_like(digits, given.digit)),
        "aspirin": molecules.inspect(ASPIRIN),
    }
    for name, page in pages.items():
        page.save(folder / f"{name}.html")
        yield name, (folder / f"{name}.html").as_uri()


def main() -> None:
    from playwright.sync_api import sync_playwright

    reader = argparse.ArgumentParser(description=__doc__)
    for name in ("--music", "--digit", "--molecules"):
        reader.add_argument(name, type=Path, required=True)
    given = reader.parse_args()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        at = dict(save_pages(given, Path(folder)))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1080, "height": 1400}, reduced_motion="reduce")
        shoot(page, at["book"], "inspect", 560)
        shoot(page, at["book"] + "#heads=decoder.2.cross/4", "inspect-aligned", 520)
        shoot(page, f"{at['door']}{IT}&side=queries&at=5", "inspect-it", 550)
        shoot(page, f"{at['versus']}{IT}&versus=difference", "inspect-versus", 540)
        shoot(page, f"{at['bach']}#heads=3.self/4&side=queries&at=264", "inspect-notes", 520)
        shoot(page, at["digit"], "inspect-digit", 1240)
        shoot(page, f"{at['aspirin']}{ACID}", "inspect-molecule", 570)
        with serving("en-de", DOOR) as url:
            shoot(page, url + IT, "inspect-what-if", 380)
        browser.close()


if __name__ == "__main__":
    main()
