"""What follows a prompt."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.decoding.cuda_graph import CudaGraphDecoder
from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig, change_kind
from manyheads.modules.transformer import Tokens
from manyheads.tasks.continuation import Author
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.generate import generate, stream

CODEC = Text.train(["ein hund läuft", "日本 a b c"], "byte")
SMALL = TransformerConfig(width=16, depth=1, heads=2, ffn_width=32, position="Rotary()")
GREEDY = LanguageDecoding(max_new_tokens=14, temperature=0)
WAYS = {
    "greedy": GREEDY,
    "drawn": LanguageDecoding(max_new_tokens=14),
    "narrowed": LanguageDecoding(max_new_tokens=14, top_k=9, top_p=0.8, min_p=0.1, seed=4),
    "penalised": LanguageDecoding(max_new_tokens=14, temperature=0, repetition_penalty=1.5),
    "beam": LanguageDecoding(max_new_tokens=10, temperature=0, beam=3, nbest=2),
}
PROMPTS = ["a b", "hund", "c a", "läuft", "e"]


def model(seed: int = 0, kind: Any = "transformer") -> nn.Module:
    torch.manual_seed(seed)
    return build_decoder(change_kind(SMALL, kind), CODEC.size).double().eval()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_does_not_depend_on_the_batch(way: str) -> None:
    network, how = model(), WAYS[way]
    together = generate(Author(network, CODEC, 12), PROMPTS, how)
    for n, prompt in enumerate(PROMPTS):
        (alone,) = generate(Author(network, CODEC, 12), [prompt], how, first=n)
        assert [one.ids for one in alone] == [one.ids for one in together[n]]
        assert [one.text for one in alone] == [one.text for one in together[n]]
    assert {len(found) for found in together} == {how.nbest}


@torch.no_grad()
def by_hand(network: nn.Module, prompt: str, context: int, count: int) -> list[int]:
    """The likeliest token each time, everything read anew."""
    seen, out = [*CODEC.special_tokens.bos, *CODEC.encode(prompt)], []
    for _ in range(count):
        seen = seen[-(context // 2) :] if len(seen) > context else seen
        scores = network(Tokens.padded([seen]))[0, -1]
        scores[[CODEC.special_tokens.eos, *CODEC.special_tokens.never]] = -torch.inf
        out.append(int(scores.argmax()))
        seen = [*seen, out[-1]]
    return out


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("context", [7, 12, 100])
def test_writing_goes_on_past_the_context_from_its_last_half(kind: str, context: int) -> None:
    network = model(1, kind)
    how = replace(GREEDY, max_new_tokens=24, min_new_tokens=24)
    ((found,),) = generate(Author(network, CODEC, context), ["hund"], how)
    assert found.ids == by_hand(network, "hund", context, 24)
    assert not found.finished


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("stop", [(), ("a", "\ufffd"), ("zz", "h")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_pieces_of_a_stream_are_the_text(
    seed: int, stop: tuple[str, ...], temperature: float
) -> None:
    how = LanguageDecoding(max_new_tokens=24, temperature=temperature, stop=stop, seed=seed)
    network = model(seed)
    ((one,),) = generate(Author(network, CODEC, 16), ["läuft"], how)
    found = [*stream(Author(network, CODEC, 16), "läuft", how)]
    assert "".join(found) == one.text
    assert all(found)
    assert not any(text in one.text for text in stop)
    assert stop or one.text == CODEC.render(one.ids)


class Says(nn.Module):
    """Writes this text, then the stop, whatever it read."""

    def __init__(self, text: str):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.ids = [*CODEC.encode(text), CODEC.special_tokens.eos]

    def new_cache(self) -> list[int]:
        return [0]

    def forward(self, tokens: Tokens, memory: None = None, cache: Any = None) -> torch.Tensor:
        scores = torch.full((*tokens.ids.shape, CODEC.size), -50.0)
        scores[:, -1, self.ids[cache[0]]] = 50
        cache[0] += 1
        return scores


def test_a_text_ends_with_its_sign_or_before_a_stop_or_at_its_longest() -> None:
    def said(**how: Any) -> tuple[str, bool, int]:
        ((one,),) = generate(Author(Says("日本 a b c"), CODEC, 99), ["x"], LanguageDecoding(**how))
        assert one.score == pytest.approx(sum(one.logs))
        return one.text, one.finished, len(one.ids)

    assert said() == ("日本 a b c", True, 12)
    assert said(stop=(" b",)) == ("日本 a", True, 10)
    assert said(stop=("本",)) == ("日", True, 6)
    assert said(stop=("q",)) == ("日本 a b c", True, 12)
    assert said(max_new_tokens=4) == ("日\ufffd", False, 4)
    assert said(stop=("本",), max_new_tokens=6) == ("日", True, 6)


@pytest.mark.parametrize("way", ["drawn", "narrowed"])
def test_a_recorded_step_writes_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is recorded, as on a GPU; here the same code runs as it stands."""
    network, how = model(), WAYS[way]
    plain = generate(Author(network, CODEC, 64), PROMPTS, how)
    asked: list[int] = []
    whole = CudaGraphDecoder.sample

    def counted(writer: CudaGraphDecoder, *given: Any) -> Any:
        asked.append(writer.batch)
        return whole(writer, *given)

    monkeypatch.setattr("manyheads.tasks.language.generate.RECORDED_ON", ("cpu",))
    monkeypatch.setattr(CudaGraphDecoder, "sample", counted)
    assert generate(Author(network, CODEC, 64), PROMPTS, how) == plain
    assert sum(asked) == len(PROMPTS)


