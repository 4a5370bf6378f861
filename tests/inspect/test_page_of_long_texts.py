"""A long text stands on its page in groups of tokens, and a part of it token by token."""

from pathlib import Path
from typing import Any

import books
import numpy as np
import pytest
import torch
import tunes
from payloads import read_payload
from typed import trained
from typer.testing import CliRunner

from manyheads.cli.app import app
from manyheads.inspect.attention_page import LayerMap
from manyheads.inspect.record import recording
from manyheads.models import load
from manyheads.modules.transformer import Tokens
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.masked.model import MaskedLM
from manyheads.tasks.music.model import Musician

LETTERS = 1201  # each a token
STEP = 3  # tokens of a group


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = tmp_path_factory.mktemp("long")
    settings = [*books.LANGUAGE, "data.context=2048", "training.tokens_per_batch=2048"]
    run = trained(
        folder / "run",
        "language",
        "--text",
        books.book(folder),
        settings=[*settings, "training.steps=1"],
    )
    return load(run, "cpu")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return books.book(tmp_path_factory.mktemp("text")).read_text("utf-8")[:LETTERS]


@pytest.fixture(scope="module")
def weights(language: LanguageModel, text: str) -> torch.Tensor:
    """Of all tokens: (H, Q, K)"""
    codec = language.task.codec
    ids = [*codec.special_tokens.bos, *codec.encode(text)][:-1]
    with torch.no_grad(), recording(language.network) as seen:
        language.network(Tokens.padded([ids]))
    return seen[0].weights[0]


@pytest.fixture(scope="module")
def grouped(language: LanguageModel, text: str) -> tuple[dict[str, Any], list[Any]]:
    return read_payload(language.inspect(text, max_new_tokens=0).payload())


def test_a_group_reads_what_its_tokens_read_most(
    grouped: tuple[dict[str, Any], list[Any]], weights: torch.Tensor
) -> None:
    header, (shown,) = grouped
    assert header["long"] == {"tokens": weights.shape[-1], "first": 0, "group": STEP}
    assert header["note"].startswith("groups of 3 tokens, the largest weight of each; --tokens 3")
    assert shown.shape == (2, *[-(-size // STEP) for size in weights.shape[1:]])
    chance = np.random.default_rng(0)
    for row, column in chance.integers(0, shown.shape[1], (50, 2)):
        cell = [slice(STEP * at, STEP * at + STEP) for at in (max(row, column), min(row, column))]
        most = weights[:, *cell].amax((1, 2))
        there = shown[:, max(row, column), min(row, column)]
        np.testing.assert_allclose(there, most.numpy(), atol=1 / 255)


def test_a_head_is_described_by_all_its_tokens(
    grouped: tuple[dict[str, Any], list[Any]], weights: torch.Tensor
) -> None:
    count = weights.shape[-1]
    layer = LayerMap("0.self", "decoder", 0, "written", "so far", weights)
    signs = [count == LETTERS, *[False] * (count - 1)]
    assert grouped[0]["layers"][0]["numbers"] == layer.describe(signs)


def test_a_group_is_as_sure_as_its_least_sure_token(
    grouped: tuple[dict[str, Any], list[Any]], language: LanguageModel, text: str
) -> None:
    header, _ = grouped
    logs = language.score(text).logs
    groups = [logs[i : i + STEP] for i in range(0, len(logs), STEP)]
    said = header["candidates"]
    assert [one["p"] for one in said] == pytest.approx(
        [np.exp(min(some)) for some in groups], abs=1e-3
    )
    assert [one["log"] for one in said] == pytest.approx([sum(some) for some in groups], abs=1e-2)
    assert all(one["of"] in {name for _, name, _ in one["best"]} for one in said[:-1])
    assert {len(costs) for costs in header["costs"].values()} == {len(groups)}


@pytest.mark.parametrize("part", [(600, 1100), "600:1100"])
def test_a_part_is_shown_in_full(
    language: LanguageModel, text: str, weights: torch.Tensor, part: Any
) -> None:
    page = language.inspect(text, max_new_tokens=0, tokens=part)
    assert torch.equal(page.maps[0].weights, weights[:, 600:1100, 600:1100])
    whole = language.task.codec.encode(text)
    begin = len(whole) - weights.shape[-1] + 600
    assert len(page.rows[0].tokens) == 500
    assert page.rows[0].tokens[7].strip("␣↵") == text[begin + 7].strip()
    assert page.about["candidates"][0]["at"] == 600


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("7", "two whole numbers as in 600:1100, got 7"),
        ("a:b", "two whole numbers as in 600:1100, got a:b"),
        ("1:2:3", "two whole numbers"),
        ("9:9", "LAST after FIRST, 512 of them at most, got 9:9"),
        ("-1:9", "got -1:9"),
        ("0:513", "512 of them at most, got 0:513"),
        ("1100:1300", "FIRST:LAST are from 0:120"),
    ],
)
def test_what_is_no_part_of_the_text_is_refused(
    language: LanguageModel, text: str, part: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        language.inspect(text, max_new_tokens=0, tokens=part)


def test_a_masked_model_reads_as_much_as_it_has_room_for(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    run = books.masked(tmp_path_factory.getbasetemp())
    model: MaskedLM = load(run, "cpu")
    text, out = "the old dog sees a cat", tmp_path / "page.html"
    whole = model.inspect(text)
    part = model.inspect(text, tokens=(1, 4))
    assert torch.equal(part.maps[0].weights, whole.maps[0].weights[:, 1:4, 1:4])
    typed = ["inspect", "--model", str(run), text, "--out", str(out), "--tokens"]
    result = CliRunner().invoke(app, [*typed, "1:4"])
    assert result.exit_code == 0, result.output
    assert out.stat().st_size > 10_000
    assert "from 0:" in str(CliRunner().invoke(app, [*typed, "1:400"]).exception)


@pytest.fixture(scope="module")
def singer() -> Musician:
    return tunes.singer(context=1024)


def test_notes_of_a_long_piece_stand_in_groups_and_each_can_be_pointed_at(singer: Musician) -> None:
    header, maps = read_payload(singer.inspect(tunes.chorale(200)).payload())
    roll, count = header["roll"], 4 * 200
    assert header["long"] == {"tokens": count, "first": 0, "group": 2}
    assert maps[0].shape[1:] == (count // 2, count // 2)
    assert len(roll["written"]) == len(roll["read"]) == count // 2
    assert len(roll["each"]) == count
    pairs = zip(roll["each"][::2], roll["each"][1::2], strict=True)
    assert roll["written"] == [one or other for one, other in pairs]


def test_a_part_of_a_long_piece_is_shown_in_full(singer: Musician) -> None:
    whole = singer.inspect(tunes.chorale(100))
    page = singer.inspect(tunes.chorale(100), tokens=(100, 300))
    assert torch.equal(page.maps[0].weights, whole.maps[0].weights[:, 100:300, 100:300])
    assert len(page.about["roll"]["written"]) == 200
    assert "each" not in page.about["roll"]
