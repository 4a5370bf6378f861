"""What settings ask for is in the network that is built of them."""

from typing import Any

import pytest
import torch

from manyheads.model.build import Network, decoder, encoder, encoder_decoder, reader
from manyheads.model.networks import Tokens

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
