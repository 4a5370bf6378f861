"""How place enters."""

import pytest
import torch

from manyheads import (
    Bucketed,
    Clipped,
    Concatenated,
    Edges,
    Every,
    Graph,
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
from manyheads.attention.positions import Position, Relative

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


def test_buckets_are_exact_when_near_and_logarithmic_when_far() -> None:
    both, back = Bucketed(32, 128), Bucketed(32, 128, both_ways=False)
    assert both.bucket(torch.tensor([0, -1, -7, 1, 7])).tolist() == [0, 1, 7, 17, 23]
    assert both.bucket(torch.tensor([-8, -127, -500, 500])).tolist() == [8, 15, 15, 31]
    assert back.bucket(torch.tensor([0, -15, -16, -128, 9])).tolist() == [0, 15, 16, 31, 0]
    far = both.bucket(-torch.arange(200))
    assert (far.diff() >= 0).all(), "a farther key never has a nearer bucket"


@pytest.mark.parametrize("rule", [Clipped(2), Every(9), Bucketed(8, 16)], ids=str)
def test_every_index_is_inside_its_table(rule: Clipped | Every | Bucketed) -> None:
    for index in rule.indices(Pairs(1, 1, line(9), line(9)).everywhere()):
        assert int(index.min()) >= 0
        assert int(index.max()) < rule.size


def test_nodes_in_different_pieces_of_a_graph_are_at_the_last_distance() -> None:
    (index,) = Every(5).indices(Pairs(1, 1, graph([], 5), graph([], 5)).everywhere())
    assert index.max() == Every(5).size - 1


def test_an_unknown_edge_label_is_refused() -> None:
    nodes = Graph(torch.zeros(1, 2, 2), torch.tensor([[[0, 7], [7, 0]]]))
    sentence = RelativeBias(4, Edges(2)).refuses(Pairs(1, 4, nodes, nodes))
    assert sentence == "Edges(count=2) has labels 0 to 1, 7 arrived"


def test_a_relative_table_under_many_rows_is_the_same_table() -> None:
    (bias,) = RelativeBias(2, Clipped(3)).biases(torch.zeros(1, 2, 5, 4))
    rows = bias.by_row(1.0)
    assert rows.shape == (1, 1, 2, 5, 7)
    assert (rows == rows[:, :, :, :1]).all()


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
