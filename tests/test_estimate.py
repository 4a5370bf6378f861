"""What a run would take, without taking it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import begun, recipe_in

from manyheads.data.filters import Filters
from manyheads.estimate import estimate, format_minutes
from manyheads.learn import open_task
from manyheads.tasks.seq2seq.corpus import gather
from manyheads.tasks.seq2seq.settings import PairCodec, PairData


@pytest.mark.parametrize(
    ("network", "codec"),
    [
        ({}, PairCodec("word", 4000)),
        ({"tied": False, "position": "Learned(1024)"}, PairCodec("byte", 4000)),
        (
            {"position": "RelativeBias()", "norm": "rms", "feed_forward": "swiglu"},
            PairCodec("word", 40, False),
        ),
        ({"position": "RelativeContent(16)"}, PairCodec("character", 500)),
        ({"kind": "recurrent"}, PairCodec("bpe", 270)),
        ({"kind": "convolutional"}, PairCodec("word", 9)),
    ],
)
def test_the_parameters_are_those_of_the_network_that_is_built(
    tmp_path: Path, network: dict[str, Any], codec: PairCodec
) -> None:
    recipe = replace(recipe_in(tmp_path, network=network), codec=codec)
    built = open_task(recipe, begun(recipe, tmp_path / "run")).network()
    count = sum(parameter.numel() for parameter in built.parameters())
    told = estimate(recipe, gather(recipe.task, recipe.data), torch.device("cpu"))
    lines = told.splitlines()
    assert lines[0] == "# 54 pairs to train on, 5 to validate on"
    assert lines[1] == f"# {count:,} parameters"
    assert lines[2].startswith("# 40 steps, about ")
    memory = re.fullmatch(r"# memory: about (.*) GiB of the (.*) GiB there are on cpu", lines[3])
    assert memory
    assert 0 < float(memory[1]) < float(memory[2])
    assert re.fullmatch(
        r"# time: about \d+ s on cpu, by steps of [\d.e-]+ s each and 5 x [\d.e-]+ s to "
        "validate, at most",
        lines[4],
    )


def test_epochs_are_counted_on_the_larger_side(tmp_path: Path) -> None:
    """A step's tokens are those of its larger side: of summaries that is what is read."""
    lines = [f"{'ein langes Gespräch ' * 50}{i}\tkurz {i}" for i in range(100)]
    (tmp_path / "long.tsv").write_text("\n".join(lines), encoding="utf-8")
    recipe = recipe_in(tmp_path)
    data = PairData(pairs=tmp_path / "long.tsv", filters=Filters(0, ratio=0.0))
    training = replace(recipe.training, steps=90, tokens_per_batch=2520)
    recipe = replace(recipe, data=data, training=training)
    told = estimate(recipe, gather(recipe.task, recipe.data), torch.device("cpu"))
    assert "90 steps, about 10 epochs" in told  # of 90 texts of about 252 tokens


def test_times_are_told_in_a_fitting_unit() -> None:
    assert [format_minutes(seconds) for seconds in (5, 600, 9000)] == [
        "5 s",
        "10 minutes",
        "2.5 hours",
    ]
