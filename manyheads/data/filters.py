"""Find bad pairs in a corpus before training.

Each filter has a reason in words; the first one that applies counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from manyheads.config.declare import Settings, setting
from manyheads.data.sources import Example

SHOWN = 3  # examples of each reason
CUT = 60  # characters that are shown of an example


@dataclass(frozen=True)
class Filters(Settings):
    """What is left out; a limit of 0 is no limit."""

    longest_characters: int = setting(
        2000,
        "Leave out pairs with more than this many characters on one side; 0: no limit.",
        least=0,
    )
    ratio: float = setting(
        6.0,
        "Leave out pairs in which one side is more than this many times as long as the other; 0: "
        "no limit.",
        least=0,
    )
    ratio_from: int = setting(
        20, "Apply the ratio only to pairs with at least this many characters on one side.", least=0
    )

    def reason(self, example: Example) -> str:
        """Return why this pair is left out; empty where it is kept."""
        if blank := find_blank(example):
            return blank
        one, other = len(example.source.strip()), len(example.target.strip())
        if self.longest_characters and max(one, other) > self.longest_characters:
            return f"longer than {self.longest_characters} characters"
        longer, shorter = max(one, other), min(one, other)
        if self.ratio and longer >= self.ratio_from and longer > self.ratio * shorter:
            return f"one side over {self.ratio:g} times as long as the other"
        return ""


def find_blank(example: Example) -> str:
    """Return which sides of a pair are empty, in words; empty if none is."""
    one, other = bool(example.source.strip()), bool(example.target.strip())
    if one and other:
        return ""
    return "empty on one side" if one or other else "empty on both sides"


@dataclass
class LeftOut:
    """What was left out, by reason: how many, and the first few."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, what: str) -> None:
        self.counts[reason] += 1
        some = self.first.setdefault(reason, [])
        if len(some) < SHOWN:
            some.append(what)

    def __str__(self) -> str:
        lines = []
        for reason, count in self.counts.most_common():
            lines.append(f"  {count:,} left out: {reason}")
            lines += [f"    {what}" for what in self.first[reason]]
        return "\n".join(lines)


@dataclass
class Report:
    """What was read, kept and left out, as text for the user."""

    read: int = 0
    kept: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)
    remarks: list[str] = field(default_factory=list)

    def note(self, reason: str, example: Example) -> None:
        both = " | ".join(map(shorten_text, (example.source, example.target)))
        self.left_out.add(reason, f"line {example.line}: {both}")

    def __str__(self) -> str:
        lines = [f"{self.read:,} pairs read, {self.kept:,} kept", *(f"  {r}" for r in self.remarks)]
        return "\n".join([*lines, str(self.left_out)] if self.left_out.counts else lines)


def shorten_text(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def filter_pairs(
    examples: Iterable[Example],
    report: Report,
    filters: Filters = Filters(),
    *,
    held_out: Iterable[Example] = (),
) -> Iterator[Example]:
    """Yield the pairs to train on, and fill in the report.

    Repeated pairs are left out, and so are pairs that are also held out for validation: a score on
    training data says nothing.
    """
    leaks = {hash_pair(example) for example in held_out}
    met: set[int] = set()
    for example in examples:
        report.read += 1
        reason = filters.reason(example)
        if not reason and (this := hash_pair(example)) in leaks:
            reason = "also held out for validation"
        elif not reason and this in met:
            reason = "met before"
        if reason:
            report.note(reason, example)
            continue
        met.add(this)
        report.kept += 1
        yield example


def tell_seen(
    train: Iterable[Any], valid: Iterable[Any], count: Callable[[Any], int] = lambda _: 1
) -> str:
    """ ", 3 of them trained on too", if any are: a score on those says little."""
    known = set(train)
    seen = sum(count(one) for one in valid if one in known)
    return f", {seen:,} of them trained on too" if seen else ""


def hash_pair(example: Example) -> int:
    """Return the hash of a pair, ignoring spaces: a corpus of millions fits into memory."""
    return hash((" ".join(example.source.split()), " ".join(example.target.split())))


def some_left(report: Report) -> None:
    """Refuse a corpus of which nothing was read or kept."""
    if not report.read:
        raise ValueError("nothing is in the corpus: its files are empty")
    if not report.kept:
        why = "".join(f", {n:,} {reason}" for reason, n in report.left_out.counts.items())
        raise ValueError(f"nothing is left of the corpus: {report.read:,} pairs read, 0 kept{why}")