@pytest.mark.parametrize(
    ("changed", "context"),
    [
        ({"temperature": 0.0}, 64),
        ({"stop": ("b",)}, 64),
        ({"repetition_penalty": 1.2}, 64),
        ({}, 12),  # it goes on past the context
    ],
)
def test_what_the_host_has_a_say_in_is_not_recorded(
    changed: dict[str, Any], context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.language.generate.RECORDED_ON", ("cpu",))
    monkeypatch.setattr(CudaGraphDecoder, "sample", lambda *_: pytest.fail("it was recorded"))
    generate(Author(model(), CODEC, context), PROMPTS[:1], replace(WAYS["drawn"], **changed))


def test_a_stream_says_each_character_once_it_is_whole() -> None:
    found = stream(Author(Says("日 a"), CODEC, 99), "x", LanguageDecoding())
    assert [*found] == ["日", " ", "a"]


def test_a_prompt_longer_than_the_context_is_refused_or_cut() -> None:
    network, prompt = model(), "hund läuft"
    with pytest.raises(ValueError, match="the prompt has 12 tokens and the context 8; shorten it"):
        generate(Author(network, CODEC, 8), [prompt], GREEDY)
    with pytest.raises(ValueError, match="the prompt has 12 tokens and the context 8"):
        stream(Author(network, CODEC, 8), prompt, GREEDY)
    ((cut,),) = generate(Author(network, CODEC, 8), [prompt], replace(GREEDY, truncate=True))
    bare = Text(CODEC.tokenizer, SpecialTokens(bos=()))
    ((short,),) = generate(Author(network, bare, 8), ["d läuft"], replace(GREEDY))
    assert cut.ids == short.ids


class Ready(Says):
    """The stop is a little likelier than all else."""

    def forward(self, tokens: Tokens, memory: None = None, cache: Any = None) -> torch.Tensor:
        scores = torch.full((*tokens.ids.shape, CODEC.size), 0.9)
        scores[..., CODEC.special_tokens.eos] = 1
        return scores


def test_the_start_does_not_make_the_stop_dearer_where_they_are_one_sign() -> None:
    codec = Text(CODEC.tokenizer, SpecialTokens(bos=(CODEC.special_tokens.eos,)))
    how = replace(GREEDY, repetition_penalty=2.0)
    ((one,),) = generate(Author(Ready(""), codec, 9), ["a"], how)
    assert one.finished
    assert one.ids == []


@pytest.mark.parametrize("prompts", [[""], ["a", ""]])
def test_an_empty_prompt_is_refused_where_no_sign_starts_a_text(prompts: list[str]) -> None:
    codec = Text(CODEC.tokenizer, SpecialTokens(bos=()))
    sentence = (
        "a model without a start sign goes on from a prompt of a character or more, an empty one "
        'came; a line break ("\\n") would do'
    )
    with pytest.raises(ValueError) as error:
        generate(Author(model(), codec, 8), prompts, GREEDY)
    assert str(error.value) == sentence
    with pytest.raises(ValueError) as error:
        stream(Author(model(), codec, 8), "", GREEDY)
    assert str(error.value) == sentence


def test_from_nothing_is_written_what_follows_the_start() -> None:
    ((one,),) = generate(Author(model(), CODEC, 8), [""], GREEDY)
    assert "".join(stream(Author(model(), CODEC, 8), "", GREEDY)) == one.text


def test_a_prompt_of_nothing_known_is_refused_where_no_sign_starts_it() -> None:
    words = Text(Text.train(["a b"], "word").tokenizer, SpecialTokens(bos=()))
    with pytest.raises(ValueError, match="at least one token, and none of this one is known"):
        generate(Author(model(), words, 8), [" "], GREEDY)


def test_a_beam_is_not_streamed() -> None:
    with pytest.raises(ValueError, match="a beam knows its text only at the end"):
        stream(Author(model(), CODEC, 8), "a", WAYS["beam"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -1}, r"a temperature is a finite number from 0 \(greedy\) up, got -1"),
        ({"beam": 2}, r"a temperature of 0\.8 draws; temperature=0 goes with a beam"),
        ({"temperature": 0, "top_k": 3}, "top_k, top_p and min_p narrow what is drawn; give a"),
        ({"temperature": 0, "min_p": 0.1}, "narrow what is drawn"),
        ({"temperature": 0, "beam": 2, "nbest": 3}, "3 best were asked for, a beam of 2 finds 2"),
        ({"max_new_tokens": 0}, "max_new_tokens is 1 or more, got 0"),
        ({"max_new_tokens": 3, "min_new_tokens": 4}, "min_new_tokens=4 is over max_new_tokens=3"),
        ({"repetition_penalty": 0}, "repetition_penalty is above 0, got 0"),
        ({"stop": ("",)}, r"stop lists texts of a character or more, .* got \(''"),
        ({"stop": "ab"}, "stop lists texts of a character or more, .* got 'ab'"),
        ({"stop": ("a",), "beam": 2, "temperature": 0}, "stop ends a text that is written once"),
        ({"top_p": 2}, "top_p is 1 at most, got 2"),
        ({"beam": 0}, "beam is 1 or more, got 0"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        LanguageDecoding(**settings)
