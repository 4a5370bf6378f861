"""One token after another: cached as in full, padded as alone, with every score."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from toy_tasks import LETTERS, Rewriting, reversed_word

from manyheads import (
    Additive,
    Causal,
    Dot,
    Embedding,
    EncoderDecoder,
    Growing,
    Lengths,
    Memory,
    Multiplicative,
    Recorded,
    Tied,
    Tokens,
    graph,
    kernel,
    line,
    off,
    recording,
)
from manyheads.attention.scores import SCORES
from manyheads.modules.recurrent import Carried, RecurrentDecoder, RecurrentEncoder

WIDTH = 12
SOURCES, TARGETS = [[3, 4, 5], [6, 7, 8, 9, 3], [4]], [[1, 2], [5, 6, 7, 8], [9, 9, 9]]
EACH_SCORE = pytest.mark.parametrize("score", SCORES)
EACH_CELL = pytest.mark.parametrize("cell", ["lstm", "gru"])


def translator(
    score: str = "dot", cell: str = "lstm", *, words: int = 10, width: int = WIDTH, depth: int = 2
) -> EncoderDecoder:
    table = Embedding(words, width)
    reads = RecurrentEncoder(table, width, depth, cell=cell, dropout=0.0)
    attention = SCORES[score](width)
    writes = RecurrentDecoder(
        table, Tied(table), width, depth, cell=cell, attention=attention, dropout=0.0
    )
    return EncoderDecoder(reads, writes)


def part(ids: Tensor, start: int, stop: int) -> Tokens:
    return Tokens(ids[:, start:stop], line(stop - start, start))


# ---- what is read ----------------------------------------------------------------------------


@torch.no_grad()
@EACH_CELL
@EACH_SCORE
def test_a_padded_sentence_is_translated_as_alone(score: str, cell: str) -> None:
    model = translator(score, cell).double().eval()
    padded = model(Tokens.padded(SOURCES), Tokens.padded(TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(Tokens.padded([source]), Tokens.padded([target]))[0]
        torch.testing.assert_close(padded[row, : len(target)], alone, atol=1e-10, rtol=0)


@torch.no_grad()
def test_an_encoder_reads_both_ways_and_leaves_padding_empty() -> None:
    encoder = translator(depth=1).encoder.eval()  # in one layer the directions have not met
    one, other = (encoder(Tokens.padded([ids, [5]])) for ids in ([1, 2, 3], [1, 2, 9]))
    assert one.shape == (2, 3, WIDTH)
    assert torch.equal(one[0, 0, : WIDTH // 2], other[0, 0, : WIDTH // 2])
    assert (one[0, 0, WIDTH // 2 :] != other[0, 0, WIDTH // 2 :]).all()
    assert not one[1, 1:].any()


@torch.no_grad()
@EACH_SCORE
def test_an_empty_source_is_as_no_source(score: str) -> None:
    model = translator(score).eval()
    scores = model(Tokens.padded([[3, 4], []]), Tokens.padded([[1, 2], [1, 2]]))
    assert not model.encode(Tokens.padded([[3, 4], []])).states[1].any()
    assert scores.isfinite().all()


@torch.no_grad()
@EACH_SCORE
def test_a_future_token_changes_nothing_before_it(score: str) -> None:
    model, source = translator(score).eval(), Tokens.padded([[3, 4, 5]])
    one, other = (model(source, Tokens.padded([ids])) for ids in ([1, 2, 3, 4], [1, 2, 9, 9]))
    assert torch.equal(one[:, :2], other[:, :2])
    assert (one[:, 2:] != other[:, 2:]).all()


@torch.no_grad()
@EACH_SCORE
def test_only_without_attention_is_the_memory_no_more_than_its_mean(score: str) -> None:
    decoder, target = translator(score).decoder.eval(), Tokens.padded([[1, 2, 3]])
    states = torch.randn(1, 4, WIDTH)
    mean = states.mean(1, keepdim=True).expand(1, 4, WIDTH)
    one, other = (decoder(target, Memory(each, line(4))) for each in (states, mean))
    assert torch.allclose(one, other, atol=1e-6) == (score == "none")


# ---- writing ---------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("kind", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@EACH_CELL
@EACH_SCORE
def test_step_by_step_is_as_all_at_once(
    score: str, cell: str, kind: torch.dtype, near: float
) -> None:
    model = translator(score, cell).to(kind).eval()
    memory, ids = model.encode(Tokens.padded(SOURCES)), torch.randint(10, (3, 7))
    wanted, cache = model.decoder(Tokens(ids, line(7)), memory), model.decoder.new_cache()
    steps = [(0, 3), (3, 4), (4, 6), (6, 7)]
    found = [model.decoder(part(ids, *step), memory, cache) for step in steps]
    torch.testing.assert_close(torch.cat(found, 1), wanted, atol=near, rtol=0)


@torch.no_grad()
@EACH_CELL
def test_selected_sequences_go_on_with_their_memories(cell: str) -> None:
    decoder, rows = translator("dot", cell).decoder.eval(), torch.tensor([2, 0, 0, 1])
    memory = Memory(torch.randn(3, 5, WIDTH), line(5), Lengths([5, 2, 4]))
    ids, cache = torch.randint(10, (3, 4)), decoder.new_cache()
    wanted = decoder(Tokens(ids, line(4)), memory)[rows, 3:]
    decoder(part(ids, 0, 3), memory, cache)
    cache.select(rows)
    found = decoder(part(ids[rows], 3, 4), memory.select(rows), cache)
    torch.testing.assert_close(found, wanted)


@torch.no_grad()
def test_reordered_sequences_go_on_from_other_rows_of_their_source() -> None:
    decoder, rows = translator().decoder.eval(), torch.tensor([1, 1, 3, 2])
    memory = Memory(torch.randn(2, 5, WIDTH).repeat_interleave(2, 0), line(5))
    ids, cache = torch.randint(10, (4, 4)), decoder.new_cache()
    wanted = decoder(Tokens(ids, line(4)), memory)[rows, 3:]
    decoder(part(ids, 0, 3), memory, cache)
    cache.reorder(rows)
    torch.testing.assert_close(decoder(part(ids[rows], 3, 4), memory, cache), wanted)


@torch.no_grad()
def test_a_cache_that_forgot_begins_anew() -> None:
    decoder, cache = translator().decoder.eval(), Carried()
    first, second = (Memory(torch.randn(n, 3, WIDTH), line(3)) for n in (2, 1))
    cache.select(torch.tensor([0]))  # nothing was read, nothing is there to select
    decoder(Tokens(torch.tensor([[1], [2]]), line(1)), first, cache)
    cache.forget()
    tokens = Tokens(torch.tensor([[4, 5]]), line(2))
    torch.testing.assert_close(decoder(tokens, second, cache), decoder(tokens, second))


# ---- looking inside, training ----------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("score", ["dot", "multiplicative", "additive"])
def test_what_it_looks_at_can_be_seen(score: str) -> None:
    model = translator(score).eval()
    look = model.decoder.attention
    assert look is not None
    plain = model(Tokens.padded(SOURCES), Tokens.padded(TARGETS))
    look.kernel = recorder = Recorded(look.kernel)
    assert torch.equal(model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)), plain)
    (seen,) = recorder.seen
    assert seen.weights.shape == (3, 1, 4, 5)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(3, 1, 4))
    assert not seen.weights[2, :, :, 1:].any(), "padding is not looked at"


@torch.no_grad()
@pytest.mark.parametrize("score", ["dot", "multiplicative"])
def test_kernels_agree_on_the_lookup(score: str) -> None:
    model = translator(score).double().eval()
    found = []
    for name in ("reference", "sdpa"):
        model.decoder.attention.kernel = kernel(name)
        found.append(model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)))
    torch.testing.assert_close(*found, atol=1e-10, rtol=0)


@EACH_CELL
@EACH_SCORE
def test_a_gradient_reaches_every_parameter(score: str, cell: str) -> None:
    model = translator(score, cell)
    model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize(("cell", "score"), [("gru", "dot"), *(("lstm", s) for s in SCORES)])
def test_it_learns_to_write_backwards(cell: str, score: str) -> None:
    task, generator = Rewriting(reversed_word, longest=4), torch.Generator().manual_seed(0)
    model = translator(score, cell, words=len(LETTERS) + 3, width=32, depth=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = task.loss(model, task.batch(task.examples(32, generator)))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]


def test_dropout_falls_on_training_alone() -> None:
    table = Embedding(10, WIDTH)
    decoder = RecurrentDecoder(table, Tied(table), WIDTH, 1, attention=Dot(), dropout=0.5)
    tokens, memory = Tokens.padded([[1, 2]]), Memory(torch.randn(1, 3, WIDTH), line(3))
    assert (decoder(tokens, memory) != decoder(tokens, memory)).any()
    decoder.eval()
    assert torch.equal(decoder(tokens, memory), decoder(tokens, memory))


# ---- refusals --------------------------------------------------------------------------------


def writer(width: int = WIDTH, **options: object) -> RecurrentDecoder:
    table = Embedding(10, WIDTH)
    return RecurrentDecoder(table, Tied(table), width, 1, **{"attention": Dot(), **options})  # type: ignore[arg-type]


def reader(width: int = WIDTH, depth: int = 1, **options: object) -> RecurrentEncoder:
    return RecurrentEncoder(Embedding(10, width), width, depth, **options)  # type: ignore[arg-type]


def stepped(first: Tokens, then: Tokens) -> None:
    decoder, cache = writer(), Carried()
    for tokens in (first, then):
        decoder(tokens, Memory(torch.randn(len(tokens.ids), 3, WIDTH), line(3)), cache)


ONE, MEMORY = Tokens.padded([[1]]), Memory(torch.zeros(1, 3, WIDTH), line(3))
PACKED = Tokens.packed([[[1], [2]]], 2)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: reader()(PACKED),
            "a recurrent network reads one sequence a row and these are packed; Tokens.padded "
            "gives each a row, padded",
        ),
        (lambda: writer()(PACKED, MEMORY), "reads one sequence a row and these are packed"),
        (
            lambda: writer()(ONE, MEMORY._replace(seen=PACKED.seen)),
            "reads one sequence a row and these are packed",
        ),
        (
            lambda: reader()(Tokens(ONE.ids, ONE.at, Causal())),
            r"hides nothing but padding, Causal\(\) came; Lengths\(...\) would do",
        ),
        (
            lambda: reader()(Tokens(torch.tensor([[1, 2]]), graph([(0, 1)], 2))),
            "a recurrent network reads tokens that come one after another, but a graph arrived",
        ),
        (lambda: reader()(Tokens.padded([[]])), "reads one token or more, none arrived"),
        (
            lambda: reader()(Tokens(ONE.ids, line(2))),
            "1 tokens came with places for 2; each has one",
        ),
        (
            lambda: reader()(Tokens(ONE.ids, ONE.at, Lengths([1, 1]))),
            "Lengths describes 2 sequences, but a batch of 1 arrived",
        ),
        (lambda: reader()(ONE.ids[0]), r"a network reads ids of \(B, T\) or Tokens, a tensor of"),
        (
            lambda: writer()(ONE),
            r"looks at a Memory\(states, places\), none came; EncoderDecoder.encode makes one",
        ),
        (lambda: writer()(ONE, MEMORY.states), r"Memory\(states, places\), a Tensor came"),
        (
            lambda: writer()(ONE, Memory(torch.zeros(1, 3, 8), line(3))),
            r"tokens of the memory are \(B, T, 12\), \(1, 3, 8\) arrived",
        ),
        (
            lambda: writer()(ONE, Memory(torch.zeros(2, 3, WIDTH), line(3))),
            "1 sequences came with the memory of 2",
        ),
        (
            lambda: writer()(ONE, MEMORY, Growing()),
            r"keeps its state in a Carried, a Growing arrived; its new_cache\(\) makes one",
        ),
        (
            lambda: stepped(ONE, ONE),
            r"goes on with token 1, number 0 came; line\(n, start=1\) would do",
        ),
        (
            lambda: stepped(ONE, Tokens(torch.tensor([[1], [2]]), line(1, 1))),
            "the cache holds 1 sequences, 2 came; make another cache",
        ),
        (
            lambda: stepped(Tokens.padded([[1, 2], [3]]), ONE),
            "different lengths do not go on together; write those of one length in a batch of",
        ),
        (lambda: reader(11), "two directions share a width evenly, got 11; 10 or 12 would do"),
        (lambda: reader(cell="rnn"), "there is no cell 'rnn'; there are lstm, gru"),
        (
            lambda: reader(depth=0),
            "the depth of a network is a whole number from 1 up, got 0",
        ),
        (lambda: reader(dropout=1.0), "dropout is a share from 0 to below 1, got 1.0"),
        (
            lambda: RecurrentEncoder(Embedding(10, 8), WIDTH, 1),
            "an embedding of width 8 came with a network of width 12",
        ),
        (
            lambda: RecurrentDecoder(
                Embedding(10, WIDTH), nn.Linear(8, 10), WIDTH, 1, attention=None
            ),
            "a head of width 8 came with a network of width 12",
        ),
        (
            lambda: writer(attention="dot"),
            r"a score like Dot\(\), or None, got 'dot'; build_score\('dot', width\) makes one",
        ),
        (
            lambda: writer(attention=Multiplicative(8, 8)),
            "Multiplicative compares other widths than the 12 of this network",
        ),
        (
            lambda: writer(attention=Additive(8, 12, 5)),
            "Additive compares other widths than the 12 of this network",
        ),
        (lambda: writer(kernel="fast"), "there is no kernel 'fast'"),
        (
            lambda: writer(attention=Additive(12, 12, 5), kernel="sdpa")(ONE, MEMORY),
            r"the sdpa kernel refuses Everything\(\): it has no score other than a product",
        ),
    ],
)
def test_mistakes_get_one_sentence(act: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        act()


@torch.no_grad()
def test_its_attention_is_switched_off_as_any_other() -> None:
    model, source, target = (
        translator().eval(),
        Tokens.padded(SOURCES[:1]),
        Tokens.padded(TARGETS[:1]),
    )
    whole = model(source, target)
    with off(model, "decoder.attention", head=0), recording(model) as seen:
        assert not torch.equal(model(source, target), whole)
    assert not seen[0].weights.any()
