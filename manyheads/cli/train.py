"""The commands train and resume."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from inspect import Parameter, cleandoc, signature
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from manyheads.cli import drafts
from manyheads.cli.options import DeviceOption, describe_command, make_command, option_of

if TYPE_CHECKING:
    from manyheads.learn import Request
    from manyheads.training.distributed import World
    from manyheads.training.run import Run

# Settings that may change within a run: its batches and weights depend on all others.
CHANGEABLE = (
    "steps",
    "learning_rate",
    "schedule",
    "warmup_steps",
    "validate_every",
    "checkpoint_every",
    "log_every",
    "best_by",
    "patience",
)
FILES, MODEL = "Data", "Model"

SettingsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTING=VALUE",
        help="Any setting of a recipe: training.steps=20000 network.width=512",
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        help="tiny, small or base; without it, chosen by the size of the corpus and the machine.",
        rich_help_panel=MODEL,
    ),
]
RunsOption = Annotated[
    Path | None, typer.Option(help="Folder of the runs: a new one, or one to continue.")
]


class TaskCommand(TyperCommand):
    """The command of a task, which is loaded only when it is called."""

    def __init__(
        self,
        name: str,
        about: str,
        make: Callable[[str], Callable[..., None]],
        of_task: bool = True,
    ):
        super().__init__(name, help=about)
        self.make, self.of_task = make, of_task

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **more: Any) -> Any:
        one = make_command(info_name, self.make(info_name))
        try:
            return one.make_context(info_name, args, parent, **more)
        except Exception as error:
            if type(error).__name__ != "NoSuchOption" or not self.of_task:
                raise
            from manyheads.learn import Request

            Request(info_name)  # refuses what is neither a task nor a recipe
            own = [f"--{one.name.replace('_', '-')}" for one in file_options(info_name)]
            what = f"it learns from {', '.join(own)}" if own else "a recipe says what to read"
            name = getattr(error, "option_name", "that")
            raise ValueError(f"{info_name} has no option {name}; {what}") from None


class TaskGroup(TyperGroup):
    """A command for each task, with only its own options."""

    function: ClassVar[Any]  # called with `what` to learn and its `files`
    example: ClassVar[Any]  # returns an example of what to type
    others: ClassVar[dict[str, Any]]  # other commands: their help, and what makes them

    def make(self, what: str) -> Callable[..., None]:
        """Make the command of a task or, for another name, that of a recipe file."""
        return add_file_options(self.function, what, file_options(what), self.example(what))

    def list_commands(self, ctx: Any) -> list[str]:
        from manyheads.tasks.table import trained_tasks

        return [*trained_tasks(), *self.others]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from manyheads.tasks.table import TASKS, find_recipe, trained_tasks

        if cmd_name in self.others:
            about, make = self.others[cmd_name]
            return TaskCommand(cmd_name, about, make, of_task=False)
        if cmd_name in TASKS and cmd_name not in trained_tasks():
            find_recipe(cmd_name).data_of({})  # raises, to say why it is not trained
        about = trained_tasks().get(cmd_name, "As a recipe says.")
        return TaskCommand(cmd_name, about, self.make)


def add_file_options(
    function: Any, what: str, more: list[Parameter], example: str
) -> Callable[..., None]:
    """Add the options of files to a function, which gets them as one dictionary."""

    def run(**given: Any) -> None:
        typed = {one.name: given.pop(one.name) for one in more}
        given_files = {name: v for name, v in typed.items() if v or (v == 0 and v is not False)}
        files = {n: tuple(v) if isinstance(v, list) else v for n, v in given_files.items()}
        function(files=files, what=what, **given)

    own = [*signature(function, eval_str=True).parameters.values()][2:]
    about = f"{cleandoc(function.__doc__)}\n\n{example}"
    own = [name_choices(one, what) for one in own]
    return describe_command(run, function.__name__, about, [*more, *own])


def name_choices(option: Parameter, what: str) -> Parameter:
    """List the choices of a task in the help of --preset and --network."""
    from manyheads.tasks.table import find_recipe, trained_tasks

    if what not in trained_tasks() or option.name not in ("preset", "network"):
        return option
    recipe = find_recipe(what)
    if option.name == "preset":
        each = [f"{name}: {one.about}" for name, one in recipe.presets.items()]
        said = " ".join([*each, "Without it, chosen by the size of the corpus and the machine."])
    else:
        said = f"{', '.join(recipe.networks)}."
    shown = typer.Option(help=said, rich_help_panel=MODEL)
    return option.replace(annotation=Annotated[str | None, shown])


def train_example(what: str) -> str:
    """Return an example of what to type, and of how to use the result."""
    from manyheads.tasks.table import find_recipe, trained_tasks

    if what not in trained_tasks():
        return f"Example: manyheads train {what} training.steps=9000 --out runs/longer"
    recipe, run = find_recipe(what), f"runs/{what}"
    return (
        f"Example: manyheads train {what} {recipe.example} --out {run}\n\n"
        f"Then: manyheads {recipe.use} --model {run} --help"
    )


def file_options(what: str) -> list[Parameter]:
    """Return the options for the files of a task; none for a recipe, which names them itself."""
    from manyheads.tasks.table import find_recipe, trained_tasks

    if what not in trained_tasks():
        return []
    task = find_recipe(what)
    kind = get_type_hints(task)["data"]
    each = {one.name: one for one in fields(kind)}
    return [option_of(kind, each[name], FILES) for name in task.files]


def train_task(
    *,
    files: dict[str, Any],
    what: str,
    settings: SettingsArgument = None,
    out: Annotated[Path | None, typer.Option(help="New folder for the run.")] = None,
    preset: PresetOption = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Kind of network, such as transformer or recurrent.", rich_help_panel=MODEL
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            help="Fine-tune: start with the weights of a run or an imported model.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    list_settings: Annotated[
        bool,
        typer.Option(
            "--settings",
            help="List every setting and what it does, then stop.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    device: DeviceOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Time limit: train for as many steps as fit into this time."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the recipe and the memory and time it needs, then stop."
        ),
    ] = False,
) -> None:
    """Train a model from files. The command chooses every setting that you do not give.

    Ctrl-C stops after the current step; `manyheads resume` continues from there.
    """
    from manyheads.learn import Request, refuse_minutes, start_run
    from manyheads.tasks.table import trained_tasks
    from manyheads.training.distributed import join_processes
    from manyheads.training.run import CORPUS, Run

    if list_settings:
        print(list_settings_of(what))
        return
    refuse_files(settings or [])
    if minutes is not None:
        refuse_minutes(minutes, settings or [])
    world = join_processes(device)
    request = Request(what, settings or [], files, world.device.type, network, preset, start_from)
    if dry_run:
        print_plan(request, world)
        return
    if out is None and what in trained_tasks():
        raise ValueError("a run needs a folder: --out runs/my-model")
    run = Run(out or find_free_folder(Path(what), world))
    deadline = start_run(request, run, world, minutes)
    words = (run / CORPUS).read_text(encoding="utf-8").rstrip()
    if out is None:
        words = f"no --out was given: the run is {run.folder}\n{words}"
    carry_on(run, world, words, deadline)


class TrainGroup(TaskGroup):
    function, example = staticmethod(train_task), staticmethod(train_example)
    others: ClassVar = {"drafts": (drafts.ABOUT, lambda _: drafts.train_drafts)}


def print_plan(request: Request, world: World) -> None:
    """Print the recipe, remarks on the corpus, and the estimated memory and time."""
    from manyheads.config import write
    from manyheads.estimate import estimate
    from manyheads.learn import resolve

    recipe, corpus = resolve(request)
    print(write(recipe))
    for note in getattr(corpus, "notes", ()):
        print("".join(f"# {line}\n" for line in note.splitlines()), end="")
    print(estimate(recipe, corpus, world.device))


def find_free_folder(recipe: Path, world: World) -> Path:
    """Return a folder that does not exist yet: runs/x/recipe.yaml -> runs/x-2, my.yaml -> my"""
    from manyheads.training.run import RECIPE

    whole = recipe.absolute()
    first = os.path.relpath(whole.parent if whole.name == RECIPE else whole.with_suffix(""))

    def name(number: int) -> Path:
        return Path(first if number == 1 else f"{first}-{number}")

    free = next(number for number in count(1) if not name(number).exists())
    return name(world.broadcast(free))  # all processes use the same one


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE",
            help=f"Settings to change from here on: training.{', '.join(CHANGEABLE)}.",
        ),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Continue a run as if it had never stopped.

    Example: manyheads resume runs/de-en

    Then: manyheads resume runs/de-en training.steps=9000, to train for longer
    """
    from manyheads.training.distributed import join_processes
    from manyheads.training.run import LOCK, RECIPE, Run

    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if not (folder / RECIPE).exists() and (folder / LOCK).exists():
        with Run(folder).hold_lock():  # raises if another process prepares it at this moment
            raise ValueError(
                f"{folder} was stopped before its first step, while its corpus was read; "
                f"`manyheads train` with --out {folder} begins again"
            )
    if not (folder / RECIPE).exists():
        raise ValueError(f"{folder} holds no run: there is no {RECIPE} in it")
    run, world = Run(folder), join_processes(device)
    if settings:
        if world.first:
            change_training(run, settings)
        world.wait()
    carry_on(run, world)


