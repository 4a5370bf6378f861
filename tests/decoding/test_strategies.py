"""How sequences are written: one line of a table, from anywhere."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import books
import pytest
from torch import Tensor
from typed import learned
from writers import STOP, Chain, begin

from manyheads import STRATEGIES, Bounds, DecodingConfig, Hypothesis, Sampling, Step, decode
from manyheads.decoding.drafters import NgramLookup
from manyheads.decoding.greedy import Over, write_each
from manyheads.decoding.strategies import stream
from manyheads.models import load
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.seq2seq.writing import write_targets

BOUNDS = Bounds(STOP, longest=5)


def second_best(
    step: Step,
    start: Tensor,
    bounds: Bounds,
    how: Sampling,
    numbers: Sequence[int],
    over: Over | None,
) -> list[list[Hypothesis]]:
    """The likeliest but one, and after it the likeliest."""
    ranks = iter([1])

    def choose(logs: Tensor, rows: Sequence[int]) -> Tensor:
        return logs.topk(2).indices[:, next(ranks, 0)]

    return [[one] for one in write_each(step, start, bounds, choose, over)]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "second best", second_best)


@pytest.mark.usefixtures("joined")
def test_a_strategy_from_outside_writes_on(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = load(books.language(tmp_path_factory.getbasetemp()), "cpu")
    best = model.generate("the old", temperature=0, max_new_tokens=8)
    found = model.generate("the old", strategy="second best", max_new_tokens=8)
    assert found[0] != best[0]
    assert model.generate("the old" + found[0], temperature=0, max_new_tokens=7) == found[1:]
    stopped = model.generate("the old", strategy="second best", stop=(found[3],))
    assert stopped == found[: found.index(found[3])]


@pytest.mark.usefixtures("joined")
def test_a_strategy_from_outside_translates(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = load(learned(tmp_path_factory.getbasetemp()), "cpu")
    assert model.translate(["ba du"], strategy="greedy") == ["one two"]
    ((found,),) = model.write(["ba du"], DecodingConfig(strategy="second best"))
    assert model.translate(["ba du"], strategy="second best") == [found.text]
    read = model.task.codecs.source.encode("ba du")
    ((best,),) = write_targets(model.network, [read], prefixes=[found.ids[:1]])
    assert found.text != "one two"
    assert best.ids == found.ids


@pytest.mark.parametrize(
    ("how", "chosen"),
    [
        (DecodingConfig(), "greedy"),
        (DecodingConfig(temperature=0.5), "sample"),
        (DecodingConfig(beam=2), "beam"),
        (DecodingConfig(strategy="beam"), "beam"),
        (LanguageDecoding(), "sample"),
        (LanguageDecoding(strategy="greedy"), "greedy"),
        (MusicDecoding(), "sample"),
        (MusicDecoding(temperature=0), "greedy"),
    ],
)
def test_the_strategy_is_the_one_named_or_implied(how: Sampling, chosen: str) -> None:
    assert how.chosen == chosen
    found = decode(Chain([0, 1], 6), begin(2), BOUNDS, how, numbers=[0, 1])
    assert found == STRATEGIES[chosen](Chain([0, 1], 6), begin(2), BOUNDS, how, [0, 1], None)


def test_a_strategy_that_there_is_not_is_refused() -> None:
    sentence = "there is no strategy 'third best'; there are greedy, sample, beam and auto"
    with pytest.raises(ValueError, match=sentence):
        decode(Chain([0], 6), begin(1), BOUNDS, DecodingConfig(strategy="third best"))


@pytest.mark.usefixtures("joined")
def test_what_is_known_only_at_the_end_is_not_streamed() -> None:
    with pytest.raises(ValueError, match="a second best knows its text only at the end; stream wi"):
        stream(Chain([0], 6), begin(1), BOUNDS, DecodingConfig(strategy="second best"))


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    "how", [DecodingConfig(beam=3), DecodingConfig(strategy="second best")], ids=["beam", "own"]
)
def test_a_draft_is_not_checked_by_what_does_not_write_token_by_token(how: DecodingConfig) -> None:
    sentence = rf"a draft is checked token by token, a {how.chosen} is not; greedy or sample goes"
    with pytest.raises(ValueError, match=sentence):
        decode(Chain([0], 6), begin(1), BOUNDS, how, drafter=NgramLookup())


def test_a_beam_ends_with_its_bounds_and_is_as_wide_as_a_config_says() -> None:
    with pytest.raises(ValueError, match="as wide as a DecodingConfig says and ends with its bou"):
        decode(Chain([0], 6), begin(1), BOUNDS, MusicDecoding(strategy="beam"))
    with pytest.raises(ValueError, match="greedy and sample write what ends otherwise"):
        decode(Chain([0], 6), begin(1), BOUNDS, DecodingConfig(beam=2), over=lambda *_: True)


@pytest.mark.parametrize("kind", [DecodingConfig, LanguageDecoding, MusicDecoding])
def test_every_setting_says_what_it_is_for_and_its_default_holds(kind: type[Sampling]) -> None:
    kind()
    for one in fields(kind):
        assert one.metadata["about"].endswith("."), one.name


def test_configs_load_without_torch() -> None:
    modules = ("decoding.config", "tasks.language.decoding", "tasks.music.decoding")
    lines = [f"import manyheads.{module}" for module in modules]
    code = "; ".join(["import sys", *lines, "assert 'torch' not in sys.modules"])
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
