"""Which entry a distance reads."""

import pytest
import torch

from manyheads import Bucketed, Clipped, Edges, Every, Graph, Pairs, RelativeBias, graph, line


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
