"""Running text as people have it."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from manyheads.data.documents import Document, hold_out, read_documents

TEXT = "Eins.\nZwei.\r\n\n \nDrei,\n\n\nvier.\n"


def texts(path: Path, split: Any = "file") -> list[tuple[str, int]]:
    return [(one.text, one.line) for one in read_documents([path], split)]


@pytest.mark.parametrize(
    ("split", "wanted"),
    [
        ("file", [("Eins.\nZwei.\n\n \nDrei,\n\n\nvier.\n", 1)]),
        ("line", [("Eins.", 1), ("Zwei.", 2), ("Drei,", 5), ("vier.", 8)]),
        ("blank", [("Eins.\nZwei.", 1), ("Drei,", 5), ("vier.", 8)]),
    ],
)
@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.txt", bytes),
        ("a", bytes),
        ("a.gz", gzip.compress),
        ("a.xz", lzma.compress),
        ("a.bz2", bz2.compress),
    ],
)
def test_a_file_is_cut_as_asked_however_packed(
    name: str, pack: Any, split: str, wanted: list[tuple[str, int]], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert texts(tmp_path / name, split) == wanted


def test_the_last_newline_is_there_only_if_it_was(tmp_path: Path) -> None:
    for text in ("a\nb", "a\nb\n", "\n\na\u2028b"):
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        assert texts(tmp_path / "a.txt") == [(text, 1)]


def test_a_paragraph_that_begins_or_ends_the_file_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\na\n\nb\nc", encoding="utf-8")
    assert texts(tmp_path / "a.txt", "blank") == [("a", 3), ("b\nc", 5)]


def test_a_folder_stands_for_its_files_in_order_without_hidden_and_blank_ones(
    tmp_path: Path,
) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.txt", ".git/x.txt", "b/.hidden", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(" \n" if name == "c.txt" else name, encoding="utf-8")
    assert [*read_documents([tmp_path])] == [
        Document(name, tmp_path / name, 1) for name in ("a.txt", "b/1.txt", "b/2.txt")
    ]


def test_a_hidden_folder_that_was_named_is_read(tmp_path: Path) -> None:
    (tmp_path / ".here").mkdir()
    (tmp_path / ".here" / "a.txt").write_text("a", encoding="utf-8")
    assert texts(tmp_path / ".here") == [("a", 1)]


@pytest.mark.parametrize("split", ["file", "line", "blank"])
def test_a_record_is_a_document_however_files_are_split(split: str, tmp_path: Path) -> None:
    rows = [{"text": "a\n\nb", "content": "no"}, {"content": "c"}, {"document": ""}, {"text": "d"}]
    packed = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert texts(tmp_path / "a.jsonl.gz", split) == [("a\n\nb", 1), ("c", 2), ("d", 4)]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b" \n\n", r"there is no text in .*a\.txt: all of it is blank"),
        ("a.txt", b"gut\n\xe4\n", r"a\.txt:2: byte 1 is 0xe4, which is not UTF-8"),
        (
            "a.gz",
            gzip.compress(TEXT.encode() * 99, mtime=0)[:50],
            r"a\.gz is cut short or is not what",
        ),
        (
            "a.jsonl",
            b'{"text": "a"}\n{"title": "b", "id": 1}',
            r"a\.jsonl:2: no text under text or content or document; its keys are title, id",
        ),
        ("a.jsonl", b'{"text": 3}', r"a\.jsonl:1: no text under"),
        ("a.jsonl", b'{"text": ', r"a\.jsonl:1:10: not JSON"),
    ],
)
def test_what_is_no_text_is_refused_by_its_place(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        texts(tmp_path / name)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is a folder without files; text files in it would"):
        texts(tmp_path / "empty")
    with pytest.raises(ValueError, match="comes from files and folders, none were given"):
        next(read_documents([]))
    with pytest.raises(ValueError) as error:
        texts(tmp_path, "page")
    assert str(error.value) == (
        "a file is split by file, line, blank, or by a separator with other signs than letters "
        "and digits, such as <|endoftext|>, got 'page'"
    )
    with pytest.raises(FileNotFoundError, match=r"there is no file .*missing\.txt"):
        texts(tmp_path / "missing.txt")


def test_one_text_is_cut_at_a_share_of_its_characters() -> None:
    text = "".join(chr(97 + i % 26) for i in range(1115394))
    train, valid = hold_out([text], 0.1)
    assert len(train[0]) == 1003854  # as tiny Shakespeare is cut elsewhere
    assert train[0] + valid[0] == text


@pytest.mark.parametrize(
    ("sizes", "share", "held"),
    [
        ([10] * 10, 0.1, 1),
        ([10] * 10, 0.3, 3),
        ([10] * 10, 0.06, 1),
        ([10] * 10, 0.99, 9),
        ([50, 30, 15, 5], 0.19, 2),
        ([9, 1], 0.06, 1),
    ],
)
def test_of_many_the_last_that_come_closest_are_held_out(
    sizes: list[int], share: float, held: int
) -> None:
    all_texts = [str(i % 10) * size for i, size in enumerate(sizes)]
    train, valid = hold_out(all_texts, share)
    assert train + valid == all_texts
    assert len(valid) == held


@pytest.mark.parametrize(
    ("sizes", "share", "held"),
    [([1, 99], 0.1, 10), ([35, 65], 0.1, 10), ([10] * 10, 0.01, 1), ([35, 65], 0.5, 65)],
)
def test_a_last_text_far_longer_than_the_share_is_cut_where_it_begins(
    sizes: list[int], share: float, held: int
) -> None:
    all_texts = [str(i % 10) * size for i, size in enumerate(sizes)]
    train, valid = hold_out(all_texts, share)
    assert "".join([*train, *valid]) == "".join(all_texts)
    assert [len(text) for text in valid] == [held]
    assert hold_out([*all_texts, " " * 999], share)[1] == [" " * 999]  # nothing is in a half


def test_a_text_too_short_to_hold_some_out_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"of 1 characters is too short to hold out a share of 0\.1"
    ):
        hold_out(["a"], 0.1)
    with pytest.raises(ValueError, match="is over 0 and under 1, got 1"):
        hold_out(["a", "b"], 1)
    with pytest.raises(ValueError, match="it has no documents"):
        hold_out([], 0.5)


def test_documents_stand_between_separators(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n\nb\n<|endoftext|>\nc<|endoftext|>d\n<|endoftext|>\n")
    assert texts(tmp_path / "a.txt", "<|endoftext|>") == [("a\n\nb", 1), ("c", 5), ("d", 5)]


def test_a_separator_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ValueError) as error:
        texts(tmp_path / "a.txt", "<|end|>")
    assert str(error.value) == (
        f"{tmp_path / 'a.txt'}: '<|end|>' was to separate its documents, and is not in it"
    )
