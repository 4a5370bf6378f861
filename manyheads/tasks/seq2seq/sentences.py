"""Where a sentence ends: a line of several is read one by one, and what is written joined again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Words that end in a dot within a sentence, in a few languages; a single letter does too, and a
# number of a day, "am 3. Mai", is not told from one that ends a sentence.
SHORT = (
    "dr mr mrs ms prof st sr jr hr fr nr no vs vgl bzw ca usf evtl inkl abs art bd hl geb gest "
    "m mm mme mlle sra dra ing av cf fig pp vol approx dept est gen gov lt col sgt rev hon"
)
NOT_LAST = re.compile(rf"(?:^|[^\w])(?:{'|'.join(SHORT.split())}|[^\W\d_]|\d{{1,2}})\.$", re.I)
CLOSING = "\"'”’»«“)\\]"
END = re.compile(
    rf"(?P<dot>[.])[{CLOSING}]*\s+|[!?…؟۔।]+[{CLOSING}]*\s+"
    r"|[。！？]+(?![。！？」』）”’])\s*"  # what was said 「はい。」 is a part of who says it
    r"|\n\s*"
)
LETTER = re.compile(r"[^\W_]")
NEAR = 20  # characters
TOGETHER = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff01-\uff60]$")  # what no space stands after


class Sentence(NamedTuple):
    """A part of a text, and what stood between it and the next."""

    text: str
    after: str = ""


def split_sentences(text: str) -> list[Sentence]:
    """ "Er kam. Sie ging!" -> Er kam. | Sie ging!"""
    text = text.strip()
    found, begin, looked, worded = list[Sentence](), 0, 0, False
    for end in END.finditer(text):
        # Each character is looked at once, however many dots there are.
        worded = worded or bool(LETTER.search(text, looked, end.start()))
        looked = end.end()
        if not worded or looked == len(text) or ("\n" not in end[0] and goes_on(text, begin, end)):
            continue
        said = text[begin:looked].rstrip()
        found.append(Sentence(said, text[begin + len(said) : looked]))
        begin, worded = looked, False
    return [*found, Sentence(text[begin:])] if text else []


def goes_on(text: str, begin: int, end: re.Match[str]) -> bool:
    """Whether the sentence does, after an abbreviation or before a small letter."""
    first = LETTER.search(text, end.end(), end.end() + NEAR)
    if first and first[0].islower():
        return True
    dot = end.start("dot")
    return dot >= 0 and bool(NOT_LAST.search(text[max(begin, dot - NEAR) : dot + 1]))


def cut_at_spaces(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """A text without an end of a sentence, cut at spaces until each part fits."""
    if len(text) < 2 or fits(text):
        yield text
        return
    middle = len(text) // 2
    before, after = text.rfind(" ", 0, middle), text.find(" ", middle)
    near = min((at for at in (before, after) if at > 0), key=lambda at: abs(at - middle), default=0)
    for part in (text[: near or middle], text[near or middle :]):
        yield from cut_at_spaces(part.strip(), fits)


def join_texts(one: str, after: str, other: str) -> str:
    """Two texts that were written for neighbours, apart as their script and their lines have it."""
    if not one or not other:
        return one + other
    return one + ("\n" if "\n" in after else "" if TOGETHER.search(one) else " ") + other
