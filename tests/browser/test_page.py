"""The page of one sentence, as a person uses it."""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import molecules
import numpy as np
import paintings
import pytest
import tunes
from payloads import read_payload

from manyheads.models import load
from manyheads.tasks.seq2seq.model import Translator

Open = Callable[..., Any]
TEXT = "Ich habe gestern ein neues Buch gekauft."
HOSTILE = "<img src=x onerror=alert(1)> </script> & \u202eכלב שלום\x00"
BOUGHT = ".queries li:nth-child(2) button"


def test_a_word_says_what_it_reads(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    assert page.title() == "What de-en looked at"
    assert page.inner_text(".keys").split() == [
        *["Ich", "habe", "gestern", "ein", "neues", "Buch", "gekauft.", "■"]
    ]
    page.hover(BOUGHT)
    assert page.inner_text("#said").startswith("“bought” reads “gekauft.”")
    assert re.match(r"written with 9\d %; instead: “had”", page.inner_text("#instead"))
    page.mouse.move(2, 2)
    assert page.inner_text("#said") == "Point at a word to see what it reads."


def test_a_pinned_word_and_a_head_are_kept_in_the_address(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    page.click(BOUGHT)
    assert page.inner_text("#ranking-title") == "What each head is worth for “bought”"
    page.click("#ranking tbody tr:first-child button")
    name = page.inner_text("#ranking tbody tr:first-child button")
    page.mouse.move(2, 2)
    said = page.inner_text("#said")
    assert "heads=decoder" in page.url
    again = visit(page.url)
    assert again.inner_text("#map-title") == f"Head {name}"
    assert again.inner_text("#said") == said
    assert again.get_attribute(BOUGHT, "aria-pressed") == "true"


def test_the_beam_says_what_was_kept_and_cut(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    page.focus("#beam")
    page.keyboard.press("ArrowRight")
    assert re.match(r"“I bought”: log-probability -0\.\d+, kept", page.inner_text("#beam-said"))
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    assert page.inner_text("#beam-said").endswith(", cut")


def test_what_would_be_said_after_each_layer(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    page.focus("#lens")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert re.match(r"the output: “bought” 9\d %$", page.inner_text("#lens-said"))
    assert page.inner_text("#said").startswith("“bought” reads “gekauft.”")
    page.keyboard.press("ArrowUp")
    assert re.match(r"after layer 1: “.+” \d+ %; “bought” has", page.inner_text("#lens-said"))


def test_every_part_is_reached_with_the_keyboard(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector("#help", state="hidden")
    page.keyboard.press("2")
    assert page.inner_text("#keys-label").lower() == "what is read"
    page.keyboard.press("1")
    page.keyboard.press("]")
    assert page.inner_text("#map-title") == "Head 0.0"
    page.focus("#grid")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#map-title") == "Head 1.1"
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator("#chips button").count() == 2
    page.focus(".queries button")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#said").startswith("“bought” reads")
    page.focus("#large canvas[tabindex]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert re.match(r"head 1\.1: “I” reads “habe” [\d.]+ %", page.inner_text("#cell"))
    page.keyboard.press("Enter")
    assert page.get_attribute(".queries li:first-child button", "aria-pressed") == "true"
    page.keyboard.press("w")
    assert page.get_attribute("#pieces", "aria-pressed") == "true"


def test_the_keyboard_stays_where_it_was(visit: Open, page_file: Path) -> None:
    """A button that is pressed and drawn anew keeps the focus; Tab passes a list in one step."""
    page = visit(page_file.as_uri())
    page.focus(".queries button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#said").startswith("“a” reads"), "the word after the pinned one"
    page.focus("#ranking tbody button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    name = page.inner_text("#ranking tr:nth-child(2) button")
    assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "the row in numbers"
    page.focus("#grid")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Shift+ArrowDown")
    page.focus("#chips button:last-child")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.id") == "chips"


def test_several_heads_are_chosen_with_the_keyboard(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri())
    page.focus("#grid")
    for key in ("ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("#chips button").all_inner_texts() == [
        *["head 0.0", "head 0.1", "head 0.2", "head 1.2"]
    ]
    assert page.inner_text("#grid-said").startswith("head 1.2: without it, the output is ")
    page.focus(BOUGHT)
    said = r"“bought” reads .+ % \(head 0\.0\), .+ % \(head 0\.1\), .+ % \(head 0\.2\), .+ % \(head"
    assert re.match(said, page.inner_text("#said"))
    starts = page.evaluate("[0, 4].map((shift) => manyheads.lines.anchor('keys', 0, shift)[0])")
    assert starts[1] - starts[0] == 4, "no head hides another"


def test_what_is_walked_to_is_in_sight_and_in_a_table(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri(), 360)
    for name, said in (("beam", "the beam"), ("lens", "the layers")):
        page.focus(f"#{name}")
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        assert page.evaluate(f"document.getElementById('{name}').parentElement.scrollLeft") > 100
        page.click(f"summary:has-text('{said} as a table')")
        page.wait_for_selector(f"#{name}-section tbody tr:nth-child(7)")
    written, *layers = page.locator("#lens-section tbody tr:nth-child(2) > *").all_inner_texts()
    assert written == "bought"
    assert re.match(r"bought 9\d %", layers[-1])
    refuse_violations(page)


def test_a_link_to_nothing_shows_the_page(visit: Open, page_file: Path) -> None:
    page = visit(page_file.as_uri() + "#theme=green&only=nothing&part=none&heads=x&side=y&at=-1")
    assert page.locator("#ranking tbody tr").count() == 54
    page.evaluate("location.hash = 'part=nowhere'")
    page.evaluate("location.hash = 'part=encoder'")
    page.wait_for_function("document.getElementById('keys-label').textContent == 'what is read'")


def test_what_is_shown_is_in_the_file(visit: Open, page_file: Path, model: Translator) -> None:
    """In pieces, the numbers of a row are those of the map."""
    page = visit(page_file.as_uri() + "#words=0")
    _, maps = read_payload(model.inspect(TEXT).payload())
    page.click("#ranking tbody tr:first-child button")
    layer, head = page.evaluate("manyheads.chosen[0].split('/')")
    names = page.evaluate("manyheads.attention.layers.map((layer) => layer.name)")
    page.click(BOUGHT)
    page.click("#numbers summary")
    page.wait_for_selector("#row td")
    told = [float(one.split()[0]) for one in page.locator("#row td").all_inner_texts()]
    wanted = 100 * maps[names.index(layer)][int(head), 1]
    np.testing.assert_allclose(told, wanted, atol=0.51)


@pytest.mark.parametrize(("kind", "begins"), [("SVG", b"<svg "), ("PNG", b"\x89PNG")])
def test_views_are_saved(visit: Open, page_file: Path, kind: str, begins: bytes) -> None:
    page = visit(page_file.as_uri())  # a browser lets ten downloads of a page through
    for view in ("lines", "grid", "map", "beam", "lens"):
        with page.expect_download() as download:
            page.click(f"[aria-label='save {view} as {kind}']")
        assert Path(download.value.path()).read_bytes().startswith(begins)


def test_weights_are_saved(visit: Open, page_file: Path, model: Translator) -> None:
    page = visit(page_file.as_uri())
    with page.expect_download() as download:
        page.click("#npz")
    stored = np.load(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert zipfile.ZipFile(download.value.path()).testzip() is None
    header, maps = read_payload(model.inspect(TEXT).payload())
    for layer, weights in zip(header["layers"], maps, strict=True):
        np.testing.assert_allclose(stored[layer["name"]], weights, atol=1e-6)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window_and_anyone_can_read_it(
    visit: Open, page_file: Path, width: int, scheme: str
) -> None:
    page = visit(page_file.as_uri(), width, color_scheme=scheme, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_attribute("html", "data-theme") == scheme
    refuse_violations(page)


def test_notes_are_walked_through_and_heard(visit: Open, tmp_path: Path) -> None:
    cut = {"note": "the first 512 of 640 tokens are shown"}
    tunes.singer().inspect(tunes.chorale(8)).with_about(**cut).save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri())
    assert page.inner_text("#long") == cut["note"]
    page.focus("#roll canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert " reads " in page.inner_text("#said")
    page.keyboard.press("Enter")
    assert "side=queries" in page.url, "pinned"
    refuse_violations(page)
    page.click("#play")
    assert page.inner_text("#play") == "stop"
    page.click("#play")
    with page.expect_download() as download:
        page.click("[aria-label='save roll as SVG']")
    assert Path(download.value.path()).read_bytes().startswith(b"<svg ")


def test_nodes_of_a_molecule_say_what_they_read(
    visit: Open, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    model = load(molecules.train_model(tmp_path_factory.getbasetemp()), "cpu")
    with pytest.warns(UserWarning, match="never met in training"):  # chains were, no branches
        model.inspect("CC(=O)O").save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri())
    assert page.inner_text("#both").startswith("CC(=O)O → y ")
    x, y = page.evaluate("manyheads.graph.spots[2]")
    page.hover("#graph canvas", position={"x": x, "y": y})
    assert page.inner_text("#said").startswith("“O2” reads ")
    page.focus("#graph canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.inner_text("#said").startswith("“O3” reads ")
    assert "at=3" in page.url
    page.click("#numbers summary")
    page.wait_for_selector("#row tbody tr:nth-child(4)")
    with page.expect_download() as download:
        page.click("[aria-label='save lines as SVG']")
    assert Path(download.value.path()).read_text("utf-8").count("<circle") == 5
    refuse_violations(page)


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_picture_draws_itself_and_a_pixel_says_what_it_was_drawn_from(
    visit: Open, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, motion: str
) -> None:
    model = load(paintings.train_painter(tmp_path_factory.getbasetemp()), "cpu")
    model.inspect(paintings.squares(1)[0]).save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri(), reduced_motion=motion)
    if motion == "reduce":
        assert page.evaluate("manyheads.picture.drawn") == 64
    while page.evaluate("manyheads.picture.drawn") < 64:
        page.wait_for_timeout(50)
    assert page.inner_text("#said").startswith("The model was least sure here: “")
    left, top = page.evaluate("manyheads.picture.panels[0]")
    scale = page.evaluate("manyheads.picture.scale")
    at = {"x": left + 2.5 * scale, "y": top + 4.5 * scale}
    page.hover("#picture canvas", position=at)
    assert page.inner_text("#said").startswith("“4,2” reads ")
    assert page.inner_text("#instead").startswith("written with ")
    page.click("#picture canvas", position=at)
    assert page.inner_text("#ranking-title") == "What each head is worth for “4,2”"
    page.focus("#picture canvas")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#said").startswith("“5,2” reads ")
    page.keyboard.press("]")
    assert page.inner_text("#map-title") == "Head 0.0"
    with page.expect_download() as download:
        page.click("[aria-label='save lines as SVG']")
    assert Path(download.value.path()).read_text("utf-8").count("<image") == 2
    refuse_violations(page)


def refuse_violations(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"]]) for one in found] == []


def test_hostile_text_stays_text(visit: Open, model: Translator, tmp_path: Path) -> None:
    model.inspect(HOSTILE + "a" * 10_000, HOSTILE).save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri())
    assert page.locator("img").count() == 0
    assert "<img" in page.inner_text(".keys")
    model.inspect(HOSTILE, "猫").save(tmp_path / "short.html")
    short = visit((tmp_path / "short.html").as_uri())
    assert "�כלב" in short.inner_text(".keys"), "a word, of pieces that are parts of its letters"
    assert short.inner_text(".queries").split() == ["猫", "■"]
    with page.expect_download() as download:
        page.click("[aria-label='save lines as SVG']")
    text = Path(download.value.path()).read_text("utf-8")
    assert "<img" not in text
    assert "&#60;img" in text


def test_a_notebook_shows_it_in_a_frame(visit: Open, tmp_path: Path, model: Translator) -> None:
    shown = model.inspect(TEXT)._repr_html_()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><body data-ready>{shown}", encoding="utf-8")
    page = visit(notebook.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator(BOUGHT).hover()
    assert frame.locator("#said").inner_text().startswith("“bought” reads “gekauft.”")
    frame.locator(BOUGHT).click()
    assert frame.locator(BOUGHT).get_attribute("aria-pressed") == "true"


ROLLED = "manyheads.attention.decode(manyheads.attention.map('rolled', '{}', false).cells)"


def test_attention_is_rolled_out_over_all_layers(
    visit: Open, page_file: Path, model: Translator
) -> None:
    """Against the same by NumPy: half of what a layer passes on is what was there before."""
    page = visit(page_file.as_uri() + "#words=0")
    header, maps = read_payload(model.inspect(TEXT).payload())
    means = {part: [] for part in ("encoder", "decoder", "cross")}
    for layer, weights in zip(header["layers"], maps, strict=True):
        means[layer["part"]].append(weights.mean(0))
    source = roll_out(means["encoder"])
    reached = np.zeros_like(means["cross"][0])
    for own, across in zip(means["decoder"], means["cross"], strict=True):
        reached = (reached + own @ reached) / 4 + across @ source / 2
    wanted = {"encoder": source, "decoder": roll_out(means["decoder"])}
    wanted["cross"] = reached / reached.sum(-1, keepdims=True)
    for part, rolled in wanted.items():
        found = page.evaluate(f"Array.from({ROLLED.format(part)})")
        np.testing.assert_allclose(found, rolled.flatten(), atol=0.006)
    page.click("#rolled")
    assert page.inner_text("#map-title") == "Rolled out over all layers"
    assert page.get_attribute("#rolled", "aria-pressed") == "true"


def roll_out(layers: list[Any]) -> Any:
    rolled = np.eye(len(layers[0]))
    for weights in layers:
        rolled = (rolled + weights @ rolled) / 2
    return rolled


def test_one_head_is_read_through_another(visit: Open, page_file: Path, model: Translator) -> None:
    page = visit(
        page_file.as_uri() + "#words=0&part=encoder&heads=encoder.0.self/1+encoder.2.self/3"
    )
    page.click("#through")
    assert page.inner_text("#map-title") == "Head 2.3 through head 0.1"
    header, maps = read_payload(model.inspect(TEXT).payload())
    by_name = {one["name"]: weights for one, weights in zip(header["layers"], maps, strict=True)}
    wanted = by_name["encoder.2.self"][3] @ by_name["encoder.0.self"][1]
    found = page.evaluate("Array.from(manyheads.attention.decode(manyheads.maps[0].map.cells))")
    np.testing.assert_allclose(found, wanted.flatten(), atol=0.006)


def test_two_texts_are_compared(visit: Open, model: Translator, tmp_path: Path) -> None:
    first, second = model.inspect("Der Hund schläft."), model.inspect("Die Katze schläft.")
    first.compare(second).save(tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri(), 360)
    assert "Der" in page.inner_text(".keys")
    page.click("text=second")
    assert "Katze" in page.inner_text(".keys")
    page.click("text=difference")
    assert "Hund / Katze" in page.inner_text(".keys")
    assert (
        page.inner_text("#versus-about") == "Blue: more than in “Die Katze schläft.”; orange: less."
    )
    page.evaluate("location.hash = 'versus=second'")
    page.wait_for_selector(".keys >> text=Katze")
    page.evaluate("location.hash = 'versus=difference'")
    page.wait_for_selector(".keys >> text=Hund / Katze")
    page.hover(BOUGHT)
    assert re.match(r"“.+” reads .+ [+−]\d", page.inner_text("#said"))
    found = page.evaluate(
        "['first', 'second', 'difference'].map((one) => {"
        " manyheads.compareBy(one); return [...manyheads.maps[0].map.cells]; })"
    )
    one, other = (np.square(np.array(cells) / 255) for cells in found[:2])
    told = (np.array(found[2]) - 128) / 127
    np.testing.assert_allclose(one - other, np.sign(told) * told**2, atol=0.01)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    refuse_violations(page)
