"""Check that a parallel network gives the same for a text alone and in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import NOTHING
from manyheads.decoding.config import DecodingConfig
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork

Ids = Sequence[int]


@torch.no_grad()
def compare_batches(
    network: ParallelNetwork, sources: Sequence[Ids], special: SpecialTokens
) -> Iterator[tuple[str, float]]:
    """Yield the difference in loss per token, and the number of texts written differently."""
    device, how = next(network.parameters()).device, DecodingConfig()
    rows = [[*special.encoder_bos, *ids, special.eos] for ids in sources]

    def write(some: Sequence[Ids]) -> list[list[int]]:
        read = Tokens.padded(some, special.pad).to(device)
        return [one.ids for one in network.write(network.encode(read), read.lengths(), how)]

    def lose(some: Sequence[Ids], targets: Sequence[Ids]) -> float:
        wanted = Tokens.padded([[*ids, network.special.eos] for ids in targets], NOTHING).ids
        terms = network(Tokens.padded(some, special.pad).to(device), wanted.to(device))
        return sum(float(term) for term in terms.values())

    written = write(rows)
    alone = [lose([row], [ids]) for row, ids in zip(rows, written, strict=True)]
    tokens = sum(len(ids) + 1 for ids in written)
    yield "loss of 1 = loss of N", abs(sum(alone) - lose(rows, written)) / tokens
    differ = [write([row]) != [ids] for row, ids in zip(rows, written, strict=True)]
    yield "written alone = among others", float(sum(differ))
