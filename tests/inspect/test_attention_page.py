"""What the page holds is what the network computed, and every text in it stays text."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from payloads import from_bytes, read_payload
from typer.testing import CliRunner

from manyheads.cli.app import app
from manyheads.inspect.attention_page import (
    COARSE,
    FINE,
    MODULES,
    SOURCES,
    AttentionPage,
    Levels,
    to_bytes,
)
from manyheads.inspect.record import recording
from manyheads.models import load
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.model import Translator

HOSTILE = "</script><img src=x onerror=alert(1)> &amp; \u202eכלב\x00 " + "ä" * 20


@pytest.fixture(scope="module")
def model() -> Translator:
    return load("de-en", "cpu")


@pytest.fixture(scope="module")
def page(model: Translator) -> AttentionPage:
    return model.inspect("Ein Hund rennt.", "A dog is running.")


def test_cells_of_the_page_are_what_was_recorded(model: Translator, page: AttentionPage) -> None:
    codecs, (reads, writes) = model.task.codecs, model.special_tokens
    source = [*codecs.source.encode("Ein Hund rennt."), reads.eos]
    target = [*writes.bos, *codecs.target.encode("A dog is running.")]
    with recording(model.network) as seen:
        model.network(Tokens.padded([source]), Tokens.padded([target]))
    header, maps = read_payload(page.payload())
    assert len(header["layers"]) == len(maps) == len(seen)
    draw = random.Random(0)
    for _ in range(50):
        layer = draw.randrange(len(seen))
        weights = seen[layer].weights[0]
        assert weights.shape == maps[layer].shape
        cell = tuple(draw.randrange(size) for size in weights.shape)
        assert maps[layer][cell] == pytest.approx(weights[cell].item(), abs=1 / 255)


@pytest.mark.parametrize("levels", [FINE, COARSE], ids=["fine", "coarse"])
def test_a_weight_is_right_to_a_255th(levels: Levels) -> None:
    weights = torch.linspace(0, 1, 100_001)
    found = from_bytes(to_bytes(weights, levels))
    assert abs(found - weights.numpy()).max() <= 1 / 253
    assert found[0] == 0
    assert found[-1] == 1


def test_candidates_and_costs_are_there_for_what_is_written(page: AttentionPage) -> None:
    header, _ = read_payload(page.payload())
    written = header["sides"]["written"]["tokens"]
    assert len(header["candidates"]) == len(written)
    assert len(header["costs"]) == sum(layer["shape"][0] for layer in header["layers"])
    assert all(len(costs) == len(written) for costs in header["costs"].values())
    for one in header["candidates"]:
        shares = [share for _, _, share in one["best"]]
        assert shares == sorted(shares, reverse=True)
        assert one["id"] not in [i for i, _, _ in one["best"]] or one["p"] in shares


def test_no_text_stands_in_the_file_as_markup(model: Translator) -> None:
    page = model.inspect(HOSTILE, HOSTILE)
    text = page.html()
    assert not [piece for piece in ("onerror", "\u202e", "\x00") if piece in text]
    assert text.count("</script>") == text.count("<script") == 2
    header, _ = read_payload(page.payload())
    assert header["read"] == HOSTILE


def test_a_long_text_is_cut_and_seen_in_groups(
    model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.seq2seq.model.LONGEST", 530)
    header, _ = read_payload(model.inspect("Hund " * 600, "dog").payload())
    assert len(header["sides"]["source"]["tokens"]) == 266  # and the stop sign
    assert "the first 530 of" in header["note"]
    assert "groups of 2 tokens" in header["note"]
    assert "--tokens 0:512 shows a part" in header["note"]


def test_a_part_of_a_text_is_one_that_each_side_has(model: Translator) -> None:
    header, _ = read_payload(model.inspect("Hund " * 50, "dog", tokens=(0, 20)).payload())
    assert len(header["sides"]["source"]["tokens"]) == 20
    with pytest.raises(ValueError, match="tokens 20:40 are none of those written, which has"):
        model.inspect("Hund " * 50, "dog", tokens=(20, 40))


def test_several_sentences_are_read_at_once_and_the_page_says_so(model: Translator) -> None:
    header, _ = read_payload(model.inspect("Er kam. Sie ging.", "He came. She went.").payload())
    assert header["note"] == "read at once; translate reads each sentence by itself"


def test_nothing_is_asked_of_anybody(page: AttentionPage) -> None:
    text = page.html()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"?(https?:)?//", text)
    assert "<!-- " not in text, "every mark is filled in"


def test_modules_can_be_one_script_and_have_each_name_once() -> None:
    """Inlined, they share one scope."""
    names = re.findall(
        r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)",
        "\n".join((SOURCES / name).read_text("utf-8") for name in MODULES),
        flags=re.MULTILINE,
    )
    assert len(names) == len(set(names))


def test_a_notebook_shows_the_page_in_a_frame(page: AttentionPage) -> None:
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["inspect", "Ein Hund rennt.", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert result.output == f"page: {out}\n"


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["  "], "at least one word, a blank one came"),
        (["--out", "page.html"], "a page is of a text"),
        (["Hallo", "--out", "page.png"], "--out names a .html file, got page.png"),
        (["Hallo", "--out", "nowhere/page.html"], "a file in a folder that is there"),
    ],
)
def test_what_cannot_be_a_page_is_refused(typed: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["inspect", *typed])
    assert sentence in str(result.exception)


def test_pages_are_compared_that_have_the_same_heads_and_as_many_words(
    model: Translator, page: AttentionPage
) -> None:
    other = model.inspect("Ein Tier rennt.", "A cat is running.")
    both = page.compare(other)
    assert both.html().count('<script type="text/plain"') == 2
    assert both.versus is not None
    assert [both.about["name"], both.versus.about["name"]] == ["Ein Hund rennt.", "Ein Tier rennt."]
    with pytest.raises(ValueError, match="as many words: one has source 4, written 5"):
        page.compare(model.inspect("Hallo!", "Hello!"))
    narrow = replace(page, maps=page.maps[:-1])
    with pytest.raises(ValueError, match="as many heads: one has encoder"):
        page.compare(narrow)


def test_the_command_compares_with_another_text_or_another_model(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    typed = ["inspect", "Ein Hund rennt.", "--out", str(out)]
    for more in (["--versus", "Ein Mann rennt."], ["--versus-model", "en-de"]):
        result = CliRunner().invoke(app, [*typed, *more])
        assert result.exit_code == 0, result.output
        assert 'id="versus-data"' in out.read_text("utf-8")
    result = CliRunner().invoke(app, ["inspect", "Ja", "--versus", "Nein"])
    assert "a difference is shown by a page in a file" in str(result.exception)
    result = CliRunner().invoke(app, [*typed, "--versus", "Ja", "--versus-model", "en-de"])
    assert "compared with one other" in str(result.exception)
    result = CliRunner().invoke(app, [*typed, "--versus-model", "digits"])
    assert str(result.exception) == "pages of one task are compared: digits is a model for image"
