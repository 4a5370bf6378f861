"""Steps that are played back: the same as plain ones, and refused where they are not.

B rows, T tokens, V vocabulary.
"""

from typing import Any, NamedTuple

import pytest
import torch
import torch._inductor.config as inductor
from torch import Tensor
from torch._inductor.utils import fresh_cache

from manyheads import Decoder, Embedding, Segments, Stack, Tied, TransformerConfig
from manyheads.attention.patterns import Causal
from manyheads.attention.places import packed
from manyheads.modules.losses import sum_losses
from manyheads.modules.transformer import Tokens
from manyheads.training.compiling import compile_network
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.learner import Learner
from manyheads.training.optimizers import allocate_state
from manyheads.training.recorded import (
    can_be_recorded,
    copy_of,
    planned_by_host,
    reads_lengths,
    shape_of,
    tensors_of,
)

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
WIDTH, VOCABULARY = 32, 50


class Batch(NamedTuple):
    tokens: Tokens
    wanted: Tensor

    def to(self, device: Any) -> "Batch":
        return Batch(self.tokens.to(device), self.wanted.to(device))


def batch(lengths: list[list[int]], seed: int = 0, width: int = WIDTH) -> Batch:
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (len(lengths), width + 1), generator=chance)
    at, seen = packed(lengths, width, longest=width), Segments.of(lengths, width)
    return Batch(Tokens(ids[:, :-1], at, seen), ids[:, 1:].contiguous())


A, B = batch([[10, 20], [32]]), batch([[5, 5, 5], [17, 3]], seed=1)


def test_batches_of_one_layout_are_alike_whatever_their_documents() -> None:
    assert shape_of(A) == shape_of(B)
    assert shape_of(A) != shape_of(batch([[10, 20]]))
    assert shape_of(A) != shape_of(Batch(A.tokens, A.wanted.int()))


def test_a_copy_has_its_own_memory_and_forgets_what_only_the_host_knows() -> None:
    copied = copy_of(A, {})
    assert shape_of(copied) == shape_of(A)
    assert all(map(torch.equal, tensors_of(copied), tensors_of(A)))
    assert not {x.data_ptr() for x in tensors_of(copied)} & {x.data_ptr() for x in tensors_of(A)}
    assert A.tokens.seen.lengths == ((10, 20), (32,))  # type: ignore[attr-defined]
    assert copied.tokens.seen.lengths is None


def test_rows_longer_than_a_tile_are_planned_by_the_host() -> None:
    assert not planned_by_host(A)
    assert planned_by_host(batch([[200]], width=200))


def learner(device: str = "cuda", **settings: Any) -> Learner:
    torch.manual_seed(0)
    words = Embedding(VOCABULARY, 32)
    config = TransformerConfig(width=32, depth=2, heads=2, dropout=0.1, attention_dropout=0.1)
    network = Decoder(words, Stack.of(config, Causal()), Tied(words))
    training = Training(precision="bfloat16", cuda_graph=True, steps=20, warmup_steps=2, **settings)
    return Learner(network, loss, training, World(device=torch.device(device)))


def loss(network: Decoder, given: Batch) -> dict[str, Tensor]:
    return {"loss": sum_losses(network(given.tokens), given.wanted)}


def test_a_recording_that_runs_out_of_memory_leaves_no_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = learner("cpu")

    def cut_off(network: Any, *_: Any) -> None:
        next(network.parameters()).grad = torch.full((VOCABULARY, 32), torch.nan)
        raise torch.OutOfMemoryError

    monkeypatch.setattr("manyheads.training.learner.RecordedStep", cut_off)
    with pytest.raises(torch.OutOfMemoryError):
        given.record(A, B, 50)
    assert all(weight.grad is None for weight in given.network.parameters())


def test_a_layer_that_reads_the_lengths_of_rows_is_not_recorded() -> None:
    assert reads_lengths(torch.nn.Sequential(torch.nn.LSTM(2, 2)))
    given = learner("cpu")
    assert not reads_lengths(given.network)
    given.world = World(device=torch.device("cuda"))
    assert not given.can_record(A)  # its optimizer is on the CPU


def test_an_optimizer_that_counts_its_steps_on_the_host_is_not_recorded() -> None:
    weights = [torch.ones(2, 2, device="meta", requires_grad=True)]
    counting = torch.optim.AdamW(weights)
    allocate_state(counting)
    assert not can_be_recorded(counting, torch.device("meta"))
    assert all(can_be_recorded(one, torch.device("cpu")) for one in learner("cpu").optimizers)


@on_gpu
def test_played_steps_learn_what_plain_ones_do() -> None:
    batches = [batch([[10 + i, 20 - i], [3, i + 1, 8]], seed=i).to("cuda") for i in range(6)]
    plain, played = learner(), learner()
    assert played.can_record(batches[0])
    played.record(batches[0], batches[1], 50)
    for one in batches:
        wanted, found = plain.step([one], 50)["loss"], played.step([one], 50)["loss"].clone()
        assert abs(wanted - found) < 1e-2 * abs(wanted)
    # The first steps of AdamW move each weight by the rate, up or down by the sign of its gradient:
    # where that is all rounding, two runs part.
    both = zip(plain.network.parameters(), played.network.parameters(), strict=True)
    for one, other in both:
        assert (one - other).norm() < 0.05 * one.norm()
    other = batch([[7]], seed=9).to("cuda")  # of another layout: a plain step
    assert abs(plain.step([other], 7)["loss"] - played.step([other], 7)["loss"]) < 1e-2


@on_gpu
def test_played_steps_that_are_compiled_as_well_drop_what_plain_ones_drop() -> None:
    batches = [batch([[10 + i, 20 - i], [3, i + 1, 8]], seed=i).to("cuda") for i in range(4)]
    plain, played = learner(), learner()
    torch._dynamo.reset()
    with fresh_cache(), inductor.patch(fallback_random=True):
        compile_network(played.network)
        played.record(batches[0], batches[1], 50)
        for one in batches:
            wanted, found = plain.step([one], 50)["loss"], played.step([one], 50)["loss"]
            assert abs(wanted - found) < 1e-3 * abs(wanted)


@on_gpu
def test_a_recording_that_drops_the_same_at_every_step_is_refused() -> None:
    given = learner()
    plain, one = given.loss_of, A.to("cuda")

    def dropped_once(network: Any, some: Batch) -> dict[str, Tensor]:
        if torch.cuda.is_current_stream_capturing():
            network.eval()
        terms = plain(network, some)
        network.train()
        return terms

    given.loss_of = dropped_once
    with pytest.raises(ValueError, match=r"(drops the same|is not what the network computes)"):
        given.record(one, B.to("cuda"), 50)


@on_gpu
def test_a_recording_that_is_of_one_batch_only_is_refused() -> None:
    given = learner()
    plain = given.loss_of

    def by_host(network: Any, one: Batch) -> dict[str, Tensor]:
        terms = plain(network, one)
        lengths = one.tokens.seen.lengths  # type: ignore[attr-defined]
        return {"loss": terms["loss"] * (1 if lengths is None else 2)}

    given.loss_of = by_host
    with pytest.raises(ValueError, match=r"training\.cuda_graph=false"):
        given.record(A.to("cuda"), B.to("cuda"), 50)
