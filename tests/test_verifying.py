"""Whether every way to run a model says the same: told, and told when it does not."""

from typing import Any

import pytest
import torch
from toys import classifying, guessing, speaking, translating
from tunes import singer

from manyheads import Causal, Window
from manyheads.interop.export import TEXTS
from manyheads.verifying import Check, run_checks

SOME = TEXTS[:3]
AHEAD = "no token sees a later one"
# What others are asked is tested where they are; here all that is done in this process.
HERE = {
    translating: {"batch of 1 = batch of N", "packed = padded", "cached = uncached", AHEAD},
    speaking: {"batch of 1 = batch of N", "packed = padded", "cached = uncached", AHEAD},
    guessing: {"batch of 1 = batch of N", "packed = padded"},
    classifying: {"batch of 1 = batch of N", "packed = padded"},
}


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})


@pytest.mark.parametrize("make", HERE)
def test_a_sound_model_holds(make: Any) -> None:
    checks = list(run_checks(make(), SOME))
    assert {one.name for one in checks} >= HERE[make]
    assert all(one.holds for one in checks)
    assert all(one.difference is not None for one in checks)


@pytest.mark.parametrize("kind", ["recurrent", "convolutional"])
def test_a_network_that_does_not_pack_is_not_asked_to(kind: str) -> None:
    checks = {one.name: one for one in run_checks(translating(kind=kind), SOME)}
    assert checks["packed = padded"].difference is None
    assert checks["cached = uncached"].holds


def test_a_cache_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from manyheads.attention.cache import Growing

    whole = Growing.extend

    def forgetful(cache: Growing, layer: int, key: Any, value: Any) -> Any:
        keys, values = whole(cache, layer, key, value)
        return keys, torch.cat([values[:, :, :1] * 0, values[:, :, 1:]], 2)

    monkeypatch.setattr(Growing, "extend", forgetful)
    checks = {one.name: one for one in run_checks(speaking(), SOME)}
    assert not checks["cached = uncached"].holds
    assert checks["batch of 1 = batch of N"].holds


@pytest.mark.parametrize("make", [translating, speaking])
def test_a_decoder_that_sees_ahead_is_found(make: Any) -> None:
    model = make()
    stack = getattr(model.network, "decoder", model.network).stack
    checks = run_checks(model, SOME)
    next(checks)  # what is compared is written before, token by token
    stack.patterns = (Causal() | Window(1),) * len(stack.patterns)
    assert not next(one for one in checks if one.name == AHEAD).holds


def test_neighbours_that_are_seen_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network whose every row looks at the row before it."""
    model = classifying()
    whole = model.network.forward
    monkeypatch.setattr(
        model.network, "forward", lambda tokens: whole(tokens) + whole(tokens).mean(0)
    )
    checks = {one.name: one for one in run_checks(model, SOME)}
    assert not checks["batch of 1 = batch of N"].holds


def test_music_is_not_verified_by_texts() -> None:
    model: Any = singer()
    with pytest.raises(ValueError, match=r"^toy is a model for music, whose voices, steps and"):
        next(run_checks(model, SOME))


def test_what_was_found_is_told_in_a_line() -> None:
    assert str(Check("a = b", 1e-6, 1e-4)).split() == ["holds", "a", "=", "b", "1e-06"]
    assert str(Check("a = b", 0.5, 1e-4)).split() == ["FAILS", "a", "=", "b", "0.5"]
    assert str(Check("a = b", note="why")).split() == ["left", "out", "a", "=", "b:", "why"]
