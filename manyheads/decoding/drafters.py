"""Drafters, which guess the next tokens: from the last pass, from earlier text, or with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from manyheads.decoding.bounds import find_room
from manyheads.decoding.config import DRAFTERS
from manyheads.decoding.draft_table import NO_TABLE, DraftTable
from manyheads.decoding.drafts import Draft, Drafter, DraftPace
from manyheads.decoding.graphed_step import GraphedStep
from manyheads.decoding.step import RewindableStep
from manyheads.devices import send

ORDERS = 4, 3, 2, 1  # lengths of the n-grams that are looked up, the longest first
SURE = 0.3  # the least probability of a first guess, for a pass of several tokens to be worth it
STILL = 0.08  # the least probability of all guesses together, for one more
Followed = dict[tuple[int, ...], dict[int, int]]  # how often each token followed an n-gram
Guess = tuple[int, float]  # a token and its probability

# A source -> a step that has read nothing yet, and the start tokens.
BeginDraft = Callable[[Sequence[int]], tuple[RewindableStep, list[int]]]


class LastPass:
    """Guess what the model predicted after the first wrong guess: it is often right anyway."""

    def __init__(self) -> None:
        self.pace = DraftPace()

    def start(self, source: Sequence[int]) -> Draft:
        return LastPassDraft()


class LastPassDraft:
    """The guesses of one sequence."""

    def __init__(self) -> None:
        self.beyond: list[int] = []

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        return self.beyond or [*ids[-1:]]

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        self.beyond = [*beyond]


class BeatBefore:
    """Guess the tokens of the beat before: in a grid of voices most notes continue."""

    def __init__(self, beat: int):
        self.beat, self.pace = beat, DraftPace()

    def start(self, source: Sequence[int]) -> Draft:
        return BeatDraft(self.beat, source)


class BeatDraft:
    """The guesses of one sequence, which continues its source."""

    def __init__(self, beat: int, source: Sequence[int]):
        self.beat, self.before = beat, [*source[-beat:]]

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        last = [*self.before, *ids][-self.beat :]
        whole = len(last) == self.beat
        return [last[i % self.beat] for i in range(most)] if whole else []

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        """Nothing to do: `propose` gets the kept tokens."""


class NgramLookup:
    """Guess the token that followed the same n-gram before, in the source or in any output; or one
    from a table, if there is one; or the token of the beat before."""

    def __init__(self, table: DraftTable = NO_TABLE, beat: int = 1) -> None:
        self.table, self.beat, self.pace = table, beat, DraftPace()
        self.written: Followed = {}
        # For each place in four beats: how often the token equals that of the beat before, or not.
        self.held = [[4, 1] for _ in range(4 * beat)]

    def start(self, source: Sequence[int]) -> Draft:
        return LookupDraft(self, source)


class LookupDraft:
    """The guesses of one sequence."""

    def __init__(self, known: NgramLookup, source: Sequence[int]):
        self.known, self.parts = known, known.table.prepare(source)
        self.learned = 0  # tokens of this sequence that are already counted
        self.read: Followed = {}
        learn_from(self.read, source, 0)

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        guessed, likely = list[int](), 1.0
        while len(guessed) < most:
            found = max(self.look_up([*ids, *guessed]), key=lambda one: one[1], default=(0, 0.0))
            likely *= found[1]
            if likely < (STILL if guessed else SURE):
                break
            guessed.append(found[0])
        return guessed

    def look_up(self, ids: Sequence[int]) -> Iterator[Guess]:
        beat = self.known.beat
        if 1 < beat <= len(ids):
            same, other = self.known.held[len(ids) % (4 * beat)]
            yield ids[-beat], same / (same + other)
        yield from self.known.table.look_up(self.parts, ids)
        for table in (self.read, self.known.written):
            if (found := find_likeliest(table, ids)) is not None:
                yield found

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        learn_from(self.known.written, ids, self.learned)
        beat = self.known.beat
        for at in range(max(beat, self.learned), len(ids)) if beat > 1 else ():
            self.known.held[at % (4 * beat)][ids[at] != ids[at - beat]] += 1
        self.learned = len(ids)


def learn_from(table: Followed, ids: Sequence[int], begin: int) -> None:
    for end in range(max(1, begin), len(ids)):
        for order in ORDERS:
            if order <= end:
                after = table.setdefault(tuple(ids[end - order : end]), {})
                after[ids[end]] = after.get(ids[end], 0) + 1


def find_likeliest(table: Followed, ids: Sequence[int]) -> Guess | None:
    """Return the token that followed the longest known n-gram at the end, and its probability,
    which is lowered for small counts and short n-grams."""
    for order in ORDERS:
        after = table.get(tuple(ids[-order:])) if order <= len(ids) else None
        if after:
            token = max(after, key=after.__getitem__)
            return token, after[token] / (sum(after.values()) + 2 / order)
    return None


class Smaller:
    """Guess greedily with a smaller model that has the same vocabulary.

    `begin` returns its step for a source, and the start tokens; `device` returns the device of its
    tokens.
    """

    def __init__(self, begin: BeginDraft, device: Callable[[], Any] = lambda: "cpu"):
        self.begin, self.device, self.pace = begin, device, DraftPace()

    def start(self, source: Sequence[int]) -> Draft:
        step, begun = self.begin(source)
        if isinstance(step, GraphedStep):
            return GraphedDraft(step, begun, self.pace)
        return SmallerDraft(step, begun, self.device())


class SmallerDraft:
    """The guesses of one sequence."""

    def __init__(self, step: RewindableStep, begun: list[int], device: torch.device | str):
        self.step, self.begun, self.device = step, begun, device
        self.room = find_room(getattr(step, "decoder", None))
        self.read: list[int] = []  # the tokens that its step has read

    @torch.no_grad()
    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        wanted = [*self.begun, *ids]
        most = min(most, self.room - len(wanted) + 1)  # it may have fewer places than the other
        same = count_same(self.read, wanted[:-1])  # always read the last one again
        if same < len(self.read):
            self.step.crop(same)
        self.read = self.read[:same]
        guessed, new, likely = list[int](), wanted[same:], 1.0
        while len(guessed) < most and likely >= SURE:
            scores = self.score(new)
            token = int(scores.argmax())
            likely *= float((scores[token] - scores.logsumexp(0)).exp())
            guessed.append(token)
            new = [token]
        return guessed

    def score(self, new: list[int]) -> Tensor:
        """Return the logits after these tokens (V,); read at most a context at once."""
        for part in torch.tensor([new]).split(getattr(self.step, "context", len(new)), 1):
            scores = self.step(send(part, self.device))[0]
        self.read += new
        return scores

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        """Nothing to do: `propose` gets the kept tokens."""


class GraphedDraft:
    """The guesses of one sequence by a recorded step, without waiting for the device."""

    def __init__(self, step: GraphedStep, begun: list[int], pace: DraftPace):
        self.step, self.begun, self.pace = step, begun, pace
        self.right = 0  # tokens in its cache that are right
        self.asked = False

    def propose(self, ids: Sequence[int], most: int) -> list[int] | Tensor:
        wanted = [*self.begun, *ids]
        most = min(most, self.pace.ahead, self.step.longest - len(wanted))
        if most < 1:
            return []
        self.step.crop(min(self.right, len(wanted) - 1))  # always read the last one again
        self.asked = True
        return self.step.guess(wanted[self.step.length :], most)

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        if self.asked:  # the last kept token is not one of its guesses
            self.right = min(self.step.length, len(self.begun) + len(ids) - 1)
            self.asked = False


def count_same(one: Sequence[int], other: Sequence[int]) -> int:
    """Count equal tokens at the beginning: [5, 6, 7], [5, 6, 8, 9] -> 2"""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def make_drafter(name: str, table: DraftTable = NO_TABLE, beat: int = 1) -> Drafter:
    """Return a drafter by its name; with a `beat` above 1 it also guesses the beat before."""
    if name == "again":
        return BeatBefore(beat) if beat > 1 else LastPass()
    if name != "lookup":
        raise ValueError(f"there is no drafter {name!r}; there are {', '.join(DRAFTERS)}")
    return NgramLookup(table, beat)
