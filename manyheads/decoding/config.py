"""Decoding settings, and checks for settings that do not go together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from manyheads.config.declare import TypedSettings, setting, with_default

SEARCH, CHANCE, PARALLEL = "Search", "Sampling", "Parallel decoding"
DRAFTERS = "again", "lookup", "heads"  # names of drafters; any other name is a model
BEAM = 5  # default beam width


@dataclass(frozen=True)
class Sampling(TypedSettings):
    """Generate token by token: the likeliest at temperature 0, otherwise a sampled one. Settings
    narrow the choice in this order; `Repeats` changes the logits before all of them.
    """

    temperature: float = setting(
        1.0,
        "0: take the likeliest token; above 0: sample; higher values give more varied output.",
        panel=CHANCE,
    )
    top_k: int = setting(
        0, "Sample from this many of the likeliest tokens; 0: from all.", least=0, panel=CHANCE
    )
    top_p: float = setting(
        1.0,
        "Sample from the likeliest tokens that together have this probability.",
        above=0,
        most=1,
        panel=CHANCE,
    )
    min_p: float = setting(
        0.0,
        "Leave out tokens below this share of the highest probability.",
        least=0,
        most=1,
        panel=CHANCE,
    )
    seed: int = setting(0, "The same seed gives the same result.", panel=CHANCE)
    draft: str = setting(
        "",
        "Speculative decoding, with the same output as a beam of 1: again, lookup, heads, or a "
        "smaller model with the same vocabulary.",
    )
    strategy: str = setting(
        "auto", "greedy, sample, beam or a strategy of your own; auto: chosen by the other options."
    )

    def misfits(self) -> Iterator[str]:
        if not 0 <= self.temperature < math.inf:
            yield f"a temperature is a finite number from 0 (greedy) up, got {self.temperature}"
        if self.temperature == 0 and (self.top_k or self.top_p < 1 or self.min_p):
            yield "top_k, top_p and min_p narrow what is drawn; give a temperature too"
        if self.strategy in ("greedy", "beam") and self.temperature not in (0, self.usual()):
            yield (
                f"strategy={self.strategy} takes what is likeliest, and a temperature of "
                f"{self.temperature} draws; ask for one of them"
            )
        if self.strategy == "sample" and not self.temperature:
            yield "strategy=sample draws, and needs a temperature above 0"
        if self.draft and self.chosen not in ("greedy", "sample"):
            yield f"a draft is checked token by token, a {self.chosen} is not; beam=1 goes with it"

    @classmethod
    def usual(cls) -> float:
        """Return the default temperature."""
        usual: Any = next(one.default for one in fields(cls) if one.name == "temperature")
        return float(usual)

    @property
    def chosen(self) -> str:
        """The strategy; "auto" is resolved by the other settings."""
        if self.strategy != "auto":
            return self.strategy
        return "sample" if self.temperature else "greedy"


@dataclass(frozen=True)
class DecodingConfig(Sampling):
    """Greedy decoding, unless a beam above 1 or a temperature is given."""

    temperature: float = with_default(Sampling, "temperature", 0.0)
    beam: int = setting(1, "Beam width; 1: no beam search.", least=1, most=1000, panel=SEARCH)
    nbest: int = setting(1, "Write this many of the best candidates.", least=1, panel=SEARCH)
    length_penalty: float = setting(
        1.0,
        "Length penalty: rank by log-probability / length ** this; 0 favours short outputs.",
        least=0,
        panel=SEARCH,
    )
    # Without it, a search may take as many steps as the longest sequence may have tokens.
    early_stopping: bool = setting(
        True,
        "Stop beam search when as many candidates are complete as the beam is wide; otherwise "
        "when none can get better.",
        panel=SEARCH,
    )
    repetition_penalty: float = setting(
        1.0, "Above 1: make tokens less likely that already occurred.", above=0, panel=CHANCE
    )
    min_new_tokens: int = setting(0, "Minimum number of new tokens.", least=0)
    max_new_tokens: int = setting(
        0, "Maximum number of new tokens; 0: set by the length of the source.", least=0
    )

    passes: int = setting(
        10, "Decoding passes of a mask-predict model.", least=1, most=1000, panel=PARALLEL
    )
    lengths: int = setting(
        3,
        "Lengths that a mask-predict model tries; the best is kept.",
        least=1,
        panel=PARALLEL,
    )

    def misfits(self) -> Iterator[str]:
        yield from super().misfits()
        if self.temperature and self.beam > 1:
            yield (
                f"a beam searches and a temperature of {self.temperature} draws; "
                "temperature=0 goes with a beam"
            )
        if self.beam > 1 and self.strategy in ("greedy", "sample"):
            yield (
                f"a beam of {self.beam} searches, and strategy={self.strategy} does not; "
                "beam=1 goes with it"
            )
        if self.nbest > max(1, self.beam):
            yield (
                f"{self.nbest} best were asked for, a beam of {self.beam} finds {self.beam} at most"
            )
        if 0 < self.max_new_tokens < self.min_new_tokens:
            yield (
                f"min_new_tokens={self.min_new_tokens} is over max_new_tokens={self.max_new_tokens}"
            )

    @property
    def chosen(self) -> str:
        return "beam" if self.strategy == "auto" and self.beam > 1 else super().chosen


def choose_beam(asked: int | None, options: Mapping[str, Any]) -> int:
    """Return the asked beam width; the default is 1 for sampling or a draft, otherwise BEAM."""
    if asked is not None:
        return asked
    other = options.get("strategy") in ("greedy", "sample")
    return 1 if other or options.get("temperature") or options.get("draft") else BEAM


# ---- as keywords -----------------------------------------------------------------------------


class SamplingOptions(TypedDict, total=False):
    """The keyword arguments of a `Sampling`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    draft: str
    strategy: str


class DecodingOptions(SamplingOptions, total=False):
    """The keyword arguments of a `DecodingConfig`, without `beam` and `nbest`."""

    length_penalty: float
    early_stopping: bool
    repetition_penalty: float
    min_new_tokens: int
    max_new_tokens: int
    passes: int
    lengths: int
