"""The step of writing, recorded once and played again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from writers import translator

from manyheads import (
    Bounds,
    CachedStep,
    Decoder,
    Embedding,
    Hypothesis,
    Prefix,
    Sampling,
    Stack,
    Tied,
    Tokens,
    line,
    sample,
)
from manyheads.attention.intervals import Verdict
from manyheads.attention.patterns import Causal, Pattern
from manyheads.attention.places import Pair
from manyheads.decoding import sample as plain
from manyheads.decoding.cuda_graph import (
    TRITON,
    CudaGraphDecoder,
    RecordedChoice,
    biases_apart,
    capture,
    find_stream,
    swap_kernel,
    weigh_on_device,
)
from manyheads.modules.build import build_decoder
from manyheads.modules.config import NetworkConfig, TransformerConfig

INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
STOP, VOCABULARY = 7, 523
NETWORK = TransformerConfig(
    width=16,
    depth=2,
    heads=2,
    ffn_width=32,
    feed_forward="gelu-tanh",
    position="Learned(64)",
    scale_embeddings=False,
    head_bias=True,
)
BOUNDS = Bounds(STOP, longest=20, shortest=3, never=(0, 1))
CHOICES = [
    Sampling(seed=4),
    Sampling(temperature=0.6, top_k=40),
    Sampling(top_p=0.8, min_p=0.01),
    Sampling(top_k=30, top_p=0.7),
]


def writer(network: NetworkConfig = NETWORK, dtype: torch.dtype = torch.float64) -> Decoder:
    torch.manual_seed(0)
    made: Any = build_decoder(network, VOCABULARY).to(dtype).eval()
    with torch.no_grad():
        made.embedding.table.weight.mul_(10)  # some tokens are likely
        made.head.bias[STOP] = 4  # and so is the stop, now and then
    return made


def prefix_decoder() -> Decoder:
    words, shape = Embedding(VOCABULARY, 16), TransformerConfig(width=16, depth=1, heads=2)
    return Decoder(words, Stack.of(shape, Prefix(4)), Tied(words), causal=False).eval()


def prompts(batch: int = 5, length: int = 3) -> torch.Tensor:
    return torch.randint(8, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("how", CHOICES, ids=str)
def test_the_tokens_are_those_of_the_plain_way(how: Sampling) -> None:
    network = writer()
    wanted = sample(CachedStep(network), prompts(), BOUNDS, how)
    assert (
        CudaGraphDecoder(network, 5, 30, room=8, look_every=7).sample(prompts(), BOUNDS, how)
        == wanted
    )


@pytest.mark.parametrize(
    "position", ["Sinusoidal()", "Rotary()", "RelativeBias()", "RelativeContent(16)", None]
)
def test_so_they_are_whatever_says_where_a_token_is(position: Any) -> None:
    network = writer(replace(NETWORK, position=position, pattern="Window(5)"))
    wanted = sample(CachedStep(network), prompts(), BOUNDS)
    assert CudaGraphDecoder(network, 5, 30, room=8).sample(prompts(), BOUNDS) == wanted


@pytest.mark.parametrize("how", CHOICES, ids=str)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": "Rotary()", "norm": "rms", "feed_forward": "swiglu", "bias": False},
        {"position": "RelativeBias()", "key_heads": 1, "value_embeddings": 1},  # not by `Single`
    ],
    ids=str,
)
def test_a_fused_step_chooses_the_same_tokens(changes: dict[str, Any], how: Sampling) -> None:
    network = writer(replace(NETWORK, **changes), torch.float32)
    wanted = sample(CachedStep(network), prompts(), BOUNDS, how)
    network.stack.fused = True
    recorder = CudaGraphDecoder(network, 6, 30, look_every=7)
    assert (recorder.unwritten is None) == ("RelativeBias()" in changes.values())
    assert [one.ids for one in recorder.sample(prompts(), BOUNDS, how)] == [
        one.ids for one in wanted
    ]


@pytest.mark.skipif(
    not (TRITON and (INTERPRETED or torch.cuda.is_available())),
    reason="needs a CUDA device, or Triton's interpreter",
)
@pytest.mark.parametrize("temperature", [1.0, 0.1, 2.5])
@pytest.mark.parametrize("written", [0, 5])
@pytest.mark.parametrize("size", [7, 1023, 5000])
def test_two_programs_choose_what_thirty_operations_do(
    temperature: float, written: int, size: int
) -> None:
    device = "cpu" if INTERPRETED else "cuda"
    torch.manual_seed(size)
    network, rows, slots = writer(), 6, 9
    rule = RecordedChoice(Sampling(temperature), (0, 3), (1, 2), 4)
    logits = 3 * torch.randn(rows, size)
    logits[0, 5:] = -torch.inf
    logits[1, :6] = -torch.inf
    logits[2] = -torch.inf  # nothing can be written
    logits[3, 2] += 30  # the best token is a stop, which may not come yet
    logits[4, 3] += 30  # or it is never written
    keys = torch.randint(-(2**31), 2**31, (rows, slots), dtype=torch.int32)
    plain = CudaGraphDecoder(network, rows, slots)
    plain.keys, plain.count[:] = keys, written
    plain.choose(logits, rule)
    fused = CudaGraphDecoder(network.to(device), rows, slots)
    fused.keys, fused.count[:] = keys.to(device), written
    fused.choose_fused(logits.to(device), rule)
    assert int(fused.count) == written + 1
    going = torch.tensor([0, 1, 3, 4, 5])
    if size == 7:
        going = going[going != 1]  # token 6 alone is left, or none before the stop may come
    for found, wanted in ((fused.ids, plain.ids), (fused.token, plain.token)):
        assert torch.equal(found.cpu()[going], wanted[going])
    torch.testing.assert_close(fused.logs.cpu()[going], plain.logs[going])
    assert not fused.logs[2, written].isfinite()


def test_some_sequences_stop_and_some_do_not() -> None:
    """What the tests above compare has both."""
    found = sample(CachedStep(writer()), prompts(), BOUNDS, CHOICES[0])
    assert {one.finished for one in found} == {True, False}


def test_the_same_recorder_writes_again() -> None:
    network = writer()
    recorder = CudaGraphDecoder(network, 5, 30, room=8)
    first = recorder.sample(prompts(), BOUNDS)
    other = recorder.sample(prompts(2, 9), BOUNDS, CHOICES[1], numbers=[4, 11])
    wanted = sample(CachedStep(network), prompts(2, 9), BOUNDS, CHOICES[1], numbers=[4, 11])
    assert other == wanted
    assert recorder.sample(prompts(), BOUNDS) == first


def test_a_choice_of_another_seed_is_no_other_recording() -> None:
    recorder = CudaGraphDecoder(writer(), 5, 30)
    found = [recorder.sample(prompts(), BOUNDS, Sampling(seed=seed)) for seed in (0, 1)]
    assert found[0] != found[1]
    assert len(recorder.recordings) == 1


def test_slots_that_are_filled_later_are_of_a_later_recording() -> None:
    recorder = CudaGraphDecoder(writer(), 5, 30, room=8)
    recorder.sample(prompts(), Bounds(None, longest=20))
    assert sorted(slots for slots, _ in recorder.recordings) == [8, 16, 24]


def test_each_may_have_another_length() -> None:
    network, bounds = writer(), Bounds(None, longest=[0, 4, 1, 9, 2])
    found = CudaGraphDecoder(network, 5, 30).sample(prompts(), bounds)
    assert [len(one.ids) for one in found] == [0, 4, 1, 9, 2]
    assert found == sample(CachedStep(network), prompts(), bounds)


def test_who_looks_is_shown_each_token_once_and_nothing_after_the_stop() -> None:
    looks: list[list[list[int]]] = []
    found = CudaGraphDecoder(writer(), 5, 30, look_every=4).sample(
        prompts(), BOUNDS, CHOICES[0], look=looks.append
    )
    for row, one in enumerate(found):
        shown = [token for look in looks for token in look[row]]
        assert shown == [*one.ids, *[STOP] * one.finished]
    assert all(len(new) <= 4 for look in looks for new in look)
    assert len(looks) == 5


def test_nothing_is_written_once_all_have_stopped() -> None:
    recorder = CudaGraphDecoder(writer(), 5, 64, look_every=2)
    only_stop = Bounds(STOP, longest=60, never=tuple({*range(VOCABULARY)} - {STOP}))
    found = recorder.sample(prompts(), only_stop)
    assert all(one.ids == [] and one.finished for one in found)
    assert int(recorder.count) == 2


class Near(Pattern):
    """A pattern of one's own."""

    reach: int

    def allows(self, pair: Pair) -> Verdict:
        return pair.q.order - pair.k.order < self.reach


