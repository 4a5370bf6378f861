"""What settings ask for is in the network that is built of them."""

from typing import Any

import pytest
import torch

from manyheads.attention.positions import Concatenated
from manyheads.attention.relatives import RelativeBias
from manyheads.modules.build import decoder, encoder, encoder_decoder, reader
from manyheads.modules.config import Network
from manyheads.modules.transformer import Tokens

SMALL: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "inner": 24, "position": "none"}
WORDS, IDS = 9, [4, 5, 6, 7, 8]


def changed(build: Any, window: int) -> list[int]:
    """The places whose states are others when the word in the middle is another."""
    torch.manual_seed(0)
    network = build(Network(**SMALL, window=window)).double().eval()
    other = [4, 5, 3, 7, 8]
    with torch.no_grad():
        one, two = (network(Tokens.padded([ids])) for ids in (IDS, other))
    return (one != two).any(-1)[0].nonzero()[:, 0].tolist()


def reads(network: Network) -> Any:
    return encoder_decoder(network, WORDS, WORDS, joint=True).encoder


class Writes(torch.nn.Module):
    """From a source that does not change."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = encoder_decoder(network, WORDS, WORDS, joint=True)

    def forward(self, tokens: Tokens) -> torch.Tensor:
        return self.network(Tokens.padded([IDS]), tokens)


@pytest.mark.parametrize("build", [lambda network: encoder(network, WORDS), reads])
def test_what_reads_sees_as_far_as_its_window_both_ways(build: Any) -> None:
    assert changed(build, 0) == [0, 1, 2, 3, 4]
    assert changed(build, 2) == [1, 2, 3]


@pytest.mark.parametrize("build", [lambda network: decoder(network, WORDS), Writes])
def test_what_writes_sees_as_far_back_as_its_window(build: Any) -> None:
    assert changed(build, 0) == [2, 3, 4]
    assert changed(build, 2) == [2, 3]


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_verdict_on_the_whole_is_not_one_on_texts_that_share_a_row(pooling: Any) -> None:
    network = reader(Network(**SMALL), WORDS, outcomes=2, pooling=pooling)
    with pytest.raises(
        ValueError, match="a verdict on the whole reads one sequence a row and these are packed"
    ):
        network(Tokens.packed([[[4, 5], [6]]], 4))


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"position": "content", "reach": 5}, (1, 1, 11, 8)),
        ({"position": "content", "reach": 0, "longest": 20}, (1, 2, 39, 8)),
        ({"position": "concatenated", "relative": "content", "reach": 3}, (1, 1, 7, 8)),
    ],
)
def test_content_tells_as_many_distances_apart_as_it_is_asked_to(
    settings: Any, shape: tuple[int, ...]
) -> None:
    network: Any = decoder(Network(width=16, depth=1, heads=2, inner=32, **settings), 11)
    relative = network.stack.blocks[0].self_attention.part.relative
    assert tuple(relative.key_tables.shape) == shape
    assert network(Tokens.padded([[1, 2, 3]])).shape == (1, 3, 11)


def test_place_enters_below_and_in_every_layer() -> None:
    network: Any = decoder(
        Network(width=16, depth=1, heads=2, inner=32, position="concatenated", relative="bias"), 11
    )
    assert isinstance(network.stack.position, Concatenated)
    assert isinstance(network.stack.blocks[0].self_attention.part.relative, RelativeBias)


def test_two_that_enter_in_every_layer_are_refused() -> None:
    sentence = (
        "position: rotary and relative: bias both enter in every layer; relative: bias with "
        "position: none would do"
    )
    with pytest.raises(ValueError, match=sentence):
        Network(position="rotary", relative="bias")
