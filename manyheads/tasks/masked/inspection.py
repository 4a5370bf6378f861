"""The attention page of an encoder: which tokens each token attends to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from manyheads.decoding.bounds import find_room
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.inspect.long import LONGEST, Part, fit_page
from manyheads.tasks.inspection import (
    AnyPass,
    NumberPass,
    Pass,
    describe_page,
    inspect_pass,
    make_row,
    note_cut,
)

PARTS = {"encoder": ["the text reads itself", "text", "who reads", "what is read"]}


def inspect_encoder(
    model: Any, text: str, what_if: Sequence[Intervention] = (), tokens: Part | None = None
) -> AttentionPage:
    """Inspect one forward pass over a text. Heads are ranked by how much the predicted class loses
    without them, or by how far the predicted number moves.
    """
    codec = model.codec
    special, given = codec.special_tokens, codec.encode(text)
    room = find_room(getattr(model.network, "encoder", model.network))
    most = min(LONGEST, getattr(model.task, "room", room) - len(special.encoder_bos) - 1)
    ids = given[:most]
    if not ids:
        raise ValueError("a text to look at has at least one word, a blank one came")
    framed = [*special.encoder_bos, *ids, special.eos]

    def run(copies: int) -> Tensor:
        """Return log-probabilities (copies, 1, classes), or numbers (copies, 1)."""
        logits: Tensor = model.network(model.lay_out(framed, copies)).float()
        if model.value is not None:
            return logits.view(copies, -1)
        return logits.log_softmax(-1).view(copies, -1, logits.shape[-1])

    with intervening(model.network, what_if):
        one, wrote = choose_pass(model, run, len(framed))
    about = describe_page(model, text, wrote, parts=PARTS, **note_cut(given, most=most))
    rows = [make_row("text", codec, ids, len(special.encoder_bos), 1)]
    page = inspect_pass(one, rows, lambda layer: ("encoder", "text", "text", 0), about, what_if)
    return fit_page(page, tokens)


def choose_pass(model: Any, run: Callable[[int], Tensor], tokens: int) -> tuple[AnyPass, str]:
    """Return the pass for the kind of prediction, and the prediction as text."""
    if model.value is not None:
        number = model.value(run(1).item())
        return NumberPass(model.network, run, ["number"], tokens), f"{number:.4g}"
    wanted = [int(run(1)[0, 0].argmax())] if model.classes else []
    one = Pass(model.network, run, wanted, lambda number: model.classes[number], tokens)
    return one, model.classes[wanted[0]] if wanted else ""
