"""What a query and a key make of each other's place."""

import pytest
import torch
from torch import Tensor

from manyheads import (
    Clipped,
    Edges,
    Every,
    Graph,
    Pairs,
    RelativeBias,
    RelativeContent,
    Rotary,
    Together,
    graph,
    grid,
    line,
)
from manyheads.attention.places import Grid
from manyheads.attention.positions import Relative, share_pass

DOUBLE = torch.float64


def test_rotated_queries_and_keys_know_only_their_distance() -> None:
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=DOUBLE)
    turn = Rotary().rotate

    def product(at: int, other: int) -> float:
        return (turn(q, line(1, at)) * turn(k, line(1, other))).sum().item()

    assert product(3, 10) == pytest.approx(product(103, 110), abs=1e-12)
    assert product(3, 10) != pytest.approx(product(3, 11), abs=1e-3)
    assert turn(q, line(1, 77)).norm().item() == pytest.approx(q.norm().item(), abs=1e-12)


def test_rotation_on_an_image_knows_the_distance_along_each_axis() -> None:
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=DOUBLE)
    at = grid(8, 8)

    def product(i: int, j: int) -> float:
        one, other = Rotary().rotate(q, at[i : i + 1]), Rotary().rotate(k, at[j : j + 1])
        return (one * other).sum().item()

    assert product(0, 10) == pytest.approx(product(9, 19), abs=1e-12)  # one row, two columns on
    assert product(0, 10) != pytest.approx(product(0, 17), abs=1e-3)


class Faster(Rotary):
    """Rotations of one's own: more than the base decides how far they turn."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def waves(
        self, axes: tuple[Tensor, ...], half: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        return super().waves(tuple(axis * self.factor for axis in axes), half, dtype)


def test_rotations_of_ones_own_keep_their_angles_beside_others_in_a_pass() -> None:
    x, at = torch.randn(1, 1, 6, 16, dtype=DOUBLE), share_pass(line(6))
    for rotary in (Rotary(), Faster(1.0), Faster(3.0), Rotary()):
        torch.testing.assert_close(rotary.rotate(x, at), rotary.rotate(x, line(6)))
    assert not torch.equal(Faster(3.0).rotate(x, at), Faster(1.0).rotate(x, at))


@pytest.mark.parametrize(
    ("relative", "places", "sentence"),
    [
        (RelativeBias(4, Clipped(2)), grid(2, 2), "has tables for axes=1, but a grid of 2 axes"),
        (RelativeBias(4, Edges(2)), line(4), "reads the labels of a graph's edges, but a line"),
        (RelativeBias(4, Edges(2)), Graph(torch.zeros(1, 2, 2)), "a graph without labels"),
        (RelativeContent(4, Every(3)), graph([(0, 1)], 5), "has a distance for 3 nodes, 5"),
        (Together(Rotary(), RelativeBias(4, Edges(2))), line(4), "reads the labels"),
    ],
    ids=lambda x: "",
)
def test_a_relative_position_for_the_wrong_geometry_is_refused_in_words(
    relative: Relative, places: Grid, sentence: str
) -> None:
    assert sentence in relative.refuses(Pairs(1, 4, places, places))
