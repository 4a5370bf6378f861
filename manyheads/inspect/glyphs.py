"""Which fonts draw a text: the usual one, others that are installed, or numbers where none does."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

NOTHING_IN_IT = "Last Resort"  # a font with a box for every character there is


class Glyphs(NamedTuple):
    """The families to draw with, in order, and what stands for characters that none of them has."""

    families: list[str]
    numbers: dict[int, str]

    def shown(self, text: str) -> str:
        """ "猫" -> "U+732B" where no font has it"""
        return text.translate(self.numbers).strip() if self.numbers else text

    @property
    def note(self) -> str:
        """What a person should know of the picture."""
        if not self.numbers:
            return ""
        return (
            f"no installed font draws {len(self.numbers)} of these characters, which are written "
            "by their numbers; one that does (Noto Sans CJK, say) is used once it is installed"
        )


def glyphs_for(texts: Iterable[str]) -> Glyphs:
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    families = FontProperties().get_family()
    missing = {ord(sign) for text in texts for sign in text if sign != "\n"}
    missing -= characters_of_font(findfont(FontProperties()))
    upright = [font for font in fontManager.ttflist if font.style == "normal"]
    for font in sorted(upright, key=lambda font: (font.weight != 400, font.name, font.fname)):
        if not missing:
            break
        if NOTHING_IN_IT not in font.name and font.name not in families:
            found = missing & characters_of_font(font.fname)
            families, missing = families + [font.name] * bool(found), missing - found
    return Glyphs(families, {code: f" U+{code:04X}" for code in missing})


@cache
def characters_of_font(path: str) -> frozenset[int]:
    """That a font has; none where it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
