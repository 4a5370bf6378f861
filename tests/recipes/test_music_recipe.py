"""Good settings for music, for those who give none."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.config import read, write
from manyheads.modules.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.music.chorales import Chorales
from manyheads.tasks.music.codec_file import CODEC, save_codec
from manyheads.tasks.music.settings import (
    PRESETS,
    MusicData,
    MusicEncoding,
    MusicRecipe,
    MusicTransformerConfig,
)
from manyheads.tasks.music.task import codec_for
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training

FOLDER, SONGS = MusicData((Path("midi"),)), MusicData((Path("songs.npz"),))


def test_a_preset_follows_from_corpus_and_machine() -> None:
    assert MusicRecipe.fitting_preset(10**10, cuda=False) == "tiny"
    assert MusicRecipe.fitting_preset(10**6, cuda=True) == "small"
    assert MusicRecipe.fitting_preset(10**9, cuda=True) == "base"


@pytest.mark.parametrize("data", [FOLDER, SONGS])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", ["transformer", "recurrent"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tokens", [0, 300_000, 10**9])
def test_every_preset_is_a_recipe_that_writes_and_reads_back(
    data: MusicData, preset: str, network: str, device: str, tokens: int
) -> None:
    recipe = MusicRecipe.choose("music", data, tokens, Choice(device, network, preset))
    assert read(MusicRecipe, write(recipe), "recipe.yaml") == recipe
    training = recipe.training
    assert training.warmup_steps < training.steps
    assert training.log_every <= training.validate_every <= training.steps
    assert training.tokens_per_batch >= recipe.data.context
    assert training.best_by == "loss"
    assert recipe.layout == ("packed" if network == "transformer" else "padded")


def test_an_npz_is_chorales_in_four_voices_and_a_folder_performances() -> None:
    songs, folder = (MusicRecipe.choose("music", data, 10**6) for data in (SONGS, FOLDER))
    assert (songs.codec.kind, songs.network.token_types, songs.data.semitones) == ("chorales", 4, 6)
    assert (folder.codec.kind, folder.network.token_types, folder.data.semitones) == (
        "performance",
        0,
        3,
    )
    assert (
        songs.data.augmentations_of("chorales")
        == songs.data.augmentations_of("remi")
        == ("transpose",)
    )
    assert folder.data.augmentations_of("performance") == ("transpose", "stretch")
    assert replace(folder.data, augment=()).augmentations_of("performance") == ()


def test_a_recipe_of_two_lines_is_enough() -> None:
    assert read(MusicRecipe, "task: music\ndata: {music: [midi]}\n") == MusicRecipe("music", FOLDER)


def test_what_it_starts_from_says_the_network_the_codec_and_the_context() -> None:
    start = MusicRecipe(
        "music", replace(FOLDER, context=76), MusicEncoding("chorales"), TransformerConfig(width=64)
    )
    recipe = MusicRecipe.choose("music", FOLDER, 99, Choice(start=start))
    assert (recipe.network, recipe.codec, recipe.data.context) == (start.network, start.codec, 76)
    assert recipe.data.semitones == 6  # as chorales move, wherever they come from
    played = MusicRecipe.choose("music", SONGS, 99, Choice(start=MusicRecipe("music", FOLDER)))
    assert (played.codec.kind, played.data.semitones) == ("performance", 3)
    other = LanguageRecipe("language", TextData((Path("book.txt"),)))
    with pytest.raises(ValueError) as error:
        MusicRecipe.choose("music", FOLDER, 99, Choice(start=other))
    assert str(error.value) == (
        "music starts from a run of music; the run to start from learned language"
    )


def test_the_codec_of_the_run_it_starts_from_is_the_one_asked_for(tmp_path: Path) -> None:
    save_codec(Chorales(), tmp_path / CODEC)
    assert (
        codec_for(MusicRecipe("music", SONGS, MusicEncoding("chorales"), start_from=tmp_path)).beat
        == 4
    )
    with pytest.raises(ValueError) as error:
        codec_for(MusicRecipe("music", SONGS, start_from=tmp_path))
    assert str(error.value) == (
        f"{tmp_path} brings the codec chorales and codec.kind asks for performance; "
        "codec.kind: chorales would do"
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"training": Training(best_by="score")},
        "what writes music is judged by its loss; training.best_by: loss",
    ),
    (
        {"network": RecurrentConfig()},
        "a recurrent network reads one sequence a row; layout: padded would do",
    ),
    (
        {"network": ConvolutionalConfig()},
        "music is written by a transformer or a recurrent network; "
        "network.kind: recurrent would do",
    ),
    (
        {"network": TransformerConfig(position="Learned(100)")},
        "a learned position for 100 places meets windows of 1024 tokens; "
        "network.position: Learned(1024) or data.context: 100 would do",
    ),
    (
        {"network": TransformerConfig(position=None, relative="RelativeContent(every=100)")},
        "all distances up to 100 tokens meet windows of 1024; "
        "every=1024 or data.context: 100 would do",
    ),
    (
        {"network": MusicTransformerConfig(relative="ScoreContent(every=100)")},
        "all distances up to 100 tokens meet windows of 1024; "
        "every=1024 or data.context: 100 would do",
    ),
    (
        {"network": TransformerConfig(token_types=4)},
        "performance has no voices that take turns and network.token_types asks for 4; "
        "network.token_types: 0 would do",
    ),
    (
        {"network": TransformerConfig(token_types=2), "codec": MusicEncoding("chorales")},
        "chorales have 4 voices and network.token_types asks for 2; "
        "network.token_types: 4 would do",
    ),
    (
        {
            "network": RecurrentConfig(token_types=4),
            "codec": MusicEncoding("chorales"),
            "layout": "padded",
        },
        "a recurrent network does not tell voices apart; network.token_types: 0 would do",
    ),
    (
        {"data": replace(FOLDER, context=30), "codec": MusicEncoding("chorales")},
        "a step has 4 tokens and a context of 30 would cut one apart; data.context: 28 would do",
    ),
    (
        {"data": replace(FOLDER, augment=("stretch",)), "codec": MusicEncoding("chorales")},
        "codec.kind: chorales counts in beats, which no stretching of time changes; "
        "data.augment: [transpose] would do",
    ),
]


@pytest.mark.parametrize(("parts", "sentence"), REFUSED)
def test_what_could_never_run_is_refused_before_it_is_begun(
    parts: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        MusicRecipe("music", **{"data": FOLDER, **parts})
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Choice(preset="huge"), "there is no preset 'huge'; there are tiny, small, base"),
        (
            Choice(network="convolutional"),
            "music is learned by transformer or recurrent, not by convolutional",
        ),
    ],
)
def test_what_there_is_not_is_refused(asked: Choice, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        MusicRecipe.choose("music", FOLDER, 99, asked)
    assert str(error.value) == sentence


def test_training_asks_for_nothing_that_is_extra() -> None:
    code = (
        "import sys, manyheads.learn, manyheads.tasks.music.task;"
        "print({'miditok', 'symusic', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
