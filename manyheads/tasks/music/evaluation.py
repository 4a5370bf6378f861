"""Evaluate a music model: how likely it finds pieces, and what its samples are like."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from manyheads.metrics.report import format_report, make_report, sign_values
from manyheads.tasks.continuation import score_tokens
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.statistics import Statistics, cut_opening, distance, format_columns


def evaluate_music(
    model: Musician,
    pieces: Sequence[tuple[str, Piece]],
    count: int = 8,
    seconds: float = 30.0,
    shown: Callable[[Sequence[tuple[str, Piece]]], Iterable[tuple[str, Piece]]] = iter,
) -> dict[str, Any]:
    """Return a report on (place, piece) pairs: how likely the model finds them, and statistics of
    their first `seconds`, compared with `count` pieces of that length that the model writes.
    """
    if not pieces:
        raise ValueError("there is nothing to evaluate: no piece has a note")
    codec, nats, nats_of_notes, tokens = model.task.codec, 0.0, 0.0, 0
    began, heard = time.perf_counter(), []
    for where, piece in shown(pieces):
        try:
            found = model.score(piece, model.task.context)  # windows that do not overlap
            heard.append(cut_opening(codec.render(codec.encode(piece)), seconds))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        nats, nats_of_notes = nats - sum(found.logs), nats_of_notes - sum(found.logs[:-1])
        tokens += len(found.logs)
    notes = nats_of_notes / (tokens - len(pieces))
    window = f"context:{model.task.context}|overlap:0"
    values = {"notes": notes, **score_tokens(nats, tokens)}
    drawn = [one.piece for one in model.compose(seconds=seconds, count=count)]
    data, ours = Statistics.of(heard), Statistics.of(drawn)
    return make_report(
        model.name,
        len(pieces),
        began,
        sign_values(values, window),
        tokens=tokens,
        statistics={"seconds": seconds, "data": data.to_json(), "drawn": ours.to_json()},
        pitch_classes_apart=round(distance(data, ours), 4),
    )


def music_table(told: Mapping[str, Any]) -> str:
    """Return the report as text, with the statistics of the music."""
    held = told["statistics"]
    columns = {name: Statistics(**held[name]) for name in ("data", "drawn")}
    lines = [
        format_report(told),
        f"\n  the first {held['seconds']:g} s of each piece, and as much drawn",
        format_columns(columns),
        f"  pitch classes apart: {told['pitch_classes_apart']:.3f} of 1",
    ]
    return "\n".join(lines)
