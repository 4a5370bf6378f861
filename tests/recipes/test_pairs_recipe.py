"""Good settings for those who give none."""

from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.config import read, write
from manyheads.data.filters import Filters
from manyheads.modules.config import RecurrentConfig, TransformerConfig
from manyheads.tasks.recipe import Choice
from manyheads.tasks.seq2seq.settings import PRESETS, PairData, Seq2SeqRecipe
from manyheads.training.config import Training

DATA = PairData(Path("a.de"), Path("a.en"))


def test_a_preset_follows_from_corpus_and_machine() -> None:
    assert Seq2SeqRecipe.fitting_preset(10**8, cuda=False) == "tiny"
    assert Seq2SeqRecipe.fitting_preset(460_000, cuda=True) == "small"
    assert Seq2SeqRecipe.fitting_preset(10**8, cuda=True) == "base"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("corpus", [10, 460_000, 130_000_000])
def test_every_preset_is_a_recipe_that_writes_and_reads_back(
    preset: str, network: str, device: str, corpus: int
) -> None:
    recipe = Seq2SeqRecipe.choose("translation", DATA, corpus, Choice(device, network, preset))
    assert read(Seq2SeqRecipe, write(recipe), "recipe.yaml") == recipe
    training = recipe.training
    assert training.warmup_steps < training.steps
    assert training.log_every <= training.validate_every <= training.steps
    assert training.tokens_per_batch >= recipe.data.longest_tokens
    packs = device == "cuda" and network == "transformer"
    assert recipe.layout == ("packed" if packs else "padded")
    assert training.precision == ("bfloat16" if device == "cuda" else "float32")


def test_more_text_is_more_steps_of_the_same_epochs() -> None:
    one, ten = (
        Seq2SeqRecipe.choose(
            "translation", DATA, corpus, Choice("cuda", preset="base")
        ).training.steps
        for corpus in (10**7, 10**8)
    )
    assert ten == pytest.approx(10 * one, rel=0.01)


def test_the_filters_of_the_task_are_written_down() -> None:
    assert Seq2SeqRecipe.choose("translation", DATA, 99).data.filters == Filters()
    assert Seq2SeqRecipe.choose("answering", DATA, 99).data.filters == Filters(0, ratio=0.0)
    own = replace(DATA, filters=Filters(ratio=3.0))
    assert Seq2SeqRecipe.choose("answering", own, 99).data.filters == Filters(ratio=3.0)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        Seq2SeqRecipe.choose("translation", DATA, 99, Choice(preset="huge"))
    assert str(error.value) == "there is no preset 'huge'; there are tiny, small, base"
    with pytest.raises(ValueError) as error:
        Seq2SeqRecipe.choose("translation", DATA, 99, Choice(network="perceptron"))
    assert str(error.value) == (
        f"translation is learned by {' or '.join(Seq2SeqRecipe.networks)}, not by perceptron"
    )
    with pytest.raises(ValueError) as error:
        Seq2SeqRecipe("translation", DATA, network=RecurrentConfig())
    assert str(error.value) == (
        "a recurrent network reads one sequence a row; layout: padded would do"
    )


def test_what_could_never_run_is_refused_before_it_is_begun() -> None:
    with pytest.raises(ValueError, match=r"there is nothing to compile; training\.compile: false"):
        Seq2SeqRecipe(
            "translation",
            DATA,
            network=RecurrentConfig(),
            training=Training(compile=True),
            layout="padded",
        )
    with pytest.raises(ValueError, match="for 100 places meets texts of 512 tokens"):
        Seq2SeqRecipe("translation", DATA, network=TransformerConfig(position="Learned(100)"))
    with pytest.raises(
        ValueError, match=r"betas is a list, each a share from 0 to below 1, got \[1\.5, 0\.9\]"
    ):
        Training(betas=(1.5, 0.9))
    with pytest.raises(ValueError, match="a recurrent network's width is even, got 251"):
        RecurrentConfig(width=251)
