"""How place enters."""

import pytest
import torch

from manyheads import (
    Bucketed,
    Clipped,
    Concatenated,
    Every,
    Learned,
    Pairs,
    RelativeBias,
    RelativeContent,
    Rotary,
    Sinusoidal,
    Together,
    graph,
    grid,
    line,
)
from manyheads.attention.places import Grid
from manyheads.attention.positions import Position

DOUBLE = torch.float64


def waves(at: Grid, width: int = 16) -> torch.Tensor:
    return Sinusoidal()(torch.zeros(1, len(at), width, dtype=DOUBLE), at)[0]


@pytest.mark.parametrize("shift", [1, 5, 40])
def test_a_sinusoid_shifted_is_one_fixed_linear_map(shift: int) -> None:
    """The same turn of each pair of channels carries every place `shift` further."""
    rate = 10_000.0 ** -(torch.arange(8, dtype=DOUBLE) / 8)
    cos, sin = torch.diag(torch.cos(shift * rate)), torch.diag(torch.sin(shift * rate))
    change = torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)])
    torch.testing.assert_close(waves(line(64)) @ change, waves(line(64, start=shift)))


def test_the_first_wave_turns_by_one_radian_a_step_and_the_last_hardly() -> None:
    found = waves(line(3), width=8)
    torch.testing.assert_close(found[:, 0], torch.sin(torch.arange(3, dtype=DOUBLE)))
    torch.testing.assert_close(found[:, 4], torch.cos(torch.arange(3, dtype=DOUBLE)))
    assert (found[:, 3] < 0.01).all()


def test_an_image_has_a_band_of_channels_for_each_axis() -> None:
    found = waves(grid(3, 4), width=16).view(3, 4, 16)
    assert (found[:, :1, :8] == found[:, :, :8]).all(), "the first band depends on the row alone"
    assert (found[:1, :, 8:] == found[:, :, 8:]).all(), "the second on the column"
    assert torch.equal(found[1, 0, :8], waves(line(4), width=8)[1])


def test_channels_that_axes_cannot_share_carry_no_place() -> None:
    found = waves(grid(2, 2, channels=3), width=16)
    assert found.shape == (12, 16)
    assert (found[:, 12:] == 0).all()


def test_learned_positions_sum_a_vector_for_each_axis() -> None:
    position = Learned(8, 3, 4)
    x = torch.zeros(1, 12, 8)
    rows, columns = (table.weight for table in position.tables)
    torch.testing.assert_close(position(x, grid(3, 4))[0, 5], rows[1] + columns[1])


def test_concatenated_positions_stand_beside_the_embedding() -> None:
    position = Concatenated(Sinusoidal(), width=8, channels=6)
    x = torch.randn(2, 5, 8)
    beside = torch.cat([x, waves(line(5), 6).float().expand(2, -1, -1)], -1)
    torch.testing.assert_close(position(x, line(5)), position.mix(beside))


# ---- refusals --------------------------------------------------------------------------------


def test_a_learned_table_refuses_a_longer_sequence_in_words() -> None:
    with pytest.raises(ValueError, match="Learned positions reach 10 places, a sequence of 12"):
        Learned(8, 10)(torch.zeros(1, 12, 8), line(12))
    with pytest.raises(ValueError, match="a sequence of 12"):
        Learned(8, 10)(torch.zeros(1, 1, 8), line(1, start=11))
    reason = RelativeContent(4, Every(8)).refuses(Pairs(1, 1, line(9), line(9)))
    assert reason.startswith("Every(length=8) has a distance for sequences of 8, one of 9 arrived")


@pytest.mark.parametrize("position", [Sinusoidal(), Learned(8, 4)], ids=lambda p: type(p).__name__)
def test_a_graph_has_no_coordinates_to_embed(position: Position) -> None:
    with pytest.raises(ValueError, match="the nodes of a graph have only distances"):
        position(torch.zeros(1, 3, 8), graph([(0, 1)], 3))
    with pytest.raises(ValueError, match="the nodes of a graph have only distances"):
        Rotary().rotate(torch.zeros(1, 1, 3, 8), graph([(0, 1)], 3))


def test_other_impossible_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="Learned takes a width and a size for each axis"):
        Learned(8)
    with pytest.raises(ValueError, match="Learned has 1 tables, but a grid of 2 axes arrived"):
        Learned(8, 4)(torch.zeros(1, 4, 8), grid(2, 2))
    with pytest.raises(ValueError, match="sinusoids need 2 channels for each of 2 axes, got 3"):
        waves(grid(2, 2), width=3)
    with pytest.raises(
        ValueError, match="Rotary needs 2 channels for each of 2 axes, a head has 3"
    ):
        Rotary().rotate(torch.zeros(1, 1, 4, 3), grid(2, 2))
    with pytest.raises(ValueError, match="Clipped takes a reach from 0 up, got -1"):
        Clipped(-1)
    with pytest.raises(ValueError, match="Every takes a length from 1 up, got 0"):
        Every(0)
    with pytest.raises(ValueError, match=r"Bucketed takes an even count from 4 up .* got 32 and 8"):
        Bucketed(32, 8)
    across = Pairs(1, 4, line(4), grid(2, 2))
    assert "measures within one geometry" in RelativeBias(4, Clipped(2)).refuses(across)


def test_rotary_turns_by_axes_of_which_some_are_the_same_for_every_sequence() -> None:
    torch.manual_seed(0)
    own, shared = torch.randint(0, 9, (3, 5)), torch.randint(0, 9, (5,))
    x = torch.randn(3, 2, 5, 8)
    both = Grid(torch.arange(5), (own, shared), (9, 9))
    each = Grid(torch.arange(5), (own, shared.expand(3, 5)), (9, 9))
    assert torch.equal(Rotary().rotate(x, both), Rotary().rotate(x, each))


def test_a_part_that_works_elsewhere_is_refused_inside_another() -> None:
    with pytest.raises(ValueError, match="Together takes what works in every layer, like Rotary"):
        Together(Rotary(), Sinusoidal())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes what works below the first layer, like Sinusoidal"):
        Concatenated(Rotary(), 16, 4)  # type: ignore[arg-type]
