"""Graphs from files and from other libraries, and what of them is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from manyheads.data.filters import LeftOut
from manyheads.tasks.graph.corpus import gather_graphs, split_graphs
from manyheads.tasks.graph.measures import measure_answers
from manyheads.tasks.graph.picture import GraphPicture, spread_out
from manyheads.tasks.graph.records import (
    from_networkx,
    from_pyg,
    graph_of,
    parse_graph,
    read_graph_file,
    save_graphs,
)
from manyheads.tasks.graph.schema import RawGraph, Schema, find_goal
from manyheads.tasks.graph.settings import GraphData, GraphRecipe
from manyheads.tasks.graph.sources import read_molecules, read_node_rows, read_nodes
from manyheads.tasks.graph.task import GraphTask

WATER = {"nodes": {"atom": ["O", "H", "H"]}, "edges": [[0, 1, "single"], [0, 2]]}


def test_a_graph_of_networkx_is_read_by_its_attributes(tmp_path: Path) -> None:
    given = networkx.Graph(y=1.5)
    given.add_node("a", colour="red", size=3)
    given.add_node("b", colour="blue")
    given.add_edge("a", "b", label="near")
    found = from_networkx(given, ["y"])
    assert found.columns == {"colour": ["red", "blue"], "size": ["3", ""]}
    assert (found.edges, found.targets) == ([(0, 1, "near")], ["1.5"])
    save_graphs(tmp_path / "some.jsonl", [found, found], ["y"])
    assert read_graph_file(tmp_path / "some.jsonl", ["y"]) == [found, found]
    bare = from_networkx(networkx.path_graph(3))
    assert (len(bare), bare.edges) == (3, [(0, 1, ""), (1, 2, "")])


def test_a_graph_of_pytorch_geometric_is_read_by_what_it_is_called_there() -> None:
    data = SimpleNamespace(
        num_nodes=2,
        x=torch.tensor([[0.5, 1.0], [2.5, 0.0]]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.tensor([[1.0, 0.0], [1.0, 0.0]]),
        y=torch.tensor([[0.25]]),
    )
    found = from_pyg(data)
    assert found.columns == {"x0": ["0.5", "2.5"], "x1": ["1.0", "0.0"]}
    assert found.edges == [(0, 1, "1.0 0.0"), (1, 0, "1.0 0.0")]
    assert found.targets == ["0.25"]
    bare = from_pyg(SimpleNamespace(num_nodes=3, edge_index=torch.tensor([[0], [2]])))
    assert (len(bare), bare.edges, bare.targets) == (3, [(0, 2, "")], [])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": {}}, 'a graph has "nodes", such as'),
        ({"nodes": {"atom": []}}, "there is one node or more"),
        ({"nodes": {"a": ["x"], "b": ["x", "y"]}}, "each column of nodes has a cell for each"),
        ({"edges": [[0, 7]]}, "there is no node 7: nodes are numbered 0 to 2"),
        ({"edges": [[0]]}, "an edge is two numbers of nodes and a label if it has one"),
    ],
)
def test_json_that_is_no_graph_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        graph_of({**WATER, **change})
    with pytest.raises(ValueError, match="there is no target 'y'; there are none"):
        graph_of(WATER, ["y"])
    with pytest.raises(ValueError, match="not JSON"):
        parse_graph("{water}")


@pytest.mark.parametrize(
    "cells", [[[1, 0], [0, 1]], [[2, 0.5], [3, 1.5]], torch.eye(2), [None, np.array([0.5, 1])]]
)
def test_vectors_are_not_read_as_words(cells: Any) -> None:
    with pytest.raises(ValueError, match="a cell of place is one number or a text, got "):
        graph_of({"nodes": {"place": cells}})


def test_numbers_in_one_cell_of_a_table_are_not_read_as_words() -> None:
    def learn(cells: list[str]) -> dict[str, list[str]]:
        return Schema.learn([RawGraph({"place": cells}, [(0, 1, "")], ["1.5"])], ["y"], None).words

    with pytest.raises(ValueError, match="place has several numbers, such as 0"):
        learn(["0.5 2", "1 3"])
    assert learn(["2 3", "1 3"]) == {"place": ["1", "2", "3"]}
    assert learn(["0.5 mg", "2 mg"]) == {"place": ["0.5", "2", "mg"]}


def test_lists_of_whole_numbers_or_of_texts_are_words_and_lists_of_one_are_cells() -> None:
    nodes = {"words": [[3, 17], [0, 1]], "said": [["red", "0.5"], []], "at": [[0.5], [1]]}
    assert graph_of({"nodes": nodes}).columns == {
        "words": ["3 17", "0 1"],
        "said": ["red 0.5", ""],
        "at": ["0.5", "1"],
    }


def test_what_a_model_did_not_learn_from_is_named() -> None:
    water = graph_of({**WATER, "targets": {"y": 1.0}}, ["y"])
    schema = Schema.learn([water, replace(water, targets=["3"])], ["y"], None)
    with pytest.raises(ValueError, match="nodes have no 'atom'; the model learned from atom"):
        schema.encode(replace(water, columns={"colour": ["red"] * 3}))
    with pytest.raises(ValueError, match="y was of numbers in training, got 'much'"):
        schema.encode(replace(water, targets=["much"]))
    labels = Schema.learn([replace(water, targets=["0"])], ["y"], "labels")
    with pytest.raises(ValueError, match="y was 0 and 1 in training, got another"):
        labels.encode(replace(water, targets=["0.5"]))
    classes = Schema.learn([replace(water, targets=["wet"])], ["y"], "classes")
    with pytest.raises(ValueError, match="'dry' is a label that was never seen; there are wet"):
        classes.encode(replace(water, targets=["dry"]))
    with pytest.raises(ValueError, match="'z' has no value to learn from"):
        Schema.learn([replace(water, targets=["1", ""])], ["y", "z"], None)


def test_molecules_to_validate_on_are_not_learned_from(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    train, valid = tmp_path / "train.csv", tmp_path / "valid.csv"
    train.write_text("smiles,y\nCCO,1\nC[NH3+].[Cl-],2\nCC,3\n")  # one of two pieces
    valid.write_text("smiles,y\nOCC,1\n")  # the first one, written from its end
    data = GraphData(molecules=train, valid_molecules=valid, target=("y",))
    corpus = gather_graphs(GraphRecipe("graph", data))
    assert [one.name for one in corpus.train] == ["C[NH3+].[Cl-]", "CC"]
    assert str(corpus.left_out) == "  1 left out: also among those to validate on\n    CCO"
    train.write_text("smiles,y\nOCC,1\n")
    with pytest.raises(ValueError, match="no graph is left: all 1 are also among"):
        gather_graphs(GraphRecipe("graph", data))


@pytest.mark.parametrize(
    ("train", "valid", "sentence"),
    [
        ([0.5, 1.5], [None], "no target has a value"),
        ([0, 1], [1, 1], "an AUC needs examples of both kinds"),
    ],
)
def test_graphs_by_which_nothing_can_be_chosen_are_refused_before_training(
    tmp_path: Path, train: list[float], valid: list[float | None], sentence: str
) -> None:
    files = {"graphs": train * 9, "valid_graphs": valid}
    for name, targets in files.items():
        lines = [json.dumps({**WATER, "targets": {"y": y}}) for y in targets]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    data = GraphData(**{name: tmp_path / f"{name}.jsonl" for name in files}, target=("y",))
    recipe = GraphRecipe("graph", data)
    with pytest.raises(ValueError, match=f"the validation set cannot be scored: {sentence}"):
        GraphTask.settle(recipe, gather_graphs(recipe))


def test_graphs_are_no_molecules_whatever_their_file_is_called(tmp_path: Path) -> None:
    path = tmp_path / "graphs.json"
    lines = [json.dumps({**WATER, "targets": {"y": i / 2}}) for i in range(9)]
    path.write_text("\n".join(lines))
    corpus = gather_graphs(GraphRecipe("graph", GraphData(graphs=path, target=("y",))))
    assert len(corpus.train) + len(corpus.valid) == 9


def test_of_several_targets_one_at_least_has_both_kinds() -> None:
    graphs = [graph_of({**WATER, "targets": {"y": y, "z": 1 - y}}, ["y", "z"]) for y in (0, 1)]
    schema = Schema.learn(graphs, ["y", "z"], None)
    with pytest.raises(ValueError, match="both kinds, and no target has both"):
        measure_answers(schema, [torch.zeros(2)], [schema.encode(graphs[0])])


def test_graphs_to_validate_on_have_a_target() -> None:
    graphs = [one_node(i, i / 2) for i in range(3)] + [
        replace(one_node(i), targets=[""]) for i in range(30)
    ]
    for seed in range(9):
        _, valid = split_graphs(graphs, 0.05, seed)
        assert [one.targets != [""] for one in valid] == [True]


def test_nodes_are_drawn_as_far_apart_as_they_are() -> None:
    hops = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])
    spots = spread_out(hops)
    found = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
    assert np.abs(found - hops).max() < 0.2  # a path lies on a line


def test_a_picture_tells_who_attends_to_whom_and_is_drawn() -> None:
    weights = torch.tensor([[0.1, 0.8, 0.1], [0.6, 0.2, 0.2], [0.5, 0.3, 0.2]])
    spots = np.array([[0.0, 0], [1, 0], [2, 0]])
    picture = GraphPicture("CCO", spots, [(0, 1), (1, 2)], weights, "ethanol")
    lines = str(picture).splitlines()
    assert lines[3:] == ["  C0 – C1  0.700", "  C0 · O2  0.300", "  C1 – O2  0.250"]
    axis = picture.figure().axes[0]
    widths = sorted(line.get_linewidth() for line in axis.lines)
    assert widths[-1] > widths[-2] > 2  # the stronger edge is the wider
    assert [text.get_text() for text in axis.texts] == ["C", "C", "O"]


def test_a_long_title_stays_within_the_picture() -> None:
    for title in ("ethanol", f"{'N#CC(=O)' * 9}\n{'solubility in water -1.5, ' * 9}"):
        picture = GraphPicture(
            "CO", np.array([[0.0, 0], [1, 0]]), [(0, 1)], torch.ones(2, 2), title
        )
        figure = picture.figure()
        FigureCanvasAgg(figure).draw()
        drawn = figure._suptitle.get_window_extent()  # type: ignore[attr-defined]
        assert 0 <= drawn.x0 < drawn.x1 <= figure.bbox.x1
        assert figure.axes[0].bbox.y1 <= drawn.y0 < drawn.y1 <= figure.bbox.y1


def one_node(cell: object, y: float = 0.5) -> RawGraph:
    return graph_of({"nodes": {"b": [cell]}, "targets": {"y": y}}, ["y"])


def test_amounts_are_numbers_and_a_few_whole_numbers_are_kinds() -> None:
    amounts = Schema.learn([one_node(i / 10) for i in range(15)], ["y"], None)
    assert [*amounts.numbers] == ["b"]
    near, far, gap = (amounts.encode(one_node(cell)).numbers[0, 0] for cell in (0.65, 1e9, None))
    assert near < far
    assert gap == 0  # the mean
    gaps = Schema.learn([one_node(i if i % 7 else None) for i in range(60)], ["y"], None)
    assert [*gaps.numbers] == ["b"]
    kinds = Schema.learn([one_node(i % 3) for i in range(60)], ["y"], None)
    assert kinds.columns == {"b": ["0", "1", "2"]}
    same = [kinds.encode(one_node(cell)).nodes.tolist() for cell in (2, 2.0, "2.0")]
    assert same == [[[3]]] * 3


def test_a_number_beside_equal_ones_is_not_scaled_to_a_huge_one() -> None:
    equal = Schema.learn([one_node("298.15", 0.1 + i) for i in range(37)], ["y"], None)
    assert equal.encode(one_node(300)).numbers[0, 0] == pytest.approx(1.85)


def test_what_was_never_met_is_told() -> None:
    schema = Schema.learn([graph_of({**WATER, "targets": {"y": 1}}, ["y"])], ["y"], None)
    assert [*schema.find_unknown(graph_of(WATER))] == []
    other = {"nodes": {"atom": ["Xx", "H"]}, "edges": [[0, 1, "quintuple"]]}
    assert [*schema.find_unknown(graph_of(other))] == [
        "atom 'Xx' was never met in training: nothing is known of it",
        "edges of the kind 'quintuple' were never met in training: nothing is known of them",
    ]


def test_a_class_that_is_only_held_out_is_a_class() -> None:
    train, valid = one_node("a"), one_node("b")
    schema = Schema.learn(
        [replace(train, targets=["red"])], ["y"], None, [replace(valid, targets=["blue"])]
    )
    assert schema.classes == ["blue", "red"]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"nodes": {"atom": 5}}, "atom is a list with a cell for each node, got 5"),
        ({"nodes": {"atom": "CCO"}}, "atom is a list with a cell for each node, got 'CCO'"),
        ({"nodes": {"atom": ["C", {"a": 1}]}}, "a cell of atom is a number or a text, got"),
        ({"nodes": {"atom": ["C"]}, "edges": 5}, '"edges" is a list such as'),
        (
            {"nodes": {"atom": ["C", "O"]}, "edges": [[0, 1, "single"], [1, 0, "double"]]},
            "the nodes 1 and 0 are joined twice, as 'single' and as 'double'; edges have no",
        ),
    ],
)
def test_odd_json_is_refused_in_a_sentence(record: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        graph_of(record)


def test_graphs_of_a_file_have_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    both = {"nodes": {"a": [1], "b": [2]}}, {"nodes": {"a": [1]}}
    path.write_text("\n".join(map(json.dumps, both)))
    with pytest.raises(ValueError, match=r"jsonl:2: nodes have no 'b', and those of the first"):
        read_graph_file(path, [])
    path.write_text("\n".join(map(json.dumps, reversed(both))))
    with pytest.raises(ValueError, match=r"jsonl:2: nodes have a 'b', and those of the first"):
        read_graph_file(path, [])


def test_a_copy_without_a_name_is_the_same_graph(tmp_path: Path) -> None:
    given = [{**WATER, "targets": {"y": y}} for y in (1, 2, 3, 3)]
    path, valid = tmp_path / "some.jsonl", tmp_path / "valid.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in given))
    valid.write_text(json.dumps(given[3]))
    data = GraphData(graphs=path, valid_graphs=valid, target=("y",))
    corpus = gather_graphs(GraphRecipe("graph", data))
    assert [one.targets for one in corpus.train] == [["1"], ["2"]]
    assert "2 left out: also among those to validate on" in str(corpus.left_out)
    assert len(set(corpus.seen)) == 3


def test_an_attribute_that_no_edge_has_is_refused() -> None:
    given = networkx.Graph()
    given.add_node("a", colour="red")
    given.add_node("b", colour="blue")
    given.add_edge("a", "b", bond="single")
    with pytest.raises(
        ValueError, match="no edge has a 'label'; label= names one of bond, or None"
    ):
        from_networkx(given)
    assert from_networkx(given, label="bond").edges == [(0, 1, "single")]
    assert from_networkx(given, label=None).edges == [(0, 1, "")]


def test_a_quotation_mark_in_a_tsv_is_one(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.tsv", tmp_path / "edges.tsv"
    texts = ['"so', "it", "goes", '"again']
    rows = [f"n{i}\t{text}\tk\n" for i, text in enumerate(texts)]
    nodes.write_text("id\ttext\tkind\n" + "".join(rows))
    edges.write_text("n0\tn1\nn1\tn2\n")  # without a head
    graph, names = read_nodes(nodes, edges, "kind")
    assert names == ["n0", "n1", "n2", "n3"]
    assert graph.columns == {"text": texts}
    assert [edge[:2] for edge in graph.edges] == [(0, 1), (1, 2)]
    edges.write_text("one\tother\tlabel\nn0\tn1\tnear\nn1\tn0\tfar\n")
    with pytest.raises(ValueError, match="the nodes n1 and n0 are joined twice, as 'near' and as"):
        read_nodes(nodes, edges, "kind")


def test_the_numbers_of_rows_that_pandas_writes_are_no_column(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text(",id,kind\n0,a,x\n1,b,y\n")
    edges.write_text(",from,to\n0,a,b\n1,b,a\n")
    graph, names = read_nodes(nodes, edges, "kind")
    assert (names, graph.targets, graph.columns) == (["a", "b"], ["x", "y"], {})
    assert graph.edges == [(0, 1, ""), (1, 0, "")]
    edges.write_text("a,b,\nb,a,\n")  # no head, and labels that are empty
    assert read_nodes(nodes, edges, "kind")[0].edges == [(0, 1, ""), (1, 0, "")]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("NA", "y is 'NA'; an empty cell, or nan, is a missing value"),
        ("n/a", "y is 'n/a'; an empty cell, or nan, is a missing value"),
        ("3,14", "y is '3,14'; a number is written with a point, as 3.14, and without commas"),
    ],
)
def test_a_target_that_is_neither_value_nor_gap_is_refused_where_it_is(
    tmp_path: Path, cell: str, sentence: str
) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    molecules, nodes = tmp_path / "molecules.tsv", tmp_path / "nodes.tsv"
    molecules.write_text(f"smiles\ty\nC\t1.5\nCC\tnan\nCCC\t{cell}\n")
    with pytest.raises(ValueError, match=f"molecules.tsv:4: {sentence}"):
        read_molecules(molecules, "smiles", ["y"], LeftOut())
    nodes.write_text(f"id\ty\na\t0.5\nb\t{cell}\n")
    with pytest.raises(ValueError, match=f"nodes.tsv:3: {sentence}"):
        read_node_rows(nodes, "y")


def test_classes_may_have_the_names_of_gaps_and_commas(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.tsv"
    nodes.write_text("id\tparts\ty\na\t1,2\tNA\nb\t2,3\tEU\nc\t3\t1,2\nd\t3\tNa\n")
    rows = [*read_node_rows(nodes, "y").values()]
    assert [row["y"] for row in rows] == ["NA", "EU", "1,2", "Na"]
    assert [row["parts"] for row in rows] == ["1,2", "2,3", "3", "3"]


def test_columns_that_are_not_read_may_share_a_name(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,y,note,note\nC,1.5,a,b\n")
    assert len(read_molecules(path, "smiles", ["y"], LeftOut())) == 1


def test_words_among_numbers_make_no_classes_of_them() -> None:
    for words in (["<1"], ["<1", ">5", "5 to 6"]):
        with pytest.raises(ValueError, match="y is a number elsewhere, got '<1'"):
            find_goal([["1.5", "2.5", "3.5", "4.5", *words]], ["y"])


def test_gaps_among_the_numbers_of_nodes_leave_them_numbers(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.tsv", tmp_path / "edges.tsv"
    edges.write_text("a\tnan\n")
    nodes.write_text("id\tsize\ty\na\t0.5\t1\nb\tNaN\t2\nnan\t1.5\t3\n")
    graph, names = read_nodes(nodes, edges, "y")
    assert (names, graph.columns) == (["a", "b", "nan"], {"size": ["0.5", "", "1.5"]})
    assert [*Schema.learn([graph], ["y"], None).numbers] == ["size"]
    assert graph_of({"nodes": {"size": [0.5, "nan", float("nan")]}}).columns == {
        "size": ["0.5", "", ""]
    }
    for cell, sentence in (("NA", "an empty cell"), ("2,5", "a number is written with a point")):
        nodes.write_text(f"id\tsize\ty\na\t0.5\t1\nb\t{cell}\t2\nnan\t1.5\t3\n")
        with pytest.raises(ValueError, match=f"nodes.tsv:3: size is '{cell}'; {sentence}"):
            read_nodes(nodes, edges, "y")
    nodes.write_text("id\tkind\ty\na\tnone\t1\nb\tNA\t2\nnan\tred, blue\t3\n")
    assert read_nodes(nodes, edges, "y")[0].columns == {"kind": ["none", "NA", "red, blue"]}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("e.tsv", "a\tz\na\tb\n", "e.tsv:1: there is no node 'z'"),
        ("e.tsv", "y\tb\na\tb\n", "e.tsv:1: there is no node 'y'"),
        ("e.tsv", "one\tother\n", "e.tsv has no edges between these nodes"),
        ("e.tsv", "", "e.tsv has no edges between these nodes"),
        ("e.tsv", "a,b\n", "one column, a,b; .* a tab separates the columns of this file"),
        ("e.csv", "a;b\n", "one column, a;b; .* a comma separates the columns of this file"),
        ("e.tsv", "a\tb\tnear\t0.5\n", "e.tsv has 4 columns, a, b, near, 0.5; edges have two"),
    ],
)
def test_a_table_that_holds_other_edges_is_refused(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    nodes, edges = tmp_path / "nodes.tsv", tmp_path / name
    nodes.write_text("id\tkind\na\tx\nb\ty\n")
    edges.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_nodes(nodes, edges, "kind")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id;kind\na;x\n", "no column 'kind'; .* id;kind; a comma separates the columns"),
        ("id,size,size,kind\na,1,2,x\n", "n.csv has two columns 'size'"),
        ("kind,size\nx,1\n", "the first column, 'kind', names the nodes and is no target"),
    ],
)
def test_a_table_that_holds_other_nodes_is_refused(
    tmp_path: Path, text: str, sentence: str
) -> None:
    nodes = tmp_path / "n.csv"
    nodes.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_node_rows(nodes, "kind")


def test_tables_of_other_programs_are_read_as_they_are_meant(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_bytes('\ufeff"id","kind"\r\n"a, 1","x"\r\n"b","y"\r\n'.encode())
    edges.write_bytes('\ufeff"a, 1",b\r\n'.encode())
    graph, names = read_nodes(nodes, edges, "kind")
    assert (names, graph.targets, graph.edges) == (["a, 1", "b"], ["x", "y"], [(0, 1, "")])


def test_weights_of_edges_are_no_labels() -> None:
    size = 30
    edges = [[i, i + 1, i / 7] for i in range(size - 1)]
    record = {"nodes": {"a": [*range(size)]}, "edges": edges, "targets": {"y": "x"}}
    with pytest.raises(ValueError, match="edges have 29 labels, which are numbers such as"):
        Schema.learn([graph_of(record, ["y"])], ["y"], None)
