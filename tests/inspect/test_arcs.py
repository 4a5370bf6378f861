"""What a note looks back at, as a picture."""

import pytest
import torch
from tunes import chorale, singer

from manyheads.tasks.music.arcs import Arcs
from manyheads.tasks.music.notes import Note, Piece

TUNE = Piece((Note(0, 1, 60), Note(1, 2, 64), Note(2, 3, 67)))
SPOTS = [None, (0.0, 60), (1.0, 64), (1.0, 64), (2.0, 67)]
WEIGHTS = torch.tensor([[0.1, 0.5, 0.1, 0.2, 0.1], [0.99, 0.004, 0.002, 0.002, 0.002]])


def test_an_arc_is_as_heavy_as_all_tokens_of_its_place() -> None:
    arcs = Arcs(TUNE, SPOTS, WEIGHTS, [0, 1]).arcs
    assert [(head, spot) for head, spot, _ in arcs] == [
        (0, (2.0, 67)),
        (0, (1.0, 64)),
        (0, (0.0, 60)),
    ]
    assert [weight for *_, weight in arcs] == pytest.approx([0.1, 0.3, 0.5])


def test_what_is_on_no_note_is_told() -> None:
    arcs = Arcs(TUNE, SPOTS, WEIGHTS, [0, 1], "layer 3")
    assert arcs.weigh_elsewhere(1) == pytest.approx(0.99)
    assert str(arcs).splitlines() == [
        "layer 3",
        "head 0, 10% on no note",
        "head 1, 99% on no note",
        "head 0     0.00 s  C4    50.0%",
        "head 0     1.00 s  E4    30.0%",
        "head 0     2.00 s  G4    10.0%",
    ]


def test_a_text_has_the_heaviest_arcs_and_counts_the_others() -> None:
    spots = [(i / 10, 60) for i in range(40)]
    lines = str(Arcs(TUNE, spots, torch.full((2, 40), 0.1), [0, 1], "layer 3")).splitlines()
    assert len(lines) == 3 + 32 + 1
    assert lines[-1] == "and 32 that are fainter"


def test_a_picture_has_a_curve_for_each_arc_the_wider_the_heavier() -> None:
    from matplotlib.patches import PathPatch

    arcs = Arcs(TUNE, SPOTS, WEIGHTS, [0, 1], "layer 3")
    (axis,) = arcs.figure().axes
    curves = [patch for patch in axis.patches if isinstance(patch, PathPatch)]
    ends = [(tuple(c.get_path().vertices[0]), tuple(c.get_path().vertices[-1])) for c in curves]
    assert ends == [((2, 67), (2, 67)), ((2, 67), (1, 64)), ((2, 67), (0, 60))]
    widths = [curve.get_linewidth() for curve in curves]
    assert widths == sorted(widths)
    legend = axis.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "head 0, 10% on no note",
        "head 1, 99% on no note",
    ]


def test_a_model_leaves_a_png(tmp_path: object) -> None:
    found = singer(64).look(chorale(8), layer=0)
    assert found._repr_png_().startswith(b"\x89PNG")
    found.save(f"{tmp_path}/arcs.png")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 heads and 5 tokens have weights of shape \(1, 5\)"):
        Arcs(TUNE, SPOTS, WEIGHTS, [0])
    with pytest.raises(ValueError, match="arcs begin at a note, and the last token is none"):
        Arcs(TUNE, SPOTS[:1], WEIGHTS[:1, :1], [0])
