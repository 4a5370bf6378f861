"""Files as people have them."""

import bz2
import gzip
import lzma
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from installed import install

from manyheads.data.documents import read_documents
from manyheads.data.labelled import Labelled, read_labelled_file
from manyheads.data.sources import Example, read_aligned, read_columns, read_lines, read_records
from manyheads.tasks.seq2seq.corpus import read_pairs

TEXT = "eins\nzwei\u2028noch zwei\r\n\nvier"
LINES = ["eins", "zwei\u2028noch zwei", "", "vier"]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.txt", bytes), ("a.gz", gzip.compress), ("a.xz", lzma.compress), ("a.bz2", bz2.compress)],
)
def test_lines_end_at_newlines_alone_however_packed(
    name: str, pack: object, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(pack(TEXT.encode()))  # type: ignore[operator]
    assert list(read_lines(tmp_path / name)) == LINES


def test_a_mark_before_the_first_line_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(BOM_UTF8 + TEXT.encode())
    assert list(read_lines(tmp_path / "a.txt")) == LINES
    (tmp_path / "a.jsonl").write_bytes(BOM_UTF8 + b'{"a": 1}')
    assert list(read_records(tmp_path / "a.jsonl")) == [(1, {"a": 1})]
    (tmp_path / "empty.txt").write_bytes(b"")
    assert list(read_lines(tmp_path / "empty.txt")) == []


def test_what_is_not_utf8_is_named_with_its_line_and_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"gut\nschlecht: \xe4\n")
    with pytest.raises(ValueError, match=r"a\.txt:2: byte 11 is 0xe4, which is not UTF-8"):
        list(read_lines(tmp_path / "a.txt"))


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress)])
def test_a_packed_file_that_is_cut_short_is_refused(
    name: str, pack: object, tmp_path: Path
) -> None:
    packed = pack(TEXT.encode() * 1000)  # type: ignore[operator]
    for content in (packed[: len(packed) // 2], b"not packed at all"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="is cut short or is not what its name says"):
            list(read_lines(tmp_path / name))


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder, a file of lines was asked for"):
        list(read_lines(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(read_lines(tmp_path / "none"))


def test_aligned_files_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "de").write_text("eins\nzwei\n")
    (tmp_path / "en").write_text("one\ntwo\n")
    found = list(read_aligned(tmp_path / "de", tmp_path / "en"))
    assert found == [Example("eins", "one", 1), Example("zwei", "two", 2)]


def test_misaligned_files_are_refused_with_both_counts_and_a_place(tmp_path: Path) -> None:
    (tmp_path / "de").write_text("eins\n\nzwei\ndrei\n")
    (tmp_path / "en").write_text("one\ntwo\nthree\n")
    with pytest.raises(ValueError, match=r"has 4 lines and .*en 3, but") as error:
        list(read_aligned(tmp_path / "de", tmp_path / "en"))
    assert str(error.value).endswith(
        "line 4 has no partner, and line 2 is empty in only one of them"
    )


def test_columns_and_objects_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("eins\tone\tnote\nzwei\ttwo\n")
    assert [e[:2] for e in read_columns(tmp_path / "a.tsv")] == [("eins", "one"), ("zwei", "two")]
    (tmp_path / "a.jsonl").write_text('{"dialogue": "lang", "summary": "kurz"}\n\n')
    assert list(read_records(tmp_path / "a.jsonl")) == [
        (1, {"dialogue": "lang", "summary": "kurz"})
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{]", r"a\.jsonl:1:2: not JSON"),
        ("[1]", r"a\.jsonl:1: a JSON object was asked for, got a list"),
    ],
)
def test_what_is_not_an_object_is_refused(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        list(read_records(tmp_path / "a.jsonl"))


def test_a_line_without_a_tab_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("eins one\n")
    with pytest.raises(ValueError, match=r"a\.tsv:1: a source, a tab and a target"):
        list(read_columns(tmp_path / "a.tsv"))


INI = """
from configparser import ConfigParser


def read(path):
    held = ConfigParser()
    held.read(path, encoding="utf-8")
    for number, name in enumerate(held.sections(), start=1):
        yield number, dict(held[name])
"""


def test_a_format_of_files_from_outside_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ini"
    path.write_text("[one]\ntext = a fine film\nlabel = good\ntranslation = ein feiner Film\n")
    with pytest.raises(ValueError, match=r"come as \.tsv, \.csv or \.jsonl, this is '\.ini'"):
        list(read_labelled_file(path))
    install(tmp_path, monkeypatch, INI, "manyheads.formats", "ini = my_ini:read")
    assert [document.text for document in read_documents([path], "line")] == ["a fine film"]
    assert list(read_labelled_file(path)) == [Labelled("a fine film", "good", 1)]
    (pair,) = read_pairs("translation", None, None, path)
    assert (pair.source, pair.target) == ("a fine film", "ein feiner Film")
