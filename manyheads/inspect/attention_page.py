"""The attention of a model as one HTML file, which opens anywhere and loads nothing else.

H heads, Q queries, K keys.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.inspect.heads import describe_heads

SOURCES = Path(__file__).parent / "page"
# In the order of their imports, since they are joined into one script.
MODULES = (
    "rollout.js",
    "data.js",
    "surface.js",
    "lines.js",
    "maps.js",
    "tree.js",
    "lens.js",
    "roll.js",
    "graph.js",
    "picture.js",
    "tables.js",
    "state.js",
    "main.js",
)
POLICY = "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'"
Levels = NDArray[np.uint8]
FINE: Levels = np.arange(256, dtype=np.uint8)
# A large page uses fewer levels: each weight is still exact to 1/255.
COARSE: Levels = np.array(
    [*range(0, 40, 5), *range(40, 64, 4), *range(64, 128, 2), *range(128, 256)], np.uint8
)
LARGE_BYTES = 3_000_000  # 4 MB in base64
FRAME = (
    '<iframe srcdoc="{}" title="what the model looked at" loading="lazy" '
    'style="width: 100%; height: 860px; border: 0"></iframe>'
)


@dataclass(frozen=True)
class TokenRow:
    """The tokens on one side of a map: their texts, their words, and which are special tokens."""

    label: str  # "source", "written", ...
    tokens: Sequence[str]
    words: Sequence[int]  # the number of each token's word; -1 for a special token
    signs: Sequence[bool]
    # The texts of words with tokens that are only a part of a character: {4: "猫"}
    spelled: Mapping[int, str] = field(default_factory=dict)

    def count_words(self) -> int:
        """Count words; each special token counts as one."""
        pairs = zip([None, *self.words], self.words, strict=False)
        return sum(word < 0 or word != before for before, word in pairs)

    def describe(self) -> dict[str, Any]:
        told = {"tokens": list(self.tokens), "words": list(self.words), "signs": list(self.signs)}
        return {**told, "spelled": dict(self.spelled)} if self.spelled else told


@dataclass(frozen=True, eq=False)
class LayerMap:
    """The attention of one layer, and which tokens are its queries and keys."""

    name: str  # "decoder.3.cross"
    part: str  # "cross"
    layer: int
    queries: str
    keys: str
    weights: Tensor = field(repr=False)  # (H, Q, K)
    first: int = 0  # the place of the first query
    # (Q, K) distances, if tokens are not on a line
    apart: Tensor | None = field(default=None, repr=False)
    # statistics of each head, if not of `weights`
    numbers: list[dict[str, Any]] | None = field(default=None, repr=False)

    def describe(self, signs: Sequence[bool]) -> list[dict[str, Any]]:
        if self.numbers is not None:
            return self.numbers
        if self.apart is not None or self.part == "cross":
            return describe_heads(self.weights, signs, self.apart)
        queries, keys = (torch.arange(size) for size in self.weights.shape[1:])
        apart = (queries[:, None] - keys).abs().float()
        return describe_heads(self.weights, signs, apart, in_line=True)


@dataclass(frozen=True, eq=False)
class AttentionPage:
    """The attention of all heads, and everything else that the page shows."""

    rows: Sequence[TokenRow]
    maps: Sequence[LayerMap]
    # model, task, texts, candidates, costs
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    versus: AttentionPage | None = None  # another page, to show the difference

    def header(self) -> dict[str, Any]:
        rows = {row.label: row for row in self.rows}
        layers = [
            {
                "name": one.name,
                "part": one.part,
                "layer": one.layer,
                "queries": one.queries,
                "keys": one.keys,
                "shape": list(one.weights.shape),
                "first": one.first,
                "numbers": one.describe(rows[one.keys].signs),
            }
            for one in self.maps
        ]
        sides = {label: row.describe() for label, row in rows.items()}
        return {**self.about, "sides": sides, "layers": layers}

    def payload(self) -> bytes:
        """Return four bytes of header length, the header as JSON and the maps, compressed."""
        payload = self.compress(FINE)
        return payload if len(payload) <= LARGE_BYTES else self.compress(COARSE)

    def compress(self, levels: Levels) -> bytes:
        header = json.dumps(self.header(), separators=(",", ":")).encode()
        maps = b"".join(to_bytes(one.weights, levels).tobytes() for one in self.maps)
        return gzip.compress(struct.pack("<I", len(header)) + header + maps, 6, mtime=0)

    def html(self) -> str:
        script, style = inline_modules(), read_source("page.css")
        policy = POLICY.format(*(f"'sha256-{digest(text)}'" for text in (script, style)))
        # No text of the model is in the file as plain text: the data are base64.
        filled = {
            "<!-- policy -->": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            "<!-- style -->": f"<style>{style}</style>",
            "<!-- data -->": "".join(
                f'<script type="text/plain" id="{name}">{page.base64()}</script>'
                for name, page in (("data", self), ("versus-data", self.versus))
                if page is not None
            ),
            "<!-- script -->": f'<script type="module">{script}</script>',
        }
        page = read_source("page.html")
        for mark, text in filled.items():
            page = page.replace(mark, text)
        return page

    def with_about(self, **more: Any) -> AttentionPage:
        return replace(self, about={**self.about, **more})

    def compare(self, other: AttentionPage, names: Sequence[str] = ()) -> AttentionPage:
        """Show this page beside another one with the same heads and number of words."""
        for what, mine, theirs in zip(
            ("heads", "words"), self.count_parts(), other.count_parts(), strict=True
        ):
            if mine != theirs:
                raise ValueError(
                    f"two pages are compared that have as many {what}: one has "
                    f"{describe_counts(mine)}, the other {describe_counts(theirs)}"
                )
        if self.about.get("graph") or self.about.get("picture"):
            raise ValueError("pages of texts are compared; these are of something else")
        first, second = names or (self.about.get("read", ""), other.about.get("read", ""))
        return replace(self.with_about(name=first), versus=other.with_about(name=second))

    def count_parts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the number of heads of each layer, and of words of each side."""
        heads = {one.name: len(one.weights) for one in self.maps}
        return heads, {row.label: row.count_words() for row in self.rows}

    def base64(self) -> str:
        return base64.b64encode(self.payload()).decode()

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return FRAME.format(html.escape(self.html(), quote=True))


def describe_counts(counts: Mapping[str, int]) -> str:
    """ "source 5, written 6" """
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def to_bytes(weights: Tensor, levels: Levels = FINE) -> NDArray[np.uint8]:
    """Store the square root of each weight in a byte: a linear byte would lose small weights."""
    roots = weights.float().clamp(0, 1).sqrt().mul(255).cpu().numpy()
    return levels[np.digitize(roots, (levels[1:].astype(np.float32) + levels[:-1]) / 2)]


def read_source(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def inline_modules() -> str:
    """Join all modules into one script without imports, since no name occurs in two modules."""
    text = "\n".join(map(read_source, MODULES))
    text = re.sub(r"^import [^;]*;\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^export ", "", text, flags=re.MULTILINE)


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
