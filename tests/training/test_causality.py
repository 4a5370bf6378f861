"""A network that would learn from what it must not see is stopped before its first step."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from designs import network_of
from small import begun, recipe_in, trainer_of
from torch import Tensor, nn

from manyheads import (
    Causal,
    Decoder,
    Embedding,
    Encoder,
    Everything,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    Window,
)
from manyheads.modules.build import build_decoder, build_encoder_decoder
from manyheads.modules.config import change_kind
from manyheads.tasks.music.network import music_decoder
from manyheads.training.config import Training
from manyheads.training.learner import Learner
from manyheads.training.trainer import Callback

ROWS = [[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13]]
PADDED = (Tokens.padded(ROWS),)
EQUAL = (Tokens.padded([row[:5] for row in ROWS]),)
PACKED = (Tokens.packed([ROWS, ROWS[::-1]], 12),)
SMALL = TransformerConfig(
    width=16, depth=2, heads=2, ffn_width=16, dropout=0.3, attention_dropout=0.3
)
TRAINING = Training(seed=5)


def scored(network: Any, batch: tuple[Tokens, ...]) -> Tensor:
    scores: Tensor = network(*batch)
    return scores.sum()


def learner(network: nn.Module, training: Training = TRAINING) -> Learner:
    return Learner(network, scored, training)


def writer(pattern: Any = Causal(), kind: type[Decoder] = Decoder) -> Decoder:
    words, shape = (
        Embedding(20, 16),
        TransformerConfig(width=16, depth=2, heads=2, attention_dropout=0.3),
    )
    return kind(words, Stack.of(shape, pattern, position=Sinusoidal()), Tied(words))


CAUSAL: dict[str, tuple[Callable[[], nn.Module], tuple[Tokens, ...]]] = {
    "padded": (writer, PADDED),
    "equal": (writer, EQUAL),
    "packed": (writer, PACKED),
    "narrow": (lambda: writer(Causal() & Window(2)), PACKED),
    "music": (
        lambda: music_decoder(
            network_of(**vars(SMALL) | {"relative": "ScoreContent(16)"}), 20, [*range(20)], 4
        ),
        PACKED,
    ),
    "recurrent": (lambda: build_decoder(change_kind(SMALL, "recurrent"), 20), PADDED),
    "translation": (lambda: build_encoder_decoder(SMALL, 20, 20, True), PACKED * 2),
    "translation, recurrent": (
        lambda: build_encoder_decoder(change_kind(SMALL, "recurrent"), 20, 20, True),
        PADDED * 2,
    ),
    "translation, convolutional": (
        lambda: build_encoder_decoder(change_kind(SMALL, "convolutional"), 20, 20, True),
        PADDED * 2,
    ),
}


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_networks_that_write_from_left_to_right_are_let_pass(name: str, precision: Any) -> None:
    make, batch = CAUSAL[name]
    one = learner(make(), replace(TRAINING, precision=precision))
    assert one.refuse_leaks(batch)
    assert one.leak(batch) == 0


def test_the_look_leaves_chance_and_weights_as_they_were() -> None:
    one = learner(writer())
    state = torch.random.get_rng_state()
    before = {name: tensor.clone() for name, tensor in one.state().items()}
    one.refuse_leaks(PACKED)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.state().items())
    assert all(p.grad is None for p in one.network.parameters())
    assert not one.network._forward_hooks
    assert not one.network._forward_pre_hooks


@pytest.mark.parametrize("batch", [PADDED, EQUAL, PACKED], ids=["padded", "equal", "packed"])
def test_a_decoder_that_looks_ahead_behind_the_back_is_stopped(batch: tuple[Tokens, ...]) -> None:
    network = writer()
    network.stack.patterns = (Causal(), Causal() | Window(1))
    with pytest.raises(ValueError, match="a token sees a later one, whatever training"):
        learner(network).refuse_leaks(batch)


def test_a_translator_whose_decoder_looks_ahead_is_stopped() -> None:
    network = build_encoder_decoder(SMALL, 20, 20, True)
    network.decoder.stack.patterns = (Everything(),) * 2
    with pytest.raises(ValueError, match="a token sees a later one"):
        learner(network).refuse_leaks(PADDED * 2)


class Mingling(Decoder):
    """Documents of one row see each other."""

    def forward(self, tokens: Tokens, *others: Any) -> Tensor:
        return super().forward(replace(tokens, seen=Everything()), *others)


def test_documents_that_see_each_other_are_stopped_and_their_layout_is_named() -> None:
    one = learner(writer(kind=Mingling))
    with pytest.raises(ValueError, match="a document sees another one of its row; layout=padded"):
        one.refuse_leaks(PACKED)
    assert one.refuse_leaks(EQUAL)


def test_a_source_of_another_document_that_is_seen_is_stopped() -> None:
    network = build_encoder_decoder(SMALL, 20, 20, True)
    encode = network.encode
    network.encode = lambda source: encode(replace(source, ids=source.ids.flip(1)))  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="a document sees another one of its row"):
        learner(network).refuse_leaks(PACKED * 2)


class Hasty(Decoder):
    """Sees ahead in training mode alone: what a faulty compiler did."""

    def forward(self, *inputs: Any) -> Tensor:
        self.stack.patterns = (Everything() if self.training else Causal(),) * 2
        return super().forward(*inputs)


def test_the_setting_without_which_nothing_is_seen_is_named() -> None:
    one = learner(writer(kind=Hasty), replace(TRAINING, compile=True))
    with pytest.raises(ValueError, match=r"a later one, and does not with training\.compile=false"):
        one.refuse_leaks(EQUAL)


class Rounded(Decoder):
    def forward(self, *inputs: Any) -> Tensor:
        self.stack.patterns = (Everything() if torch.is_autocast_enabled("cpu") else Causal(),) * 2
        return super().forward(*inputs)


def test_a_precision_that_is_to_blame_is_named() -> None:
    one = learner(writer(kind=Rounded), replace(TRAINING, precision="bfloat16"))
    with pytest.raises(ValueError, match=r"and does not with training\.precision=float32"):
        one.refuse_leaks(EQUAL)


def test_what_is_meant_to_see_both_ways_is_not_asked() -> None:
    words, shape = Embedding(20, 16), TransformerConfig(width=16, depth=1, heads=2)
    assert not learner(Encoder(words, Stack.of(shape))).refuse_leaks(PADDED)


class Heard(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_run_says_that_it_was_checked_and_a_leak_stops_it_before_its_first_step(
    tmp_path: Path, layout: str
) -> None:
    run, heard = begun(recipe_in(tmp_path, layout, steps=2), tmp_path / "run"), Heard()
    trainer = trainer_of(recipe_in(tmp_path, layout, steps=2), run, callback=heard)
    trainer.learner.network.decoder.stack.patterns = (Everything(),)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="would learn from what it must not see: a token sees"):
        trainer.fit()
    assert trainer.learner.taken == 0
    assert trainer_of(recipe_in(tmp_path, layout, steps=2), run, callback=heard).fit()
    assert "checked: no token sees a later one, no document another" in heard.said