@pytest.mark.parametrize("own", [None, Causal() & Near(4)], ids=["causal", "own"])
def test_a_compiled_step_writes_the_same(own: Pattern | None) -> None:
    network = writer(replace(NETWORK, depth=1))
    network.stack.patterns = network.stack.patterns if own is None else (own,)
    recorder = CudaGraphDecoder(network, 5, 30, compile={"backend": "eager"})
    wanted = sample(CachedStep(network), prompts(), BOUNDS)
    assert recorder.sample(prompts(), BOUNDS) == wanted
    torch._dynamo.reset()


def test_what_is_changed_to_record_is_changed_back() -> None:
    network = writer()
    ids, own = Tokens(prompts(), line(3)), network.stack.kernel
    before = network(ids)
    with biases_apart(network, True), swap_kernel(network, network.stack.kernel):
        torch.testing.assert_close(network(ids), before)
    assert torch.equal(network(ids), before)
    assert network.stack.kernel is own
    assert not any("forward" in vars(part) for part in network.modules())


def test_weights_are_those_of_the_plain_way_in_a_large_vocabulary() -> None:
    for sharpness in (0.1, 5.0):  # where a few tokens are not enough, and where they are
        logs = (sharpness * torch.randn(3, 4 * plain.FEW)).log_softmax(-1)
        for how in CHOICES:
            torch.testing.assert_close(weigh_on_device(logs, how), plain.weigh_tokens(logs, how))


