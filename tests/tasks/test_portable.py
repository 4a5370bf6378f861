"""What a model says of itself, and what is read of texts by it."""

from typing import Any

import pytest
import torch
from toys import classifying, guessing, speaking, translating
from tunes import singer

from manyheads.tasks.portable import require_portable

TEXTS = ["a dog runs", "", "the film was long " * 9]
MODELS = {
    translating: ("encoder-decoder", "translation", 2),
    speaking: ("decoder", "language", 1),
    guessing: ("encoder", "masked", 1),
    classifying: ("encoder", "classification", 1),
}


@pytest.mark.parametrize("make", MODELS)
def test_a_model_says_what_its_network_is_and_what_it_reads(make: Any) -> None:
    model = make()
    found = require_portable(model)
    architecture, kind, sides = MODELS[make]
    assert (found.architecture, found.kind, found.name) == (architecture, kind, "toy")
    assert (found.network, found.design) == (model.network, model.task.recipe.network)
    batch = found.batch(found.rows(TEXTS))
    assert len(batch) == sides
    texts = 3 if architecture == "decoder" else 2  # one without a word still has its start
    assert [len(tokens.ids) for tokens in batch] == [texts] * sides
    with torch.no_grad():
        assert len(model.network(*batch)) == texts


def test_a_target_is_what_the_translator_writes() -> None:
    found = require_portable(translating())
    for source, target in found.rows(TEXTS[:1]):
        start = len(found.special_tokens.bos)
        assert (target[:start], source[-1]) == (
            list(found.special_tokens.bos),
            found.special_tokens.eos,
        )
        assert found.write([(source, [])]) == [target[start:]]


def test_a_learned_position_is_not_written_beyond() -> None:
    found = require_portable(speaking(position="Learned(48)"))
    (row,) = found.rows(["a dog runs"])
    assert len(row[0]) + len(found.write([row])[0]) <= 48


def test_music_has_no_counterpart_elsewhere() -> None:
    with pytest.raises(ValueError, match=r"^toy is a model for music, whose voices, steps and"):
        require_portable(singer())


def test_a_model_that_says_nothing_of_itself_is_refused_in_a_sentence() -> None:
    class Silent:
        name = "mine"

    with pytest.raises(ValueError) as refused:
        require_portable(Silent())
    assert str(refused.value) == (
        "mine is of a task whose models do not say what they are elsewhere; "
        "a method `portable` on its model would do"
    )
