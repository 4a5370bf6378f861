"""train graph, predict, evaluate, verify and look, as they are typed."""

import json
import sys
from pathlib import Path

import molecules
import pytest
from typed import Command, Refuses, trained

pytest.importorskip("rdkit", reason="molecules are read by RDKit")


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return molecules.train_model(tmp_path_factory.getbasetemp())


def test_a_model_of_molecules_predicts_and_is_measured(
    manyheads: Command, run: Path, tmp_path: Path
) -> None:
    done = manyheads("predict", "--model", run, "CCO", "c1ccccc1", "--device", "cpu")
    ethanol, benzene = done.out.splitlines()
    assert float(ethanol) != float(benzene)
    done = manyheads("predict", "--model", run, "--device", "cpu", stdin=b"CCO\nC(\nOCC\n")
    assert done.out == f"{ethanol}\n\n{ethanol}\n"  # a line for each line
    assert done.err == "manyheads: line 2: 'C(' is not a molecule in SMILES\n"
    assert manyheads("predict", "--model", run, "--device", "cpu", stdin=b"").out == ""
    other = json.dumps({"nodes": {"element": ["C"]}}).encode()
    done = manyheads("predict", "--model", run, "--device", "cpu", stdin=b"CCO\n" + other + b"\n")
    assert done.out == f"{ethanol}\n\n"
    assert done.err.startswith("manyheads: line 2: nodes have no 'atom'; the model learned from")
    done = manyheads("predict", "--model", run, "--device", "cpu", "C[Si]")
    assert "manyheads: atom 'Si' was never met in training: nothing is known of it\n" in done.err
    table = molecules.write_table(tmp_path / "test.csv", ["OCC", "CC(C)C", "CCSC", "no molecule"])
    at = ("evaluate", "--model", run, "--data", table, "--device", "cpu")
    done = manyheads(*at, "--json")
    assert json.loads(done.out)["examples"] == 2  # ethanol was learned from
    assert "1 left out: also among those it learned from\n    CCO" in done.err
    assert "line 5: 'no molecule' is not a molecule in SMILES" in done.err


