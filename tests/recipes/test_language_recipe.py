"""Good settings for a language model, for those who give none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.config import read, write
from manyheads.modules.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from manyheads.tasks.language.settings import (
    PRESETS,
    LanguageRecipe,
    TextCodec,
    TextData,
)
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training

DATA = TextData((Path("book.txt"),))


def test_a_preset_follows_from_corpus_and_machine() -> None:
    assert LanguageRecipe.fitting_preset(10**10, cuda=False) == "tiny"
    assert LanguageRecipe.fitting_preset(10**6, cuda=True) == "small"
    assert LanguageRecipe.fitting_preset(10**9, cuda=True) == "base"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", ["transformer", "recurrent"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tokens", [0, 300_000, 10**9])
def test_every_preset_is_a_recipe_that_writes_and_reads_back(
    preset: str, network: str, device: str, tokens: int
) -> None:
    recipe = LanguageRecipe.choose("language", DATA, tokens, Choice(device, network, preset))
    assert read(LanguageRecipe, write(recipe), "recipe.yaml") == recipe
    training = recipe.training
    assert training.warmup_steps < training.steps
    assert training.log_every <= training.validate_every <= training.steps
    assert training.tokens_per_batch >= recipe.data.context
    assert training.best_by == "loss"
    assert recipe.layout == ("packed" if network == "transformer" else "padded")
    assert training.precision == ("bfloat16" if device == "cuda" else "float32")


def test_a_recipe_of_two_lines_is_enough() -> None:
    assert read(LanguageRecipe, "task: language\ndata: {text: [book.txt]}\n") == LanguageRecipe(
        "language", DATA
    )


def test_what_it_starts_from_says_the_network_the_vocabulary_and_the_context() -> None:
    start = LanguageRecipe(
        "language", replace(DATA, context=77), TextCodec("byte"), TransformerConfig(width=64)
    )
    recipe = LanguageRecipe.choose("language", DATA, 99, Choice(start=start))
    assert (recipe.network, recipe.codec, recipe.data.context) == (start.network, start.codec, 77)


def test_a_run_of_another_kind_is_nothing_to_start_from() -> None:
    with pytest.raises(ValueError) as error:
        LanguageRecipe.choose("language", DATA, 99, Choice(start=MaskedRecipe("masked", DATA)))
    assert str(error.value) == (
        "language starts from a run of language; the run to start from learned masked"
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"training": Training(best_by="score")},
        "a language model is judged by its loss; training.best_by: loss",
    ),
    (
        {"network": RecurrentConfig()},
        "a recurrent network reads one sequence a row; layout: padded would do",
    ),
    (
        {"network": ConvolutionalConfig()},
        "a language model is a transformer or a recurrent network; "
        "network.kind: recurrent would do",
    ),
    (
        {"network": TransformerConfig(position="Learned(100)")},
        "a learned position for 100 places meets windows of 256 tokens; "
        "network.position: Learned(256) or data.context: 100 would do",
    ),
]


@pytest.mark.parametrize(("parts", "sentence"), REFUSED)
def test_what_could_never_run_is_refused_before_it_is_begun(
    parts: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        LanguageRecipe("language", DATA, **parts)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Choice(preset="huge"), "there is no preset 'huge'; there are tiny, small, base, modern"),
        (
            Choice(network="convolutional"),
            "language is learned by transformer or recurrent, not by convolutional",
        ),
    ],
)
def test_what_there_is_not_is_refused(asked: Choice, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        LanguageRecipe.choose("language", DATA, 99, asked)
    assert str(error.value) == sentence
