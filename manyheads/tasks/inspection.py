"""One pass of a network over some tokens, as a page: what the tasks that read text share.

V vocabulary, T tokens that are wanted.
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
AT_ONCE = 4096  # tokens of copies, each without one head
# The name of a layer -> its part, whose tokens ask, whose answer, the first query
Place = Callable[[str], tuple[str, str, str, int]]


class AnyPass(Protocol):
    """A network over copies of the same input, and what it says of it."""

    @property
    def network(self) -> nn.Module: ...

    @property
    def tokens(self) -> int:
        """Of one copy."""

    @property
    def wanted(self) -> Sequence[Any]:
        """What heads are ranked by, T of them; none: they are not."""

    def tell(self) -> dict[str, Any]:
        """What the page says of the output, by one pass over one copy."""

    def score(self, copies: int) -> Tensor:
        """How likely each that is wanted is, or how large: (copies, T)"""


@dataclass(frozen=True, eq=False)
class Pass:
    """A network that says how likely each wanted token is."""

    network: nn.Module
    run: Callable[[int], Tensor]  # copies -> log-probabilities (copies, T, V)
    wanted: Sequence[int]
    name: Callable[[int], str]  # of a token
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
    """For each wanted token its probability, and those that are likeliest there; (T, V)"""
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
    """A network that says numbers: heads are ranked by how far these move without them."""

    network: nn.Module
    run: Callable[[int], Tensor]  # copies -> numbers (copies, T), in deviations of the learned ones
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
    """What every head looked at, and what the output loses without it.

    Where `apart` says how far each query is from each key, heads are described by that.
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
    """What each layer of a model looks at while it reads these."""
    with recording(model.network) as seen:
        model.network(*inputs)
    if not seen:
        kind = model.task.recipe.network.kind
        raise ValueError(f"a {kind} network has no attention to look at; a transformer has")
    return seen


def choose_numbers(what: str, asked: int | None, count: int) -> list[int]:
    """The one layer or head that was asked for, or all of so many."""
    if asked is not None and not 0 <= asked < count:
        raise ValueError(f"{what}s are numbered 0 to {count - 1}, {asked} was asked for")
    return [*range(count)] if asked is None else [asked]


def read_by_layer(one: AnyPass) -> list[list[list[Any]]]:
    """Where only the first layers are there, what is likeliest at each place, how likely that is,
    and how likely what was wanted is: from no layer to all but the last.
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
    """Layers of a part are counted by themselves."""
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
    """The pieces of a text, with so many signs at its start and at its end."""
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
    """Spaces are seen where there is nothing else; a line break is no line break, and what would
    turn the text around it is shown as a sign.
    """
    return UNSEEN.sub(HALF, piece.strip(" ").replace("\n", "↵")) or "␣"


def round_rows(table: Tensor) -> list[list[float]]:
    return [[round(one, 4) for one in row] for row in table.tolist()]


def describe_page(model: Any, read: str, wrote: str, **more: Any) -> dict[str, Any]:
    """What a page says of itself: whose it is, and of what."""
    return {"model": model.name, "task": model.kind, "read": read, "wrote": wrote, **more}


def note_cut(*sides: Sequence[int], most: int = MOST_TOKENS) -> dict[str, str]:
    """What a reader should know of a page that does not show all."""
    longest = max(map(len, sides))
    if longest <= most:
        return {}
    return {"note": f"the first {most:,} of {longest:,} tokens are shown"}
