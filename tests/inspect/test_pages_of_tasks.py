"""Pages of other tasks than translation: language models, encoders, classifiers."""

from pathlib import Path

import books
import pytest
import tunes
from payloads import read_payload
from typer.testing import CliRunner

from manyheads import Forced, Off
from manyheads.cli.app import app
from manyheads.models import load
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import Value
from manyheads.tasks.language.model import LanguageModel


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(books.language(tmp_path_factory.getbasetemp()), "cpu")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return load(books.classification(tmp_path_factory.getbasetemp()), "cpu")


def test_a_language_model_is_seen_while_it_writes_on(language: LanguageModel) -> None:
    header, maps = read_payload(language.inspect("the old", max_new_tokens=5).payload())
    written = language.generate("the old", max_new_tokens=5, temperature=0)
    assert header["wrote"] == f"the old{written}"
    rows, keys = (header["sides"][side]["tokens"] for side in ("written", "so far"))
    assert maps[0].shape == (2, len(rows), len(keys))
    assert len(rows) == len(keys) == len(header["candidates"])
    scored = language.score(header["wrote"])
    logs = [one["log"] for one in header["candidates"]]
    assert logs == pytest.approx(scored.logs[-len(logs) :], abs=1e-3)


def test_a_token_is_forced_after_the_prompt_alone(language: LanguageModel) -> None:
    (token,) = language.task.codec.encode("d")
    header, _ = read_payload(language.inspect("the old", max_new_tokens=3).payload())
    given = len(header["candidates"]) - 3
    page = language.inspect("the old", max_new_tokens=3, what_if=[Forced(given, token)])
    assert read_payload(page.payload())[0]["wrote"].startswith("the oldd")
    with pytest.raises(ValueError, match=f"what is written after it begins at place {given}"):
        language.inspect("the old", what_if=[Forced(given - 1, token)])


def test_a_classifier_is_seen_and_what_it_says(classifier: Classifier) -> None:
    text = "the fine old dog"
    header, maps = read_payload(classifier.inspect(text).payload())
    said = classifier.classify(text)
    assert header["wrote"] == said.label
    assert header["candidates"][0]["p"] == pytest.approx(said.probability, abs=1e-4)
    assert {name: share for _, name, share in header["candidates"][0]["best"]} == pytest.approx(
        said.probabilities, abs=1e-4
    )
    tokens = header["sides"]["text"]["tokens"]
    assert maps[0].shape == (2, len(tokens), len(tokens))
    (layer,) = {one["name"] for one in header["layers"]}
    off = classifier.inspect(text, what_if=[Off(layer, 0), Off(layer, 1)])
    _, maps = read_payload(off.payload())
    assert not maps[0].any()


def test_a_number_is_seen_and_how_far_each_head_moves_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model: Classifier = load(books.regression(tmp_path_factory.getbasetemp()), "cpu")
    page, text = model.inspect("the old dog"), "the old dog"
    said = model.classify(text)
    assert isinstance(said, Value)
    assert page.about["wrote"] == f"{said.value:.4g}"
    assert page.about["numbers"] is True
    (layer,) = {one.name for one in page.maps}
    without = model.inspect(text, what_if=[Off(layer, 1)])
    moved = (said.value - float(without.about["wrote"])) / model.task.labels.spread
    assert page.about["costs"][f"{layer}/1"] == [pytest.approx(moved, abs=2e-3)]


def test_notes_are_seen_where_they_stand_in_time() -> None:
    piece = tunes.chorale(8)
    header, maps = read_payload(tunes.singer().inspect(piece).payload())
    roll, written = header["roll"], header["sides"]["written"]["tokens"]
    assert len(roll["written"]) == len(written) == maps[0].shape[1]
    assert len(roll["read"]) == len(header["sides"]["so far"]["tokens"]) == maps[0].shape[2]
    assert len(header["candidates"]) == len(written)
    starts = {(start, pitch) for start, _, pitch, _ in roll["notes"]}
    spots = {tuple(spot) for spot in roll["written"] if spot is not None}
    assert starts <= spots, "each note begins where a token stands"


def test_the_page_of_a_piece_is_written_to_a_file(tmp_path: Path) -> None:
    midi = tunes.midi(tunes.chorale(4), tmp_path / "bach.mid")
    out = tmp_path / "bach.html"
    typed = ["inspect", "--model", "chorales", "--music", str(midi), "--out", str(out)]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.output
    assert out.read_text("utf-8").startswith("<!doctype html>")
    result = CliRunner().invoke(app, [*typed[:3], *typed[5:]])
    assert "a page is of a piece" in str(result.exception)
    result = CliRunner().invoke(app, [*typed, "--also", "de-en"])
    assert "--also is for the live page" in str(result.exception)


def test_music_is_written_on_live_as_the_network_is_told() -> None:
    singer, piece = tunes.singer(), tunes.chorale(8)
    given = singer.inspect_live("0", piece=piece).about
    assert given["roll"] == singer.inspect(piece).about["roll"]
    longer = singer.inspect_live("2", piece=piece).about["roll"]
    assert longer["given"] == pytest.approx(piece.seconds, abs=0.01)
    before, after = (
        {(start, pitch) for start, _, pitch, _ in notes}
        for notes in (given["roll"]["notes"], longer["notes"])
    )
    assert before < after, "the beginning, and more"
    assert singer.inspect_live("2", piece=piece).about["roll"] == longer, "the same each time"
    heads = [Off("0.self", head) for head in range(2)]
    assert singer.inspect_live("2", heads, piece).about["roll"]["notes"] != longer["notes"]
    for wrong in ("-1", "x", "61"):
        with pytest.raises(ValueError, match="seconds to write on are 0 to 60"):
            singer.inspect_live(wrong)
