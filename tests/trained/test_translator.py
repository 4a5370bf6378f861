"""A trained model asked from Python."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from typed import learned

from manyheads.codecs.text import Text
from manyheads.data.batches import FIRST, LONG_CHARACTERS, gather_texts
from manyheads.decoding.config import BEAM, DecodingConfig
from manyheads.models import load
from manyheads.tasks.seq2seq.model import MOST_TOKENS, NOTHING, PART_TOKENS, Translator
from manyheads.tasks.words import text_of_each, words_of_pieces


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(learned(tmp_path_factory.getbasetemp()), "cpu")


def test_a_list_of_texts_is_translated(model: Translator) -> None:
    assert model.translate(["ba du", "", "nu ki"], beam=3) == ["one two", "", "six three"]


def test_blank_lines_change_nothing_that_is_drawn_for_others(model: Translator) -> None:
    how = DecodingConfig(temperature=3.0, seed=5)
    full = [best.text for best, *_ in model.write(["ba du", "ki", "lo me"], how)]
    some = [best.text for best, *_ in model.write(["ba du", "", "lo me"], how)]
    assert some == [full[0], "", full[2]]


def test_nothing_more_is_read_than_is_asked_for(model: Translator) -> None:
    asked = iter(["ba", "du", "ki"])
    written = model.write(asked, at_once=1)
    next(written)
    assert next(asked) == "du"


def test_what_attention_shows_has_a_row_for_each_piece(model: Translator) -> None:
    shown = model.attention("ba du", "one two")
    assert tuple(shown.weights.shape) == (2, 3, 3)
    assert torch.allclose(shown.weights.sum(-1), torch.ones(2, 3))


def test_each_word_is_aligned_to_one_that_was_read(model: Translator) -> None:
    ((best,),) = model.write(["ba du"])
    assert [i for _, i in model.alignment("ba du", best)] == [0, 1]
    assert text_of_each(
        model.task.codecs.source, model.task.codecs.source.encode("ba what du")
    ) == [
        "ba",
        " <unk>",
        " du",
    ]
    assert model.alignment("", NOTHING) == []


def test_text_without_spaces_is_aligned_by_piece() -> None:
    lines = ["猫がいる。", "猫が好き。", "私は猫が好き。"] * 20
    codec = Text.train([*lines, "I like cats."], "bpe", 280)
    read, names = words_of_pieces(codec, codec.encode("猫と犬がいる。"))
    assert "".join(names) == "猫と犬がいる。"
    assert len(names) > 3
    assert [*dict.fromkeys(read)] == [*range(len(names))], "in order, none of them left out"
    _, words = words_of_pieces(codec, codec.encode("I like cats, 猫."))
    assert words == ["I", "like", "cats,", "猫."]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"beam": "3"}, "beam is a whole number, got '3'"),
        ({"beam": 2.5}, "beam is a whole number, got 2.5"),
        ({"beam": True}, "beam is a whole number, got True"),
        ({"temperature": "hot"}, "temperature is a number, got 'hot'"),
        ({"max_new_tokens": None}, "max_new_tokens is a whole number, got None"),
    ],
)
def test_an_option_of_another_kind_is_refused(
    model: Translator, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        model.translate(["ba"], **asked)
    assert str(error.value) == sentence
    with pytest.raises(ValueError, match=r"^nbest is a whole number, got '3'$"):
        model.translate_nbest(["ba"], "3")  # type: ignore[arg-type]


def test_python_searches_as_widely_as_the_command_line(
    model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[DecodingConfig] = []
    monkeypatch.setattr(model, "write", lambda texts, how, **_: asked.append(how) or [])
    model.translate(["ba"])
    model.translate(["ba"], temperature=0.5)
    model.translate_nbest(["ba"], 3)
    assert [how.beam for how in asked] == [BEAM, 1, BEAM]


def test_a_layer_that_is_not_there_is_refused(model: Translator) -> None:
    for layer in (9, -2):
        with pytest.raises(ValueError) as error:
            model.attention("ba du", layer=layer)
        assert str(error.value) == (
            f"layers are numbered 0 to 0, the last also -1; {layer} was asked for"
        )
    with pytest.raises(ValueError, match=r"^layer is a whole number, got '1'$"):
        model.attention("ba du", layer="1")  # type: ignore[arg-type]


def test_without_attention_only_looking_at_it_is_refused(
    model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.seq2seq.model.record_cross_attention", lambda *_: [])
    ((best,),) = model.write(["ba du"])
    assert model.alignment("ba du", best) == []
    with pytest.raises(
        ValueError, match=r"^this network writes without attention: there is nothing to look at$"
    ):
        model.attention("ba du")


def test_what_cannot_be_read_is_refused_after_what_came_before(model: Translator) -> None:
    too_long = "ba " * (MOST_TOKENS + 1)
    written = model.write(["ba", "du", too_long, "ki"], long="refuse")
    assert len([next(written), next(written)]) == 2
    with pytest.raises(ValueError, match=r"^line 3 has 4,097 tokens, 4,096 are the most"):
        next(written)
    with pytest.raises(ValueError, match=r"^texts are str, number 2 is a int$"):
        list(model.write(["ba", 7]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^line 1: '.ud800' is half of a character"):
        list(model.write(["\ud800"]))


def test_one_text_gives_one_and_a_list_gives_a_list(model: Translator) -> None:
    assert model.translate("ba du", beam=3) == "one two"
    assert model.translate(["ba du"], beam=3) == ["one two"]
    assert model.translate_nbest(["ba du"], 2) == [model.translate_nbest("ba du", 2)]


def test_sentences_on_one_line_are_written_one_by_one(model: Translator) -> None:
    line, wanted = "ba du\nnu ki\nlo me", "one two\nsix three\nfour five"
    assert model.translate([line, "ba du"]) == [wanted, "one two"]
    (whole,) = model.translate([line], long="truncate")
    assert whole.split() != wanted.split(), "two words a line are all that it has learned"
    ((best, *others),) = model.translate_nbest([line], 3)
    alone = [one for (one,) in model.translate_nbest(line.split("\n"), 1)]
    assert best.text == wanted
    assert best.log_prob == pytest.approx(sum(one.log_prob for one in alone), abs=1e-4)
    assert best.score == pytest.approx(best.log_prob / 9, abs=1e-5)
    assert [best.score, *(one.score for one in others)] == sorted(
        (one.score for one in (best, *others)), reverse=True
    )
    assert len({one.text for one in (best, *others)}) == 3
    aligned = model.align(line, best)
    assert aligned.read == ["ba", "du", "nu", "ki", "lo", "me"]
    assert aligned.written == best.text.split()
    assert [j for _, j in aligned.links] == [0, 1, 2, 3, 4, 5]
    assert [i // 2 for i, _ in aligned.links] == [0, 0, 1, 1, 2, 2], "each in its own sentence"


def test_a_prefix_begins_the_first_sentence_alone(model: Translator) -> None:
    (text,) = model.translate(["ba du\nki lo"], prefix="six", max_new_tokens=2)
    assert text.startswith("six")
    assert "six" not in text.split("\n")[1]


def test_a_text_of_any_length_is_read_in_parts_or_its_beginning_told(model: Translator) -> None:
    many = "ba " * (2 * PART_TOKENS)
    ((best,),) = model.write([many], DecodingConfig(max_new_tokens=1))
    assert [len(part.ids) for part, _ in best.parts] == [PART_TOKENS] * 2
    told: list[str] = []
    too_long = "ba " * (MOST_TOKENS + 1)
    short = DecodingConfig(max_new_tokens=1)
    ((best,), (other,)) = model.write([too_long, "ba"], short, long="truncate", told=told.append)
    assert [len(part.ids) for part, _ in best.parts] == [MOST_TOKENS]
    assert told == ["line 1 has 4,097 tokens: the first 4,096 are read"]
    assert other.text == "one"
    with pytest.raises(ValueError, match=r"^long is one of split, truncate, refuse, got 'cut'$"):
        model.translate(["ba"], long="cut")  # type: ignore[arg-type]


def test_a_long_text_keeps_none_before_it_waiting() -> None:
    long = "x" * (LONG_CHARACTERS + 1)
    assert [len(some) for some in gather_texts(iter(["x", "x", long, "x", "x"]), 200)] == [2, 1, 2]


def test_texts_come_together_a_few_at_first() -> None:
    sizes = [len(some) for some in gather_texts(iter(["x"] * 1000), 200)]
    assert sizes == [FIRST, 4 * FIRST, 200, 200, 200, 200, 120]


def test_no_text_waits_for_one_that_is_not_ready() -> None:
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for i in range(FIRST):
            taken.append(i)
            yield "x"

    sizes = [len(some) for some in gather_texts(texts(), 200, lambda: len(taken) not in (1, 3))]
    assert sizes == [1, 2, FIRST - 3]


def test_a_mistake_comes_after_the_texts_before_it() -> None:
    def spoiled() -> Iterator[str]:
        yield "a"
        raise ValueError("spoiled")

    parts = gather_texts(spoiled(), 8)
    assert next(parts) == ["a"]
    with pytest.raises(ValueError, match="spoiled"):
        next(parts)


def test_a_model_is_found_by_the_name_it_is_built_in_under(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "manyheads.catalog.BUILT_IN", learned(tmp_path_factory.getbasetemp()).parent
    )
    assert load("run", "cpu").name == "run"
    with pytest.raises(
        ValueError, match=r"^there is no model 'x': it is no folder; built in: run$"
    ):
        load("x")
