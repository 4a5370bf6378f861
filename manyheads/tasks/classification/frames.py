"""A text to say something about, as a network reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from manyheads.codecs.text import Text
from manyheads.modules.transformer import Tokens
from manyheads.tasks.classification.settings import LabelKind

Readable = str | tuple[str, str] | Sequence[str]  # a text, two, or words


class Frame(NamedTuple):
    """A text as it is read, its signs around it."""

    ids: list[int]
    turn: int  # where the second text begins; the end where there is none
    text: int  # the number of the text it is of, or is a part of
    words: tuple[int, ...] = ()  # where the first token of each word stands, where words are tagged
    cut: int = 0  # tokens that were too many


@dataclass(frozen=True, eq=False)
class Framer:
    """How texts become rows of numbers: of longer ones than there is room for the end is cut."""

    kind: LabelKind
    codec: Text
    room: int  # tokens of a text with its signs
    types: int = 0  # of token that the network tells apart

    def __post_init__(self) -> None:
        if self.room < self.added + 1:
            raise ValueError(
                f"a text has {self.added} signs around it and needs a token of its own, "
                f"room for {self.room} is too little"
            )

    @property
    def added(self) -> int:
        """Those around a text."""
        return len(self.codec.special_tokens.encoder_bos) + 1

    def frames(self, read: Sequence[Readable]) -> list[Frame]:
        """One for each text; several for a text of so many words that they do not fit into one."""
        if isinstance(read, str):
            raise ValueError("texts come as a list, got one text; [text] would do")
        if self.kind == "labelling":
            sentences = [one.split() if isinstance(one, str) else list(one) for one in read]
            return list(self.frame_words(sentences))
        pairs = [pair_of(one) for one in read]
        firsts = self.codec.encode_all([first for first, _ in pairs])
        seconds = self.codec.encode_all([second for _, second in pairs])
        return [
            self.frame(i, first, second if pairs[i][1] else None)
            for i, (first, second) in enumerate(zip(firsts, seconds, strict=True))
        ]

    def frame(self, i: int, first: list[int], second: list[int] | None) -> Frame:
        """[*opens, first, stop, second, stop]: of two texts too long, the longer gives way."""
        special = self.codec.special_tokens
        if second is None:
            kept = first[: self.room - self.added]
            ids = [*special.encoder_bos, *kept, special.eos]
            return Frame(ids, len(ids), i, cut=len(first) - len(kept))
        room = max(0, self.room - self.added - 1)
        after = second[: max(room // 2, room - len(first))]
        kept = first[: room - len(after)]
        ids = [*special.encoder_bos, *kept, special.eos, *after, special.eos]
        cut = len(first) + len(second) - len(kept) - len(after)
        return Frame(ids, len(ids) - len(after) - 1, i, cut=cut)

    def frame_words(self, sentences: Sequence[Sequence[str]]) -> Iterator[Frame]:
        """Words are read as they would be in a text, but each has tokens of its own."""
        special = self.codec.special_tokens
        spaced = [f" {w}" if i else w for words in sentences for i, w in enumerate(words)]
        pieces = iter(self.codec.encode_all(spaced))
        nothing = special.eos if special.unknown is None else special.unknown
        most = self.room - self.added
        for i, words in enumerate(sentences):
            ids, starts, cut = list(special.encoder_bos), list[int](), 0
            for _ in words:
                word = next(pieces) or [nothing]  # a word of characters that a codec leaves out
                word, cut = word[:most], cut + len(word[most:])
                if len(ids) + len(word) >= self.room:  # the stop takes room too
                    yield Frame([*ids, special.eos], len(ids) + 1, i, tuple(starts), cut)
                    ids, starts, cut = list(special.encoder_bos), [], 0
                starts.append(len(ids))
                ids += word
            yield Frame([*ids, special.eos], len(ids) + 1, i, tuple(starts), cut)

    def lay_out(self, rows: Sequence[Any], turns: Sequence[int]) -> Tokens:
        """Framed texts as a batch; which tokens are of a second text only if the network asks."""
        tokens = Tokens.padded(rows, self.codec.special_tokens.pad)
        if self.types < 2:
            return tokens
        step = torch.arange(tokens.ids.shape[1])
        ends = torch.tensor([len(row) for row in rows])[:, None]
        second = (step >= torch.tensor(turns)[:, None]) & (step < ends)
        return replace(tokens, types=second.long())


def pair_of(one: Readable) -> tuple[str, str]:
    if isinstance(one, str):
        return one, ""
    if isinstance(one, tuple) and len(one) == 2:
        return one
    raise ValueError(f"a text or a pair of texts (text, second) is judged, got {one!r}")
