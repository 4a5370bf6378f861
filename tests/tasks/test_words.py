"""Attention between pieces, gathered into words."""

import torch

from manyheads.tasks.seq2seq.alignment import link_words, sum_pieces
from manyheads.tasks.words import pieces_of, words_of


def test_pieces_belong_to_the_word_they_end_in() -> None:
    assert words_of(["Ein", " Hu", "nd"]) == [0, 1, 1]
    assert words_of([" ", "Ein", " ", "Hund", "."]) == [-1, 0, 0, 1, 1]
    assert words_of([]) == []


def test_rows_of_a_word_are_summed() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert sum_pieces(rows, [0, 1, 1]).tolist() == [[1, 2], [8, 10]]
    assert sum_pieces(rows, [-1, 0, 0]).tolist() == [[8, 10]]
    assert sum_pieces(rows[:0], []).shape == (0, 2)


def test_each_word_written_finds_the_word_its_pieces_looked_at() -> None:
    # Read "Ein Hu|nd rennt", written "A dog run|s", and the sign at either end.
    read, written = ["Ein", " Hu", "nd", " rennt"], ["A", " dog", " run", "s"]
    looks = torch.tensor(
        [
            [0.6, 0.1, 0.1, 0.1, 0.1],
            [0.4, 0.3, 0.3, 0.0, 0.0],  # no piece as much as "Ein", both together more
            [0.0, 0.0, 0.0, 0.2, 0.8],  # the sign at the end is no word
            [0.0, 0.3, 0.3, 0.4, 0.0],  # "run" and "s" together: 0.6 for each, see below
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    looks[3, 3] = 0.5
    assert link_words([looks[None]], words_of(read), words_of(written)) == [(0, 0), (1, 1), (2, 2)]


def test_heads_and_layers_are_averaged() -> None:
    read, written = [0, 1], [0]
    one = torch.tensor([[[0.9, 0.1, 0.0]], [[0.4, 0.6, 0.0]]])  # (H, 1, 3)
    other = torch.tensor([[[0.1, 0.9, 0.0]], [[0.1, 0.9, 0.0]]])
    assert link_words([one], read, written) == [(0, 0)]
    assert link_words([one, other], read, written) == [(1, 0)]


def test_nothing_written_is_linked_to_nothing() -> None:
    assert link_words([torch.ones(2, 1, 3)], [0, 1], []) == []
    assert link_words([torch.ones(2, 2, 1)], [], [0]) == []


def test_without_spaces_each_piece_is_a_word_and_half_a_character_is_of_the_next() -> None:
    assert pieces_of(["猫", "", "", "が", "いる"]) == ([0, 1, 1, 1, 2], ["猫", "が", "いる"])
    assert pieces_of(["猫", ""]) == ([0, -1], ["猫"]), "what nothing completes is no word"
    assert pieces_of([]) == ([], [])
