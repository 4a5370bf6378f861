"""The page of a long text: groups of tokens, or single tokens of a part.

H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.nn.functional import max_pool2d

from manyheads.inspect.attention_page import AttentionPage, LayerMap, TokenRow

MOST_TOKENS = 512  # the most tokens on a side of a map
LONGEST = 2048  # the most tokens of a text
MOST_LETTERS = 24  # the longest label of a group
Part = tuple[int, int] | str  # (600, 1100) or "600:1100"


def fit_page(page: AttentionPage, part: Part | None = None) -> AttentionPage:
    """Show the tokens of a part; or group all tokens if they are too many for a page."""
    count = max(len(row.tokens) for row in page.rows)
    if part is None and count <= MOST_TOKENS:
        return page
    first, last = (0, count) if part is None else read_part(part, count)
    for row in page.rows:
        if first >= len(row.tokens):
            raise ValueError(
                f"tokens {first}:{last} are none of those {row.label}, which has {len(row.tokens)}"
            )
    size = -(-(last - first) // MOST_TOKENS)
    spans = {
        row.label: [
            range(i, min(i + size, last, len(row.tokens)))
            for i in range(first, min(last, len(row.tokens)), size)
        ]
        for row in page.rows
    }
    signs = {row.label: row.signs for row in page.rows}
    about = {**page.about, "long": {"tokens": count, "first": first, "group": size}}
    shortest = min(len(row.tokens) for row in page.rows)
    told = describe_part(about["long"], last, shortest)
    about["note"] = "; ".join(filter(None, [about.get("note"), told]))
    if "roll" in about:
        about["roll"] |= join_spots(about["roll"], spans, size)
    for row in page.rows:
        if row.label == "written":
            about |= join_output(about, row, spans[row.label])
    return AttentionPage(
        [join_row(row, spans[row.label], size) for row in page.rows],
        [pool_map(one, slice(first, last), size, signs[one.keys]) for one in page.maps],
        about,
    )


def read_part(asked: Part, count: int) -> tuple[int, int]:
    """Read a range, with an exclusive end: "600:1100" -> (600, 1100)"""
    try:
        first, last = map(int, asked.split(":") if isinstance(asked, str) else asked)
    except (TypeError, ValueError):
        raise ValueError(
            f"tokens are FIRST:LAST, two whole numbers as in 600:1100, got {asked}"
        ) from None
    if not 0 <= first < last <= count or last - first > MOST_TOKENS:
        raise ValueError(
            f"tokens FIRST:LAST are from 0:{count} here, LAST after FIRST, {MOST_TOKENS} of them "
            f"at most, got {first}:{last}"
        )
    return first, last


def describe_part(long: Mapping[str, int], last: int, shortest: int) -> str:
    first, size, count = long["first"], long["group"], long["tokens"]
    if size == 1:
        return f"tokens {first}:{last} of {count:,}; what they read of others is not shown"
    middle = max(0, (shortest - MOST_TOKENS) // 2)  # here both sides have tokens
    return (
        f"groups of {size} tokens, the largest weight of each; "
        f"--tokens {middle}:{middle + MOST_TOKENS} shows a part token by token"
    )


def pool_map(layer: LayerMap, part: slice, size: int, signs: Sequence[bool]) -> LayerMap:
    """Max-pool the weights (H, Q, K) over groups; statistics are still those of single tokens."""
    weights = max_pool2d(layer.weights[:, part, part], size, ceil_mode=True)
    return replace(layer, weights=weights, numbers=layer.describe(signs))


def join_row(row: TokenRow, spans: Sequence[range], size: int) -> TokenRow:
    """Join the tokens of each group; a group of several tokens counts as one word."""
    return TokenRow(
        row.label,
        [join_tokens(row, span) for span in spans],
        [row.words[span[0]] for span in spans] if size == 1 else range(len(spans)),
        [all(row.signs[i] for i in span) for span in spans],
        row.spelled if size == 1 else {},
    )


def join_tokens(row: TokenRow, span: range) -> str:
    if len(span) == 1:
        return row.tokens[span[0]]
    begins = {i for i in span if row.words[i] < 0 or row.words[i] != row.words[i - 1]}
    text = "".join((" " if i in begins else "") + row.tokens[i] for i in span)
    text = " ".join(text.replace("␣", " ").split()) or "␣"
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def join_output(about: Mapping[str, Any], row: TokenRow, spans: Sequence[range]) -> dict[str, Any]:
    """Show the least likely token of each group, and the summed costs of its tokens."""
    every = about["candidates"]
    least = [min(span, key=lambda i: every[i]["p"]) for span in spans]
    return {
        "candidates": [
            join_candidates(every, row, at, span) for at, span in zip(least, spans, strict=True)
        ],
        "costs": {
            head: [round(sum(costs[i] for i in span), 4) for span in spans]
            for head, costs in about["costs"].items()
        },
        "lens": [[layer[at] for at in least] for layer in about["lens"]],
    }


def join_spots(
    roll: Mapping[str, Any], spans: Mapping[str, Sequence[range]], size: int
) -> dict[str, Any]:
    """Place each group of notes at its first note; `each` keeps all written notes."""
    sides = {"written": spans["written"], "read": spans["so far"]}
    joined: dict[str, Any] = {
        side: [next((roll[side][i] for i in span if roll[side][i]), None) for span in some]
        for side, some in sides.items()
    }
    return joined if size == 1 else {**joined, "each": roll["written"]}


def join_candidates(
    every: Sequence[Mapping[str, Any]], row: TokenRow, at: int, span: range
) -> dict[str, Any]:
    """Return the candidates of token `at`, with the log-probability of the whole group."""
    found = {**every[at], "at": at, "log": round(sum(every[i]["log"] for i in span), 4)}
    if len(span) > 1:
        found["of"] = row.tokens[at]
        if all(number != found["id"] for number, *_ in found["best"]):
            found["best"] = [*found["best"][:-1], [found["id"], row.tokens[at], found["p"]]]
    return found
