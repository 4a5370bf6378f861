"""Attention pages from one forward pass: the part that the tasks share.

V vocabulary, T target tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from manyheads.attention.kernels import Seen
from manyheads.codecs.text import Text
from manyheads.inspect.attention_page import AttentionPage, LayerMap, TokenRow
from manyheads.inspect.heads import HeadName, cost_each_head
from manyheads.inspect.interventions import Intervention, intervening, shorten
from manyheads.inspect.lens import find_last_stack, leaving_early
from manyheads.inspect.long import MOST_TOKENS
from manyheads.inspect.record import recording
from manyheads.tasks.words import HALF, words_of_pieces

START, STOP = "▸", "■"
UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
CANDIDATES = 6
AT_ONCE = 4096  # tokens in a batch of copies, each without one head
# The name of a layer -> its part, the row of its queries, the row of its keys, the first query
Place = Callable[[str], tuple[str, str, str, int]]


class AnyPass(Protocol):
    """A network that is run on copies of one input."""

    @property
    def network(self) -> nn.Module: ...

    @property
    def tokens(self) -> int:
        """Number of tokens in one copy."""

    @property
    def wanted(self) -> Sequence[Any]:
        """The T targets that heads are ranked by; if empty, heads are not ranked."""

    def tell(self) -> dict[str, Any]:
        """Run one copy, and return what the page shows of the output."""

    def score(self, copies: int) -> Tensor:
        """Return the log-probability of each target, or its value: (copies, T)"""


@dataclass(frozen=True, eq=False)
class Pass:
    """A network that predicts tokens: heads are ranked by the log-probability of the targets."""

    network: nn.Module
    run: Callable[[int], Tensor]  # copies -> log-probabilities (copies, T, V)
    wanted: Sequence[int]
    name: Callable[[int], str]  # name of a token
    tokens: int

    def tell(self) -> dict[str, Any]:
        logs = self.run(1)[0]
        found = list_candidates(logs, self.wanted, self.name) if self.wanted else []
        return {"candidates": found} if found else {}

    def score(self, copies: int) -> Tensor:
        logs = self.run(copies)
        at = torch.tensor(self.wanted, device=logs.device).expand(copies, -1)
        return logs.gather(2, at[..., None])[..., 0].cpu()


def list_candidates(
    logs: Tensor, wanted: Sequence[int], name: Callable[[int], str]
) -> list[dict[str, Any]]:
    """List for each target its probability and the likeliest tokens there; logs are (T, V)."""
    best = logs.exp().topk(min(CANDIDATES, logs.shape[-1]))
    each = zip(wanted, logs, best.values.tolist(), best.indices.tolist(), strict=True)
    return [
        {
            "id": token,
            "p": round(row[token].exp().item(), 5),
            "log": round(row[token].item(), 4),
            "best": [[i, name(i), round(p, 5)] for p, i in zip(ps, ids, strict=True)],
        }
        for token, row, ps, ids in each
    ]


@dataclass(frozen=True, eq=False)
class NumberPass:
    """A network that predicts numbers: heads are ranked by how far these move without them."""

    network: nn.Module
    run: Callable[[int], Tensor]  # copies -> numbers (copies, T), in standard deviations
    wanted: Sequence[str]
    tokens: int

    def tell(self) -> dict[str, Any]:
        self.run(1)
        return {"numbers": True}

    def score(self, copies: int) -> Tensor:
        return self.run(copies).cpu()


@torch.no_grad()
def inspect_pass(
    one: AnyPass,
    rows: Sequence[TokenRow],
    place: Place,
    about: Mapping[str, Any],
    edits: Sequence[Intervention] = (),
    apart: Tensor | None = None,
) -> AttentionPage:
    """Return a page of what every head attends to, and of what the output loses without it.

    If `apart` gives the distance of each query from each key, heads are described by it.
    """
    with intervening(one.network, edits):
        with recording(one.network) as seen:
            found = one.tell()
        if not seen:
            raise ValueError("this network has no attention: there is nothing to look at")
        heads = [HeadName(shorten(s.layer), h) for s in seen for h in range(s.weights.shape[1])]
        if found.get("candidates") and "picture" not in about:
            found["lens"] = read_by_layer(one)
        if one.wanted:
            costs = cost_each_head(one.network, heads, one.score, max(1, AT_ONCE // one.tokens))
            named = [f"{head.layer}/{head.head}" for head in heads]
            found["costs"] = dict(zip(named, round_rows(costs), strict=True))
    return AttentionPage(rows, map_layers(seen, place, apart), {**about, **found})


def record_attention(model: Any, *inputs: Any) -> list[Seen]:
    """Run a model on these inputs, and return the attention of each layer."""
    with recording(model.network) as seen:
        model.network(*inputs)
    if not seen:
        kind = model.task.recipe.network.kind
        raise ValueError(f"a {kind} network has no attention to look at; a transformer has")
    return seen


def choose_numbers(what: str, asked: int | None, count: int) -> list[int]:
    """Return the layer or head that was asked for, or all `count` of them."""
    if asked is not None and not 0 <= asked < count:
        raise ValueError(f"{what}s are numbered 0 to {count - 1}, {asked} was asked for")
    return [*range(count)] if asked is None else [asked]


def read_by_layer(one: AnyPass) -> list[list[list[Any]]]:
    """Predict from the first layers only, from no layer to all but the last (logit lens). Return
    for each place the likeliest token, its probability, and the probability of the target.
    """
    stack = find_last_stack(one.network)
    found = []
    for layers in range(len(stack.blocks) if stack is not None else 0):
        assert stack is not None
        with leaving_early(stack, layers):
            candidates = one.tell()["candidates"]
        found.append([[*each["best"][0][1:], each["p"]] for each in candidates])
    return found


def map_layers(seen: Sequence[Seen], place: Place, apart: Tensor | None = None) -> list[LayerMap]:
    """Return the attention map of each layer; layers are numbered within their part."""
    counts: dict[str, int] = {}
    found = []
    for one in seen:
        name = shorten(one.layer)
        part, queries, keys, first = place(name)
        counts[part] = number = counts.get(part, -1) + 1
        weights = one.weights[0, :, first:].float().cpu()
        found.append(LayerMap(name, part, number, queries, keys, weights, first, apart))
    return found


def make_row(
    label: str, codec: Text, ids: Sequence[int], before: int = 0, after: int = 0
) -> TokenRow:
    """Return the tokens of a text, with `before` start tokens and `after` end tokens."""
    words, names = words_of_pieces(codec, ids)
    pieces = [name_piece(piece) for piece in codec.pieces(ids)]
    parts = {word for word, piece in zip(words, pieces, strict=True) if HALF in piece and word >= 0}
    return TokenRow(
        label,
        [*[START] * before, *pieces, *[STOP] * after],
        [*[-1] * before, *words, *[-1] * after],
        [*[True] * before, *[False] * len(ids), *[True] * after],
        {word: name_piece(names[word]) for word in sorted(parts)},
    )


def name_piece(piece: str) -> str:
    """Return a token as it is shown: spaces alone as "␣", a line break as "↵", and control
    characters, also those that change the direction of text, as a replacement character.
    """
    return UNSEEN.sub(HALF, piece.strip(" ").replace("\n", "↵")) or "␣"


def round_rows(table: Tensor) -> list[list[float]]:
    return [[round(one, 4) for one in row] for row in table.tolist()]


def describe_page(model: Any, read: str, wrote: str, **more: Any) -> dict[str, Any]:
    """Return what a page says about itself: its model, task, input and output."""
    return {"model": model.name, "task": model.kind, "read": read, "wrote": wrote, **more}


def note_cut(*sides: Sequence[int], most: int = MOST_TOKENS) -> dict[str, str]:
    """Return a note for the reader if the page does not show all tokens."""
    longest = max(map(len, sides))
    if longest <= most:
        return {}
    return {"note": f"the first {most:,} of {longest:,} tokens are shown"}
