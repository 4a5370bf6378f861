"""A classifier that was trained here, by Hugging Face's own library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import books
import pytest
import torch
from typer.testing import CliRunner

from manyheads.cli.app import app
from manyheads.models import load

transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers are not ours

# As docs/interop.md has it: the encoder that a BERT is.
BERT = [
    "network.norm_position=post",
    "network.position=Learned(64)",
    "network.embedding_norm=true",
    "network.token_types=2",
    "pooling=first",
]


def test_a_number_is_the_same_there_in_its_own_unit(tmp_path: Path) -> None:
    settings = [*books.JUDGING, *BERT]
    data = books.numbered(tmp_path)
    run = books.trained(tmp_path / "run", "regression", "--data", data, settings=settings)
    out, texts = tmp_path / "out", ["the dog", "the cat sat on a mat", "a"]
    told = CliRunner().invoke(app, ["export", str(out), "--model", str(run), "--to", "huggingface"])
    assert told.exit_code == 0, told.output
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    ours: Any = load(run, "cpu")
    for text, found in zip(texts, ours.classify(texts), strict=True):
        with torch.no_grad():
            there = model(**tokenizer(text, return_tensors="pt")).logits.item()
        assert there == pytest.approx(found.value, abs=1e-4)
    assert ours.task.labels.mean > 1, "a number that the network itself would not write"


def test_a_classifier_that_was_trained_here_says_the_same_there(tmp_path: Path) -> None:
    data = books.judged(tmp_path)
    run = books.trained(
        tmp_path / "run", "classification", "--data", data, settings=[*books.JUDGING, *BERT]
    )
    out = tmp_path / "out"
    told = CliRunner().invoke(app, ["export", str(out), "--model", str(run), "--to", "huggingface"])
    assert told.exit_code == 0, told.output
    texts = ["a good film", "bad", "it was so and so"]
    ours = load(run, "cpu").classify(texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    names = json.loads((out / "config.json").read_text())["id2label"]
    for text, verdict in zip(texts, ours, strict=True):
        with torch.no_grad():
            shares = model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
        assert names[str(int(shares.argmax()))] == verdict.label
        assert float(shares.max()) == pytest.approx(verdict.probability, abs=1e-4)
