"""Row, order and coordinates."""

import pytest
import torch

from manyheads import Graph, graph, grid, line, packed
from manyheads.attention.places import Grid, Pairs


def test_an_image_is_read_row_by_row_with_its_channels_together() -> None:
    at = grid(2, 3, channels=2)
    assert at.axes[0].tolist() == [0] * 6 + [1] * 6
    assert at.axes[1].tolist() == [0, 0, 1, 1, 2, 2] * 2
    assert at.axes[2].tolist() == [0, 1] * 6
    assert at.order.tolist() == list(range(12))


def test_block_by_block_finishes_one_block_before_the_next() -> None:
    at = grid(4, 4, blocks=(2, 2))
    places = list(zip(*(axis.tolist() for axis in at.axes), strict=True))
    assert places[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert places[4:6] == [(0, 2), (0, 3)]
    assert places[8] == (2, 0)
    assert at.order.tolist() == list(range(16))


def test_blocks_at_the_edge_may_be_smaller_and_every_pixel_has_one_place() -> None:
    at = grid(5, 7, blocks=(2, 3))
    assert len({*zip(*(axis.tolist() for axis in at.axes), strict=True)}) == 35


def test_a_part_of_a_line_keeps_its_order_and_gets_rows_of_its_own() -> None:
    part = line(8)[5:]
    assert part.order.tolist() == [5, 6, 7]
    assert part.first == 5
    pair = Pairs(1, 1, part, line(8)).everywhere()
    assert pair.q.row.flatten().tolist() == [0, 1, 2]
    assert pair.q.order.flatten().tolist() == [5, 6, 7]


def test_places_follow_each_other() -> None:
    both = line(3).then(line(2, start=3))
    assert both.order.tolist() == [0, 1, 2, 3, 4]
    assert both.first == 0
    assert line(3).then(line(2, start=7)).first is None


def test_places_of_one_sequence_join_places_of_many() -> None:
    many = Grid(torch.tensor([[3], [5]]), (torch.tensor([[3], [5]]),), (6,))
    assert line(2).then(many).order.tolist() == [[0, 1, 3], [0, 1, 5]]
    assert many.then(line(2)).order.tolist() == [[3, 0, 1], [5, 0, 1]]


def test_packed_documents_count_their_own_time() -> None:
    at = packed([[2, 3], [6]], 6)
    assert at.axes[0].tolist() == [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5]]
    assert at.sizes == (6,)
    with pytest.raises(
        ValueError, match="documents of 7 tokens in all were packed into a row of 6"
    ):
        packed([[3, 4]], 6)


def test_a_graph_knows_its_shortest_paths() -> None:
    at = graph([(0, 1), (1, 2), (3, 4)], 5)
    assert at.hops[0].tolist() == [
        [0, 1, 2, 5, 5],
        [1, 0, 1, 5, 5],
        [2, 1, 0, 5, 5],
        [5, 5, 5, 0, 1],
        [5, 5, 5, 1, 0],
    ]
    assert at.edges is not None
    assert at.edges[0].sum() == 6


def test_impossible_places_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"edge 0-9 names a node outside 0\.\.4"):
        graph([(0, 9)], 5)
    with pytest.raises(ValueError, match="measure 1 or more, got 0x3x1"):
        grid(0, 3)
    with pytest.raises(ValueError, match=r"measure 1 or more, got 4x4x1 in blocks of 2x0"):
        grid(4, 4, blocks=(2, 0))
    for make in (lambda: line(-1), lambda: line(2.5), lambda: grid(8, 8.5)):
        with pytest.raises(ValueError, match="is measured in whole tokens, got"):
            make()
    with pytest.raises(ValueError, match=r"blocks are rows x columns, as in \(4, 4\), got 4"):
        grid(8, 8, blocks=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="edges are as many as its hops"):
        Graph(torch.zeros(1, 3, 3), torch.zeros(1, 4, 4))
    with pytest.raises(ValueError, match="cut in runs of neighbours, got a step of 2"):
        line(8)[::2]


def test_long_paths_are_measured_to_their_end() -> None:
    path = graph([(i, i + 1) for i in range(199)], 200)
    assert path.hops[0, 0].tolist() == list(range(200))
    assert graph([(0, 1), (1, 2)], 3, far=1).hops[0, 0].tolist() == [0, 1, 1]


def test_an_axis_that_is_the_order_stays_it() -> None:
    for at in (line(4).to("meta"), line(4)[1:3], line(2).then(line(2, start=2))):
        assert at.axes[0] is at.order


def test_no_nodes_and_no_sequences_are_places_too() -> None:
    assert len(graph([], 0)) == 0
    assert line(2, start=torch.zeros(0, dtype=torch.long)).order.shape == (0, 2)
