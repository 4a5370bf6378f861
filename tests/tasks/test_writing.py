"""What is written for a source depends on nothing but the source."""

from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small import begun, pairs, recipe_in, trainer_of

from manyheads import (
    Causal,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Learned,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    off,
    overwritten,
)
from manyheads.codecs.text import SpecialTokens, Text
from manyheads.data.batches import batch_by_length
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.drafters import NgramLookup
from manyheads.devices import map_in_threads, use_threads
from manyheads.inspect.record import recording
from manyheads.tasks.seq2seq.inspection import write_traced
from manyheads.tasks.seq2seq.writing import find_longest, write_targets


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[EncoderDecoder, Text]:
    folder = tmp_path_factory.mktemp("learned")
    quick = {"steps": 150, "validate_every": 150, "log_every": 50, "checkpoint_every": 150}
    recipe = recipe_in(folder, "padded", {"dropout": 0.0}, **quick, learning_rate=0.02)
    trainer = trainer_of(recipe, begun(recipe, folder / "run"))
    trainer.fit()
    return trainer.learner.network, trainer.task.codecs.source


SOURCES = [source for source, _ in pairs(25, seed=7)]

HOW = {
    "greedy": DecodingConfig(),
    "beam": DecodingConfig(beam=3, nbest=2),
    "drawn": DecodingConfig(temperature=0.9, top_k=5),
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_one_by_one_is_all_at_once_in_the_order_of_the_input(
    learned: tuple[EncoderDecoder, Text], how: DecodingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.seq2seq.writing.HEAVY", 1)  # threads share it
    network, codec = learned
    ids = codec.encode_all(SOURCES)
    alone = [write_targets(network, [one], how, numbers=[i])[0] for i, one in enumerate(ids)]
    for tokens, threads in ((2048, 1), (30, 1), (30, 2)):
        with use_threads(threads):
            together = write_targets(network, ids, how, tokens=tokens)
            assert torch.get_num_threads() == threads
        assert [[one.ids for one in best] for best in together] == [
            [one.ids for one in best] for best in alone
        ]
        for ours, theirs in zip(together, alone, strict=True):
            assert [h.log_prob for h in ours] == pytest.approx(
                [h.log_prob for h in theirs], abs=1e-4
            )
    assert len({tuple(best[0].ids) for best in alone}) > 3


def test_a_head_that_is_off_is_off_in_every_thread_and_in_what_is_recorded(
    learned: tuple[EncoderDecoder, Text], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, codec = learned
    ids = codec.encode_all(SOURCES)

    def write() -> tuple[list[list[int]], list[list[int]], list[str]]:
        with recording(network) as seen:
            shown = write_targets(network, ids, DecodingConfig(beam=2), tokens=30)
        plain = write_targets(network, ids, DecodingConfig(beam=2), tokens=30)
        both = ([best[0].ids for best in each] for each in (plain, shown))
        return *both, [one.layer for one in seen]

    whole = write()
    with off(network, "decoder.0.cross", head=0):
        wanted = write()
    assert wanted[0] == wanted[1] != whole[0] == whole[1]
    for name, value in (("HEAVY", 1), ("RECORDED_ON", ("cpu",))):
        monkeypatch.setattr(f"manyheads.tasks.seq2seq.writing.{name}", value)
        with use_threads(4):
            assert write() == whole
            with off(network, "decoder.0.cross", head=0):
                assert write() == wanted


def test_a_row_that_is_overwritten_is_so_in_each_of_several_drafts(
    learned: tuple[EncoderDecoder, Text],
) -> None:
    """Packed into one row, the second source would begin where the first ends."""
    network, codec = learned
    ids, how = codec.encode_all(SOURCES[:3]), DecodingConfig()

    def write() -> list[list[float]]:
        found = write_targets(network, ids, how, drafter=NgramLookup())
        return [best[0].logs for best in found]

    whole = write()
    with overwritten(network, "decoder.0.cross", 0, place=0, weights={0: 1.0}):
        alone = [write_targets(network, [one], how)[0][0].logs for one in ids]
        assert write() == [pytest.approx(logs, abs=1e-4) for logs in alone]
    assert all(a[0] != pytest.approx(b[0], abs=1e-4) for a, b in zip(whole, alone, strict=True))


def test_what_threads_share_is_in_order_and_what_fails_in_one_is_raised() -> None:
    with use_threads(2):
        assert map_in_threads(lambda n: (n, torch.get_num_threads()), [3, 1, 2]) == [
            (3, 1),
            (1, 1),
            (2, 1),
        ]
        before = get_ident()
        found = map_in_threads(lambda n: get_ident(), [3, 1, 2], at_once=1)
        assert found == [before] * 3
        with torch.autocast("cpu", torch.bfloat16):  # which is a thread's own
            found = map_in_threads(lambda n: (torch.ones(n, n) @ torch.ones(n)).dtype, [3, 1, 2])
        assert found == [torch.bfloat16] * 3
        with pytest.raises(ZeroDivisionError):
            map_in_threads(lambda n: 1 // n, [1, 0, 2])
        assert torch.get_num_threads() == 2


def test_what_is_forced_to_begin_begins_and_lengths_hold(
    learned: tuple[EncoderDecoder, Text],
) -> None:
    network, codec = learned
    ids, begin = codec.encode_all(SOURCES[:4]), codec.encode_all(["six", "one two", "", "five"])
    how = DecodingConfig(min_new_tokens=4, max_new_tokens=5)
    for forced, (best,) in zip(
        begin, write_targets(network, ids, how, prefixes=begin), strict=True
    ):
        assert best.ids[: len(forced)] == forced
        assert 4 <= len(best.ids) <= 5


def test_a_least_length_beyond_the_likely_one_is_kept(
    learned: tuple[EncoderDecoder, Text],
) -> None:
    network, codec = learned
    ids = codec.encode_all(["ba", "ba du ki lo me nu"])
    ((short,), (long,)) = write_targets(network, ids, DecodingConfig(min_new_tokens=25))
    # Its own 25 and not the 32 of the other, with which it is read.
    assert len(short.ids) == 25
    assert not short.finished
    assert 25 <= len(long.ids) <= 32
    assert find_longest(DecodingConfig(), 3) == 26
    assert find_longest(DecodingConfig(max_new_tokens=9), 3) == 9


def test_what_was_written_may_cost_more(learned: tuple[EncoderDecoder, Text]) -> None:
    network, codec = learned
    ids = codec.encode_all(["ba du ba du ba du"])
    ((plain,),) = write_targets(network, ids, DecodingConfig(min_new_tokens=8))
    ((dear,),) = write_targets(
        network, ids, DecodingConfig(min_new_tokens=8, repetition_penalty=50.0)
    )
    assert len(set(plain.ids)) < len(set(dear.ids))


def test_nothing_to_read_and_nothing_at_all(learned: tuple[EncoderDecoder, Text]) -> None:
    network, _ = learned
    assert write_targets(network, []) == []
    assert len(write_targets(network, [[]])) == 1


def test_sources_of_like_length_go_together() -> None:
    assert list(batch_by_length([[1, 2], [3], [4, 5]], 6)) == [[0, 2], [1]]
    assert list(batch_by_length([[1, 2], [3], [4, 5]], 1)) == [[0], [2], [1]]
    assert list(batch_by_length([], 9)) == []


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"temperature": -1.0}, "a temperature is a finite number from 0 (greedy) up, got -1.0"),
        (
            {"temperature": 1.0, "beam": 2},
            "a beam searches and a temperature of 1.0 draws; temperature=0 goes with a beam",
        ),
        ({"top_k": 3}, "top_k, top_p and min_p narrow what is drawn; give a temperature too"),
        ({"top_p": 0.9}, "top_k, top_p and min_p narrow what is drawn; give a temperature too"),
        ({"nbest": 2}, "2 best were asked for, a beam of 1 finds 1 at most"),
        ({"min_new_tokens": -1}, "min_new_tokens is 0 or more, got -1"),
        (
            {"min_new_tokens": 9, "max_new_tokens": 5},
            "min_new_tokens=9 is over max_new_tokens=5",
        ),
        ({"beam": 0}, "beam is 1 or more, got 0"),
        ({"temperature": 1.0, "top_p": 2.0}, "top_p is 1 at most, got 2.0"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        DecodingConfig(**how)
    assert str(error.value) == sentence


def test_a_network_that_learned_a_little_writes_the_other_language(
    learned: tuple[EncoderDecoder, Text],
) -> None:
    network, codec = learned
    written = [
        codec.render(best.ids) for (best,) in write_targets(network, codec.encode_all(SOURCES))
    ]
    assert set(" ".join(written).split()) == {"one", "two", "three", "four", "five", "six"}


def with_eight_places() -> EncoderDecoder:
    torch.manual_seed(0)
    config, words = TransformerConfig(width=16, depth=1, heads=2, dropout=0.0), Embedding(20, 16)
    reads = Stack.of(config, position=Sinusoidal())
    writes = Stack.of(config, Causal(), position=Learned(16, 8), cross=True)
    return EncoderDecoder(Encoder(words, reads), Decoder(words, writes, Tied(words))).eval()


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_a_text_with_two_start_tokens_ends_where_learned_places_do(how: DecodingConfig) -> None:
    begins_twice = SpecialTokens(bos=(1, 5))  # as a multilingual model does, with a language
    special = SpecialTokens(), begins_twice
    found = write_targets(with_eight_places(), [[6, 7, 8], [9, 10]], how, special=special)
    assert [len(best[0].ids) for best in found] == [7, 7]  # the last one is not read


def test_a_page_reads_all_that_was_written_within_the_learned_places() -> None:
    target = SimpleNamespace(pieces=lambda ids: [str(*ids)])
    model: Any = SimpleNamespace(
        network=with_eight_places(),
        device="cpu",
        special_tokens=(SpecialTokens(), SpecialTokens()),
        task=SimpleNamespace(codecs=SimpleNamespace(target=target)),
    )
    ids, _ = write_traced(model, [6, 7, 8], 2, ())
    assert len(ids) == 7
    model.network(Tokens.padded([[6, 7, 8, 2]]), Tokens.padded([[1, *ids]]))
