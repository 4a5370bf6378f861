"""Graphs by their edges: what is listed reads as a tensor would, and costs what edges cost."""

import pytest
import torch
from combinations import C, H, random_edges

from manyheads import Causal, Edges, Everything, Pairs, RelativeContent, Window, Work, choose, plan
from manyheads.attention.graphs import neighbours
from manyheads.attention.intervals import Verdict
from manyheads.attention.kernels.base import Scoring
from manyheads.attention.kernels.sparse import Sparse
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Graph, Pair, graph
from manyheads.attention.scores import ScaledDot
from manyheads.attention.tables import PairTable, pool_blocks


def dense(table: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Its hops and labels as tensors, (B, T, T)."""
    assert isinstance(table.hops, PairTable)
    assert isinstance(table.edges, PairTable)
    b, q, k = torch.meshgrid(*map(torch.arange, table.hops.shape), indexing="ij")
    return table.hops[b, q, k], table.edges[b, q, k]


def test_listed_edges_read_as_a_tensor_would() -> None:
    edges = torch.tensor([[0, 0, 1, 3], [0, 1, 2, 4], [1, 2, 2, 5], [0, 1, 0, 2]])
    hops, labels = dense(neighbours(edges, 3, 2))
    assert labels.tolist() == [[[0, 2, 0], [2, 0, 4], [0, 4, 0]], [[0] * 3, [0] * 3, [0, 0, 5]]]
    assert hops[0].tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]  # 2: or farther
    whole = graph([(0, 1), (1, 2)], 3, far=2).hops
    assert torch.equal(hops[:1], whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("edge", [[0, 0, 3, 1], [0, -1, 2, 1], [2, 0, 1, 1], [-1, 0, 1, 1]])
def test_an_edge_of_a_node_or_a_graph_that_is_not_there_is_refused(edge: list[int]) -> None:
    graph, one, other, _ = edge
    sentence = rf"edge {one}-{other} of graph {graph} is outside of 2 graphs with nodes 0\.\.2"
    with pytest.raises(ValueError, match=sentence):
        neighbours(torch.tensor([[1, 0, 2, 1], edge]), 3, 2)


@pytest.mark.parametrize("edges", [torch.ones(2, 3).long(), torch.ones(2, 4)], ids=["3", "float"])
def test_edges_that_are_no_rows_of_four_whole_numbers_are_refused(edges: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"in rows of \(graph, node, node, label\), \(2, "):
        neighbours(edges, 3, 2)


def test_graphs_are_selected_and_blocks_are_bounded_as_those_of_a_tensor() -> None:
    at = random_edges(batch=3, nodes=20)
    hops, labels = dense(at)
    rows = torch.tensor([2, 0, 2])
    chosen = dense(at.select(rows))
    assert torch.equal(chosen[0], hops[rows])
    assert torch.equal(chosen[1], labels[rows])
    for table, full in ((at.hops, hops), (at.edges, labels)):
        assert isinstance(table, PairTable)
        ours, exact = pool_blocks(table, 8, 5), pool_blocks(full, 8, 5)
        assert (ours.low <= exact.low).all()
        assert (ours.high >= exact.high).all()
    assert neighbours(torch.zeros(0, 4, dtype=torch.long), 0).hops.shape == (1, 0, 0)


class Nearest(Window):
    """A class made from one may allow something else."""

    def allows(self, pair: Pair) -> Verdict:
        return ~super().allows(pair)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (Everything(), "2 hops apart or more are not listed"),
        (Window(2), "2 hops apart or more are not listed"),
        (Window(1) | Window(0), "2 hops apart or more are not listed"),
        (~Window(1), "2 hops apart or more are not listed"),
        (Nearest(1), "2 hops apart or more are not listed"),
    ],
    ids=str,
)
def test_what_reaches_beyond_the_edges_is_refused(pattern: Pattern, why: str) -> None:
    at = random_edges()
    pairs = Pairs(2, H, at, at)
    assert why in Sparse().refuses(Work(pattern, pairs))
    assert choose(Work(pattern, pairs)).kernel.name != "sparse"
    with pytest.raises(ValueError, match="the sparse kernel refuses"):
        plan("sparse", Work(pattern, pairs))


def test_a_graph_that_lists_no_edges_is_refused_and_so_is_another_form() -> None:
    at = graph([(0, 1)], 2)
    assert Sparse().refuses(Work(Window(1), Pairs(1, H, at, at))) == (
        "it reads graphs that list their edges"
    )
    listed = random_edges()
    made = plan("sparse", Work(Window(1), Pairs(2, H, listed, listed)))
    wrong = plan("reference", Work(Window(1), made.work.pairs))
    with pytest.raises(TypeError, match="does not read a Tensor as its plan"):
        Sparse()(*[torch.zeros(2, H, 36, C)] * 3, wrong, Scoring(ScaledDot(), (), 0.0))
    with pytest.raises(ValueError, match="needs tokens with an order"):
        plan("sparse", Work(Causal() & Window(1), made.work.pairs))


def test_a_node_that_sees_none_gives_zeros_and_finite_gradients() -> None:
    at = neighbours(torch.tensor([[0, 0, 1, 1]]), 3)  # node 2 has no neighbour
    work = Work(Window(1) & ~Window(0), Pairs(1, H, at, at), channels=C)
    tensors = [torch.randn(1, H, 3, C, requires_grad=True) for _ in range(3)]
    out = plan("sparse", work)(*tensors)
    out.square().sum().backward()
    assert out[0, :, 2].abs().max() == 0
    assert out[0, :, :2].abs().min() > 0
    assert all(one.grad is not None and one.grad.isfinite().all() for one in tensors)


def test_dropout_empties_weights_and_keeps_their_mean() -> None:
    at = neighbours(torch.tensor([[0, 0, i, 1] for i in range(1, 400)]), 400)
    work = Work(Window(1), Pairs(1, 1, at, at), frozenset({"dropout"}), channels=1)
    planned, ones = plan("sparse", work), torch.ones(1, 1, 400, 1)
    outs = torch.stack([planned(ones, ones, ones, dropout=0.5)[0, 0, 0] for _ in range(200)])
    assert outs.std() > 0.01
    assert abs(outs.mean() - 1) < 0.02


def test_ten_thousand_nodes_cost_what_their_edges_do() -> None:
    nodes, count = 10_000, 20_000
    ends = torch.randint(nodes, (count, 2))
    at = neighbours(torch.cat([torch.zeros(count, 1).long(), ends, ends[:, :1] % 3], 1), nodes)
    shaw = RelativeContent(8, Edges(3), values=True)
    work = Work(Window(1), Pairs(1, 2, at, at), frozenset({"gradient"}), kinds=shaw.kinds())
    made = plan("fastest", work)
    assert made.kernel.name == "sparse"
    assert len(made.form.query) <= nodes + 2 * count
    x = torch.randn(1, 2, nodes, 8, requires_grad=True)
    made(x, x, x, biases=shaw.biases(x)).sum().backward()
    assert x.grad is not None
