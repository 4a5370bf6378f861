"""A recipe holds values: one config for each kind of network, patterns and positions as text."""

from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.attention.patterns import Blocks, Causal, Everything, Window
from manyheads.attention.positions import Learned, Position, RelativeBias, Rotary, Sinusoidal
from manyheads.config import Mistakes, read, write
from manyheads.modules.build import build_decoder, build_encoder, build_encoder_decoder
from manyheads.modules.config import (
    ConvolutionalConfig,
    RecurrentConfig,
    TransformerConfig,
    change_kind,
)
from manyheads.modules.transformer import Tokens
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.table import load_recipe

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "dropout": 0.0}
TEXT = "task: language\ndata: {text: [a.txt]}\nlayout: padded\n"


def recipe(text: str = "", *settings: str, default: Any = None) -> LanguageRecipe:
    return read(LanguageRecipe, TEXT + text, "recipe.yaml", settings, default)


def mistake(text: str = "", *settings: str) -> str:
    with pytest.raises(Mistakes) as error:
        recipe(text, *settings)
    return str(error.value)


# ---- one config for each kind ------------------------------------------------------------------


def test_the_kind_says_which_config_it_is() -> None:
    assert recipe().network == TransformerConfig()
    assert recipe("network: {kind: recurrent, cell: gru}").network == RecurrentConfig(cell="gru")


@pytest.mark.parametrize(
    ("text", "settings", "sentence"),
    [
        (
            "network: {kind: recurrent, heads: 8}",
            (),
            "recipe.yaml:4:28: network has no field 'heads'; it is of transformer, and this is "
            "recurrent",
        ),
        (
            "",
            ("network.cell=gru",),
            "network.cell=gru: network has no field 'cell'; it is of recurrent, and this is "
            "transformer",
        ),
        (
            "",
            ("network.widht=8",),
            "network.widht=8: network has no field 'widht'; did you mean width?",
        ),
        (
            "",
            ("network.kind=recurent",),
            "network.kind=recurent: network.kind is one of transformer, recurrent, convolutional, "
            "got 'recurent'; did you mean recurrent?",
        ),
    ],
)
def test_what_a_kind_has_not_is_refused(text: str, settings: Any, sentence: str) -> None:
    assert mistake(text, *settings) == sentence


def test_another_kind_keeps_what_both_have() -> None:
    data = TextData((Path("a.txt"),))
    ours = TransformerConfig(**SMALL, tied=False)
    default = LanguageRecipe("language", data, network=ours, layout="padded")
    found = recipe("", "network.kind=recurrent", default=default).network
    assert found == RecurrentConfig(width=16, depth=2, dropout=0.0, tied=False)
    assert found == change_kind(ours, "recurrent")


def test_another_kind_than_a_file_has_keeps_what_both_have() -> None:
    text = "network: {kind: transformer, width: 16, heads: 8, position: Rotary()}"
    assert recipe(text, "network.kind=recurrent").network == RecurrentConfig(width=16)


def test_a_recipe_reads_back() -> None:
    network = TransformerConfig(
        **SMALL, pattern=[Causal() & Blocks((8, 8), (4, 4)), Causal()], position="Learned(300)"
    )
    ours = LanguageRecipe("language", TextData((Path("a.txt"),)), network=network)
    assert read(LanguageRecipe, write(ours)) == ours
    assert network.pattern == ("Causal() & Blocks((8, 8), (4, 4))", "Causal()")


def test_a_run_of_an_earlier_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(TEXT + "network: {width: 16, inner: 32, order: pre}\n")
    with pytest.raises(ValueError) as error:
        load_recipe(path)
    assert str(error.value) == (
        f"{path} was written by an earlier manyheads: network.inner is not known any more; a run "
        "of this one, trained or imported anew, would do"
    )


# ---- depth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [TransformerConfig, RecurrentConfig, ConvolutionalConfig])
def test_each_side_may_have_a_depth_of_its_own(config: Any) -> None:
    network: Any = build_encoder_decoder(config(width=16, depth=(3, 1)), 9, 9, joint=True)
    sizes = [
        sum(p.numel() for p in side.parameters()) for side in (network.encoder, network.decoder)
    ]
    assert sizes[0] > sizes[1]
    source, target = Tokens.padded([[4, 5, 6]]), Tokens.padded([[1, 7]])
    assert network(source, target).shape == (1, 2, 9)


def test_one_side_has_one_depth() -> None:
    sentence = (
        "network.depth: [12, 1] is for an encoder and a decoder, and this has one side; "
        "network.depth: 12 would do"
    )
    for build in (build_encoder, build_decoder):
        with pytest.raises(ValueError) as error:
            build(TransformerConfig(depth=(12, 1)), 9)
        assert str(error.value) == sentence
    assert mistake("", "network.depth=[12, 1]") == f"network.depth=[12, 1]: {sentence}"


