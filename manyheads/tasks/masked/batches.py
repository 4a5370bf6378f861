"""Windows of documents, and which of their tokens are masked ("hidden").

N windows, B rows, T tokens, M hidden tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.data.batches import Ints, Padding, PlannedBatches, lay_out
from manyheads.data.shards import Shard
from manyheads.modules.transformer import Tokens
from manyheads.tasks.masked.settings import Masking

Row = tuple[int, int]  # a window, and the epoch in which it is read


# ---- windows ---------------------------------------------------------------------------------


class MaskedWindows:
    """Documents cut into windows of at most `context` tokens, special tokens included."""

    def __init__(self, documents: Shard, special: SpecialTokens, context: int):
        size = context - len(special.encoder_bos) - 1
        if size < 1:
            raise ValueError(
                f"a context of {context} has no room beside {len(special.encoder_bos) + 1} signs; "
                f"{len(special.encoder_bos) + 2} is the least"
            )
        lengths = documents.lengths
        pieces = -(-lengths // size)
        number = np.arange(pieces.sum()) - np.repeat(pieces.cumsum() - pieces, pieces)
        self.documents, self.special_tokens = documents, special
        self.begins: Ints = np.repeat(documents.ends - lengths, pieces) + number * size
        self.counts: Ints = np.minimum(np.repeat(documents.ends, pieces) - self.begins, size)
        if not len(self):
            raise ValueError("no window can be cut from documents without a token")

    def __len__(self) -> int:
        return len(self.begins)

    def lengths(self) -> Ints:
        """Return the length of each window, special tokens included."""
        return self.counts + len(self.special_tokens.encoder_bos) + 1

    def read(self, windows: Ints) -> tuple[NDArray[np.int64], Ints, Ints]:
        """Return the tokens of windows end to end, the corpus place of each, and its window."""
        counts = self.counts[windows]
        step = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        taken = np.repeat(self.begins[windows], counts) + step
        owners = np.repeat(np.arange(len(windows)), counts)
        return self.documents.tokens[taken].astype(np.int64), taken, owners


# ---- masking ---------------------------------------------------------------------------------


class Hiding:
    """Chooses which tokens are hidden, and what replaces them.

    The random choice for a token follows from the seed, the epoch and its place in the corpus, not
    from the rest of the batch.
    """

    def __init__(self, codec: Text, how: Masking = Masking()):
        if codec.special_tokens.mask is None:
            raise ValueError(
                "this codec has no sign for a hidden word; "
                "Text.train(lines, masked=True) gives it one"
            )
        special = codec.special_tokens.all
        self.how, self.mask = how, codec.special_tokens.mask
        self.words = np.array([i for i in range(codec.size) if i not in special])
        self.may = np.isin(np.arange(codec.size), self.words)  # (V) no special tokens
        self.starts = word_starts(codec) if how.whole_words else np.ones(codec.size, dtype=bool)

    def choose_hidden(
        self, ids: NDArray[np.int64], at: Ints, owners: Ints, key: tuple[int, int]
    ) -> NDArray[np.int64]:
        """Return which tokens are hidden: a share of each window, at least one.

        Words, or tokens without `whole_words`, are taken in random order until there are enough;
        the last word may give a few too many.
        """
        fit = self.may[ids]
        first = np.diff(owners, prepend=-1) > 0
        word = np.cumsum(first | self.starts[ids]) - 1  # number of the word of each token
        heads = np.flatnonzero(np.diff(word, prepend=-1))
        sizes = np.bincount(word[fit], minlength=len(heads))
        of = owners[heads]  # the window of each word
        order = np.lexsort((draw_uniform(at[heads], *key, 0), of))
        before = sizes[order].cumsum() - sizes[order]
        begun = np.searchsorted(of, of)  # the first word of each word's window; `of` is sorted
        before -= before[begun]
        total = np.bincount(owners[fit], minlength=int(owners.max(initial=-1)) + 1)
        wanted = np.maximum(1, np.round(self.how.share * total))
        taken = np.zeros(len(heads), dtype=bool)
        taken[order] = before < wanted[of]
        return np.flatnonzero(taken[word] & fit)

    def hide(
        self, ids: NDArray[np.int64], at: Ints, owners: Ints, key: tuple[int, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the tokens with some replaced, and which of them are to be predicted."""
        chosen = self.choose_hidden(ids, at, owners, key)
        how, which = (draw_uniform(at[chosen], *key, stream) for stream in (1, 2))
        another = self.words[(which * len(self.words)).astype(np.int64)]
        stays = np.where(how < self.how.masked + self.how.changed, another, ids[chosen])
        read = ids.copy()
        read[chosen] = np.where(how < self.how.masked, self.mask, stays)
        return read, chosen


