"""Find models: the folders of runs and those of the package; without torch."""

from __future__ import annotations

from pathlib import Path

from manyheads.config import peek_field
from manyheads.training.files import RECIPE

BUILT_IN = Path(__file__).parent / "builtin"


def find_model(model: str | Path) -> Path:
    """Return the folder of a model, given as a folder or as the name of a built-in model."""
    for folder in (Path(model), BUILT_IN / str(model)):
        if (folder / RECIPE).exists():
            return folder
    if Path(model).is_dir():
        raise ValueError(f"{model} holds no {RECIPE}: it is not the folder of a run")
    names = ", ".join(built_in()) or "none"
    raise ValueError(f"there is no model {str(model)!r}: it is no folder; built in: {names}")


def find_task_name(model: str | Path) -> str:
    """Return the task that a model was trained for, from its recipe."""
    return peek_field(find_model(model) / RECIPE, "task") or ""


def built_in() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in BUILT_IN.glob(f"*/{RECIPE}"))


def complete_model(begun: str) -> list[str]:
    """Return the names and folders of models that start with `begun`, for a shell."""
    runs = (path.parent for path in Path().glob(f"{begun}*/{RECIPE}"))
    below = (path.parent for path in Path().glob(f"{begun}*/*/{RECIPE}"))
    names = (name for name in built_in() if name.startswith(begun))
    return [*names, *sorted(map(str, (*runs, *below)))]
