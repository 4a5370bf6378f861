"""Read and write a Hugging Face folder: settings, weights and a tokenizer, without pickle.

Torch is imported only when tensors are read, so that a broken folder is refused at once.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from manyheads.interop.huggingface.config_keys import CONFIG_KEYS
from manyheads.interop.huggingface.file_keys import SPECIAL_TOKENS, TOKENIZING
from manyheads.interop.huggingface.keys import CONFIG, Config, Measure, check_keys
from manyheads.tasks.language.chat import Chat
from manyheads.training.files import measure_tensors, open_tensors, write_text, write_whole

if TYPE_CHECKING:
    from torch import Tensor

GENERATION = "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
CHAT_TEMPLATE = "chat_template.jinja"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
MOST_BYTES = 2**28  # the largest file that is not weights
TARGET = "target"  # the folder of the second tokenizer, if the target has its own vocabulary

# ---- reading ---------------------------------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Check settings, sizes of tensors and tokenizers, without torch."""
    with name_folder(folder):
        read_settings(folder)
        read_tokenizers(folder)
        read_sign_names(folder)


@contextlib.contextmanager
def name_folder(folder: Path) -> Iterator[None]:
    """In this context a ValueError names the folder."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        raise ValueError(said if str(folder) in said else f"{folder}: {said}") from None


def read_settings(folder: Path) -> tuple[Config, Measure, list[str]]:
    """Read and check config.json; return it with the limits of sizes and notes for the user."""
    held = read_config(folder)
    name = held.get("model_type")
    if not isinstance(name, str) or name not in CONFIG_KEYS:
        raise ValueError(
            f"{CONFIG}: model_type {name!r} is not known here; there are {', '.join(CONFIG_KEYS)}"
        )
    if held.get("quantization_config"):
        raise ValueError(f"{CONFIG}: its weights are quantized; those before that would do")
    measure, keys = measure_weights(folder), CONFIG_KEYS[name]
    notes = check_keys(held, keys, CONFIG, measure)
    return Config(held, keys), measure, notes


def read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if not (folder / CONFIG).exists():
        raise ValueError(
            f"{folder} holds no {CONFIG}; a folder that model.save_pretrained(...) wrote is wanted"
        )
    return read_json(folder / CONFIG)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if there is no such file."""
    if not path.exists():
        return {}
    held = parse_json(path)
    if not isinstance(held, dict):
        raise ValueError(f"{path} is not a JSON object")
    return held


def parse_json(path: Path) -> Any:
    check_file(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON") from None


def check_file(path: Path) -> None:
    """Refuse a folder, a pipe, or a file that is too large for settings."""
    if not path.is_file():
        raise ValueError(f"{path} is no file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes; {MOST_BYTES:,} are the most")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of the folder, by their names, from one file or several."""
    held: dict[str, Tensor] = {}
    for path in weight_files(folder):
        with open_tensors(path) as file:
            held |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if missing := [name for name in read_index(folder) if name not in held]:
        raise ValueError(f"{folder / INDEX} lists {missing[0]}, which none of its files holds")
    return held


def measure_weights(folder: Path) -> Measure:
    """Return the sizes of the tensors from the headers of their files, without reading them."""
    sizes, counts = zip(*map(measure_tensors, weight_files(folder)), strict=True)
    return Measure(max(sizes), sum(counts))


def weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / INDEX).exists():
        names = sorted(set(read_index(folder).values()))
        if odd := [name for name in names if Path(name).name != name]:
            raise ValueError(f"{folder / INDEX} names {odd[0]!r}, which is no file of its folder")
        return [folder / name for name in names]
    for name in PICKLED:
        if (folder / name).exists():
            raise ValueError(
                f"{folder} holds pickled weights ({name}), which can run code; save it as "
                "safetensors: model.save_pretrained(..., safe_serialization=True)"
            )
    raise ValueError(f"{folder} holds no weights; {WEIGHTS} is wanted")


def read_index(folder: Path) -> dict[str, str]:
    """Return which file holds which tensor; empty if there is only one file."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return {}
    names = read_json(folder / INDEX).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise ValueError(f"{folder / INDEX} has no weight_map")
    return names


def read_tokenizers(folder: Path) -> list[Tokenizer]:
    """Read the tokenizer, or those of source and target."""
    folders = [folder, *([folder / TARGET] if (folder / TARGET / TOKENIZER).exists() else [])]
    return [read_tokenizer(each) for each in folders]


def read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER
    if not path.exists():
        raise ValueError(
            f"{folder} holds no {TOKENIZER}; a fast tokenizer writes one: "
            "AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(...)"
        )
    check_file(path)
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception:  # the library raises plain Exception for a file it cannot read
        raise ValueError(f"{path} is not a tokenizer.json") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_sign_names(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Read the files beside the tokenizer, {"eos_token": "</s>", ...}; also return notes."""
    special = read_json(folder / SPECIAL)
    check_keys(special, SPECIAL_TOKENS, SPECIAL)
    said = read_json(folder / TOKENIZER_CONFIG)
    notes = check_keys(said, TOKENIZING, TOKENIZER_CONFIG)
    return special | said, notes


def sign_text(sign: Any) -> str | None:
    """ "</s>" and {"content": "</s>", ...} -> "</s>" """
    text = sign.get("content") if isinstance(sign, dict) else sign
    if not isinstance(text, str | None):
        raise ValueError(f"a sign of its tokenizer is a word, got {text!r}")
    return text


def read_chat(folder: Path) -> Chat | None:
    """Read the chat template; None if the folder has none."""
    path = folder / CHAT_TEMPLATE
    said = read_json(folder / TOKENIZER_CONFIG).get("chat_template")
    if isinstance(said, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in said if isinstance(each, dict)}
        said = named.get("default")
    if path.exists():
        check_file(path)
        said = path.read_text(encoding="utf-8")
    if not isinstance(said, str):
        return None
    dressing, _ = read_sign_names(folder)
    names = [name for name in SPECIAL_TOKENS if name.endswith("_token")]
    special = {name: sign_text(dressing.get(name)) for name in names}
    return Chat(said, {name: sign for name, sign in special.items() if sign is not None})


# ---- writing ---------------------------------------------------------------------------------


def write_json(path: Path, held: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")


def write_weights(folder: Path, held: dict[str, Tensor]) -> None:
    """Write the tensors; those that share memory are copied first."""
    import safetensors.torch

    apart = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in held.items()}
    note = {"format": "pt"}  # what transformers looks for
    write_whole(
        folder / WEIGHTS, lambda beside: safetensors.torch.save_file(apart, beside, metadata=note)
    )
