"""Texts to judge are read whole, or their cuts are counted."""

from dataclasses import replace
from typing import Any

import pytest
from films import DESIGN, LINES, task_of

from manyheads.codecs.text import BOS, EOS, Text
from manyheads.tasks.classification.predictions import Tags


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


def test_a_text_is_read_between_its_signs_and_a_second_after_it(codec: Text) -> None:
    task = task_of("classification", codec)
    a, b = codec.encode("a fine film"), codec.encode("dull")
    one, two = task.framer.frames(["a fine film", ("a fine film", "dull")])
    assert (one.ids, one.turn) == ([BOS, *a, EOS], len(a) + 2)
    assert (two.ids, two.turn) == ([BOS, *a, EOS, *b, EOS], len(a) + 2)


def test_a_codec_without_a_sign_to_open_reads_from_the_first_token() -> None:
    plain = Text.train(LINES, "word", 40)
    frame = task_of("classification", plain, pooling="first").framer.frames(["a film"])[0]
    assert frame.ids == [*plain.encode("a film"), EOS]


def test_of_texts_that_are_too_long_the_end_is_cut_and_counted(codec: Text) -> None:
    task = task_of("classification", codec, longest=11)
    long, short = list(range(10, 30)), [50, 51]
    assert task.framer.frame(0, long, None).ids == [BOS, *long[:9], EOS]
    assert task.framer.frame(0, long, None).cut == 11
    assert task.framer.frame(0, long, short).ids == [BOS, *long[:6], EOS, *short, EOS]
    assert task.framer.frame(0, short, long).ids == [BOS, *short, EOS, *long[:6], EOS]
    both = task.framer.frame(0, long, long)
    assert both.ids == [BOS, *long[:4], EOS, *long[:4], EOS]
    assert (both.turn, both.cut) == (6, 32)


def test_a_learned_position_limits_what_is_read(codec: Text) -> None:
    design = replace(DESIGN, position="Learned(8)")
    assert task_of("classification", codec, design=design).room == 8
    with pytest.raises(ValueError, match="2 signs around it and needs a token of its own, room"):
        task_of("classification", codec, longest=2)


def test_a_sentence_too_long_is_read_in_parts_and_no_word_is_lost(codec: Text) -> None:
    task = task_of("labelling", codec, longest=9)
    words = [word for line in LINES[:5] for word in line.split()]
    frames = task.framer.frames([words, [], ["film"]])
    assert max(len(frame.ids) for frame in frames) <= 9
    read = [i for frame in frames if frame.text == 0 for i in frame.ids[1:-1]]
    assert read == codec.encode(" ".join(words))
    assert [sum(len(f.words) for f in frames if f.text == i) for i in range(3)] == [
        len(words),
        0,
        1,
    ]
    predictions = task.decode(task.network(), [words, [], ["film"], "a film"])
    assert [len(one.tags) for one in predictions if isinstance(one, Tags)] == [len(words), 0, 1, 2]


def test_a_word_longer_than_all_room_is_cut(codec: Text) -> None:
    task = task_of("labelling", codec, longest=6)
    frames = task.framer.frames([["film", "x" * 30, "film"]])
    assert [len(frame.words) for frame in frames] == [1, 1, 1]
    assert sum(frame.cut for frame in frames) == len(codec.encode(" " + "x" * 30)) - 4


def test_only_a_network_that_tells_parts_apart_is_told_them(codec: Text) -> None:
    pairs = [("a fine film", "dull"), ("film", "")]
    task = task_of("classification", codec)
    frames = task.framer.frames(pairs)
    rows, turns = [f.ids for f in frames], [f.turn for f in frames]
    assert task.framer.lay_out(rows, turns).types is None
    told = task_of("classification", codec, design=replace(DESIGN, token_types=2))
    types = told.framer.lay_out(rows, turns).types
    assert types is not None
    width = len(rows[0])
    assert types.tolist() == [[0] * turns[0] + [1] * (width - turns[0]), [0] * width]
    assert len(told.decode(told.network(), pairs)) == 2


@pytest.mark.parametrize("wrong", ["one text", [("a", "b", "c")], [5]])
def test_what_is_no_text_is_refused(codec: Text, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"texts come as a list, got one|a text or a pair of text"):
        task_of("classification", codec).framer.frames(wrong)