def change_training(run: Run, settings: Sequence[str]) -> None:
    """Write settings that change from here on into the recipe of a run."""
    from manyheads.config import write
    from manyheads.tasks.table import load_recipe
    from manyheads.training.files import write_text
    from manyheads.training.run import RECIPE

    load_recipe(run / RECIPE, settings)  # reports a misspelt name
    for setting in settings:
        if setting.partition("=")[0].strip() not in {f"training.{name}" for name in CHANGEABLE}:
            raise ValueError(
                f"{setting} cannot change within a run, training.{', '.join(CHANGEABLE)} can; "
                f"`manyheads train {run / RECIPE} {setting}` begins another"
            )
    with run.hold_lock():
        recipe, taken = load_recipe(run / RECIPE, settings), run.steps_taken()
        if recipe.training.steps < taken:
            raise ValueError(
                f"training.steps={recipe.training.steps} is over already: {taken} were taken; "
                f"training.steps={taken + 1} or more goes on"
            )
        write_text(run / RECIPE, write(recipe))


def list_settings_of(what: str) -> str:
    """List every setting of a task, or of a recipe's task."""
    from manyheads.learn import Request
    from manyheads.tasks.describing import list_settings
    from manyheads.tasks.table import trained_tasks

    if what in trained_tasks():
        return list_settings(what)
    return list_settings(Request(what).recipe_source().task)


