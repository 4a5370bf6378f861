"""Who guesses what comes next: the last pass, what was read and written before, another model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from manyheads.decoding.drafts import Drafter
from manyheads.decoding.step import RewindableStep

ORDERS = 4, 3, 2, 1  # tokens by which what follows is looked up, the most first
SURE = 0.25  # of the times that something followed: less often is no guess
Followed = dict[tuple[int, ...], dict[int, int]]  # how often which token followed these


# What is read -> a step that has read nothing yet, and the tokens that writing starts from.
BeginDraft = Callable[[Sequence[int]], tuple[RewindableStep, list[int]]]


class LastPass:
    """What the model said after its first wrong guess: often right all the same."""

    def __init__(self) -> None:
        self.beyond: list[int] = []

    def start(self, source: Sequence[int]) -> None:
        self.beyond = []

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        return self.beyond or [*ids[-1:]]

    def tell(self, ids: Sequence[int], beyond: Sequence[int]) -> None:
        self.beyond = [*beyond]


class NgramLookup:
    """What followed the same few tokens before: in what is read, and in all that was written."""

    def __init__(self) -> None:
        self.written: Followed = {}
        self.source: Followed = {}
        self.known = 0  # tokens of this sequence that were learned

    def start(self, source: Sequence[int]) -> None:
        self.source, self.known = {}, 0
        learn_from(self.source, source, 0)

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        guessed: list[int] = []
        while len(guessed) < most:
            token = likeliest((self.source, self.written), [*ids[-max(ORDERS) :], *guessed])
            if token is None:
                break
            guessed.append(token)
        return guessed

    def tell(self, ids: Sequence[int], beyond: Sequence[int]) -> None:
        learn_from(self.written, ids, self.known)
        self.known = len(ids)


def learn_from(table: Followed, ids: Sequence[int], begin: int) -> None:
    for end in range(max(1, begin), len(ids)):
        for order in ORDERS:
            if order <= end:
                after = table.setdefault(tuple(ids[end - order : end]), {})
                after[ids[end]] = after.get(ids[end], 0) + 1


def likeliest(tables: Sequence[Followed], ids: Sequence[int]) -> int | None:
    """The token that followed the longest known end of these, if often enough the same did."""
    for order in ORDERS:
        for table in tables if order <= len(ids) else ():
            after = table.get(tuple(ids[-order:]))
            if after:
                token = max(after, key=after.__getitem__)
                return token if after[token] >= SURE * sum(after.values()) else None
    return None


class Smaller:
    """Another model with the same vocabulary, which writes what it finds likeliest.

    `begin` gives its step for a source, and the token that writing starts from.
    """

    def __init__(self, begin: BeginDraft):
        self.begin = begin
        self.step: RewindableStep | None = None
        self.begun: list[int] = []
        self.read: list[int] = []  # all that its step has read

    def start(self, source: Sequence[int]) -> None:
        self.step, self.begun = self.begin(source)
        self.read = []

    @torch.no_grad()
    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        assert self.step is not None
        wanted = [*self.begun, *ids]
        same = count_same(self.read, wanted[:-1])  # the last one is always read anew
        if same < len(self.read):
            self.step.crop(same)
        self.read = self.read[:same]
        guessed, new = list[int](), wanted[same:]
        while len(guessed) < most:
            token = int(self.step(torch.tensor([new]))[0].argmax())
            self.read += new
            guessed.append(token)
            new = [token]
        return guessed

    def tell(self, ids: Sequence[int], beyond: Sequence[int]) -> None:
        """It sees what was kept when it is asked next."""


def count_same(one: Sequence[int], other: Sequence[int]) -> int:
    """[5, 6, 7], [5, 6, 8, 9] -> 2"""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


DRAFTERS: dict[str, Callable[[], Drafter]] = {"again": LastPass, "lookup": NgramLookup}


def make_drafter(name: str) -> Drafter | None:
    """By its name; none for no name."""
    if name and name not in DRAFTERS:
        raise ValueError(f"there is no drafter {name!r}; there are {', '.join(DRAFTERS)}")
    return DRAFTERS[name]() if name else None
