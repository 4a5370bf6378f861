"""A step remembers, drops sequences and repeats them."""

import pytest
import torch
from writers import SOURCES, begin, translator

from manyheads import (
    Bounds,
    CachedStep,
    Causal,
    Decoder,
    Embedding,
    Growing,
    Sinusoidal,
    Stack,
    Static,
    Tied,
    Tokens,
    TransformerConfig,
    greedy,
    grid,
    line,
)
from manyheads.devices import SAID, use_threads


@torch.no_grad()
def test_an_image_is_written_along_its_own_places() -> None:
    embedding, shape = Embedding(10, 24), TransformerConfig(width=24, depth=1, heads=4, dropout=0.0)
    stack = Stack.of(shape, Causal(), position=Sinusoidal())
    model = Decoder(embedding, stack, Tied(embedding)).double().eval()
    at, ids = grid(3, 4, blocks=(2, 2)), torch.randint(10, (1, 12))
    step = CachedStep(model, places=at)
    found = torch.stack([step(ids[:, i : i + 1]) for i in range(12)], 1)
    torch.testing.assert_close(found, model(Tokens(ids, at)), atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="there are 12 places to write, one more was asked for"):
        step(ids[:, :1])


@torch.no_grad()
def test_a_step_that_was_refused_has_read_nothing() -> None:
    model = translator(0)
    memory = model.encode(SOURCES)
    step, fresh = CachedStep(model.decoder, memory), CachedStep(model.decoder, memory)
    with pytest.raises(ValueError, match="words are numbered 0 to 11, 25 arrived"):
        step(torch.full((6, 1), 25))
    torch.testing.assert_close(step(begin(6)), fresh(begin(6)))


@torch.no_grad()
@pytest.mark.parametrize("rows", [[4, 1], [0, 0, 2, 2, 5, 5, 1, 1]], ids=["fewer", "more"])
def test_selected_sequences_go_on_with_their_own_memories(rows: list[int]) -> None:
    model, chosen = translator(1), torch.tensor(rows)
    ids = torch.randint(12, (6, 4))
    step = CachedStep(model.decoder, model.encode(SOURCES))
    step(ids[:, :3])
    step.select(chosen)
    alone = CachedStep(model.decoder, model.encode(SOURCES).select(chosen))
    found = step(ids[chosen, 3:])
    torch.testing.assert_close(found, alone(ids[chosen]), atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("cache", [Growing(), Static(line(6))], ids=["growing", "static"])
def test_reordered_sequences_keep_the_memory_in_its_place(cache: Growing | Static) -> None:
    model, rows = translator(2), torch.tensor([1, 1, 2, 3, 5, 4])  # two beams of each sentence
    memory = model.encode(SOURCES).select(torch.tensor([0, 0, 3, 3, 4, 4]))
    ids = torch.randint(12, (6, 4))
    step = CachedStep(model.decoder, memory, cache)
    step(ids[:, :3])
    kept = {layer: (key, key.clone()) for layer, (key, _) in cache.memory.items()}
    step.reorder(rows)
    found = step(ids[:, 3:])
    written = torch.cat([ids[rows, :3], ids[:, 3:]], 1)
    wanted = CachedStep(model.decoder, memory)(written)
    torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)
    for layer, (key, before) in kept.items():
        assert cache.memory[layer][0] is key
        assert torch.equal(key, before)


@torch.no_grad()
def test_a_static_cache_keeps_its_size_while_sequences_leave() -> None:
    for seed in range(5):
        model = translator(seed)
        bounds = Bounds(0, longest=[9, 1, 2, 3, 9, 9])
        growing = CachedStep(model.decoder, model.encode(SOURCES))
        static = CachedStep(model.decoder, model.encode(SOURCES), Static(line(10)))
        wanted = greedy(growing, begin(6), bounds)
        assert [one.ids for one in greedy(static, begin(6), bounds)] == [one.ids for one in wanted]
        assert static.idle > 0
        assert growing.idle == 0
    with pytest.raises(ValueError, match="a Static cache keeps 6 sequences, 12 were selected"):
        static.select(torch.arange(6).repeat(2))


def test_a_light_step_is_the_work_of_one_thread_and_a_heavy_one_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in SAID:
        monkeypatch.delenv(name, raising=False)
    with use_threads(2):
        model, seen = translator(0), list[int]()
        model.decoder.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
        step = CachedStep(model.decoder, model.encode(SOURCES))
        step(begin(6))
        with pytest.raises(ValueError, match="words are numbered 0 to 11, 25 arrived"):
            step(torch.full((6, 1), 25))
        sizes = [weight.numel() for weight in model.decoder.parameters() if weight.dim() > 1]
        monkeypatch.setattr("manyheads.devices.LIGHT", 6 * sum(sizes) / len(sizes))
        step(begin(6))
        assert seen == [1, 1, 2]
        assert torch.get_num_threads() == 2


def test_the_threads_that_a_person_asked_for_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with use_threads(2):
        model, seen = translator(0), list[int]()
        model.decoder.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
        CachedStep(model.decoder, model.encode(SOURCES))(begin(6))
        assert seen == [2]
