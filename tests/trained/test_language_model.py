"""A trained language model asked from Python."""

import dataclasses
import inspect
import math
from dataclasses import replace
from typing import Any

import books
import pytest

from manyheads.codecs.text import Text
from manyheads.models import load
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.model import LanguageModel, Scored
from manyheads.tasks.language.task import LanguageTask


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(books.language(tmp_path_factory.getbasetemp()), "cpu")


def test_one_prompt_or_several_are_written_on_from(model: LanguageModel) -> None:
    prompts = ["the old", "a dog", "the"]
    several = model.generate(prompts, max_new_tokens=9, temperature=0)
    alone = [model.generate(prompt, max_new_tokens=9, temperature=0) for prompt in prompts]
    assert several == alone
    assert all(several)


def test_a_stream_takes_the_keywords_of_generate(model: LanguageModel) -> None:
    how: Any = {"max_new_tokens": 9, "temperature": 0.7, "seed": 3}
    assert "".join(model.stream("the", **how)) == model.generate("the", **how)


def test_what_is_no_text_is_refused(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match="a text or a list of texts would do, got 3"):
        model.generate(3)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "how",
    [
        LanguageDecoding(max_new_tokens=50, seed=3),  # past the context
        LanguageDecoding(max_new_tokens=20, temperature=0),
        LanguageDecoding(max_new_tokens=20, stop=("s", "e")),
        LanguageDecoding(max_new_tokens=20, repetition_penalty=1.5, top_p=0.9),
    ],
)
def test_in_pieces_it_is_the_same_text(model: LanguageModel, how: LanguageDecoding) -> None:
    (((best, *_),)) = model.write(["the old dog"], how)
    assert "".join(model.stream("the old dog", how)) == best.text


def test_each_prompt_draws_by_its_number_and_the_seed(model: LanguageModel) -> None:
    one, same = (model.generate(["the"] * 3, max_new_tokens=9, seed=5) for _ in range(2))
    assert one == same
    assert len(set(one)) == 3
    assert model.generate(["the"] * 3, max_new_tokens=9, seed=6) != one


def test_what_it_writes_it_finds_as_likely_as_it_said(model: LanguageModel) -> None:
    ((best,),) = model.write(["the old"], LanguageDecoding(max_new_tokens=9, min_new_tokens=9))
    scored = model.score("the old" + best.text)
    assert scored.logs[len("the old") :] == pytest.approx(best.logs, abs=1e-4)


def test_a_text_is_scored_by_token(model: LanguageModel) -> None:
    scored = model.score("the old dog")
    assert "".join(scored.pieces) == "the old dog"
    assert len(scored.logs) == scored.bytes == 11
    assert model.score(["the old dog"]) == [scored]
    assert scored.bits_per_byte == pytest.approx(-sum(scored.logs) / math.log(2) / 11)


def test_what_no_number_holds_is_infinite() -> None:
    assert Scored(["a"], [-800.0], 1).perplexity == math.inf
    assert Scored(["a"], [-1.0], 1).perplexity == pytest.approx(math.e)


def test_mistakes_are_told(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match="the prompt has 82 tokens and the context 32"):
        model.generate("the" * 27)
    with pytest.raises(ValueError, match="the prompt has 82 tokens and the context 32"):
        model.stream("the" * 27)  # before the first piece is asked for
    with pytest.raises(ValueError, match="a text to score has at least one character"):
        model.score("")
    with pytest.raises(ValueError, match="a stride is 1 to the context of 32 tokens, got 40"):
        model.score("the", stride=40)
    with pytest.raises(ValueError, match=r"the text: '\\ud800' is half of a character"):
        model.score("\ud800")
    for asked in (model.score, model.generate):
        with pytest.raises(ValueError, match=r"the (text|prompt) is a float, a str would do"):
            asked(["the", math.nan])  # type: ignore[list-item]


def test_every_option_is_named_with_its_default() -> None:
    named = {
        name: one.default
        for name, one in inspect.signature(LanguageModel.generate).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    options = {field.name: field.default for field in dataclasses.fields(LanguageDecoding)}
    del options["nbest"]  # `write` gives several
    assert named == options


def test_a_beam_does_not_sample_and_has_its_usual_width(model: LanguageModel) -> None:
    how = {"max_new_tokens": 12}
    plain = LanguageDecoding(temperature=0.0, beam=5, **how)
    ((wanted, *_),) = model.write(["the"], plain)
    assert model.generate("the", beam=5, **how) == wanted.text
    assert model.generate("the", strategy="beam", **how) == wanted.text
    with pytest.raises(ValueError, match="a beam searches and a temperature"):
        model.generate("the", beam=5, temperature=0.5)


def test_an_option_of_another_kind_is_refused(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"^beam is a whole number, got '3'$"):
        model.generate("the", beam="3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^truncate is True or False, got 1$"):
        model.generate("the", truncate=1)  # type: ignore[arg-type]


def test_a_text_is_scored_after_what_is_given(model: LanguageModel) -> None:
    whole, after = model.score("the old dog"), model.score(" dog", given="the old")
    assert after.pieces == [" ", "d", "o", "g"]
    assert after.logs == pytest.approx(whole.logs[-4:], abs=1e-5)
    assert after.bytes == 4
    assert model.score(" dog").logs != pytest.approx(after.logs, abs=1e-3)


@pytest.mark.parametrize(("given", "tokens"), [("", "he old"), ("ü", "the old")])
def test_without_a_start_sign_only_bytes_that_are_scored_count(
    model: LanguageModel, given: str, tokens: str
) -> None:
    codec = model.task.codec
    unsigned = Text(codec.tokenizer, replace(codec.special_tokens, bos=()))
    task = LanguageTask(model.task.recipe, unsigned)
    silent = LanguageModel(task, model.network, "silent")
    scored = silent.score("the old", given=given)
    assert "".join(scored.pieces) == tokens
    assert scored.bytes == len(scored.logs) == len(tokens)


def test_of_nothing_scored_nothing_is_said() -> None:
    assert math.isnan(Scored([], [], 0).bits_per_byte)
    assert math.isnan(Scored([], [], 0).perplexity)
    assert math.isnan(Scored(["a"], [math.nan], 1).perplexity)
