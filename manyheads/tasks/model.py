"""Models as a user gets them: a trained network with all that it needs."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import nn

from manyheads.config import write
from manyheads.config.declare import help_of
from manyheads.devices import choose_device, make_current
from manyheads.training.files import RECIPE, WEIGHTS, write_tensors, write_text
from manyheads.training.weights import weights_of

Method = TypeVar("Method", bound=Callable[..., Any])
Texts = TypeVar("Texts", str, list[str])  # a text gives a text, a list gives a list


class Model:
    """A trained network with its task; `name` is the name or folder it was loaded from."""

    task: Any  # a Task, whose module imports this one
    network: Any
    asks = "text"  # what the live page asks a person for; "": nothing

    def __init__(self, task: Any, network: nn.Module, name: str = ""):
        self.task, self.network, self.name = task, network.eval(), name

    @property
    def kind(self) -> str:
        """The task that it was trained for: translation, language, ..."""
        return str(self.task.recipe.task)

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.network.parameters()).device
        return device

    def to(self, device: torch.device | str) -> Self:
        at = choose_device(device) if isinstance(device, str) else device
        self.network.to(make_current(at) if isinstance(at, torch.device) else at)  # or a dtype
        return self

    def inspect_live(self, asked: str, what_if: Sequence[Any] = (), *_: Any, **how: Any) -> Any:
        """Return the page for what a person typed on the live page."""
        inspect = getattr(self, "inspect", None)
        if inspect is None:
            raise ValueError(f"{self.name} is a model for {self.kind}, which no page shows")
        return inspect(asked, what_if=what_if, **how)

    def save(self, folder: str | Path) -> None:
        """model.save("de-en") makes a folder that `load` opens: weights, recipe, codecs."""
        source, folder = self.task.held_in(), Path(folder)
        if not source.is_dir():
            raise ValueError(f"{source} is gone, and with it the codecs that are saved beside")
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise ValueError(f"a model is saved into a new folder, {folder} is there already")
        folder.mkdir(parents=True, exist_ok=True)
        for path in [*source.glob("*.json"), *source.glob("README.md")]:
            shutil.copyfile(path, folder / path.name)
        write_tensors(folder / WEIGHTS, weights_of(self.network), {})
        write_text(folder / RECIPE, write(self.task.recipe))  # last: it makes the folder a model


class Predictor(Model):
    """The model of a task that has no model class of its own."""

    @torch.no_grad()
    def predict(self, lines: Texts) -> Texts:
        """model.predict("3 1 2") -> "1 2 3" """
        found: list[str] = self.task.predict(self.network, as_list(lines))
        return found[0] if isinstance(lines, str) else found

    @torch.no_grad()
    def evaluate(self, path: Path | str) -> dict[str, float]:
        found: dict[str, float] = self.task.evaluate(self.network, Path(path))
        return found


def as_list(texts: str | Sequence[str]) -> list[str]:
    """ "one" -> ["one"]"""
    if not isinstance(texts, Iterable):
        raise ValueError(f"a text or a list of texts would do, got {texts!r}")
    return [texts] if isinstance(texts, str) else list(texts)


def show_options(config: Any, options: Any) -> Callable[[Method], Method]:
    """Let `help` of a method with `**options` list the options of a config and their defaults."""

    def decorate(method: Method) -> Method:
        signature = inspect.signature(method)
        own = [one for one in signature.parameters.values() if one.kind != one.VAR_KEYWORD]
        settings = [one for one in fields(config) if one.name in options.__annotations__]
        shown = [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type
            )
            for one in settings
        ]
        lines = [inspect.cleandoc(method.__doc__ or ""), ""]
        method.__doc__ = "\n".join(lines + [f"{one.name}: {help_of(one)}" for one in settings])
        method.__signature__ = signature.replace(parameters=own + shown)  # type: ignore[attr-defined]
        return method

    return decorate
