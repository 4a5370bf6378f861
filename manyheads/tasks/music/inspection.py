"""The attention page of a music model: which notes each note attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyheads.inspect.attention_page import AttentionPage, TokenRow
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.long import LONGEST, Part, fit_page
from manyheads.modules.transformer import Tokens
from manyheads.tasks.inspection import START, Pass, describe_page, inspect_pass, note_cut
from manyheads.tasks.music.compose import render_like
from manyheads.tasks.music.corpus import encode_piece
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.timing import find_spots

if TYPE_CHECKING:
    from manyheads.tasks.music.model import Musician

PARTS = {"decoder": ["each note is written from those before it", "piece", "written", "read"]}


def inspect_piece(
    model: Musician,
    piece: Piece,
    what_if: Sequence[Intervention] = (),
    given: float = 0.0,
    tokens: Part | None = None,
) -> AttentionPage:
    """Inspect one forward pass over a piece, as far as the context goes. The part after `given`
    seconds was written by the model.
    """
    codec = model.task.codec
    whole = encode_piece(piece, codec).tolist()
    most = min(LONGEST, model.task.context)
    most -= most % codec.beat
    bos, played = [*codec.special_tokens.bos], whole[:most]
    if not played:
        raise ValueError("what is looked at is a piece with a note or more, this one has none")
    ids, first = [*bos, *played], max(0, len(bos) - 1)
    read, wanted = ids[:-1], ids[first + 1 :]

    def run(copies: int) -> Tensor:
        logits: Tensor = model.network(Tokens.padded([read] * copies).to(model.device))
        return logits[:, first:].float().log_softmax(-1)

    rows = [name_notes("written", codec, wanted, 0), name_notes("so far", codec, read, len(bos))]
    spots = find_spots(codec, ids, piece)
    shown = render_like(codec, ids, piece)
    roll = {
        "notes": [[round(n.start, 3), round(n.end, 3), n.pitch, n.voice] for n in shown.notes],
        "written": round_spots(spots[first + 1 :]),
        "read": round_spots(spots[:-1]),
        "given": round(given, 3),
    }
    wrote, cut = f"{len(shown.notes)} notes in {shown.seconds:.0f} s", note_cut(whole, most=most)
    about = describe_page(model, "", wrote, unit="note", parts=PARTS, roll=roll, **cut)
    one = Pass(model.network, run, wanted, lambda token: codec.pieces([token])[0], len(read))
    page = inspect_pass(
        one, rows, lambda layer: ("decoder", "written", "so far", first), about, what_if
    )
    return fit_page(page, tokens)


def name_notes(label: str, codec: Any, ids: Sequence[int], signs: int) -> TokenRow:
    names = [*[START] * signs, *codec.pieces(ids[signs:])]
    return TokenRow(label, names, range(len(ids)), [i < signs for i in range(len(ids))])


def round_spots(spots: Sequence[tuple[float, int] | None]) -> list[list[float] | None]:
    return [None if spot is None else [round(spot[0], 3), spot[1]] for spot in spots]
