"""Turn tokens into text while they are generated: whole characters, and no stop strings."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.codecs.text import Text

BROKEN = "\ufffd"  # the replacement character for bytes that are no character


class Detokenizer:
    """Return the text after a prompt in pieces: `add` each token, then `end`.

    A token may hold half of a character: it is held back until the rest comes. Text that may be the
    beginning of one of the `stops` is held back until that is decided; after a stop nothing comes.
    """

    def __init__(self, codec: Text, prompt: Sequence[int], stops: Sequence[str] = ()):
        self.codec, self.stops = codec, stops
        self.ids = list(prompt)
        # A token is rendered together with the one before, since some codecs put a space between.
        self.first, self.told = 0, len(self.ids)
        self.held = ""  # may be the beginning of a stop
        self.stopped = False

    def add(self, token: int) -> str:
        """Add a token and return the text that is certain now."""
        self.ids.append(token)
        new = self.render_new()
        if not new or new.endswith(BROKEN):
            return ""
        self.first, self.told = self.told, len(self.ids)
        return self.pass_on(new)

    def end(self) -> str:
        """Return the text that was held back, at the end of the sequence."""
        rest = self.pass_on(self.render_new())
        rest, self.held = ("" if self.stopped else rest + self.held), ""
        return rest

    def all(self, ids: Sequence[int]) -> str:
        """Return the text of a whole sequence at once."""
        return "".join([*map(self.add, ids), self.end()])

    def render_new(self) -> str:
        before = self.codec.render(self.ids[self.first : self.told])
        return self.codec.render(self.ids[self.first :])[len(before) :]

    def pass_on(self, new: str) -> str:
        """Return text up to the first stop, without an end that may begin one."""
        if self.stopped:
            return ""
        text = self.held + new
        found = [text.index(stop) for stop in self.stops if stop in text]
        self.stopped = bool(found)
        cut = min(found) if found else len(text) - count_stop_begun(text, self.stops)
        self.held = text[cut:]
        return text[:cut]


def count_stop_begun(text: str, stops: Sequence[str]) -> int:
    """Count the last characters that may begin a stop: "and th", ["the end"] -> 2"""
    longest = min(len(text), max(map(len, stops), default=0))
    return next(
        (n for n in range(longest, 0, -1) if any(s.startswith(text[-n:]) for s in stops)), 0
    )
