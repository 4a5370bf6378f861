"""TextData text before the first step."""

from pathlib import Path

import pytest

from manyheads.codecs.text import Text
from manyheads.data.shards import Shard
from manyheads.tasks.language.corpus import (
    BYTES,
    TextCorpus,
    cut_lines,
    gather_texts,
    prepare_texts,
)
from manyheads.tasks.language.settings import TextData, VocabularyKind
from manyheads.training.run import CORPUS

TEXTS = TextCorpus(["ein Hund läuft\n", "ein Hund"], ["läuft ein Hund\n"])


def files_in(folder: Path, *texts: str) -> tuple[Path, ...]:
    paths = [folder / f"{i}.txt" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return tuple(paths)


def test_the_last_of_a_text_is_held_out(tmp_path: Path) -> None:
    text = "0123456789" * 10
    gathered = gather_texts(TextData(files_in(tmp_path, text), held_out=0.25))
    assert (gathered.train, gathered.valid) == ([text[:75]], [text[75:]])


def test_where_a_text_to_validate_on_is_given_nothing_is_held_out(tmp_path: Path) -> None:
    one, other = files_in(tmp_path, "a text\n", "another\n")
    assert gather_texts(TextData((one,), (other,))) == TextCorpus(["a text\n"], ["another\n"])


def test_a_line_may_be_a_document(tmp_path: Path) -> None:
    (path,) = files_in(tmp_path, "one\n\ntwo\nthree\n")
    gathered = gather_texts(TextData((path,), (path,), split="line"))
    assert gathered.train == ["one", "two", "three"]


@pytest.mark.parametrize("framed", [True, False])
def test_documents_are_laid_down_as_numbers_that_say_them_again(
    tmp_path: Path, framed: bool
) -> None:
    run, codec = tmp_path, Text.train(TEXTS.train, "byte", masked=not framed)
    prepare_texts(TEXTS, codec, run, framed)
    kept = Text.load(run / "tokenizer.json")
    assert kept.special_tokens == codec.special_tokens
    for name, texts in (("train", TEXTS.train), ("valid", TEXTS.valid)):
        shard = Shard(run / "data" / name)
        assert [kept.render(shard[i].tolist()) for i in range(len(shard))] == texts
        special = [kept.special_tokens.bos[0], kept.special_tokens.eos] if framed else []
        assert [i for i in shard[0].tolist() if i in kept.special_tokens.skipped] == special
    held = int((run / "data" / BYTES).read_text(encoding="utf-8"))
    assert held == len("läuft ein Hund\n".encode()) == 16
    assert (run / CORPUS).read_text(encoding="utf-8") == (
        "2 documents of 23 characters to train on, 15 characters to validate on\n"
    )


def test_one_document_is_not_called_several() -> None:
    assert str(TextCorpus(["abc"], ["d"])).startswith("1 document of 3 characters to train on")


def test_of_a_last_document_that_is_most_of_the_corpus_a_share_is_held_out(
    tmp_path: Path,
) -> None:
    for name, size in (("a.txt", 35), ("b.txt", 65)):
        (tmp_path / name).write_text("x" * size, encoding="utf-8")
    texts = tuple(tmp_path / name for name in ("a.txt", "b.txt"))
    told = "2 documents of 90 characters to train on, 10 characters to validate on"
    assert str(gather_texts(TextData(texts))) == told


def test_a_long_text_is_learned_from_in_pieces_that_lose_nothing() -> None:
    text = "".join(f"line {i}\n" for i in range(25)) + "no end"
    cut = [*cut_lines([text, "short"], lines=10)]
    assert [piece.count("\n") for piece in cut] == [10, 10, 5, 0]
    assert "".join(cut) == f"{text}short"


def test_tokens_are_reckoned_by_what_a_token_is() -> None:
    kinds: tuple[VocabularyKind, ...] = ("character", "byte", "bpe")
    corpora = [TextCorpus(["a" * 1000], ["b"], kind) for kind in kinds]
    assert [corpus.tokens for corpus in corpora] == [1000, 1000, 250]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"text": ()}, "nothing to learn from: give text, a file or a folder"),
        ({"held_out": 1.0}, "held_out is a share between 0 and 1, got 1.0"),
        ({"context": 3}, "context is 4 or more, got 3"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        TextData(**{"text": (Path("book.txt"),), **settings})  # type: ignore[arg-type]
    assert str(error.value) == sentence


def test_a_text_to_validate_on_that_is_empty_is_refused(tmp_path: Path) -> None:
    codec = Text.train(TEXTS.train, "byte")
    with pytest.raises(ValueError) as error:
        prepare_texts(TextCorpus(["a text"], [""]), codec, tmp_path, framed=True)
    assert str(error.value) == "there is nothing to validate on: the held-out text has no bytes"


def test_a_model_that_came_from_elsewhere_is_no_text() -> None:
    with pytest.raises(ValueError) as error:
        gather_texts(TextData(imported=Path("gpt2")))
    assert str(error.value) == "nothing to learn from: gpt2 is a model, not a text"
