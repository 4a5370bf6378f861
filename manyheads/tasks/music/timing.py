"""The duration of tokens, and when a piece is long enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from manyheads.decoding.greedy import Over
from manyheads.tasks.music.chorales import QUARTERS_PER_MINUTE, STEPS_PER_QUARTER, Chorales
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.notes import Piece, seconds_at, to_quarters
from manyheads.tasks.music.performance import SHIFT, Performance
from manyheads.tasks.music.settings import VOICES


def step_seconds(quarters_per_minute: float = QUARTERS_PER_MINUTE) -> float:
    """Return how long a sixteenth of a chorale lasts."""
    return 60 / quarters_per_minute / STEPS_PER_QUARTER


def count_steps(seconds: float, after: Piece | None) -> float:
    """Return how many sixteenths fit into `seconds` after a piece, at its tempo."""
    if after is None:
        return seconds / step_seconds()
    begin, end = to_quarters(after, [after.seconds, after.seconds + seconds])
    return float(end - begin) * STEPS_PER_QUARTER


def seconds_of_numbers(codec: MusicCodec, like: Piece | None = None) -> NDArray[np.float64] | None:
    """Return the seconds that each token id takes, for a grid at the last tempo of `like`; None for
    a codec whose tokens have no duration of their own.
    """
    found = np.zeros(codec.size)
    if isinstance(codec, Performance):
        found[SHIFT : codec.velocity] = np.arange(1, codec.shifts + 1) / codec.steps_per_second
    elif isinstance(codec, Chorales):
        tempo = QUARTERS_PER_MINUTE if like is None else like.tempos[-1].quarters_per_minute
        found[codec.special_tokens.eos + 1 :] = step_seconds(tempo) / len(VOICES)
    else:
        return None
    return found


def end_after(codec: MusicCodec, seconds: float, begin: Sequence[int], rows: int) -> Over | None:
    """Return a test for `seconds` of new music; None for chorales, whose tokens are counted."""
    if isinstance(codec, Chorales):
        return None
    each = seconds_of_numbers(codec)
    if each is None:
        return end_by_bars(codec, seconds, begin, rows)
    passed = [0.0] * rows

    def over(row: int, token: int) -> bool:
        passed[row] += float(each[token])
        return passed[row] > seconds - 1e-6

    return over


def end_by_bars(codec: MusicCodec, seconds: float, begin: Sequence[int], rows: int) -> Over:
    """Return that test for codecs with bars: decode all at each bar, as tempos may change."""
    written: list[list[int]] = [[] for _ in range(rows)]
    before = codec.render(begin).seconds

    def over(row: int, token: int) -> bool:
        written[row].append(token)
        (said,) = codec.pieces([token])
        if not said.startswith("Bar"):
            return False
        return codec.render([*begin, *written[row]]).seconds - before >= seconds

    return over


def tell_seconds(
    over: Over | None, each: NDArray[np.float64] | None, told: Callable[[float], None] | None
) -> Over | None:
    """Wrap `over` so that it calls `told` with the seconds of each token."""
    if told is None or each is None:
        return over

    def both(row: int, token: int) -> bool:
        told(float(each[token]))
        return over is not None and over(row, token)

    return both


def find_spots(
    codec: MusicCodec, ids: Sequence[int], piece: Piece
) -> list[tuple[float, int] | None]:
    """Return the place of each token on the piano roll of a piece: (seconds, pitch), or None for a
    token without a pitch.
    """
    each = seconds_of_numbers(codec)
    if each is None:
        raise ValueError(
            f"where a token stands is known of performances and chorales, not of {codec.kind}"
        )
    pitch = codec.pitches()
    passed = each[np.asarray(ids, int)]
    moments = np.cumsum(passed) - passed
    if isinstance(codec, Performance):
        moments += piece.start  # the first silence, which is not encoded
    if codec.beat > 1:  # all voices of a step begin together
        sung = passed > 0
        steps = (np.cumsum(sung) - sung) // codec.beat
        moments = seconds_at(piece, steps / STEPS_PER_QUARTER)
    return [
        (float(at), pitch[number]) if pitch[number] else None
        for at, number in zip(moments, ids, strict=True)
    ]
