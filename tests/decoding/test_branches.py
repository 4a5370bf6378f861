"""Beams that are branches of one sequence."""

from typing import cast

import pytest
import torch
from writers import SOURCES, STOP, TRANSFORMERS, begin, model_of, translator

from manyheads import Bounds, CachedStep, DecodingConfig, beam
from manyheads.attention.cache import Growing
from manyheads.decoding.branches import BranchedStep

COUNT = len(SOURCES.ids)


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_branches_find_what_copies_find(kind: str, width: int) -> None:
    network = model_of(kind)
    memory = network.encode(SOURCES)
    longest = [2 + i for i in range(COUNT)]  # they leave one after another
    bounds, how = Bounds(STOP, longest), DecodingConfig(beam=width, nbest=width)
    start = begin(COUNT)
    wanted = beam(CachedStep(network.decoder, memory), start, bounds, how)
    found = beam(BranchedStep(network.decoder, memory, width), start, bounds, how)
    for ours, theirs in zip(found, wanted, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        scores = [one.log_prob for one in theirs]
        assert [one.log_prob for one in ours] == pytest.approx(scores, abs=1e-9)


def test_a_memory_is_held_once_for_all_branches() -> None:
    network = translator(0)
    memory = network.encode(SOURCES)
    step = BranchedStep(network.decoder, memory, 4)
    step(begin(COUNT))
    step.select(torch.arange(COUNT).repeat_interleave(4))
    step(begin(4 * COUNT))
    assert step.memory is memory
    cache = cast(Growing, step.cache)
    assert all(len(key) == COUNT for key, _ in cache.memory.values())


def test_branches_that_began_grow_by_a_token_and_do_not_go_back() -> None:
    network = translator(0)
    step = BranchedStep(network.decoder, network.encode(SOURCES), 2)
    step(begin(COUNT))
    step.crop(0)
    step(begin(COUNT))
    step.select(torch.arange(COUNT).repeat_interleave(2))
    with pytest.raises(ValueError, match="branches grow by one token at a time, 3 came"):
        step(torch.ones(2 * COUNT, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="branches do not go back; a CachedStep does"):
        step.crop(1)
