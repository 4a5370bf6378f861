"""Split a text into sentences, which are read one by one, and join the outputs again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Abbreviations that end in a dot within a sentence, in a few languages. A dot after one letter, or
# after a number of one or two digits as in "am 3. Mai", does not end a sentence either.
SHORT = (
    "dr mr mrs ms prof st sr jr hr fr nr no vs vgl bzw ca usf evtl inkl abs art bd hl geb gest "
    "m mm mme mlle sra dra ing av cf fig pp vol approx dept est gen gov lt col sgt rev hon"
)
NOT_LAST = re.compile(rf"(?:^|[^\w])(?:{'|'.join(SHORT.split())}|[^\W\d_]|\d{{1,2}})\.$", re.I)
CLOSING = "\"'”’»«“)\\]"
END = re.compile(
    rf"(?P<dot>[.])[{CLOSING}]*\s+|[!?…؟۔।]+[{CLOSING}]*\s+"
    r"|[。！？]+(?![。！？」』）”’])\s*"  # quoted speech 「はい。」 does not end the sentence
    r"|\n\s*"
)
LETTER = re.compile(r"[^\W_]")
NEAR = 20  # characters
TOGETHER = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff01-\uff60]$")  # scripts without spaces


class Sentence(NamedTuple):
    """A part of a text, and the characters between it and the next."""

    text: str
    after: str = ""


def split_sentences(text: str) -> list[Sentence]:
    """ "Er kam. Sie ging!" -> Er kam. | Sie ging!"""
    text = text.strip()
    found, begin, looked, worded = list[Sentence](), 0, 0, False
    for end in END.finditer(text):
        # Search each character only once, however many dots there are.
        worded = worded or bool(LETTER.search(text, looked, end.start()))
        looked = end.end()
        if not worded or looked == len(text) or ("\n" not in end[0] and goes_on(text, begin, end)):
            continue
        said = text[begin:looked].rstrip()
        found.append(Sentence(said, text[begin + len(said) : looked]))
        begin, worded = looked, False
    return [*found, Sentence(text[begin:])] if text else []


def goes_on(text: str, begin: int, end: re.Match[str]) -> bool:
    """Whether the sentence goes on: after an abbreviation, or before a small letter."""
    first = LETTER.search(text, end.end(), end.end() + NEAR)
    if first and first[0].islower():
        return True
    dot = end.start("dot")
    return dot >= 0 and bool(NOT_LAST.search(text[max(begin, dot - NEAR) : dot + 1]))


def cut_at_spaces(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Cut a long sentence at spaces until each part fits."""
    if len(text) < 2 or fits(text):
        yield text
        return
    middle = len(text) // 2
    before, after = text.rfind(" ", 0, middle), text.find(" ", middle)
    near = min((at for at in (before, after) if at > 0), key=lambda at: abs(at - middle), default=0)
    for part in (text[: near or middle], text[near or middle :]):
        yield from cut_at_spaces(part.strip(), fits)


def join_texts(one: str, after: str, other: str) -> str:
    """Join two outputs of one text: with a newline, a space, or nothing, as script and text
    require.
    """
    if not one or not other:
        return one + other
    return one + ("\n" if "\n" in after else "" if TOGETHER.search(one) else " ") + other
