"""Find trained models by name or folder, and load them.

A model is the folder of a run, or a folder with only its recipe.yaml, its tokenizer.json or
codec.json, and its weights.safetensors; models that come with the package are loaded by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from manyheads.catalog import find_model
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.tasks.table import find_task, load_recipe
from manyheads.training.files import (
    RECIPE,
    WEIGHTS,
    measure_tensors,
    read_tensors,
    refuse_other_tensors,
    refuse_what_is_no_number,
)

if TYPE_CHECKING:
    from manyheads.tasks.model import Model
    from manyheads.tasks.table import Composer, Composers, Translator, Translators


@overload
def load(
    model: Translators, device: str | None = None, *, precision: str = "float32"
) -> Translator: ...
@overload
def load(
    model: Composers, device: str | None = None, *, precision: str = "float32"
) -> Composer: ...
@overload
def load(model: str | Path, device: str | None = None, *, precision: str = "float32") -> Model: ...
def load(model: str | Path, device: str | None = None, *, precision: str = "float32") -> Model:
    """manyheads.load("de-en"), manyheads.load("runs/de-en"): its methods are those of its task.

    With precision="int8" matrix products are computed in 8 bits, which is faster on a CPU; with
    "bfloat16" everything is computed in 16 bits, which is faster on a GPU.
    """
    folder = find_model(model)
    recipe = read_recipe(folder)

    from manyheads.devices import choose_device, make_current
    from manyheads.training.weights import load_weights, weights_of

    opened = find_task(recipe.task).open(recipe, folder)
    loaded = opened.model(opened.network(), str(model))
    weights, _ = read_tensors(folder / WEIGHTS)
    refuse_other_tensors(weights, weights_of(loaded.network), folder / WEIGHTS)
    refuse_what_is_no_number(weights, folder / WEIGHTS)
    load_weights(loaded.network, weights)
    loaded.network.to(make_current(choose_device(device))).eval()
    set_precision(loaded, precision)
    return loaded


def set_precision(model: Model, precision: str) -> None:
    """Switch a model to int8 or bfloat16 in place; float32 leaves it unchanged."""
    if precision not in ("float32", "bfloat16", "int8"):
        raise ValueError(f"a precision is float32, bfloat16 or int8, got {precision!r}")
    if precision == "bfloat16":
        model.network.bfloat16()
    if precision == "int8":
        from manyheads.modules.quantized import quantize

        if model.device.type != "cpu":
            raise ValueError(f"int8 is for a CPU, {model.name} is on {model.device}")
        quantize(model.network)


def read_recipe(folder: Path) -> Any:
    """Read the recipe of a model's folder; refuse one that does not fit its weights. No torch."""
    recipe = load_recipe(folder / RECIPE)
    if not (folder / WEIGHTS).exists():
        raise ValueError(f"{folder} has no {WEIGHTS} yet; they are written at the first validation")
    refuse_sizes(recipe.network, folder)
    return recipe


def refuse_sizes(network: NetworkConfig, folder: Path) -> None:
    """Refuse sizes larger than those of the weights, before a network of that size is built."""
    largest, tensors = measure_tensors(folder / WEIGHTS)
    sizes = {"width": (network.width, largest), "token_types": (network.token_types, largest)}
    sizes |= {"depth": (max(network.depths), tensors), "position": (network.places or 0, largest)}
    if isinstance(network, TransformerConfig):
        sizes["ffn_width"] = (network.ffn_width, largest)
    for name, (size, most) in sizes.items():
        if size > most:
            raise ValueError(
                f"{folder / RECIPE}: network.{name} is {getattr(network, name)}, and the "
                f"{tensors} tensors of {WEIGHTS} have no more than {largest} rows or columns"
            )
