"""Drafts over a step that is recorded; on a CPU the same code runs unrecorded."""

import copy
import gc
from collections.abc import Sequence
from typing import Any, cast
from weakref import ref

import pytest
import torch
from writers import SOURCES, STOP, begin, translator

from manyheads import Bounds, CachedStep, DecodingConfig, Sampling, TransformerConfig, greedy
from manyheads.attention.kernels import kernel
from manyheads.decoding.cuda_graph import WARM_UPS
from manyheads.decoding.drafters import GraphedDraft, LastPass, NgramLookup, Smaller
from manyheads.decoding.drafts import DraftCounts, Drafter, write_drafted
from manyheads.decoding.graphed_encoder import encode_one
from manyheads.decoding.graphed_rows import LANES, GraphedRows, StepSize, has_lanes
from manyheads.decoding.graphed_step import GraphedStep, find_recording
from manyheads.decoding.sample import sample
from manyheads.decoding.strategies import decode
from manyheads.modules.build import build_decoder
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder, Tokens

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LONGEST = 24
DRAWN = Sampling(temperature=1.0, top_p=0.9, seed=3)


def on(device: str, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Decoder, Memory]:
    """A decoder, and the memory of one source."""
    network = copy.deepcopy(translator(seed)).to(device, dtype).eval()
    memory = network.encode(SOURCES.to(device)).select(torch.tensor([1], device=device))
    return cast(Decoder, network.decoder), memory


def author_network(**options: Any) -> Decoder:
    """One that reads no source."""
    torch.manual_seed(0)
    config = TransformerConfig(width=16, depth=2, heads=2, ffn_width=32, **options)
    return cast(Decoder, build_decoder(config, 12)).eval()


def guess_for(decoder: Decoder, memory: Memory) -> Drafter:
    return Smaller(lambda source: (GraphedStep(decoder, memory, LONGEST, drafted=1), [1]))


