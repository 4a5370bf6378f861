"""Text corpora: read documents, hold some out for validation, encode them as token ids.

The language modelling and masked tasks share this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyheads.codecs.text import Text, VocabularyKind
from manyheads.data.documents import hold_out, read_documents
from manyheads.data.filters import tell_seen
from manyheads.data.shards import Shard, write_shard
from manyheads.data.windows import frame_documents as between_signs
from manyheads.tasks.language.settings import TextData
from manyheads.tasks.vocabulary import CHARACTERS_A_TOKEN, TOKENIZER
from manyheads.training.files import CORPUS, write_text

BYTES = "valid.bytes"


@dataclass(frozen=True)
class TextCorpus:
    """Documents to train on and documents to validate on."""

    train: list[str]
    valid: list[str]
    kind: VocabularyKind = "bpe"  # of the vocabulary to train

    @property
    def characters(self) -> int:
        return sum(map(len, self.train))

    @property
    def tokens(self) -> int:
        alone = self.kind in ("character", "byte")
        return self.characters // (1 if alone else CHARACTERS_A_TOKEN)

    def __str__(self) -> str:
        documents = "document" if len(self.train) == 1 else "documents"
        return (
            f"{len(self.train):,} {documents} of {self.characters:,} characters to train on, "
            f"{sum(map(len, self.valid)):,} characters to validate on"
            f"{tell_seen(self.train, self.valid, len)}"
        )


def gather_texts(data: TextData, kind: VocabularyKind = "bpe") -> TextCorpus:
    if not data.text:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not a text")
    train = [document.text for document in read_documents(data.text, data.split)]
    if data.valid_text:
        valid = [document.text for document in read_documents(data.valid_text, data.split)]
        return TextCorpus(train, valid, kind)
    return TextCorpus(*hold_out(train, data.held_out), kind)


def cut_lines(texts: Sequence[str], lines: int = 1000) -> Iterator[str]:
    """Cut texts into pieces of `lines` lines, so that a vocabulary is trained on all cores."""
    for text in texts:
        held = text.splitlines(keepends=True)
        for i in range(0, len(held), lines):
            yield "".join(held[i : i + lines])


def prepare_texts(texts: TextCorpus, codec: Text, run: Path, framed: bool) -> None:
    """Write the documents as token ids; `framed` puts start and end tokens around each."""
    folder = run / "data"
    folder.mkdir(exist_ok=True)
    codec.save(run / TOKENIZER)
    for name, some in (("train", texts.train), ("valid", texts.valid)):
        rows = between_signs(some, codec) if framed else (codec.encode(one) for one in some)
        write_shard(folder / name, rows, codec.size)
    held = sum(count_scored_bytes(document, codec) for document in texts.valid)
    if not any(texts.valid):
        raise ValueError("there is nothing to validate on: the held-out text has no bytes")
    write_text(folder / BYTES, f"{max(1, held)}\n")
    write_text(run / CORPUS, f"{texts}\n{note_unknown(Shard(folder / 'valid'), codec)}")


def count_scored_bytes(text: str, codec: Text) -> int:
    """Count the bytes of a text; without a start token, nothing predicts its first token."""
    first = [] if codec.special_tokens.bos else codec.encode_with_ends(text)[1][:1]
    return len(text[sum(first) :].encode())


def note_unknown(held_out: Shard, codec: Text) -> str:
    """Return a warning if there are unknown tokens: the bits per byte are then too low."""
    unknown, every = codec.special_tokens.unknown, len(held_out.tokens)
    met = 0 if unknown is None else int((held_out.tokens == unknown).sum())
    told = f"{met:,} of {every:,} tokens to validate on are unknown: what they are is not scored\n"
    return told if met else ""
