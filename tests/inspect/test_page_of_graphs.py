"""The page of a molecule or another graph: what its nodes look at, and what each head is worth."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import molecules
import numpy as np
import pytest
import torch
from payloads import read_payload
from typer.testing import CliRunner

from manyheads import Off, Overwritten
from manyheads.cli.app import app
from manyheads.inspect.record import recording
from manyheads.models import load
from manyheads.tasks.graph.model import GraphModel
from manyheads.tasks.graph.records import parse_graph
from manyheads.tasks.graph.schema import Schema
from manyheads.tasks.graph.settings import GraphData, GraphRecipe, small_network
from manyheads.tasks.graph.task import GraphTask

CHAIN = json.dumps({"nodes": {"atom": ["C", "O", "N", "C"]}, "edges": [[0, 1, "a"], [1, 2, "b"]]})


def make_model(targets: dict[str, Any], **settings: Any) -> GraphModel:
    """A network that has learned nothing, over one kind of node."""
    record = {**json.loads(CHAIN), "targets": targets}
    graph = replace(parse_graph(json.dumps(record)), targets=[str(one) for one in targets.values()])
    others = replace(graph, targets=["0" if one == "1" else "x" for one in graph.targets])
    schema = Schema.learn([graph, others], [*targets], None)
    data = GraphData(graphs=Path("x.jsonl"), target=tuple(targets))
    recipe = GraphRecipe("graph", data, network=small_network(16, 2, 2, 0.0), **settings)
    torch.manual_seed(0)
    task = GraphTask(recipe, schema)
    return task.model(task.network(), "toy")


def read_page(model: GraphModel, *given: Any, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    return read_payload(model.inspect(*given, **more).payload())


def test_cells_are_what_the_network_computed_and_distances_are_edges() -> None:
    model = make_model({"y": "red"}, readout="mean")
    header, maps = read_page(model, CHAIN)
    with recording(model.network) as seen:
        model.network(model.task.encode([parse_graph(CHAIN)]).lay_out([0]))
    for found, wanted in zip(maps, seen, strict=True):
        np.testing.assert_allclose(found, wanted.weights[0], atol=1 / 255)
    hops = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 3], [2, 1, 0, 3], [3, 3, 3, 0]])
    distance = (seen[0].weights[0] * hops).sum(-1).mean(-1)
    told = [one["distance"] for one in header["layers"][0]["numbers"]]
    assert told == pytest.approx(distance.tolist(), abs=1e-3)
    assert len(header["graph"]["spots"]) == len(header["sides"]["nodes"]["tokens"]) == 4


@pytest.mark.parametrize(
    ("targets", "said"),
    [({"y": "red"}, ["red", "x"]), ({"toxic": "1", "bitter": "1"}, ["no", "yes"])],
    ids=["classes", "labels"],
)
def test_what_is_said_stands_beside_its_probability(targets: Any, said: list[str]) -> None:
    header, _ = read_page(make_model(targets), CHAIN)
    assert [one["of"] for one in header["candidates"]] == [*targets]
    for one in header["candidates"]:
        assert sorted(name for _, name, _ in one["best"]) == said
        assert one["p"] == max(share for _, _, share in one["best"])
    assert all(len(costs) == len(targets) for costs in header["costs"].values())


def test_a_node_for_the_whole_graph_is_a_sign_beside_it() -> None:
    header, maps = read_page(make_model({"y": "red"}, readout="node"), CHAIN)
    assert header["note"] == "◎ is a node that stands for the whole graph"
    assert header["sides"]["nodes"]["signs"] == [False, False, False, False, True]
    assert len(header["graph"]["spots"]) == maps[0].shape[1] == 5


def test_of_several_networks_the_first_is_shown() -> None:
    model = make_model({"y": "red"}, members=3, readout="sum")
    header, maps = read_page(model, CHAIN)
    assert len(maps) == 2
    said = model.predict(CHAIN)
    assert header["note"] == f"the first of 3 networks; together they say y {said}"


@pytest.fixture
def esol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rdkit", reason="molecules are read by RDKit")
    return molecules.train_model(tmp_path_factory.getbasetemp())


def test_worth_is_how_far_a_number_moves(esol: Path) -> None:
    model: GraphModel = load(esol, "cpu")
    header, _ = read_page(model, "CCO")
    assert header["wrote"] == f"y {model.predict('CCO')}"
    assert header["numbers"] is True
    without, _ = read_page(model, "CCO", what_if=[Off("0.self", 1)])
    moved = float(header["wrote"].split()[1]) - float(without["wrote"].split()[1])
    (spread,) = (scale[1] for scale in model.task.schema.scales)
    assert header["costs"]["0.self/1"] == [pytest.approx(moved / spread, abs=1e-3)]


def test_a_node_reads_what_it_is_told(esol: Path) -> None:
    told = Overwritten("0.self", 1, place=2, weights={0: 1.0})
    _, maps = read_page(load(esol, "cpu"), "CCO", what_if=[told])
    assert maps[0][1, 2].tolist() == [1, 0, 0, 0]  # and the node for the whole


def test_the_command_writes_the_page_of_a_molecule(esol: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    typed = ["inspect", "--model", str(esol), "--out", str(out), "--device", "cpu"]
    result = CliRunner().invoke(app, [*typed, "CCO"])
    assert (result.exit_code, result.output) == (0, f"page: {out}\n")
    assert out.read_text("utf-8").startswith("<!doctype html>")
    result = CliRunner().invoke(app, typed)
    assert "a page is of a molecule or a graph" in str(result.exception)
    result = CliRunner().invoke(app, [*typed, "C("])
    assert "'C(' is not a molecule in SMILES" in str(result.exception)


def test_one_large_graph_is_refused() -> None:
    model = make_model({"y": "red"})
    model.task.of_nodes = True
    with pytest.raises(ValueError, match="knows one large graph, which no page holds"):
        model.inspect("a")
