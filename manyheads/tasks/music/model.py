"""A music model: compose, harmonize, score and inspect pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, overload

import torch

from manyheads.attention.places import line
from manyheads.decoding.draft_table import Ids
from manyheads.decoding.likelihood import compute_log_probs
from manyheads.decoding.step import RewindableStep
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.inspect.long import Part
from manyheads.modules.transformer import Tokens
from manyheads.tasks.continuation import ContinuationModel
from manyheads.tasks.inspection import choose_numbers, record_attention
from manyheads.tasks.model import show_options
from manyheads.tasks.music.arcs import Arcs
from manyheads.tasks.music.compose import (
    Composed,
    compose,
    harmonize,
    make_step,
    render_like,
    stream,
)
from manyheads.tasks.music.corpus import encode_piece
from manyheads.tasks.music.decoding import MusicDecoding, MusicOptions
from manyheads.tasks.music.inspection import inspect_piece
from manyheads.tasks.music.notes import Piece, cut_piece, require_piece
from manyheads.tasks.music.timing import find_spots
from manyheads.tasks.portable import Portable

if TYPE_CHECKING:
    from manyheads.tasks.music.task import MusicTask


PRIME_SECONDS, MOST_SECONDS = 12.0, 60
PIECES = 10_000  # most pieces that drafts are made from


class PieceLikelihood(NamedTuple):
    """How likely a piece is, token by token."""

    pieces: list[str]
    logs: list[float]  # natural log-probability of each; the last is that of the end token

    @property
    def loss(self) -> float:
        """Nats per token, including the end token."""
        return -sum(self.logs) / len(self.logs)

    @property
    def notes(self) -> float:
        """Nats per token, without the end token."""
        return -sum(self.logs[:-1]) / max(1, len(self.logs) - 1)

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))


def read_seconds(asked: str) -> float:
    """ "8" -> 8.0"""
    try:
        seconds = float(asked or 0)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"seconds to write on are 0 to {MOST_SECONDS}, got {asked!r}")
    return seconds


class Musician(ContinuationModel):
    """A trained music model, which composes, harmonizes and scores pieces."""

    task: MusicTask
    asks = "seconds"

    @property
    def beat(self) -> int:
        return self.task.codec.beat

    def vocabularies(self) -> list[Any]:
        codec = self.task.codec
        return [codec.kind, codec.pieces(range(codec.size))]

    def begin_draft(self, source: Sequence[int]) -> tuple[RewindableStep, list[int]]:
        codec = self.task.codec
        step = make_step(self.task.author(self.network), MusicDecoding())
        return step, [*codec.special_tokens.bos, *source]

    def find_sources(self, path: Path | None) -> Sequence[Ids]:
        if path is not None:
            raise ValueError(f"drafts of music are made from nothing; leave out --source {path}")
        return [()] * PIECES

    def write_for(self, sources: Sequence[Ids], first: int) -> list[list[int]]:
        author, eos = self.task.author(self.network), self.task.codec.special_tokens.eos
        found = compose(author, count=len(sources), how=MusicDecoding(seed=first))
        return [[*one.ids, *[eos] * one.finished] for one in found]

    @property
    def stride(self) -> int:
        """Stride of the window of `score` in tokens: half the context, in whole beats."""
        beat = self.task.codec.beat
        return max(beat, self.task.context // 2 // beat * beat)

    @show_options(MusicDecoding, MusicOptions)
    def compose(
        self,
        prime: Piece | None = None,
        seconds: float = 30.0,
        count: int = 1,
        told: Callable[[float], None] | None = None,
        **options: Unpack[MusicOptions],
    ) -> list[Composed]:
        """model.compose(seconds=20, temperature=0.9)[0].piece; `told` gets the seconds written."""
        author, how = self.task.author(self.network), MusicDecoding(**options)
        drafter = self.find_drafter(how.draft)
        return compose(author, prime, seconds, count, how, told, drafter)

    @show_options(MusicDecoding, MusicOptions)
    def stream(
        self,
        prime: Piece | None = None,
        seconds: float = 30.0,
        number: int = 0,
        **options: Unpack[MusicOptions],
    ) -> Iterator[tuple[str, float]]:
        """Yield each event that `compose` writes for piece `number`, with its log-probability."""
        how = MusicDecoding(**options)
        author, drafter = self.task.author(self.network), self.find_drafter(how.draft)
        codec, tokens = author.codec, stream(author, prime, seconds, how, number, drafter)
        return ((codec.pieces([token])[0], log) for token, log in tokens)

    @show_options(MusicDecoding, MusicOptions)
    def harmonize(
        self,
        piece: Piece,
        voice: str = "soprano",
        particles: int = 16,
        shown: Callable[[Sequence[int]], Iterable[int]] = iter,
        track: str | None = None,
        **options: Unpack[MusicOptions],
    ) -> Piece:
        """Write three voices to the given one; `shown` wraps the tokens to show progress."""
        how = MusicDecoding(**options)
        return harmonize(self.task.author(self.network), piece, voice, particles, how, shown, track)

    @overload
    def score(self, pieces: Piece, stride: int = 0) -> PieceLikelihood: ...
    @overload
    def score(self, pieces: Sequence[Piece], stride: int = 0) -> list[PieceLikelihood]: ...
    def score(
        self, pieces: Piece | Sequence[Piece], stride: int = 0
    ) -> PieceLikelihood | list[PieceLikelihood]:
        """Return how likely each piece is, token by token.

        In a piece longer than the context, the window moves by `stride` tokens, by default half the
        context: the smaller the stride, the more tokens before it each token sees.
        """
        if isinstance(pieces, Piece | str):
            return self.score_one(pieces, stride)
        return [self.score_one(piece, stride) for piece in pieces]

    def score_one(self, piece: Piece, stride: int) -> PieceLikelihood:
        codec, context = self.task.codec, self.task.context
        stride = stride or self.stride
        if not 0 < stride <= context or stride % codec.beat:
            raise ValueError(
                f"a stride is 1 to the context of {context} tokens in whole steps of "
                f"{codec.beat}, got {stride}"
            )
        require_piece(piece)
        if not piece.notes:
            raise ValueError("a piece to score has at least one note, one without any came")
        ids = [*encode_piece(piece, codec).tolist(), codec.special_tokens.eos]
        logs = compute_log_probs(self.network, codec.special_tokens, ids, context, stride)
        return PieceLikelihood(codec.pieces(ids), logs)

    @torch.no_grad()
    def look(
        self, piece: Piece, layer: int, head: int | None = None, at: float | None = None
    ) -> Arcs:
        """Return what a note attends to: the first note at `at` seconds or later, by default the
        last one. Show one head or all; the network reads as much before it as the context holds.
        """
        codec, context = self.task.codec, self.task.context
        ids = [*codec.special_tokens.bos, *encode_piece(piece, codec).tolist()]
        where = find_spots(codec, ids, piece)
        query, moment = find_query(where, at)
        spare = max(0, query + 1 - context)
        begin = -(-spare // codec.beat) * codec.beat
        read = torch.tensor([ids[begin : query + 1]], device=self.device)
        seen = record_attention(self, Tokens(read, line(read.shape[1], device=read.device)))
        choose_numbers("layer", layer, len(seen))
        weights = seen[layer].weights[0, :, -1].float().cpu()  # (H, T)
        heads = choose_numbers("head", head, len(weights))
        return Arcs(
            render_like(codec, ids, piece),
            where[begin : query + 1],
            weights[heads],
            heads,
            f"layer {layer} at {codec.pieces(ids)[query]}, {moment:.2f} s",
        )

    @torch.no_grad()
    def inspect(
        self, piece: Piece, *, what_if: Sequence[Intervention] = (), tokens: Part | None = None
    ) -> AttentionPage:
        """Return a page of what every head attends to in a piece: notes with arcs, and sound.

        A notebook shows the page, `.save("page.html")` writes it; `tokens=(600, 1100)` shows that
        part of a long piece in full.
        """
        return inspect_piece(self, piece, what_if, tokens=tokens)

    @torch.no_grad()
    def inspect_live(
        self,
        asked: str,
        what_if: Sequence[Intervention] = (),
        piece: Piece | None = None,
        tokens: Part | None = None,
    ) -> AttentionPage:
        """Continue the beginning of a piece for the seconds `asked`, and show both; 0: the piece.

        Without a piece the model writes all of it. The seed is fixed: only `what_if` changes it.
        """
        seconds = read_seconds(asked)
        if piece is not None and not seconds:
            return inspect_piece(self, piece, what_if, tokens=tokens)
        prime = None if piece is None else cut_piece(piece, PRIME_SECONDS)
        with intervening(self.network, what_if):
            (written,) = self.compose(prime, seconds or PRIME_SECONDS, seed=0, truncate=True)
        given = 0.0 if prime is None else prime.seconds
        return inspect_piece(self, written.piece, what_if, given, tokens)

    def portable(self) -> Portable:
        raise ValueError(
            f"{self.name} is a model for music, whose voices, steps and pitches have no "
            "counterpart elsewhere; models of text are exported and verified"
        )


def find_query(where: list[tuple[float, int] | None], at: float | None) -> tuple[int, float]:
    """Return (token, seconds) of the first note at `at` seconds or later, else of the last note."""
    sounding = [(i, spot[0]) for i, spot in enumerate(where) if spot is not None]
    if not sounding:
        raise ValueError("a piece to look at has notes, this one has none")
    if at is None:
        return sounding[-1]
    found = next((one for one in sounding if one[1] >= at - 1e-6), None)
    if found is None:
        raise ValueError(
            f"the last note of this piece is at {sounding[-1][1]:.2f} seconds, "
            f"one at {at:g} or later was asked for"
        )
    return found
