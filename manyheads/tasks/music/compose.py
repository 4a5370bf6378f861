"""Write music with a model: from nothing, from a beginning, or around a given voice.

B batch, T tokens.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, fit_context
from manyheads.decoding.drafts import MOST_DRAFTED, Drafter
from manyheads.decoding.smc import FREE, sample_around
from manyheads.decoding.step import CachedStep, RewindableStep
from manyheads.decoding.strategies import decode
from manyheads.decoding.strategies import stream as stream_tokens
from manyheads.decoding.wrappers import Moving, WholeBeats
from manyheads.tasks.continuation import Author
from manyheads.tasks.music.chorales import REST, STEPS_PER_QUARTER, Chorales, grid_of, piece_of
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.corpus import encode_piece
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.music.leading import VoiceLeading
from manyheads.tasks.music.melody import melody_of
from manyheads.tasks.music.notes import Note, Piece, Voice, move_notes
from manyheads.tasks.music.settings import VOICES
from manyheads.tasks.music.timing import (
    count_steps,
    end_after,
    seconds_of_numbers,
    step_seconds,
    tell_seconds,
)

LONGEST_SECONDS = 3600.0  # of new music
TOKENS_A_SECOND = 200  # at most: a dense performance has 60, and one without time would not end
AT_ONCE = 16384  # tokens in a batch of pieces
SHORTEST = 4  # tokens: a chord of four voices; or a velocity, a key down, some time, the key up


class Composed(NamedTuple):
    """A piece that was written, with its new token ids and their log-probabilities."""

    piece: Piece  # including the beginning
    ids: list[int]  # new token ids, without the end token
    logs: list[float]  # log-probability of each, and of the end token if it was reached
    finished: bool  # by the end token, not by the maximum length
    seconds: float  # of new music


@torch.inference_mode()
def compose(
    author: Author[MusicCodec],
    prime: Piece | None = None,
    seconds: float = 30.0,
    count: int = 1,
    how: MusicDecoding = MusicDecoding(),
    told: Callable[[float], None] | None = None,
    drafter: Drafter | None = None,
) -> list[Composed]:
    """Write `count` pieces, each with `seconds` of new music unless it ends before.

    `told` is called with the seconds of each new token, for codecs whose tokens have a duration.
    """
    if count < 1:
        raise ValueError(f"1 piece or more is written, got {count}")
    codec, begin = author.codec, encode_prime(author, prime)
    bounds = make_bounds(author, seconds, prime)
    start = make_start(author, begin, how)
    longest = min(author.context, start.shape[1] + bounds.limits(1)[0])
    drafter = drafter if count <= MOST_DRAFTED or start.is_cuda else None
    at_once = 1 if drafter is not None else max(1, AT_ONCE // longest)
    before = 0.0 if prime is None else prime.seconds
    found: list[Composed] = []
    for first in range(0, count, at_once):
        numbers = range(first, min(count, first + at_once))
        step, rows = make_step(author, how), start.expand(len(numbers), -1)
        over = end_after(codec, seconds, begin, len(numbers))
        over = tell_seconds(over, seconds_of_numbers(codec, prime), told)
        for one, *_ in decode(step, rows, bounds, how, numbers, over, drafter, [begin]):
            piece = play_on(codec, begin, one.ids, prime)
            new = max(0.0, piece.seconds - before)
            found.append(Composed(piece, one.ids, one.logs, one.finished, new))
    return found


def stream(
    author: Author[MusicCodec],
    prime: Piece | None = None,
    seconds: float = 30.0,
    how: MusicDecoding = MusicDecoding(),
    number: int = 0,
    drafter: Drafter | None = None,
) -> Iterator[tuple[int, float]]:
    """Yield the token ids that `compose` writes for piece `number`, with their log-probabilities.

    The end token comes last if it is reached. Wrong arguments raise at the call itself.
    """
    begin, bounds = encode_prime(author, prime), make_bounds(author, seconds, prime)
    start, step = make_start(author, begin, how), make_step(author, how)
    over = end_after(author.codec, seconds, begin, 1)
    return stream_tokens(step, start, bounds, how, number, over, drafter, begin)


def make_step(author: Author[MusicCodec], how: MusicDecoding) -> RewindableStep:
    author.network.eval()
    beat = author.codec.beat
    step: RewindableStep = Moving(lambda: CachedStep(author.network), author.context, beat)
    if isinstance(author.codec, Chorales) and how.voice_leading:
        step = VoiceLeading(step, how.voice_leading)
    return WholeBeats(step, author.codec.special_tokens.eos, beat) if beat > 1 else step


def encode_prime(author: Author[MusicCodec], prime: Piece | None) -> list[int]:
    return [] if prime is None else encode_piece(prime, author.codec).tolist()


def make_start(author: Author[MusicCodec], begin: Sequence[int], how: MusicDecoding) -> Tensor:
    """Return the start tokens and the beginning (1, T); a beginning is cut at a whole beat."""
    codec = author.codec
    ids = [*codec.special_tokens.bos, *begin]
    read = fit_context(ids, author.context, how.truncate, "beginning", codec.beat)
    return torch.tensor([read], device=next(author.network.parameters()).device)


def make_bounds(author: Author[MusicCodec], seconds: float, prime: Piece | None = None) -> Bounds:
    """Return the maximum number of new tokens: exact for chorales, else far more than needed."""
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError(
            f"over 0 and up to {LONGEST_SECONDS:g} seconds of music are written, got {seconds:g}"
        )
    if isinstance(author.codec, Chorales):
        # The tempo of a prime may be so fast that a second would never end.
        steps = min(count_steps(seconds, prime), LONGEST_SECONDS / step_seconds())
        tokens = math.ceil(round(steps, 6)) * len(VOICES)
    else:
        tokens = SHORTEST + math.ceil(seconds * TOKENS_A_SECOND)
    special = author.codec.special_tokens
    return Bounds(special.eos, longest=tokens, shortest=SHORTEST, never=special.never)


def render_like(codec: MusicCodec, ids: Sequence[int], like: Piece) -> Piece:
    """Decode token ids; chorales take tempos and meters from the piece `like`, other music is moved
    to begin when that piece begins.
    """
    if isinstance(codec, Chorales):
        return piece_of(codec.grid(ids), like)
    piece = codec.render(ids)
    return replace(piece, notes=move_notes(piece.notes, like.start - piece.start))


def play_on(
    codec: MusicCodec, begin: Sequence[int], ids: Sequence[int], prime: Piece | None
) -> Piece:
    """Append the new music to the beginning, whose notes stay exactly as they were given.

    The codec rounds the beginning to its grid, so the beginning is not decoded from its token ids.
    """
    if prime is None:
        return codec.render(ids)
    if isinstance(codec, Chorales):
        grid = codec.grid([*begin, *ids])
        grid[: len(begin) // len(VOICES)] = REST
        return add_notes(prime, piece_of(grid, prime).notes)
    read, whole = codec.render(begin), codec.render([*begin, *ids])
    later = prime.seconds - read.seconds  # the silence that was left out, and rounding
    voice = len(prime.voices) if len(prime.voices) > 1 else 0
    new = (Counter(whole.notes) - Counter(read.notes)).elements()
    new = (note._replace(voice=voice) for note in move_notes(new, later))
    longer = replace(
        prime,
        voices=prime.voices if voice == 0 else (*prime.voices, Voice()),
        tempos=append_marks(prime.tempos, whole.tempos, read.seconds, later),
        meters=append_marks(prime.meters, whole.meters, read.seconds, later),
    )
    return add_notes(longer, new)


def append_marks(
    marks: tuple[Any, ...], others: tuple[Any, ...], since: float, later: float
) -> tuple[Any, ...]:
    """Append the `others` (tempos or meters) from `since` seconds on, moved by `later` seconds."""
    new = [m._replace(start=m.start + later) for m in others if m.start >= since]
    return (*(mark for mark in marks if not new or mark.start < new[0].start), *new)


def add_notes(piece: Piece, new: Iterable[Note]) -> Piece:
    """Add notes; a note that begins while its pitch still sounds starts when that ends."""
    ends: dict[tuple[int, int], float] = {}
    for note in piece.notes:
        key = (note.voice, note.pitch)
        ends[key] = max(note.end, ends.get(key, 0.0))
    late = (n._replace(start=max(n.start, ends.get((n.voice, n.pitch), 0.0))) for n in new)
    return replace(piece, notes=(*piece.notes, *(n for n in late if n.start < n.end)))


# ---- around a voice --------------------------------------------------------------------------


@torch.inference_mode()
def harmonize(
    author: Author[MusicCodec],
    piece: Piece,
    voice: str = "soprano",
    particles: int = 16,
    how: MusicDecoding = MusicDecoding(),
    shown: Callable[[Sequence[int]], Iterable[int]] = iter,
    track: str | None = None,
) -> Piece:
    """Write three voices to a given one: the given piece, or one voice or track of it."""
    codec = author.codec
    if not isinstance(codec, Chorales):
        raise ValueError(
            f"a model of chorales harmonizes, this one writes by the codec {codec.kind}"
        )
    if not how.temperature:
        raise ValueError("voices are drawn around the given one; a temperature over 0 would do")
    melody, number = melody_of(piece, voice, track).piece, VOICES.index(voice)
    notes = [note._replace(voice=number) for note in melody.notes]
    grid = grid_of(replace(melody, notes=tuple(notes), voices=tuple(map(Voice, VOICES))))
    # Chorales begin at once: after a long silence the model would let the other voices rest.
    silent = (grid[:, number] != REST).argmax() // STEPS_PER_QUARTER * STEPS_PER_QUARTER
    given = np.full((len(grid) - silent, len(VOICES)), FREE)
    given[:, number] = codec.flatten(grid[silent:])[number :: len(VOICES)]
    special = codec.special_tokens
    start = make_start(author, [], how)
    # The end token is given too, so that voices that lead to an end become likelier.
    found = sample_around(
        make_step(author, how),
        start,
        [*given.flatten().tolist(), special.eos],
        how,
        particles=particles,
        never=(*special.never, special.eos),
        shown=shown,
    )
    # A grid joins repeated notes and loses fast ones: the given voice is not decoded from it.
    grid[:] = REST
    grid[silent:] = codec.grid(found.ids)
    grid[:, number] = REST
    others = piece_of(grid, piece)
    return replace(others, notes=(*others.notes, *notes))