# ---- patterns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "reads", "writes"),
    [
        ("Everything()", Everything(), Causal()),
        ("Window(3)", Window(3), Causal() & Window(3)),
        ("Causal() & Window(3)", Causal() & Window(3), Causal() & Window(3)),
        (
            Causal() & Window(3) | Causal() & Window(5),
            Causal() & Window(3) | Causal() & Window(5),
            Causal() & Window(3) | Causal() & Window(5),
        ),
    ],
)
def test_what_is_written_sees_nothing_later(pattern: Any, reads: Any, writes: Any) -> None:
    network: Any = build_encoder_decoder(TransformerConfig(**SMALL, pattern=pattern), 9, 9, True)
    assert network.encoder.stack.patterns == (reads, reads)
    assert network.decoder.stack.patterns == (writes, writes)


def test_each_layer_may_have_a_pattern_of_its_own() -> None:
    config = TransformerConfig(**SMALL, pattern=["Window(3)", "Everything()"])
    network: Any = build_decoder(config, 9)
    assert network.stack.patterns == (Causal() & Window(3), Causal())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "network.pattern=Causal() & Windw(64)",
            "pattern: there is no pattern 'Windw'; did you mean Window? There are Everything, "
            "Causal, Window, Blocks, Prefix, Lengths, Segments",
        ),
        ("network.pattern=Window()", "pattern: Window takes (radius), got ()"),
        (
            "network.pattern=Lengths([3])",
            "pattern: Lengths([3]) belongs to one batch; a layer owns a pattern that holds for "
            "all, like Causal()",
        ),
        (
            "network.pattern=[Causal(), Causal(), Causal()]",
            "pattern: 3 patterns came, one for each layer is 4; one alone holds for all layers",
        ),
        (
            "network.position=Rotray()",
            "position: there is no position 'Rotray'; did you mean Rotary? There are "
            "Sinusoidal, Learned, Concatenated, Rotary, RelativeBias, RelativeContent",
        ),
        ("network.position=Learned(0)", "position: places is 1 or more, got 0"),
        (
            "network.position=Learned('x')",
            "position: places is a whole number, got 'x'",
        ),
        (
            "network.position=Rotary(1, 2)",
            "position: Rotary takes (base), got (1, 2)",
        ),
        (
            "network.relative=Learned(8)",
            "relative: Learned(8) enters below the first layer; position: Learned(8) would do",
        ),
        (
            "network.position=RelativeContent()",
            "position: RelativeContent takes one number, a reach, as in (16), or (every=1024)",
        ),
    ],
)
def test_a_wrong_value_is_one_sentence_at_its_place(setting: str, sentence: str) -> None:
    assert mistake("", setting) == f"{setting}: {sentence}"


# ---- positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "below", "within"),
    [
        ("Sinusoidal(base=500)", Sinusoidal, None),
        ("Learned(64)", Learned, None),
        ("Rotary(500)", Position, Rotary),
        ("RelativeBias()", Position, RelativeBias),
        (None, Position, None),
    ],
)
def test_a_position_enters_where_it_belongs(position: Any, below: Any, within: Any) -> None:
    network: Any = build_decoder(TransformerConfig(**SMALL, position=position), 9)
    relative = network.stack.blocks[0].self_attention.part.relative
    assert type(network.stack.position) is below
    assert within is None or type(relative) is within
    if "500" in str(position):
        assert (relative if within else network.stack.position).base == 500


MINE = """
from dataclasses import dataclass

import torch

from manyheads.attention.patterns import Pattern
from manyheads.attention.positions import Position
from manyheads.modules.positions import PositionValue


class Strided(Pattern):
    step: int

    def allows(self, pair):
        return (pair.q.order - pair.k.order) % self.step == 0


class Parity(Position):
    def __init__(self, width, step):
        super().__init__()
        self.vectors, self.step = torch.nn.Embedding(step, width), step

    def forward(self, x, at):
        return x + self.vectors(at.order % self.step)


@dataclass(frozen=True)
class ParityValue(PositionValue):
    step: int = 2

    def build(self, network):
        return Parity(network.width, self.step)
"""


def test_a_pattern_and_a_position_from_outside_are_named_in_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_values.py").write_text(MINE)
    about = tmp_path / "my_values-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-values\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[manyheads.patterns]\nStrided = my_values:Strided\n"
        "[manyheads.positions]\nParity = my_values:ParityValue\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = recipe("", "network.pattern=Strided(3)", "network.position=Parity(step=3)").network
    network: Any = build_decoder(found, 9)
    assert str(network.stack.patterns[0]) == "Causal() & Strided(3)"
    loss = network(Tokens.padded([[4, 5, 6, 7]])).square().sum()
    loss.backward()
    assert torch.count_nonzero(network.stack.position.vectors.weight.grad)