def write_plain(decoder: Decoder, memory: Memory, how: Any) -> Any:
    step, start = GraphedStep(decoder, memory, LONGEST), begin(1).to(memory.states.device)
    bounds = Bounds(STOP, LONGEST - 1)
    return (sample(step, start, bounds, how, [0]) if how is DRAWN else greedy(step, start, bounds))[
        0
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("how", [DecodingConfig(), DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("name", ["again", "lookup", "itself", "other"])
@pytest.mark.parametrize("device", DEVICES)
def test_every_drafter_leaves_the_text_as_it_is(
    device: str, name: str, how: Any, dtype: torch.dtype
) -> None:
    decoder, memory = on(device, dtype=dtype)
    others = {"itself": (decoder, memory), "other": on(device, 1, dtype)}
    drafter = guess_for(*others[name]) if name in others else NgramLookup()
    drafter = LastPass() if name == "again" else drafter
    wanted = write_plain(decoder, memory, how)
    for _ in range(2):
        step, start = GraphedStep(decoder, memory, LONGEST, drafted=1), begin(1).to(device)
        found = write_drafted(step, start, Bounds(STOP, LONGEST - 1), how, drafter, [5, 6])
        assert found.ids == wanted.ids
        assert found.logs == pytest.approx(wanted.logs, abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_who_guesses_by_the_model_itself_is_right(device: str) -> None:
    decoder, memory = on(device)
    step, counts = GraphedStep(decoder, memory, LONGEST, drafted=1), DraftCounts()
    bounds, drafter = Bounds(None, LONGEST - 1), guess_for(decoder, memory)
    start, how = begin(1).to(device), DecodingConfig()
    found = write_drafted(step, start, bounds, how, drafter, counts=counts)
    plain = GraphedStep(decoder, memory, LONGEST)
    assert found.ids == greedy(plain, start, bounds)[0].ids
    assert counts.passes <= (LONGEST - 1) // 3 + counts.unsure * LONGEST
    assert isinstance(drafter.start([]), GraphedDraft)


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA: what is recorded runs a few times before, and writes to where it first did."""

    def record(rows: GraphedRows, run: Any) -> Any:
        for _ in range(WARM_UPS):
            rows.run_plainly(run)
        outputs = rows.states, rows.logits

        def play() -> None:
            before = rows.states, rows.logits
            rows.run_plainly(run)
            for output, new in zip(outputs, (rows.states, rows.logits), strict=True):
                output.copy_(new)
            rows.states, rows.logits = before

        return torch.no_grad()(play)

    monkeypatch.setattr(GraphedRows, "record", torch.no_grad()(record))


@pytest.mark.parametrize("name", ["itself", "other"])
@pytest.mark.parametrize("how", [DecodingConfig(), DRAWN], ids=["greedy", "drawn"])
def test_a_guesser_has_buffers_of_its_own(replayed: None, how: Any, name: str) -> None:
    test_every_drafter_leaves_the_text_as_it_is("cpu", name, how, torch.float32)


def test_a_model_guesses_for_itself_after_a_long_start(replayed: None) -> None:
    test_text_without_a_source_is_drafted_too()


def test_who_guessed_may_read_afterwards(replayed: None) -> None:
    """What it guessed by is recorded apart from what it reads by."""
    decoder, memory = on("cpu")
    step = GraphedStep(decoder, memory, LONGEST, drafted=1)
    step.guess([1], 3)
    step.crop(1)
    wanted = CachedStep(decoder, memory).read(torch.tensor([[1, 5]]))[:, -1:]
    torch.testing.assert_close(step.read(torch.tensor([[5]])), wanted)


def test_two_texts_are_written_in_turn(replayed: None) -> None:
    decoder, memory = on("cpu")
    memories = [memory, memory._replace(states=-memory.states)]
    steps = [GraphedStep(decoder, memory, LONGEST) for memory in memories]
    plain = [CachedStep(decoder, memory) for memory in memories]
    for token in (1, 5, 3, 7):
        for step, other in zip(steps, plain, strict=True):
            ids = torch.tensor([[token]])
            torch.testing.assert_close(step.read(ids), other.read(ids))
    kept = [cast(GraphedRows, step.graphed) for step in steps]
    del step
    steps.clear()
    assert find_recording(decoder, kept[0].size) in kept  # who is done leaves it to others


@pytest.mark.parametrize("device", DEVICES)
def test_tokens_at_once_are_scored_as_one_after_another(device: str) -> None:
    decoder, memory = on(device)
    tokens = torch.tensor([[1, 5, 3, 7, 4, 6, 9, 8, 3, 5]], device=device)
    wanted = CachedStep(decoder, memory).read(tokens)
    for widths in ([10], [1, 3, 6], [2, 8], [1] * 10):
        step = GraphedStep(decoder, memory, LONGEST, drafted=1)
        parts = [step.read(part).clone() for part in tokens.split(widths, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_read_wrong_leaves_no_trace(device: str) -> None:
    decoder, memory = on(device)
    right, wrong = torch.tensor([[1, 5, 3]]).to(device), torch.tensor([[7, 7, 7, 7]]).to(device)
    step = GraphedStep(decoder, memory, LONGEST, drafted=1)
    step.read(right)
    step.read(wrong)
    step.crop(3)
    found = step.read(wrong[:, :1]).clone()
    both = torch.cat([right, wrong[:, :1]], 1)
    wanted = CachedStep(decoder, memory).read(both)[:, -1:]
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_one_that_is_not_alike_is_known() -> None:
    """It is tried out, not taken for granted."""

    class Uneven(GraphedRows):
        def compute(self) -> None:
            super().compute()
            self.logits = self.logits + self.itself * 1e-6

    decoder, _ = on("cpu")
    assert has_lanes(decoder)
    assert not Uneven(decoder, StepSize(1, 64, 32)).alike
    assert not GraphedRows(decoder, StepSize(2, 64, 32)).alike
    assert len(GraphedRows(decoder, StepSize(1, 64, 32)).ids) == LANES


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it is recorded on CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_on_cuda_lanes_are_alike_to_the_bit(dtype: torch.dtype) -> None:
    decoder, _ = on("cuda", dtype=dtype)
    assert GraphedRows(decoder, StepSize(1, 64, 32)).alike


def test_hooks_see_the_states_of_a_pass_that_is_played() -> None:
    decoder, memory = on("cpu")
    seen: list[Sequence[int]] = []
    hook = decoder.head.register_forward_pre_hook(
        lambda module, given: seen.append(tuple(given[0].shape[:2]))
    )
    step = GraphedStep(decoder, memory, LONGEST, drafted=1)
    step.read(torch.tensor([[1, 5, 3]]))
    hook.remove()
    assert seen[-1] == (1, 3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_source_of_a_length_that_was_met_before_is_read_to_the_bit_alike(device: str) -> None:
    network = copy.deepcopy(translator(0)).to(device).eval()
    seen: list[torch.Tensor] = []
    network.encoder.register_forward_hook(lambda module, given, states: seen.append(states))
    for ids in ([5, 6, 7], [6, 4, 3], [7, 7, 5], [5, 6]):
        read = Tokens.padded([ids]).to(device)
        found, wanted = encode_one(network, read), network.encode(read)
        assert torch.equal(found.states, wanted.states)
        assert torch.equal(seen[-2], found.states)  # hooks are called, too
    before = encode_one(network, Tokens.padded([[5, 6, 7]]).to(device)).states
    kept = before.clone()
    encode_one(network, Tokens.padded([[7, 6, 5]]).to(device))
    assert torch.equal(before, kept)


def test_a_network_that_was_recorded_goes_when_nobody_needs_it() -> None:
    network = copy.deepcopy(translator(0)).float().eval()
    read = Tokens.padded([[5, 6, 7]])
    for _ in range(3):
        memory = encode_one(network, read)
    step = GraphedStep(cast(Decoder, network.decoder), memory, LONGEST, drafted=1)
    step.read(torch.tensor([[1, 5]]))
    sides = ref(network.encoder), ref(network.decoder)
    del network, step
    gc.collect()
    assert [side() for side in sides] == [None, None]


@pytest.mark.parametrize("change", ["type", "kernel"])
def test_lanes_are_looked_for_anew_where_the_network_is_another(change: str) -> None:
    decoder, memory = on("cpu")
    assert has_lanes(decoder)
    if change == "type":
        decoder.double()
        memory = memory._replace(states=memory.states.double())
    else:
        decoder.stack.kernel = kernel("sdpa")
    tokens = torch.tensor([[1, 5, 3, 7]])
    wanted = CachedStep(decoder, memory).read(tokens)
    found = GraphedStep(decoder, memory, LONGEST, drafted=1).read(tokens)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert not has_lanes(decoder)


def test_text_without_a_source_is_drafted_too() -> None:
    network = author_network()
    start, bounds = torch.tensor([[3, 4, 5]]), Bounds(None, 20)
    wanted = greedy(CachedStep(network), start, bounds)[0]
    assert greedy(GraphedStep(network, None, 23), start, bounds)[0].ids == wanted.ids
    drafter = Smaller(lambda source: (GraphedStep(network, None, 23, drafted=1), [3, 4, 5]))
    step, counts = GraphedStep(network, None, 23, drafted=3), DraftCounts()
    assert step.takes_guesses
    found = write_drafted(step, start, bounds, DecodingConfig(), drafter, counts=counts)
    assert found.ids == wanted.ids
    assert found.logs == pytest.approx(wanted.logs, abs=1e-4)
    assert counts.passes < 20


def test_where_places_end_nothing_is_guessed() -> None:
    """Idle lanes would write behind the last place there is."""
    network = author_network(position="Learned(24)")
    step, bounds, start = (
        GraphedStep(network, None, 23, 3),
        Bounds(None, 20),
        torch.tensor([[3, 4, 5]]),
    )
    assert not step.takes_guesses
    ((found,),) = decode(step, start, bounds, DecodingConfig(), drafter=NgramLookup())
    assert found.ids == greedy(CachedStep(network), start, bounds)[0].ids
