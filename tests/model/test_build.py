"""What settings ask for is in the network that is built of them."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.attention.positions import Concatenated, RelativeBias
from manyheads.attention.scores import SCORES, Dot
from manyheads.modules.build import (
    build_classifier,
    build_decoder,
    build_encoder,
    build_encoder_decoder,
)
from manyheads.modules.config import NetworkConfig, RecurrentConfig, TransformerConfig
from manyheads.modules.transformer import Tokens

SMALL: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "ffn_width": 24, "position": None}
WORDS, IDS = 9, [4, 5, 6, 7, 8]


def changed(build: Any, pattern: str) -> list[int]:
    """The places whose states are others when the word in the middle is another."""
    torch.manual_seed(0)
    network = build(TransformerConfig(**SMALL, pattern=pattern)).double().eval()
    other = [4, 5, 3, 7, 8]
    with torch.no_grad():
        one, two = (network(Tokens.padded([ids])) for ids in (IDS, other))
    return (one != two).any(-1)[0].nonzero()[:, 0].tolist()


def reads(network: NetworkConfig) -> Any:
    return build_encoder_decoder(network, WORDS, WORDS, joint=True).encoder


class Writes(torch.nn.Module):
    """From a source that does not change."""

    def __init__(self, network: NetworkConfig):
        super().__init__()
        self.network = build_encoder_decoder(network, WORDS, WORDS, joint=True)

    def forward(self, tokens: Tokens) -> torch.Tensor:
        return self.network(Tokens.padded([IDS]), tokens)


@pytest.mark.parametrize("build", [lambda network: build_encoder(network, WORDS), reads])
def test_what_reads_sees_as_far_as_its_window_both_ways(build: Any) -> None:
    assert changed(build, "Everything()") == [0, 1, 2, 3, 4]
    assert changed(build, "Window(1)") == [1, 2, 3]


@pytest.mark.parametrize("build", [lambda network: build_decoder(network, WORDS), Writes])
def test_what_writes_sees_as_far_back_as_its_window(build: Any) -> None:
    assert changed(build, "Everything()") == [2, 3, 4]
    assert changed(build, "Window(1)") == [2, 3]


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_verdict_on_the_whole_is_not_one_on_texts_that_share_a_row(pooling: Any) -> None:
    network = build_classifier(TransformerConfig(**SMALL), WORDS, outcomes=2, pooling=pooling)
    with pytest.raises(
        ValueError, match="a verdict on the whole reads one sequence a row and these are packed"
    ):
        network(Tokens.packed([[[4, 5], [6]]], 4))


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"position": "RelativeContent(5)"}, (1, 1, 11, 8)),
        ({"position": "RelativeContent(every=20)"}, (1, 2, 39, 8)),
        ({"position": "Concatenated()", "relative": "RelativeContent(3)"}, (1, 1, 7, 8)),
    ],
)
def test_content_tells_as_many_distances_apart_as_it_is_asked_to(
    settings: Any, shape: tuple[int, ...]
) -> None:
    network: Any = build_decoder(
        TransformerConfig(width=16, depth=1, heads=2, ffn_width=32, **settings), 11
    )
    relative = network.stack.blocks[0].self_attention.part.relative
    assert tuple(relative.key_tables.shape) == shape
    assert network(Tokens.padded([[1, 2, 3]])).shape == (1, 3, 11)


def test_place_enters_below_and_in_every_layer() -> None:
    network: Any = build_decoder(
        TransformerConfig(
            width=16,
            depth=1,
            heads=2,
            ffn_width=32,
            position="Concatenated()",
            relative="RelativeBias()",
        ),
        11,
    )
    assert isinstance(network.stack.position, Concatenated)
    assert isinstance(network.stack.blocks[0].self_attention.part.relative, RelativeBias)


def test_two_that_enter_in_every_layer_are_refused() -> None:
    sentence = (
        r"position: Rotary\(\) and relative: RelativeBias\(\) both enter in every layer; "
        r"relative: RelativeBias\(\) with position: null would do"
    )
    with pytest.raises(ValueError, match=sentence):
        TransformerConfig(position="Rotary()", relative="RelativeBias()")


# ---- what joins from outside ----


def test_a_score_from_outside_is_one_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opposite(Dot):
        def scale(self, channels: int) -> float:
            return -1.0

    with pytest.raises(ValueError, match="is one of dot, multiplicative, additive, none"):
        RecurrentConfig(width=16, depth=1, score="opposite")
    monkeypatch.setitem(SCORES, "opposite", lambda width: Opposite())
    network = build_encoder_decoder(
        RecurrentConfig(width=16, depth=1, score="opposite"), WORDS, WORDS, joint=True
    )
    assert isinstance(network.decoder.attention.score, Opposite)


def test_a_kind_of_network_from_outside_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "outside"))
    averaging = import_module("averaging")
    config = averaging.AveragingConfig(width=16, depth=1, dropout=0.0)
    judge = build_classifier(config, WORDS, outcomes=3)
    one, same = (judge(Tokens.padded([ids])) for ids in ([4, 5, 6], [6, 4, 5]))
    assert one.shape == (1, 3)
    assert torch.allclose(one, same), "no order is known"
    with pytest.raises(ValueError, match="an averaging network only reads"):
        build_decoder(config, WORDS)
