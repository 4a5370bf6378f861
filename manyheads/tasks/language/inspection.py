"""The attention page of a language model: a text and its continuation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening, sort_tokens
from manyheads.inspect.long import LONGEST, Part, fit_page
from manyheads.modules.transformer import Tokens
from manyheads.tasks.inspection import (
    STOP,
    Pass,
    describe_page,
    inspect_pass,
    make_row,
    name_piece,
    note_cut,
)

if TYPE_CHECKING:
    from manyheads.tasks.language.model import LanguageModel

PARTS = {
    "decoder": [
        "each token is written from those before it",
        "text",
        "what is written",
        "what is read",
    ]
}


@torch.no_grad()
def inspect_text(
    model: LanguageModel,
    text: str,
    what_if: Sequence[Intervention],
    max_new_tokens: int,
    tokens: Part | None = None,
) -> AttentionPage:
    """Inspect one forward pass over the text and its greedy continuation."""
    codec, special = model.task.codec, model.task.codec.special_tokens
    most = min(LONGEST, model.task.context)
    given = codec.encode(text)
    prompt = given[: max(1, most - max_new_tokens)]
    if not [*special.bos, *prompt]:
        raise ValueError("a text to look at has at least one character, an empty one came")
    ids = [*prompt, *write_on(model, prompt, what_if, min(max_new_tokens, most - len(prompt)))]
    if len(ids) < 2 and not special.bos:
        raise ValueError("a text to look at has two tokens or more, one came")
    # Without a start token, the first token is given, not predicted.
    read, wanted = [*special.bos, *ids][:-1], ids if special.bos else ids[1:]
    first = max(0, len(special.bos) - 1)

    def run(copies: int) -> Tensor:
        logits: Tensor = model.network(Tokens.padded([read] * copies).to(model.device))
        return logits[:, first:].float().log_softmax(-1)

    def name(token: int) -> str:
        return STOP if token in special.all_eos else name_piece(codec.pieces([token])[0])

    rows = [
        make_row("written", codec, wanted),
        make_row("so far", codec, ids[:-1], len(special.bos)),
    ]
    cut = note_cut(given, most=len(prompt))
    about = describe_page(model, text, codec.render(ids), parts=PARTS, **cut)
    one = Pass(model.network, run, wanted, name, len(read))
    page = inspect_pass(
        one, rows, lambda layer: ("decoder", "written", "so far", first), about, what_if
    )
    return fit_page(page, tokens)


def write_on(
    model: LanguageModel, prompt: Sequence[int], what_if: Sequence[Intervention], tokens: int
) -> list[int]:
    special = model.task.codec.special_tokens
    start = [*special.bos, *prompt]
    # Interventions count places over all tokens of the page, the prompt included.
    given = len(start) - max(1, len(special.bos))
    forced, forbidden = sort_tokens(what_if)
    if any(place < given for place in (*forced, *forbidden)):
        raise ValueError(
            f"the text is given, and what is written after it begins at place {given}; "
            "tokens are forced or forbidden from there on"
        )
    bounds = Bounds(
        special.all_eos,
        tokens,
        never=special.never,
        forced={place - given: token for place, token in forced.items()},
        forbidden={place - given: tokens for place, tokens in forbidden.items()},
    )
    with intervening(model.network, what_if):
        step = CachedStep(model.network)
        (found,) = greedy(step, torch.tensor([start], device=model.device), bounds)
    return found.ids
