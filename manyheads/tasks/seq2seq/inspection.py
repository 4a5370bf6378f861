"""What a model that writes for what it reads looked at, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.modules.transformer import Tokens
from manyheads.tasks.inspection import STOP, Pass, inspect_pass, make_row, name_piece

if TYPE_CHECKING:
    from manyheads.tasks.seq2seq.model import Translator

Ids = Sequence[int]


def inspect_pair(
    model: Translator,
    read: Ids,
    written: Ids,
    about: dict[str, Any],
    edits: Sequence[Intervention] = (),
) -> AttentionPage:
    """One pass over what is read and what is written."""
    (reads, writes), codecs = model.special_tokens, model.task.codecs
    source, target = [*reads.encoder_bos, *read, reads.eos], [*writes.bos, *written]
    first = len(writes.bos) - 1

    def run(copies: int) -> Tensor:
        both = (Tokens.padded([row] * copies).to(model.device) for row in (source, target))
        logits: Tensor = model.network(*both)
        return logits[:, first:].float().log_softmax(-1)

    def place(layer: str) -> tuple[str, str, str, int]:
        if layer.startswith("encoder"):
            return "encoder", "source", "source", 0
        if layer.endswith("self"):
            return "decoder", "written", "so far", first
        return "cross", "written", "source", first

    def name(token: int) -> str:
        return STOP if token == writes.eos else name_piece(codecs.target.pieces([token])[0])

    rows = [
        make_row("source", codecs.source, read, len(reads.encoder_bos), 1),
        make_row("written", codecs.target, written, 0, 1),
        make_row("so far", codecs.target, written, len(writes.bos), 0),
    ]
    tokens = max(len(source), len(target))
    one = Pass(model.network, run, [*written, writes.eos], name, tokens)
    return inspect_pass(one, rows, place, about, edits)
