"""The commands that use a model: its task decides which there are, and their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, cleandoc
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from manyheads.cli.options import (
    DeviceOption,
    ModelOption,
    describe_command,
    make_command,
    make_parameter,
    option_of,
)
from manyheads.data.packed import SUFFIX, read_packed
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.table import MODELS, VERBS, find_object, find_recipe, task_names
from manyheads.tasks.verbs import VERBS as PLAIN


class VerbCommand(TyperCommand):
    """A command whose options are those of the task that the model was trained for."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **more: Any) -> Any:
        args = add_packed_model(args) if info_name == "decompress" else args
        model = find_typed_model(args) or MODELS.get(info_name)
        run = make_help_run(info_name) if model is None else make_model_run(info_name, model)
        try:
            return make_command(info_name, run).make_context(info_name, args, parent, **more)
        except Exception as error:
            if type(error).__name__ != "NoSuchOption" or model is None:
                raise
            refuse_option(info_name, model, getattr(error, "option_name", "that"))
            raise


def find_typed_model(args: Sequence[str]) -> str | None:
    """["--beam", "5", "--model", "de-en"] -> "de-en" """
    for number, argument in enumerate(args, start=1):
        if argument == "--model":
            return args[number] if number < len(args) else None
        if argument.startswith("--model="):
            return argument.removeprefix("--model=")
    return None


def add_packed_model(args: list[str]) -> list[str]:
    """["x.mh"] -> ["x.mh", "--model", "digits"]: a compressed file names its model."""
    if find_typed_model(args) or {"--help", "-h"} & {*args}:
        return args
    packed = next((Path(one) for one in args if Path(one).suffix == SUFFIX), None)
    if packed is None:
        raise ValueError("what is to be decompressed? what `compress` wrote would do: digits.mh")
    return [*args, "--model", read_packed(packed)[0]["model"]]


def verbs_of(task: str) -> Mapping[str, Verb]:
    """Return the commands of a task, or the default ones."""
    return find_recipe(task).verbs or PLAIN


def find_verb(name: str, model: str) -> Verb:
    from manyheads.catalog import find_model
    from manyheads.models import read_recipe

    task = read_recipe(find_model(model)).task
    verbs = verbs_of(task)
    if name not in verbs:
        use = find_recipe(task).use
        raise ValueError(
            f"{model} is a model for {task}; `manyheads {use} --model {model}` is what it is for"
        )
    return verbs[name]


def make_model_run(name: str, model: str) -> Callable[..., None]:
    """Make the command for this model."""
    verb = find_verb(name, model)

    def run(model: str, device: str | None, **given: Any) -> None:
        from manyheads.models import load

        options = make_options(verb.options, given)
        loaded = load(model, device)
        add_drafter(loaded, getattr(options, "draft", ""))
        find_object(verb.run)(loaded, options)

    own = [option_of(verb.options, one) for one in fields(verb.options)]
    return add_model_options(run, name, verb.options.__doc__ or "", own)


def add_drafter(model: Any, name: str) -> None:
    """Load the model that drafts for this one, if --draft names a model."""
    from manyheads.decoding.config import DRAFTERS
    from manyheads.models import load

    if not name or name in DRAFTERS or not hasattr(model, "add_drafter"):
        return
    try:
        other = load(name, str(model.device))
    except ValueError as error:
        raise ValueError(f"--draft is {', '.join(DRAFTERS)} or a model: {error}") from None
    model.add_drafter(name, other)


def make_help_run(name: str) -> Callable[..., None]:
    """Make the command with the options of all tasks: to show its help, or to ask for a model."""
    tasks: dict[Verb, list[str]] = {}
    for task, verb in tasks_with(name):
        tasks.setdefault(verb, []).append(task)
    tasks = tasks or {PLAIN[name]: []}  # for tasks that are not installed
    whose: dict[str, list[str]] = {}
    for verb, those in tasks.items():
        for one in fields(verb.options):
            whose.setdefault(one.name, []).extend(those)
    made: dict[str, Parameter] = {}
    for verb in tasks:
        for one in fields(verb.options):
            alone = len(whose[one.name]) < sum(map(len, tasks.values()))
            panel = f"For {', '.join(whose[one.name])}" if alone else ""
            made.setdefault(one.name, option_of(verb.options, one, panel))
    about = cleandoc(next(iter(tasks)).options.__doc__ or "")
    if len(tasks) > 1:
        told = [describe_verb(verb, those) for verb, those in tasks.items()]
        parts = [VERBS[name], *(about for about, _ in told), *(x for _, some in told for x in some)]
        parts += [f"Then: manyheads {name} --model MODEL --help, for what that model has"]
        about = "\n\n".join(dict.fromkeys(parts))
    return add_model_options(lambda **_: None, name, about, [*made.values()])


def describe_verb(verb: Verb, tasks: Sequence[str]) -> tuple[str, list[str]]:
    """Return what the command does for models of these tasks, and its first example."""
    parts = cleandoc(verb.options.__doc__ or "").split("\n\n")
    examples = [one for one in parts if one.startswith("Example: ")]
    about = " ".join(one for one in parts if one not in examples)
    return f"For {', '.join(tasks)}: {about}", examples[:1]


def tasks_with(name: str) -> Iterator[tuple[str, Verb]]:
    for task in task_names():
        if verb := verbs_of(task).get(name):
            yield task, verb


def add_model_options(
    run: Callable[..., None], name: str, about: str, options: list[Parameter]
) -> Callable[..., None]:
    """Add a model, these options and a device to a function."""
    needed = "the model that the file names" if name == "decompress" else Parameter.empty
    model = make_parameter("model", ModelOption, MODELS.get(name, needed))
    return describe_command(
        run, name, about, [model, *options, make_parameter("device", DeviceOption)]
    )


def make_options(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Make the options from what was typed; the rest has its defaults."""
    typed = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None and value != []
    }
    try:
        options = kind.of(**typed)
        object.__setattr__(options, "typed", frozenset(typed))
        return options
    except ValueError as error:
        names = {one.name for one in fields(kind) if "_" in one.name}
        as_typed = re.sub(
            r"\b[a-z]+_[a-z_]+\b",
            lambda found: f"--{found[0].replace('_', '-')}" if found[0] in names else found[0],
            str(error),
        )
        raise ValueError(as_typed) from None


def refuse_option(name: str, model: str, option: str) -> None:
    """If the option belongs to this command of another task, say which task."""
    from manyheads.catalog import find_task_name

    field = option.removeprefix("--").replace("-", "_")
    for task, verb in tasks_with(name):
        flags = {one.metadata.get("flag", "") for one in fields(verb.options)}
        if field in {one.name for one in fields(verb.options)} or option in flags:
            raise ValueError(
                f"{option} is for models of {task}, {model} is one of {find_task_name(model)}"
            ) from None
