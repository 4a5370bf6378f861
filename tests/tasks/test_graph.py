"""Graphs: what is read, what attention knows of two nodes, and that their numbers mean nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manyheads.data.filters import LeftOut
from manyheads.learn import Request, prepare_run, resolve, resume_run
from manyheads.metrics.labels import roc_auc
from manyheads.models import load
from manyheads.tasks.graph.batches import GraphBatches, read_graphs, walk_distances, write_graphs
from manyheads.tasks.graph.checks import compare_ways
from manyheads.tasks.graph.network import GraphNetwork
from manyheads.tasks.graph.schema import RawGraph, Schema, find_goal
from manyheads.tasks.graph.settings import Goal, GraphData, GraphRecipe, small_network
from manyheads.tasks.graph.sources import parse_smiles, read_molecules, read_nodes
from manyheads.tasks.graph.task import GraphTask, measure_disagreement
from manyheads.tasks.recipe import Choice
from manyheads.training.run import Run

DATA = GraphData(molecules=Path("x.csv"), target=("y",))
SMALL = small_network(16, 2, 2, 0.0)
CHAIN = RawGraph(
    {"atom": ["C", "O", "N", "C"]}, [(0, 1, "single"), (1, 2, "double"), (2, 3, "single")], ["1.5"]
)
RING = RawGraph(
    {"atom": ["C", "C", "O"]}, [(0, 1, "single"), (1, 2, "single"), (2, 0, "double")], ["-2"]
)
NEAR = replace(SMALL, pattern="Window(1)")
OTHERS: list[dict[str, Any]] = [
    {},
    {"readout": "sum"},
    {"readout": "mean"},
    {"distance": "walks"},
    {"network": NEAR},
    {"network": NEAR, "readout": "mean"},
    {"network": NEAR, "rounds": 3},
    {"rounds": 3},
]


def renumbered(graph: RawGraph, order: list[int]) -> RawGraph:
    """The same graph: node i is called order[i]."""
    back = np.argsort(order)
    columns = {name: [cells[i] for i in back] for name, cells in graph.columns.items()}
    edges = [(order[i], order[j], label) for i, j, label in graph.edges]
    return replace(graph, columns=columns, edges=edges)


@pytest.mark.parametrize("relations", ["none", "hops", "edges", "both"])
@pytest.mark.parametrize("others", OTHERS, ids=str)
def test_a_graph_is_the_same_however_its_nodes_are_numbered_and_whatever_lies_beside_it(
    relations: str, others: dict[str, Any]
) -> None:
    recipe = GraphRecipe("graph", DATA, relations=relations, **{"network": SMALL, **others})
    schema = Schema.learn([CHAIN, RING], ["y"], None)
    torch.manual_seed(0)
    made = GraphNetwork(recipe, schema, of_nodes=False).eval()
    turned = renumbered(CHAIN, [2, 0, 3, 1])
    encoded = [schema.encode(one) for one in (CHAIN, RING, turned)]
    batches = GraphBatches(encoded, recipe, 99)
    with torch.no_grad():
        together = made(batches.lay_out([0, 1, 2]))
        alone = torch.cat([made(batches.lay_out([i])) for i in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(together[0], together[2], atol=1e-5, rtol=0)
    assert (together[0] - together[1]).abs().max() > 1e-5


@pytest.mark.parametrize(("readout", "ways"), [("mean", 3), ("node", 2)])
def test_graphs_packed_into_a_row_are_the_same_where_no_node_is_one_of_a_row(
    readout: Any, ways: int
) -> None:
    recipe = GraphRecipe("graph", DATA, network=SMALL, readout=readout)
    schema = Schema.learn([CHAIN, RING], ["y"], None)
    made = GraphNetwork(recipe, schema, of_nodes=False)
    batches = GraphBatches([schema.encode(one) for one in (CHAIN, RING)], recipe, 99)
    found = dict(compare_ways(made, batches))
    assert len(found) == ways
    assert max(found.values()) < 1e-5


@pytest.mark.parametrize("others", [{}, {"readout": "mean"}, {"rounds": 3}], ids=str)
def test_a_graph_by_its_edges_is_the_same_as_by_all_pairs(others: dict[str, Any]) -> None:
    recipe = GraphRecipe("graph", DATA, network=NEAR, **others)
    schema = Schema.learn([CHAIN, RING], ["y"], None)
    torch.manual_seed(0)
    made = GraphNetwork(recipe, schema, of_nodes=False).eval()
    batches = GraphBatches([schema.encode(one) for one in (CHAIN, RING)], recipe, 99)
    assert batches.near
    by_edges = made(batches.lay_out([0, 1]))
    batches.near = False
    torch.testing.assert_close(by_edges, made(batches.lay_out([0, 1])), atol=1e-5, rtol=0)
    farther = replace(recipe, rounds=0, network=replace(NEAR, pattern=("Window(1)", "Window(2)")))
    assert not GraphBatches(batches.graphs, farther, 99).near


def test_a_walk_is_the_farther_the_rarer_it_arrives() -> None:
    joined = torch.zeros(4, 4)  # a path of three nodes, and one by itself
    joined[0, 1] = joined[1, 0] = joined[1, 2] = joined[2, 1] = 1.0
    assert walk_distances(joined, 2).tolist() == [
        [0, 2, 3, 3],
        [3, 0, 3, 3],
        [3, 2, 0, 3],
        [3, 3, 3, 0],
    ]
    with pytest.raises(ValueError, match=r"Window\(1\) counts hops, and distance: walks has none"):
        GraphRecipe("graph", DATA, distance="walks", network=NEAR)


def test_a_model_of_graphs_starts_from_no_other_run() -> None:
    with pytest.raises(ValueError, match="graph starts from no other run; leave out"):
        GraphRecipe.choose("graph", DATA, 99, Choice(start=GraphRecipe("graph", DATA)))


def test_rounds_have_one_pattern() -> None:
    two = replace(SMALL, pattern=("Window(1)", "Everything()"))
    with pytest.raises(
        ValueError, match=r"rounds have one pattern for all, got Window\(1\), Every"
    ):
        GraphRecipe("graph", DATA, rounds=2, network=two)


def test_several_targets_with_gaps_count_where_they_are_known() -> None:
    graphs = [replace(CHAIN, targets=["1.5", ""]), replace(RING, targets=["", "4"]), CHAIN]
    graphs[2] = replace(CHAIN, targets=["2.5", "8"])
    schema = Schema.learn(graphs, ["y", "z"], None)
    recipe = GraphRecipe("graph", DATA, network=SMALL, members=2)
    task = GraphTask(recipe, schema)
    torch.manual_seed(0)
    network, batches = task.network(), GraphBatches([*map(schema.encode, graphs)], recipe, 99)
    assert sum(map(batches.count, batches.epoch(0))) == 4
    said = network.eval()(batches.lay_out([0, 1, 2]))
    assert said.shape == (2, 3, 2)
    wanted = torch.tensor([[-1.0, 0], [0, -1], [1, 1]])  # scaled; 0 is where nothing is known
    known = torch.tensor([[1, 0], [0, 1], [1, 1]])
    errors = ((said - wanted).square() * known).sum() / 2  # of two networks
    torch.testing.assert_close(task.loss(network, batches.lay_out([0, 1, 2]))["loss"], errors)
    one, *_ = task.answer(network, batches)
    unscaled = said.mean(0)[0] * torch.tensor([0.5, 2]) + torch.tensor([2, 6])
    torch.testing.assert_close(one.float(), unscaled)


@pytest.mark.parametrize("others", OTHERS, ids=str)
def test_a_share_without_graphs_adds_nothing_to_a_step(others: dict[str, Any]) -> None:
    schema = Schema.learn([CHAIN, RING], ["y"], None)
    recipe = replace(GraphRecipe("graph", DATA, network=SMALL), **others)
    task = GraphTask(recipe, schema)
    network, batches = task.network(), GraphBatches([schema.encode(CHAIN)], recipe, 99)
    (rows,) = batches.epoch(0)
    assert batches.share(rows, 1, 2) == []
    loss = task.loss(network, batches.batch([]))["loss"]
    loss.backward()
    assert loss == 0
    assert not any(p.grad is not None and p.grad.any() for p in network.parameters())
    assert task.loss(network, batches.batch(rows))["loss"] > 0  # the graph itself is as it was


def test_large_numbers_keep_their_last_digits() -> None:
    graphs = [replace(CHAIN, targets=[str(1_600_000_000 + more)]) for more in (1, 6)]
    schema = Schema.learn(graphs, ["y"], "numbers")
    task = GraphTask(GraphRecipe("graph", DATA, network=SMALL), schema)
    scaled = torch.from_numpy(np.stack([schema.encode(graph).wanted for graph in graphs]))
    assert scaled.tolist() == [[-1], [1]]
    assert [task.format(one) for one in task.combine(scaled[None])] == [
        ["1600000001.0000"],
        ["1600000006.0000"],
    ]


def test_a_consistent_network_has_nothing_to_lose_by_it() -> None:
    sure = torch.tensor([[[[20.0, 0.0]]]])
    assert measure_disagreement(torch.cat([sure, sure])) < 1e-6
    assert measure_disagreement(torch.cat([sure, sure.flip(-1)])) > 0.4


def test_relations_tell_graphs_apart_that_have_the_same_nodes() -> None:
    other = replace(CHAIN, edges=[(0, 1, "single"), (1, 2, "single"), (2, 3, "double")])
    schema = Schema.learn([CHAIN, other], ["y"], "numbers")
    apart = {}
    for relations in ("hops", "edges"):
        recipe = GraphRecipe("graph", DATA, relations=relations, network=SMALL)
        batches = GraphBatches([schema.encode(one) for one in (CHAIN, other)], recipe, 99)
        torch.manual_seed(0)
        said = GraphNetwork(recipe, schema, of_nodes=False).eval()(batches.lay_out([0, 1]))
        apart[relations] = float((said[0] - said[1]).detach().abs().max())
    assert apart["hops"] < 1e-6 < apart["edges"]  # only the labels of their edges differ


def test_graphs_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    schema = Schema.learn([CHAIN, RING], ["y"], None)
    graphs = [schema.encode(one) for one in (CHAIN, RING)]
    write_graphs(tmp_path / "some.npz", graphs)
    for one, other in zip(graphs, read_graphs(tmp_path / "some.npz"), strict=True):
        for name in ("nodes", "numbers", "words", "edges", "wanted"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema


def test_what_is_learned_follows_from_the_targets() -> None:
    assert find_goal([["0", "1"], ["1.0"]], ["y", "z"]) == "labels"
    assert find_goal([["0.5", "1"]], ["y"]) == "numbers"
    assert find_goal([["red", "blue"]], ["y"]) == "classes"
    with pytest.raises(ValueError, match="no target has a value"):
        find_goal([[]], ["y"])
    numbers = [f"{i}.5" for i in range(40)]
    for wrong in ("abc", "inf"):
        with pytest.raises(ValueError, match=f"y is a number elsewhere, got '{wrong}'; an empty"):
            find_goal([[*numbers, wrong]], ["y"])


def test_a_word_with_an_underscore_is_no_number() -> None:
    assert find_goal([["18_24", "25_34"]], ["age"]) == "classes"
    people = RawGraph({"age": ["18_24", "1824"]}, [(0, 1, "")], ["1.5"])
    assert Schema.learn([people], ["y"], None).columns == {"age": ["18_24", "1824"]}


@pytest.mark.parametrize("goal", [None, "classes"])
def test_several_targets_of_classes_are_refused(goal: Goal | None) -> None:
    graphs = [replace(CHAIN, targets=["red", "wide"]), replace(RING, targets=["blue", "high"])]
    with pytest.raises(ValueError, match="one alone may be of classes, got colour, form"):
        Schema.learn(graphs, ["colour", "form"], goal)


def test_an_auc_counts_pairs_in_order() -> None:
    assert roc_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).value == 0.75
    with pytest.raises(ValueError, match="of both kinds"):
        roc_auc([0.1, 0.2], [1, 1])


# ---- files -----------------------------------------------------------------------------------


def papers(folder: Path) -> tuple[Path, Path]:
    """Two groups of nodes that cite their own kind."""
    nodes, edges = folder / "nodes.tsv", folder / "edges.tsv"
    rows = [f"n{i}\t{'a b' if i % 2 else 'c d'}\t{'odd' if i % 2 else 'even'}" for i in range(24)]
    nodes.write_text("id\twords\tlabel\n" + "".join(f"{row}\n" for row in rows))
    edges.write_text("one\tother\n" + "".join(f"n{i}\tn{i + 2}\n" for i in range(22)))
    return nodes, edges


def test_the_nodes_of_a_graph_are_learned_and_asked_by_name(tmp_path: Path) -> None:
    nodes, edges = papers(tmp_path)
    settings = ["network.width=16", "network.heads=2", "training.steps=60", "network.dropout=0"]
    files = {"nodes": nodes, "edges": edges, "target": ("label",)}
    recipe, corpus = resolve(Request("graph", [*settings, "training.validate_every=60"], files))
    assert str(corpus) == "24 nodes: 22 to learn from, 2 to validate on"
    run = Run(tmp_path / "run")
    prepare_run(recipe, run, corpus)
    assert resume_run(run)
    model = load(run.folder, "cpu")
    assert model.predict(["n3", "n4"]) == ["odd", "even"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="there is no node 'n99'"):
        model.predict(["n99"])  # type: ignore[attr-defined]


def test_an_edge_to_a_node_that_is_not_there_is_refused(tmp_path: Path) -> None:
    nodes, edges = papers(tmp_path)
    edges.write_text("one\tother\nn1\tn99\n")
    with pytest.raises(ValueError, match=r"edges.tsv:2: there is no node 'n99'"):
        read_nodes(nodes, edges, "label")
    with pytest.raises(ValueError, match="has no column 'kind'; its columns are id, words, label"):
        read_nodes(nodes, edges, "kind")


def test_molecules_are_read_and_what_is_none_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    table = tmp_path / "some.csv"
    table.write_text("smiles,y\nCCO,1.5\nnot one,2\nc1ccccc1,\n")
    left_out = LeftOut()
    ethanol, benzene = read_molecules(table, "smiles", ("y",), left_out)
    assert (len(ethanol), len(benzene), benzene.targets) == (3, 6, [""])
    assert "line 3: 'not one' is not a molecule in SMILES" in str(left_out)
    assert parse_smiles("OCC").name == ethanol.name  # one molecule, written in two ways
    with pytest.raises(ValueError, match="has no column 'z'; its columns are smiles, y"):
        read_molecules(table, "smiles", ("z",), left_out)


@pytest.mark.parametrize(
    ("one", "other"),
    [("N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O"), ("C(=C/F)\\F", "F/C=C/F")],
)
def test_a_molecule_is_the_same_graph_however_it_is_written(one: str, other: str) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    graphs = [parse_smiles(text) for text in (one, other)]
    assert graphs[0].name == graphs[1].name
    nodes = [sorted(zip(*graph.columns.values(), strict=True)) for graph in graphs]
    assert nodes[0] == nodes[1]
    assert nodes[0] != sorted(zip(*parse_smiles("C[C@@H](N)C(=O)O").columns.values(), strict=True))


def test_of_few_molecules_the_mean_of_several_networks_is_the_answer() -> None:
    nodes = GraphData(nodes=Path("n.tsv"), edges=Path("e.tsv"), target=("y",))
    assert GraphRecipe.choose("graph", DATA, 10_000).members == 3
    assert GraphRecipe.choose("graph", DATA, 100_000).members == 1  # as many cost a quarter hour
    assert GraphRecipe.choose("graph", nodes, 10_000).members == 1
