"""Good settings for guessing hidden words, for those who give none."""

from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.config import read, write
from manyheads.modules.config import NetworkConfig, RecurrentConfig, TransformerConfig
from manyheads.tasks.language.settings import LanguageRecipe, TextCodec, TextData
from manyheads.tasks.masked.settings import PRESETS, MaskedRecipe
from manyheads.tasks.recipe import Choice

DATA = TextData((Path("book.txt"),))


def test_a_preset_follows_from_corpus_and_machine() -> None:
    assert MaskedRecipe.fitting_preset(10**10, cuda=False) == "tiny"
    assert MaskedRecipe.fitting_preset(10**6, cuda=True) == "small"
    assert MaskedRecipe.fitting_preset(10**9, cuda=True) == "base"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tokens", [0, 300_000, 10**9])
def test_every_preset_is_a_recipe_that_writes_and_reads_back(
    preset: str, device: str, tokens: int
) -> None:
    recipe = MaskedRecipe.choose("masked", DATA, tokens, Choice(device, "transformer", preset))
    assert read(MaskedRecipe, write(recipe), "recipe.yaml") == recipe
    training = recipe.training
    assert training.warmup_steps < training.steps
    assert training.log_every <= training.validate_every <= training.steps
    assert training.tokens_per_batch >= recipe.data.context
    assert training.precision == ("bfloat16" if device == "cuda" else "float32")


def test_what_it_starts_from_says_the_network_the_vocabulary_and_the_context() -> None:
    start = MaskedRecipe(
        "masked", replace(DATA, context=77), TextCodec("byte"), network=TransformerConfig(width=64)
    )
    recipe = MaskedRecipe.choose("masked", DATA, 99, Choice(start=start))
    assert (recipe.network, recipe.codec, recipe.data.context) == (start.network, start.codec, 77)


def test_a_run_of_another_kind_is_nothing_to_start_from() -> None:
    with pytest.raises(ValueError) as error:
        MaskedRecipe.choose(
            "masked", DATA, 99, Choice(start=LanguageRecipe.choose("language", DATA, 99))
        )
    assert str(error.value) == (
        "masked starts from a run of masked; the run to start from learned language"
    )


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            RecurrentConfig(),
            "hidden words are guessed by a transformer; network.kind: transformer would do",
        ),
        (
            TransformerConfig(position="Learned(100)"),
            "a learned position for 100 places meets windows of 256 tokens; "
            "network.position: Learned(256) or data.context: 100 would do",
        ),
    ],
)
def test_what_could_never_run_is_refused_before_it_is_begun(
    network: NetworkConfig, sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        MaskedRecipe("masked", DATA, network=network)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Choice(preset="huge"), "there is no preset 'huge'; there are tiny, small, base"),
        (
            Choice(network="recurrent"),
            "masked is learned by transformer, not by recurrent",
        ),
    ],
)
def test_what_there_is_not_is_refused(asked: Choice, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        MaskedRecipe.choose("masked", DATA, 99, asked)
    assert str(error.value) == sentence
