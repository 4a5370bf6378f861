"""The attention page of a question answering model: a question and its text.

T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.inspect.long import MOST_TOKENS
from manyheads.tasks.inspection import Pass, describe_page, inspect_pass, make_row, note_cut
from manyheads.tasks.masked.inspection import PARTS
from manyheads.tasks.pointing.questions import NO_TEXT, frame_question, part_question

if TYPE_CHECKING:
    from manyheads.tasks.pointing.model import Pointer

ENDS = ("it begins at", "it ends at")


def inspect_question(
    model: Pointer, source: str, what_if: Sequence[Intervention] = ()
) -> AttentionPage:
    """Inspect one forward pass; heads are ranked by what start and end of the answer lose."""
    task, codec = model.task, model.task.codec
    source = part_question(source)
    before = len(codec.special_tokens.encoder_bos)
    frame = frame_question(codec, source, min(task.room, MOST_TOKENS + before + 1))
    if not any(frame.types):
        raise ValueError(NO_TEXT)

    def run(copies: int) -> Tensor:
        """Return log-probabilities of start and end (copies, 2, T)."""
        return task.point_at(model.network, [frame] * copies).mT

    with intervening(model.network, what_if):
        (begin, end), answer = model.best_ends(source, frame)
    row = make_row("text", codec, frame.ids[before:-1], before, 1)
    cut = note_cut(codec.encode(source))
    about = describe_page(model, source, answer, parts=PARTS, **cut)
    one = Pass(model.network, run, [begin, end], lambda at: row.tokens[at], len(frame.ids))
    page = inspect_pass(one, [row], lambda layer: ("encoder", "text", "text", 0), about, what_if)
    for name, each in zip(ENDS, page.about["candidates"], strict=True):
        each["of"] = name
    return page