def test_where_nothing_can_be_written_it_says_so() -> None:
    nothing = Bounds(None, longest=3, never=tuple(range(VOCABULARY)))
    with pytest.raises(ValueError, match="sequence 0 can write nothing after 0 tokens"):
        CudaGraphDecoder(writer(), 5, 30).sample(prompts(), nothing)


def test_a_loop_ends_a_sequence_as_in_the_plain_way() -> None:
    network, bounds = writer(), Bounds(None, longest=24, loop=8)
    with torch.no_grad():
        network.head.bias[9] = 1000  # nothing else is written
    wanted = sample(CachedStep(network), prompts(), bounds)
    assert [len(one.ids) for one in wanted] == [8] * 5
    assert CudaGraphDecoder(network, 5, 30, look_every=7).sample(prompts(), bounds) == wanted


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"start": prompts(6)}, r"1 to 5 sequences that have begun are written on, \(6, 3\) arr"),
        ({"start": prompts(2, 0)}, r"1 to 5 sequences that have begun are written on, \(2, 0\)"),
        ({"numbers": [1, 2]}, "2 numbers came for 5 sequences"),
        ({"bounds": Bounds(STOP, 29)}, "3 tokens and 29 more need 31 slots, there are 30"),
        (
            {"bounds": Bounds(STOP, 5, prefix=[[3]] * 5)},
            "a recorded step forces no prefix, .* begin with the prefix, or write with",
        ),
        ({"bounds": Bounds(STOP, 5, forced={2: 9})}, "forces and forbids no token at a place"),
        ({"bounds": Bounds(STOP, 5, forbidden={0: [9]})}, "forces and forbids no token at a place"),
        ({"bounds": Bounds(999, 5)}, "stop names token 999; they are numbered 0 to 522"),
    ],
)
def test_what_cannot_be_written_is_refused(asked: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CudaGraphDecoder(writer(), 5, 30).sample(**{"start": prompts(), "bounds": BOUNDS, **asked})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"decoder": translator(0)}, "a Decoder's step can be recorded, a EncoderDecoder came; C"),
        ({"decoder": translator(0).decoder}, "this decoder looks at a memory, whose step is not"),
        ({"decoder": writer().train()}, "a step is recorded as it is used, not as it is trained"),
        (
            {"decoder": prefix_decoder()},
            r"Prefix\(4\) lets a token see later ones, which a recorded step has not read",
        ),
        ({"batch": 0}, "batch is 1 or more, got 0"),
        ({"slots": 0}, "slots is 1 or more, got 0"),
        ({"look_every": 0}, "look_every is 1 or more, got 0"),
    ],
)
def test_what_cannot_be_recorded_is_refused(asked: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CudaGraphDecoder(**{"decoder": writer(), "batch": 5, "slots": 30, **asked})


def test_a_recording_of_weights_that_have_moved_is_refused() -> None:
    network = writer()
    recorded = CudaGraphDecoder(network, 5, 30)
    with torch.no_grad():
        network.head.bias.mul_(2)  # changed where they are
    recorded.sample(prompts(), BOUNDS)
    network.float()
    with pytest.raises(ValueError, match=r"the decoder's weights have moved since its step was r"):
        recorded.sample(prompts(), BOUNDS)


class Device:
    """A GPU, of which it is noted what it records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.current = [torch.device("cuda:0")]
        self.recorded: list[tuple[torch.device, Any]] = []
        stream = partial(SimpleNamespace, wait_stream=lambda other: None)
        for name, made in {
            "current_device": lambda: self.current[-1].index,
            "current_stream": stream,
            "device": self.enter,
            "stream": lambda stream: nullcontext(),
            "Stream": lambda device: stream(device=device),
            "CUDAGraph": partial(SimpleNamespace, replay="replay"),
            "graph": self.record,
        }.items():
            monkeypatch.setattr(torch.cuda, name, made)
        find_stream.cache_clear()

    @contextmanager
    def enter(self, device: torch.device) -> Iterator[None]:
        self.current.append(device)
        yield
        self.current.pop()

    def record(self, graph: Any, pool: Any, stream: Any, **_: Any) -> Any:
        self.recorded.append((self.current[-1], stream.device))
        return nullcontext()


def test_each_gpu_records_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    device, count, seen = Device(monkeypatch), torch.zeros(1), list[float]()

    def run() -> None:
        seen.append(float(count))
        count.add_(1)

    for name in ("cuda:0", "cuda:1", "cuda:0"):
        near: Any = SimpleNamespace(device=torch.device(name))
        count.zero_()
        assert capture(near, run, [count]) == "replay"
        at = torch.device(name)
        assert device.recorded.pop() == (at, at)
    assert not any(seen)  # each run begins with what was there
    find_stream.cache_clear()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records on CUDA")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")  # what inductor says
@pytest.mark.parametrize(
    ("compile", "fused", "batch", "window"),
    [
        (None, False, 1, 0),
        (None, False, 5, 0),
        (None, False, 5, 6),
        ({}, False, 1, 0),
        ({}, False, 5, 0),
        (None, True, 1, 0),
        (None, True, 5, 0),
        (None, True, 5, 6),
    ],
)
def test_on_cuda_a_recording_writes_the_same(
    compile: dict[str, Any] | None, fused: bool, batch: int, window: int
) -> None:
    network = writer(
        replace(NETWORK, pattern=f"Window({window - 1})" if window else "Everything()"),
        torch.float32,
    )
    wanted = [sample(CachedStep(network), prompts(batch), BOUNDS, how) for how in CHOICES[:2]]
    network.stack.fused = fused
    recorder = CudaGraphDecoder(network.cuda(), batch, 30, compile=compile)
    assert (recorder.kernel.name == "single") == (window == 0)
    for how, same in [*zip(CHOICES[:2], wanted, strict=True)] * 2:
        found = recorder.sample(prompts(batch).cuda(), BOUNDS, how)
        assert tokens(found) == tokens(same)


def tokens(found: list[Hypothesis]) -> list[list[int]]:
    return [one.ids for one in found]