def test_without_rdkit_all_is_refused_at_once_with_what_would_do(
    refuses: Refuses, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = molecules.write_table(tmp_path / "train.csv", ["CCO", "CC"])
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    sentence = "molecules are read by RDKit: pip install 'manyheads[graphs]' would do"
    train = ("train", "graph", "--molecules", table, "--target", "y", "--out", tmp_path / "run")
    refuses(sentence, *train, "--device", "cpu")
    refuses(sentence, "predict", "--model", run, "--device", "cpu", stdin=b"CCO\nCC\n")


def test_a_model_of_molecules_is_verified_and_looked_at(
    manyheads: Command, run: Path, tmp_path: Path
) -> None:
    done = manyheads("verify", "--model", run, "--device", "cpu")
    named = [line.split("  ")[2] for line in done.out.splitlines()]
    assert [name.strip() for name in done.out.splitlines() if "holds" not in name] == []
    assert len(named) == 2
    picture = tmp_path / "ethanol.png"
    at = ("look", "--model", run, "--device", "cpu")
    done = manyheads(*at, "CCO", "--out", picture, "--layer", 0)
    assert "who attends to whom most" in done.out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    told = manyheads(*at, json.dumps({"nodes": {}})).err
    assert told.startswith('manyheads: a graph has "nodes"')


def test_several_numbers_are_said_of_each_line(manyheads: Command, tmp_path: Path) -> None:
    table = tmp_path / "two.csv"
    rows = [f"{one},{len(one)}.5,{len(one) / 3}\n" for one in molecules.MOLECULES]
    table.write_text("smiles,y,z\n" + "".join(rows))
    given = ("graph", "--molecules", table, "--target", "y", "--target", "z")
    run = trained(tmp_path / "run", *given, settings=molecules.SETTINGS)
    done = manyheads("predict", "--model", run, "--device", "cpu", stdin=b"CCO\nC(\nCCN\n")
    assert [len(line.split("\t")) for line in done.out.splitlines()] == [2, 1, 2]
    assert done.err.endswith("manyheads: line 2: 'C(' is not a molecule in SMILES\n")


def test_one_graph_is_learned_asked_and_measured(manyheads: Command, tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.tsv", tmp_path / "edges.tsv"
    splits = ["train"] * 12 + ["valid"] * 4 + ["test"] * 8
    rows = [
        f"n{i}\t{'a b' if i % 2 else 'c d'}\t{'odd' if i % 2 else 'even'}\t{split}\n"
        for i, split in enumerate(splits)
    ]
    nodes.write_text("id\twords\tkind\tsplit\n" + "".join(rows))
    loops = [f"n{i}\tn{i + 2}\n" for i in range(22)] + ["n3\tn3\n"]  # two pieces, and a loop
    edges.write_text("one\tother\n" + "".join(loops))
    given = ("graph", "--nodes", nodes, "--edges", edges, "--target", "kind")
    run = trained(tmp_path / "run", *given, settings=["training.steps=40"])
    at = ("--model", run, "--device", "cpu")
    assert manyheads("predict", *at, "n20", "n21").out == "even\nodd\n"
    report = json.loads(manyheads("evaluate", *at, "--data", nodes, "--json").out)
    assert (report["examples"], report["scores"]["accuracy"]["value"]) == (8, 100)
    done = manyheads("predict", *at, stdin=b"n20\nn99\nn21\n")
    assert done.out == "even\n\nodd\n"
    assert done.err == (
        "manyheads: line 2: there is no node 'n99' in the graph that was learned from\n"
    )
    unsplit = tmp_path / "unsplit.tsv"
    bare = [row.rpartition("\t")[0] + "\n" for row in rows]
    unsplit.write_text("id\twords\tkind\n" + "".join(bare))
    done = manyheads("evaluate", *at, "--data", unsplit, "--json")
    assert json.loads(done.out)["examples"] == 8
    assert "16 left out: also among those it learned from" in done.err
    unsplit.write_text("id\twords\tkind\n" + "".join(bare[:9]))
    told = "no node is left: all 9 are also among those it learned from"
    assert told in manyheads("evaluate", *at, "--data", unsplit).err
    other = tmp_path / "other.tsv"  # calls two nodes test that were learned from
    other.write_text(
        "id\twords\tkind\tsplit\n" + "".join(f"{row}\ttest\n" for row in map(str.strip, bare[10:]))
    )
    done = manyheads("evaluate", *at, "--data", other, "--json")
    assert json.loads(done.out)["examples"] == 8
    assert "6 left out: also among those it learned from" in done.err
    nodes.write_text("id\twords\tkind\tsplit\nn1\ta b\todd\tTest\n")
    told = "the column 'split' says 'Test'; train, valid and test, or nothing, would do"
    assert told in manyheads("evaluate", *at, "--data", nodes).err
    assert "FAILS" not in manyheads("verify", *at).out
    assert "which no picture holds" in manyheads("look", *at, "n20").err
    nodes.write_text("id\twords\tkind\nn99\ta b\todd\n")
    assert "there is no node 'n99' in the graph" in manyheads("evaluate", *at, "--data", nodes).err


def test_what_cannot_be_used_is_refused_in_a_sentence(
    refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    at = ("--model", run, "--device", "cpu")
    refuses("'C(' is not a molecule in SMILES", "predict", *at, "C(")
    refuses("layers are numbered 0 to 0, 3 was asked for", "look", *at, "CCO", "--layer", 3)
    refuses('one graph is looked at, such as "CCO", got 2', "look", *at, "C", "CC")
    refuses(
        f"{run} is a model for graphs, whose nodes and edges have no counterpart elsewhere; "
        "models of text are exported",
        *("export", tmp_path / "out", "--model", run, "--to", "onnx"),
    )


def test_files_that_cannot_be_learned_from_are_refused_in_a_sentence(
    refuses: Refuses, tmp_path: Path
) -> None:
    table, nodes, edges = (tmp_path / name for name in ("t.csv", "nodes.tsv", "edges.tsv"))
    out = ("--out", tmp_path / "out", "--device", "cpu")
    given = ("train", "graph", "--molecules", table, "--target", "y", *out)
    refuses(f"there is no file {table}", *given)
    table.write_text("")
    refuses(f"{table} has no molecule that can be read", *given)
    table.write_text("smiles,y\nCC,1.5\n")
    refuses("one graph is too few: some are to learn from, some to validate on", *given)
    table.write_text("smiles,y\nCC,\nCCC,\nCO,\n")
    refuses("no target has a value: there is nothing to learn", *given)
    asked = "which column is to be learned? --target solubility would say it"
    refuses(asked, "train", "graph", "--molecules", table, *out)
    nodes.write_text("id\tkind\nn1\todd\nn2\teven\n")
    edges.write_text("one\nn1\n")
    given = ("train", "graph", "--nodes", nodes, "--edges", edges, "--target", "kind", *out)
    told = "edges have two names of nodes on a line, and a label if they have one"
    refuses(f"{edges} has one column, one; {told}", *given)
    edges.write_text("one\tother\nn1\tn7\n")
    refuses(f"{edges}:2: there is no node 'n7'", *given)
