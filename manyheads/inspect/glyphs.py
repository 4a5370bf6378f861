"""Find installed fonts that can draw a text; characters without a font are shown as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

NOTHING_IN_IT = "Last Resort"  # a font that draws every character as a box


class Glyphs(NamedTuple):
    """The font families to draw with, in order, and texts for characters that none of them has."""

    families: list[str]
    numbers: dict[int, str]

    def shown(self, text: str) -> str:
        """Replace characters without a font: "猫" -> "U+732B"."""
        return text.translate(self.numbers).strip() if self.numbers else text

    @property
    def note(self) -> str:
        """A note for the picture if characters are missing; otherwise empty."""
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
    """Return the characters of a font; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
