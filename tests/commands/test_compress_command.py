"""compress and decompress for models of text and of music, as a person types them."""

from pathlib import Path

import books
import numpy as np
import paintings
import pytest
import tunes
from typed import Command, Refuses

from manyheads.data.packed import read_packed
from manyheads.models import load

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.language(tmp_path_factory.getbasetemp())


@pytest.fixture
def text(writer: Path, tmp_path: Path) -> Path:
    """As long as several rows of the context, and no whole number of them."""
    read = (writer.parent / "book.txt").read_text(encoding="utf-8")
    (tmp_path / "book.txt").write_text(read[:650], encoding="utf-8")
    return tmp_path / "book.txt"


def test_a_text_comes_out_letter_by_letter(
    manyheads: Command, writer: Path, text: Path, tmp_path: Path
) -> None:
    packed, again = tmp_path / "book.mh", tmp_path / "again.txt"
    done = manyheads("compress", text, "--model", writer, "--out", packed, *CPU)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{packed}: {packed.stat().st_size} of ")
    done = manyheads("decompress", "--out", again, packed, *CPU)
    assert done.code == 0, done.err
    assert again.read_bytes() == text.read_bytes()
    model, (head, parts) = load(writer, "cpu"), read_packed(packed)
    assert sum(head["lengths"]) > head["lengths"][0] > 1
    read = text.read_text()
    bits = -sum(model.score(read, stride=model.task.context).logs) / np.log(2)
    assert 8 * sum(len(part.data) for part in parts) < 1.2 * bits + 64


def test_what_is_decompressed_is_not_written_over(
    manyheads: Command, refuses: Refuses, writer: Path, text: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "book.mh"
    manyheads("compress", text, "--model", writer, "--out", packed, *CPU)
    before = packed.read_bytes()
    sentence = f"--out names a file to write, and {packed} is read; another would do"
    refuses(sentence, "decompress", packed, "--out", packed, *CPU)
    assert packed.read_bytes() == before


def test_what_compress_did_not_write_is_not_decompressed(refuses: Refuses, tmp_path: Path) -> None:
    sentence = "what is to be decompressed? what `compress` wrote would do: digits.mh"
    refuses(sentence, "decompress", "--out", tmp_path / "again")
    refuses(sentence, "decompress", tmp_path / "picture.png", "--out", tmp_path / "again")


def test_a_damaged_text_is_refused(
    manyheads: Command, refuses: Refuses, writer: Path, text: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "book.mh"
    manyheads("compress", text, "--model", writer, "--out", packed, *CPU)
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    refuses(
        "part 2 does not come out as it went in: the file is damaged; nothing is written",
        *("decompress", packed, "--out", tmp_path / "again.txt", *CPU),
    )
    assert not (tmp_path / "again.txt").exists()
    (tmp_path / "none.txt").touch()
    ask = ("--model", writer, "--out", packed, *CPU)
    refuses(f"{tmp_path}/none.txt is empty", "compress", tmp_path / "none.txt", *ask)
    (tmp_path / "other.txt").write_text("QUIZ")
    refuses(
        "the vocabulary of the model does not give this text back as it is; one of bytes, "
        "codec.kind: byte, gives back every text",
        *("compress", tmp_path / "other.txt", *ask),
    )
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    refuses(f"{tmp_path}/bytes.txt is no text in UTF-8", "compress", tmp_path / "bytes.txt", *ask)


# ---- music -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def choir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tunes.chorales(tmp_path_factory.getbasetemp())


def test_music_comes_out_note_by_note(manyheads: Command, choir: Path, tmp_path: Path) -> None:
    """Pieces of several lengths, of which one is longer than the context of 128 tokens."""
    folder, packed, again = tmp_path / "songs", tmp_path / "songs.mh", tmp_path / "again"
    folder.mkdir()
    for steps in (8, 40, 17):
        tunes.midi(tunes.chorale(steps, seed=steps), folder / f"{steps}.mid")
    done = manyheads("compress", folder, "--model", choir, "--out", packed, *CPU)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{packed}: 3 pieces, ")
    done = manyheads("decompress", packed, "--out", again, *CPU)
    assert (done.code, done.out) == (0, f"{again}: 3 pieces, note by note\n"), done.err
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
    assert sorted(read_packed(packed)[0]["lengths"]) == [32, 32, 68, 128]


def test_music_that_a_model_would_change_is_refused_unless_that_is_wanted(
    manyheads: Command, refuses: Refuses, choir: Path, tmp_path: Path
) -> None:
    song = tunes.midi(tunes.stretch(tunes.chorale(8), 1.01), tmp_path / "slow.mid")
    packed = tmp_path / "slow.mh"
    ask = ("compress", song, "--model", choir, "--out", packed, *CPU)
    refuses(
        f"{song} does not come out note by note, for {choir} writes music more coarsely; "
        "--as-heard compresses what it hears",
        *ask,
    )
    assert manyheads(*ask, "--as-heard").code == 0
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    refuses(
        "part 1 does not come out as it went in: the file is damaged; nothing is written",
        *("decompress", packed, "--out", tmp_path / "again", *CPU),
    )
    assert not (tmp_path / "again").exists()
    refuses(
        "what is to be compressed? a MIDI file or a folder of them would do", *ask[:1], *ask[2:]
    )
    refuses(
        "compressed music is written to a .mh file: --out hymns.mh",
        *("compress", song, "--model", choir, *CPU),
    )


def test_what_another_task_compressed_is_refused(
    manyheads: Command, refuses: Refuses, writer: Path, choir: Path, text: Path, tmp_path: Path
) -> None:
    painter, packed = paintings.train_painter(choir.parent.parent), tmp_path / "book.mh"
    assert manyheads("compress", text, "--model", writer, "--out", packed, *CPU).code == 0
    for model in (choir, painter):
        refuses(
            f"this was compressed by another model, {writer}, and not by {model}: their weights "
            "differ",
            *("decompress", packed, "--model", model, "--out", tmp_path / "again", *CPU),
        )


def test_what_is_unpacked_replaces_no_file_that_holds_something_else(
    manyheads: Command, refuses: Refuses, choir: Path, tmp_path: Path
) -> None:
    """What a model heard more coarsely would else replace the piece itself."""
    song = tunes.midi(tunes.stretch(tunes.chorale(8), 1.01), tmp_path / "slow.mid")
    before, packed = song.read_bytes(), tmp_path / "slow.mh"
    manyheads("compress", song, "--model", choir, "--as-heard", "--out", packed, *CPU)
    refuses(
        f"{song} is there already and holds something else; nothing is written, another folder "
        "would do",
        *("decompress", packed, "--out", tmp_path, *CPU),
    )
    assert song.read_bytes() == before
    for _ in range(2):  # the same again is no other
        assert manyheads("decompress", packed, "--out", tmp_path / "again", *CPU).code == 0
    refuses(
        f"music is written into a folder: --out folder/, got {tmp_path}/new.mid",
        *("decompress", packed, "--out", tmp_path / "new.mid", *CPU),
    )


def test_what_cannot_be_compressed_is_named(refuses: Refuses, choir: Path, tmp_path: Path) -> None:
    song = tunes.midi(tunes.performance(4), tmp_path / "song.mid")
    ask = ("compress", song, "--model", choir, "--out", tmp_path / "song.mh", *CPU)
    refuses(f"{song}: a chorale has 4 voices, each in a track of its own; this piece has 1", *ask)
    refuses(f"--split names a part of an .npz, got {song}", *ask, "--split", "test")
