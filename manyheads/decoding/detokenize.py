"""What a sequence says while it is written: whole characters, and nothing of what ends it."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.codecs.text import Text

BROKEN = "\ufffd"  # what bytes that are no character are shown as


class Detokenizer:
    """The text that follows a prompt, in pieces: `add` each token, then `end`.

    A token may hold half of a character, which waits for the other half. What may be the beginning
    of one of the `stops` waits until it is or is not; nothing follows one.
    """

    def __init__(self, codec: Text, prompt: Sequence[int], stops: Sequence[str] = ()):
        self.codec, self.stops = codec, stops
        self.ids = list(prompt)
        # A token is rendered after the last that was told, for some codecs put a space between.
        self.first, self.told = 0, len(self.ids)
        self.held = ""  # may be the beginning of a stop
        self.stopped = False

    def add(self, token: int) -> str:
        """What can be told now."""
        self.ids.append(token)
        new = self.render_new()
        if not new or new.endswith(BROKEN):
            return ""
        self.first, self.told = self.told, len(self.ids)
        return self.pass_on(new)

    def end(self) -> str:
        """What was held back, for nothing follows."""
        rest = self.pass_on(self.render_new())
        rest, self.held = ("" if self.stopped else rest + self.held), ""
        return rest

    def all(self, ids: Sequence[int]) -> str:
        """Tokens that nothing follows, at once."""
        return "".join([*map(self.add, ids), self.end()])

    def render_new(self) -> str:
        before = self.codec.render(self.ids[self.first : self.told])
        return self.codec.render(self.ids[self.first :])[len(before) :]

    def pass_on(self, new: str) -> str:
        """Up to the first stop, and without what may begin one."""
        if self.stopped:
            return ""
        text = self.held + new
        found = [text.index(stop) for stop in self.stops if stop in text]
        self.stopped = bool(found)
        cut = min(found) if found else len(text) - count_stop_begun(text, self.stops)
        self.held = text[cut:]
        return text[:cut]


def count_stop_begun(text: str, stops: Sequence[str]) -> int:
    """How many of the last characters may begin a stop: "and th", ["the end"] -> 2"""
    longest = min(len(text), max(map(len, stops), default=0))
    return next(
        (n for n in range(longest, 0, -1) if any(s.startswith(text[-n:]) for s in stops)), 0
    )
