"""A step that is recorded writes what a plain one does; on a CPU the same code runs unrecorded."""

import copy
from typing import Any, cast

import pytest
import torch
from writers import SOURCES, STOP, TRANSFORMERS, begin, model_of, translator

from manyheads import (
    Bounds,
    CachedStep,
    DecodingConfig,
    Every,
    RelativeContent,
    Sampling,
    Tokens,
    beam,
    greedy,
)
from manyheads.attention.kernels import kernel
from manyheads.attention.patterns import Everything, Lengths
from manyheads.attention.places import line
from manyheads.decoding.bounds import find_room
from manyheads.decoding.graphed_encoder import encode_one
from manyheads.decoding.graphed_rows import StepSize, has_lanes
from manyheads.decoding.graphed_step import KEPT, GraphedStep, can_be_graphed, find_recording
from manyheads.decoding.sample import sample
from manyheads.modules.transformer import Decoder, EncoderDecoder

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
COUNT = len(SOURCES.ids)
LONGEST = [min(2 + 3 * i, 11) for i in range(COUNT)]  # they leave one after another
SLOTS = 1 + max(LONGEST)


def on(device: str, kind: str) -> tuple[EncoderDecoder, Any]:
    network = copy.deepcopy(model_of(kind)).to(device).eval()
    return network, network.encode(SOURCES.to(device))


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    assert [one.ids for one in found] == [one.ids for one in wanted]
    logs = [one.log_prob for one in wanted]
    assert [one.log_prob for one in found] == pytest.approx(logs, abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("fused", [False, True])
def test_each_strategy_writes_the_same(kind: str, device: str, fused: bool) -> None:
    network = copy.deepcopy(model_of(kind)).to(device, torch.float32 if fused else torch.float64)
    memory = network.encode(SOURCES.to(device))
    cast(Decoder, network.decoder).stack.fused = fused  # in 32 bits
    start, bounds, how = begin(COUNT).to(device), Bounds(STOP, LONGEST), Sampling(temperature=1.0)

    def steps() -> tuple[GraphedStep, CachedStep]:
        decoder = cast(Decoder, network.decoder)
        return GraphedStep(decoder, memory, SLOTS), CachedStep(decoder, memory)

    found, wanted = (greedy(step, start, bounds) for step in steps())
    assert_same(found, wanted)
    numbers = [*range(COUNT)]
    found, wanted = (sample(step, start, bounds, how, numbers, None) for step in steps())
    assert_same(found, wanted)
    for width in (1, 3):
        config = DecodingConfig(beam=width, nbest=width)
        both = [beam(step, start, bounds, config) for step in steps()]
        for some, others in zip(*both, strict=True):
            assert_same(some, others)


@pytest.mark.parametrize("device", DEVICES)
def test_a_start_of_several_tokens_is_read_at_once(device: str) -> None:
    network, memory = on(device, next(iter(TRANSFORMERS)))
    decoder = cast(Decoder, network.decoder)
    start, bounds = begin(COUNT).expand(-1, 2).to(device), Bounds(STOP, 9)
    found = greedy(GraphedStep(decoder, memory, 11), start, bounds)
    assert_same(found, greedy(CachedStep(decoder, memory), start, bounds))


def test_sizes_are_few() -> None:
    assert StepSize.around(5, 70, 33) == (8, 128, 64)
    assert StepSize.around(1, 1, 1) == (1, 64, 32)


def test_a_recording_is_made_once_and_anew_for_other_weights() -> None:
    decoder, size = cast(Decoder, copy.deepcopy(translator(0)).decoder), StepSize(2, 64, 32)
    first = find_recording(decoder, size)
    assert find_recording(decoder, size) is first
    decoder.float()
    second = find_recording(decoder, size)
    assert second is not first
    decoder.stack.fused = True
    assert find_recording(decoder, size) not in (first, second)
    assert len(KEPT[decoder].held) == 1


def test_of_many_sizes_those_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, sizes = cast(Decoder, copy.deepcopy(translator(0)).decoder), [1, 2, 4]
    one = find_recording(decoder, StepSize(4, 64, 32)).bytes
    monkeypatch.setattr("manyheads.decoding.graphed_step.most_bytes", lambda: 2 * one)
    for rows in sizes:
        find_recording(decoder, StepSize(rows, 128, 32))
    assert [one.size.rows for one in KEPT[decoder].held] == [2, 4] or len(KEPT[decoder].held) < 4
    assert KEPT[decoder].held[-1].size.rows == 4


def test_it_reads_a_token_at_a_time_to_its_end() -> None:
    network = translator(0)
    decoder = cast(Decoder, network.decoder)
    step = GraphedStep(decoder, network.encode(SOURCES), 3)
    step(begin(COUNT))
    step(begin(COUNT))
    with pytest.raises(ValueError, match="one token at a time, up to 3; 2 came after 2"):
        step(begin(COUNT).expand(-1, 2))
    step(begin(COUNT))
    with pytest.raises(ValueError, match="up to 3; 1 came after 3"):
        step(begin(COUNT))


def test_relative_places_that_end_end_what_is_written() -> None:
    network = translator(0, relative=RelativeContent(8, Every(20)))
    decoder, memory = cast(Decoder, network.decoder), network.encode(SOURCES)
    assert find_room(decoder) == 20
    bounds, start = Bounds(STOP, 20, 20), begin(COUNT)  # 64 slots have no entry for each distance
    found = greedy(GraphedStep(decoder, memory, 20), start, bounds)
    assert_same(found, greedy(CachedStep(decoder, memory), start, bounds))


def test_what_was_recorded_in_inference_mode_is_used_outside_of_it() -> None:
    network, bounds = copy.deepcopy(translator(0)), Bounds(STOP, 9)
    read = Tokens(SOURCES.ids[:1, :2], line(2))

    def write() -> list[int]:
        decoder, memory = cast(Decoder, network.decoder), encode_one(network, read)
        (one,) = greedy(GraphedStep(decoder, memory, 10), begin(1), bounds)
        return [*one.ids, *GraphedStep(decoder, memory, 10, 1).guess([1], 3).tolist()]

    with torch.inference_mode():
        first, second = write(), write()  # the source is recorded when it comes again
    assert write() == first == second


def test_autocast_and_a_kernel_of_ones_choice_do_without_a_recording() -> None:
    network = copy.deepcopy(translator(0))
    decoder, memory = cast(Decoder, network.decoder), network.encode(SOURCES)
    assert can_be_graphed(decoder, memory)
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_be_graphed(decoder, memory)
        assert not has_lanes(decoder)
    decoder.stack.kernel = kernel("reference")
    assert not can_be_graphed(decoder, memory)


def test_only_what_is_seen_whole_or_to_a_length_is_recorded() -> None:
    network = translator(0)
    memory = network.encode(SOURCES)
    assert isinstance(memory.seen, Lengths | Everything)
    assert can_be_graphed(network.decoder, memory)