def word_starts(codec: Text) -> NDArray[np.bool_]:
    """Return which token ids begin a word: "Ġdog" and "▁dog" do, "s" and "##s" do not.

    If no token of the vocabulary marks a word start, each token is a word.
    """
    pieces = [str(codec.tokenizer.id_to_token(i)) for i in range(codec.size)]
    if any(piece.startswith("##") for piece in pieces):
        return np.array([not piece.startswith("##") for piece in pieces])
    spaces = [" ", "▁"]
    if {"Ġ", "Ċ"} <= set(pieces):  # a byte-level BPE: these stand for a space and a newline
        spaces += ["Ġ", "Ċ"]
    starts = np.array([piece.startswith(tuple(spaces)) for piece in pieces])
    return starts if starts.any() else ~starts


def draw_uniform(at: Ints, seed: int, epoch: int, stream: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each place (splitmix64), without the state of a generator."""
    state = np.zeros(1, dtype=np.uint64)
    for part in (np.array([seed % 2**64]), np.array([epoch]), np.array([stream]), at):
        state = mix_bits(state ^ part.astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) / 2**53


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


# ---- batches ---------------------------------------------------------------------------------


class MaskedBatch(NamedTuple):
    """Windows with hidden tokens, their places, and the original tokens."""

    tokens: Tokens
    hidden: Tensor  # (M) places in the flattened batch
    wanted: Tensor  # (M)


class MaskedBatches(PlannedBatches):
    """Plans and makes batches of windows.

    A row holds its epoch, so that each epoch hides other words.
    """

    unit = "hidden words"

    def __init__(self, windows: MaskedWindows, hiding: Hiding, tokens: int, seed: int = 0):
        lengths = windows.lengths()
        super().__init__(lengths[:, None], lengths, Padding(tokens), seed)
        self.windows, self.hiding = windows, hiding

    def epoch(self, number: int) -> list[list[Row]]:
        return [[(window, number) for (window,) in rows] for rows in super().epoch(number)]

    def count(self, rows: Sequence[Row]) -> int:
        """Return the number of hidden tokens."""
        windows, epoch = self.unzip(rows)
        return len(self.hiding.choose_hidden(*self.windows.read(windows), (self.seed, epoch)))

    def unzip(self, rows: Sequence[Row]) -> tuple[Ints, int]:
        """Return the windows of the rows, and their epoch."""
        return np.array([window for window, _ in rows], np.int64), rows[0][1] if rows else 0

    def batch(self, rows: Sequence[Row]) -> MaskedBatch:
        """Make a batch; without rows, it is one row in which nothing is hidden."""
        special, (windows, epoch) = self.windows.special_tokens, self.unzip(rows)
        counts = self.lengths[windows, 0]
        width = int(counts.max(initial=1))
        begins = np.arange(len(windows)) * width
        ids, at, owners = self.windows.read(windows)
        read, chosen = self.hiding.hide(ids, at, owners, (self.seed, epoch))
        # The place of a token in its row, after the start tokens.
        step = at - self.windows.begins[windows][owners] + len(special.encoder_bos)
        places = begins[owners] + step
        out = np.full((max(1, len(rows)), width), special.pad)
        for i, sign in enumerate(special.encoder_bos):
            out.flat[begins + i] = sign
        out.flat[places] = read
        out.flat[begins + counts - 1] = special.eos
        tokens = lay_out(torch.from_numpy(out), counts)
        return MaskedBatch(tokens, torch.from_numpy(places[chosen]), torch.from_numpy(ids[chosen]))