def refuse_files(settings: Sequence[str]) -> None:
    """Refuse files among settings: `--text *.txt` takes one file, and the shell adds the others."""
    if one := next((one for one in settings if "=" not in one and Path(one).exists()), None):
        raise ValueError(
            f"{one} stands where settings do (training.steps=200): a file needs its option before "
            "it, each time anew, and a folder would do for many"
        )


def carry_on(run: Run, world: World, words: str = "", deadline: float = math.inf) -> None:
    """Print `words`, then train until the end, a request to stop, or the deadline."""
    from manyheads.cli.run_screen import show_progress
    from manyheads.learn import resume_run
    from manyheads.tasks.table import recipe_in
    from manyheads.training.distributed import leave_processes
    from manyheads.training.run import RECIPE

    with show_progress(world.first) as watch, catch_signals() as asked:
        if words:
            watch.say(words)
        try:
            ended = resume_run(run, world, watch, asked, deadline)
        except KeyboardInterrupt:  # a second Ctrl-C
            raise KeyboardInterrupt(
                f"stopped at once; `manyheads resume {run.folder}` goes on from what was last saved"
            ) from None
    leave_processes()
    if ended:
        use = recipe_in(run / RECIPE).use
        watch.say(f"done: `manyheads {use} --model {run.folder}` uses it")
        return
    if deadline < math.inf and not asked():
        watch.say(f"the time is up; `manyheads resume {run.folder}` goes on to the last step")
        return
    watch.say(f"stopped; `manyheads resume {run.folder}` goes on from here")
    raise typer.Exit(asked.code)


@dataclass
class Stop:
    """Whether a stop was requested, and the exit code of the process: 130 or 143."""

    numbers: list[int] = field(default_factory=list)  # the signals that arrived

    def __call__(self) -> bool:
        return bool(self.numbers)

    @property
    def code(self) -> int:
        # Not every one of several processes receives the signal itself.
        return 128 + (self.numbers[0] if self.numbers else signal.SIGTERM)

    def ask(self, number: int, frame: object) -> None:
        if number == signal.SIGINT and number in self.numbers:
            raise KeyboardInterrupt
        self.numbers.append(number)
        with suppress(OSError):  # not print: the signal may interrupt a print
            os.write(2, b"\nstopping after this step; a second Ctrl-C stops at once\n")


@contextmanager
def catch_signals() -> Iterator[Stop]:
    """Let Ctrl-C and SIGTERM ask for a stop after the step; a second Ctrl-C stops at once.

    A second SIGTERM does not: launchers send several, and none should cost the checkpoint.
    """
    asked = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, asked.ask) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
