"""When a run is compiled without being told to."""

from pathlib import Path

from manyheads.tasks.recipe import Choice
from manyheads.tasks.seq2seq.settings import PairData, Seq2SeqRecipe


def test_long_runs_on_a_gpu_are_compiled_and_short_ones_are_not() -> None:
    data, gpu = PairData(source=Path("a"), target=Path("b")), Choice(device="cuda", preset="base")
    long, short = (Seq2SeqRecipe.choose("translation", data, n, gpu) for n in (10**9, 10**6))
    assert long.training.compile
    assert not short.training.compile
    cpu = Choice(device="cpu", preset="base")
    assert not Seq2SeqRecipe.choose("translation", data, 10**9, cpu).training.compile
    recurrent = Choice(device="cuda", preset="base", network="recurrent")
    assert not Seq2SeqRecipe.choose("translation", data, 10**9, recurrent).training.compile
