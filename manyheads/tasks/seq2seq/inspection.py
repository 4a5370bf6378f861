"""What the heads of a model attend to while it reads a source and writes, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyheads.decoding.beam_trace import trace_beam
from manyheads.decoding.bounds import Bounds, find_room
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.step import CachedStep
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening, sort_tokens
from manyheads.modules.transformer import Tokens
from manyheads.tasks.inspection import STOP, Pass, inspect_pass, make_row, name_piece
from manyheads.tasks.seq2seq.writing import LOOP, find_longest

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
    """Make a page from one forward pass over a source and a target."""
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

    rows = [
        make_row("source", codecs.source, read, len(reads.encoder_bos), 1),
        make_row("written", codecs.target, written, 0, 1),
        make_row("so far", codecs.target, written, len(writes.bos), 0),
    ]
    tokens = max(len(source), len(target))
    one = Pass(model.network, run, [*written, writes.eos], partial(name_token, model), tokens)
    return inspect_pass(one, rows, place, about, edits)


def name_token(model: Translator, token: int) -> str:
    stops = model.special_tokens[1].all_eos
    return STOP if token in stops else name_piece(model.task.codecs.target.pieces([token])[0])


@torch.no_grad()
def write_traced(
    model: Translator, read: Ids, beam: int, what_if: Sequence[Intervention]
) -> tuple[list[int], dict[str, Any]]:
    """Decode with a beam; also return every hypothesis that the beam looked at."""
    (reads, writes), how = model.special_tokens, DecodingConfig(beam=beam)
    forced, forbidden = sort_tokens(what_if)
    room = find_room(model.network.decoder) - len(writes.bos)  # the page reads the last token, too
    longest = min(find_longest(how, len(read)), room)
    bounds = Bounds(
        writes.all_eos,
        longest,
        never=writes.never,
        forced=forced,
        forbidden=forbidden,
        loop=LOOP,
    )
    with intervening(model.network, what_if):
        source = Tokens.padded([[*reads.encoder_bos, *read, reads.eos]]).to(model.device)
        step = CachedStep(model.network.decoder, model.network.encode(source))
        start = torch.tensor([writes.bos], device=model.device)
        best, search = trace_beam(step, start, bounds, how)
    steps = [
        [[one.parent, name_token(model, one.token), round(one.total, 3), one.state] for one in each]
        for each in search.steps
    ]
    return best.ids, {"steps": steps, "best": search.path([*best.ids, writes.eos])}
