"""What no font draws is told, and drawn by its number."""

from pathlib import Path

import pytest
import torch
from matplotlib.font_manager import FontProperties, findfont

from manyheads import AttentionMap
from manyheads.inspect.glyphs import characters_of_font, glyphs_for

NOBODY = "\U000ff123"  # for private use: no font that is installed has it


def test_a_usual_text_is_drawn_as_usual() -> None:
    glyphs = glyphs_for(["Grüße, 1 €", "a\nb"])
    assert glyphs.families == FontProperties().get_family()
    assert glyphs.shown("Grüße ") == "Grüße "
    assert not glyphs.note


def test_another_font_is_taken_for_what_the_usual_one_lacks() -> None:
    usual, other = (
        characters_of_font(findfont(FontProperties())),
        characters_of_font(findfont("STIXGeneral")),
    )
    rare = chr(min(other - usual))
    glyphs = glyphs_for(["ab", rare])
    assert len(glyphs.families) == 1 + len(FontProperties().get_family())
    assert ord(rare) in characters_of_font(findfont(glyphs.families[-1]))
    assert glyphs.shown(rare) == rare


def test_what_no_font_has_is_written_by_its_number_and_told(tmp_path: Path) -> None:
    glyphs = glyphs_for([f"a{NOBODY}"])
    assert glyphs.shown(f"a{NOBODY}b") == "a U+FF123b"
    assert glyphs.note.startswith("no installed font draws 1 of these characters")
    shown = AttentionMap(torch.ones(1, 1, 2), ["$x$_$"], [NOBODY, "■"], f"{NOBODY} $5")
    figure = shown.figure()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["U+FF123", "■"]
    shown.save(tmp_path / "heads.png")  # a glyph that is missing would warn, which fails here


def test_a_font_that_cannot_be_read_has_no_characters(tmp_path: Path) -> None:
    (tmp_path / "broken.ttf").write_bytes(b"not a font")
    assert characters_of_font(str(tmp_path / "broken.ttf")) == frozenset()


@pytest.mark.parametrize("text", ["猫がいる", "こんにちは"])
def test_japanese_is_drawn_or_its_numbers_are(text: str, tmp_path: Path) -> None:
    shown = AttentionMap(torch.ones(2, 1, len(text)), ["cat"], list(text), text)
    shown.save(tmp_path / "heads.png")
    glyphs = glyphs_for([text])
    assert all(("U+" in glyphs.shown(sign)) == (ord(sign) in glyphs.numbers) for sign in text)
