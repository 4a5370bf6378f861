"""Texts to classify, encoded as a network reads them."""

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
    """An encoded text with its special tokens."""

    ids: list[int]
    turn: int  # where the second text begins; the length if there is none
    text: int  # the number of its text; several frames may share a text
    words: tuple[int, ...] = ()  # place of the first token of each word, for tagging
    cut: int = 0  # number of tokens cut off


@dataclass(frozen=True, eq=False)
class Framer:
    """Encodes texts as rows of token ids; the end of a text that is too long is cut."""

    kind: LabelKind
    codec: Text
    room: int  # maximum number of tokens, special tokens included
    types: int = 0  # number of token types of the network

    def __post_init__(self) -> None:
        if self.room < self.added + 1:
            raise ValueError(
                f"a text has {self.added} signs around it and needs a token of its own, "
                f"room for {self.room} is too little"
            )

    @property
    def added(self) -> int:
        """Number of special tokens around a text."""
        return len(self.codec.special_tokens.encoder_bos) + 1

    def frames(self, read: Sequence[Readable]) -> list[Frame]:
        """Return a frame for each text; for tagging, several if the words do not fit into one."""
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
        """Return [*start, first, end, second, end]; if two texts do not fit, cut the longer one."""
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
        """Encode words as in running text, but each word as tokens of its own."""
        special = self.codec.special_tokens
        spaced = [f" {w}" if i else w for words in sentences for i, w in enumerate(words)]
        pieces = iter(self.codec.encode_all(spaced))
        nothing = special.eos if special.unknown is None else special.unknown
        most = self.room - self.added
        for i, words in enumerate(sentences):
            ids, starts, cut = list(special.encoder_bos), list[int](), 0
            for _ in words:
                word = next(pieces) or [nothing]  # a word whose characters the codec drops
                word, cut = word[:most], cut + len(word[most:])
                if len(ids) + len(word) >= self.room:  # leave room for the end token
                    yield Frame([*ids, special.eos], len(ids) + 1, i, tuple(starts), cut)
                    ids, starts, cut = list(special.encoder_bos), [], 0
                starts.append(len(ids))
                ids += word
            yield Frame([*ids, special.eos], len(ids) + 1, i, tuple(starts), cut)

    def lay_out(self, rows: Sequence[Any], turns: Sequence[int]) -> Tokens:
        """Pad framed texts to a batch; with token types, mark the tokens of second texts."""
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
