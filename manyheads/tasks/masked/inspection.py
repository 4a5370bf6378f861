"""What a model that sees both ways looks at in a text, as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from manyheads.decoding.bounds import find_room
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.tasks.inspection import MOST_TOKENS, Pass, inspect_pass, make_row, note_cut

PARTS = {"encoder": ["the text reads itself", "text", "who reads", "what is read"]}


def inspect_encoder(
    model: Any,
    text: str,
    lay_out: Callable[[list[int], int], Any],
    what_if: Sequence[Intervention] = (),
    names: Sequence[str] = (),
) -> AttentionPage:
    """`lay_out` gives copies of framed tokens as the network reads them; where there are `names`,
    the network chooses one of them, and heads are ranked by what that choice loses.
    """
    codec = model.codec
    special, given = codec.special_tokens, codec.encode(text)
    room = find_room(getattr(model.network, "encoder", model.network))
    most = min(MOST_TOKENS, getattr(model.task, "room", room) - len(special.encoder_bos) - 1)
    ids = given[:most]
    if not ids:
        raise ValueError("a text to look at has at least one word, a blank one came")
    framed = [*special.encoder_bos, *ids, special.eos]

    def run(copies: int) -> Tensor:
        logits: Tensor = model.network(lay_out(framed, copies))
        return logits.float().log_softmax(-1).view(copies, -1, logits.shape[-1])

    with intervening(model.network, what_if):
        wanted = [int(run(1)[0, 0].argmax())] if names else []
    one = Pass(model.network, run, wanted, lambda number: names[number], len(framed))
    about = {
        "model": model.name,
        "task": model.kind,
        "read": text,
        "wrote": names[wanted[0]] if names else "",
        "parts": PARTS,
        **note_cut(given),
    }
    rows = [make_row("text", codec, ids, len(special.encoder_bos), 1)]
    return inspect_pass(one, rows, lambda layer: ("encoder", "text", "text", 0), about, what_if)
