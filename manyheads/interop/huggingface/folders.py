"""What lies in a Hugging Face folder: settings, weights and a tokenizer, none of them unpickled.

Torch is loaded by whoever asks for a tensor, so that a broken folder is refused at once.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from manyheads.interop.huggingface.config_keys import CONFIG_KEYS
from manyheads.interop.huggingface.keys import (
    MODULES,
    NORMALIZE,
    POOLING,
    SPECIAL_TOKENS,
    TOKENIZING,
    Keys,
    Measure,
    Read,
    check,
)
from manyheads.tasks.language.chat import Chat
from manyheads.training.files import measured as measured_file
from manyheads.training.files import opened, write_text, write_whole

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, GENERATION = "config.json", "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
SENTENCES_CONFIG, READING_CONFIG = "config_sentence_transformers.json", "sentence_bert_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
MOST_BYTES = 2**28  # of a file that is not weights
TARGET = "target"  # the folder of the second tokenizer, where a model writes another vocabulary

# ---- settings --------------------------------------------------------------------------------


class Config:
    """The settings of a config.json, each asked for with what holds where it is not said.

    Only what its table lists as read can be asked for.
    """

    def __init__(self, held: dict[str, Any], keys: Keys):
        self.held, self.keys = held, keys

    def get(self, name: str, default: Any = None) -> Any:
        if not isinstance(self.keys[name], Read):
            raise KeyError(name)
        value = self.held.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{CONFIG}: {name} is a whole number from 1 up, got {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
            raise ValueError(f"{CONFIG}: {name} is a number, got {value!r}")
        return float(value)

    def only(self, name: str, value: Any) -> None:
        """Refuse every value but this one, which is also what holds where none is said."""
        if (got := self.get(name, value)) != value:
            raise ValueError(f"{CONFIG}: {name}: {got} is not computed here; {value} would do")

    def same(self, *names: str) -> int:
        """One whole number that several settings agree on."""
        values = [self.whole(name) for name in names]
        if len(set(values)) > 1:
            said = ", ".join(f"{n}: {v}" for n, v in zip(names, values, strict=True))
            raise ValueError(f"{CONFIG}: {said}; a network here has the same on both sides")
        return values[0]

    def named(self, name: str, table: dict[str, Any], default: str) -> Any:
        if not isinstance(value := self.get(name, default), str) or value not in table:
            raise ValueError(
                f"{CONFIG}: {name}: {value} is not computed here; there are {', '.join(table)}"
            )
        return table[value]


# ---- reading ---------------------------------------------------------------------------------


def finite(value: float) -> bool:
    return -sys.float_info.max <= value <= sys.float_info.max


def check_folder(folder: Path) -> None:
    """Refuse what its settings, the sizes of its tensors or its tokenizer say, without torch."""
    with naming(folder):
        read_settings(folder)
        read_tokenizers(folder)
        read_dressing(folder)


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """What is refused within is so by a sentence that names the folder."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        raise ValueError(said if str(folder) in said else f"{folder}: {said}") from None


def read_settings(folder: Path) -> tuple[Config, Measure, list[str]]:
    """Its config.json with all keys known and no size that its tensors have not; and notes."""
    held = read_config(folder)
    name = held.get("model_type")
    if not isinstance(name, str) or name not in CONFIG_KEYS:
        raise ValueError(
            f"{CONFIG}: model_type {name!r} is not known here; there are {', '.join(CONFIG_KEYS)}"
        )
    if held.get("quantization_config"):
        raise ValueError(f"{CONFIG}: its weights are quantized; those before that would do")
    measure, keys = measured(folder), CONFIG_KEYS[name]
    notes = check(held, keys, CONFIG, measure)
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
    """An object of settings; nothing where there is no such file."""
    if not path.exists():
        return {}
    held = parsed(path)
    if not isinstance(held, dict):
        raise ValueError(f"{path} is not a JSON object")
    return held


def parsed(path: Path) -> Any:
    try:
        return json.loads(text_of(path))
    except (ValueError, RecursionError):
        refuse_odd(path)
        raise ValueError(f"{path} is not JSON") from None


def text_of(path: Path) -> str:
    refuse_odd(path)
    return path.read_text(encoding="utf-8")


def refuse_odd(path: Path) -> None:
    """A folder, a pipe that nobody writes to, or more than any settings are."""
    if not path.is_file():
        raise ValueError(f"{path} is no file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes; {MOST_BYTES:,} are the most")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder by its name there, from one file or from several."""
    held: dict[str, Tensor] = {}
    for path in weight_files(folder):
        held |= read_safetensors(path)
    if missing := [name for name in listed(folder) if name not in held]:
        raise ValueError(f"{folder / INDEX} lists {missing[0]}, which none of its files holds")
    return held


def measured(folder: Path) -> Measure:
    """How large its tensors are, from what their files say of them: none of them is read."""
    sizes, counts = zip(*map(measured_file, weight_files(folder)), strict=True)
    return Measure(max(sizes), sum(counts))


def weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / INDEX).exists():
        names = sorted(set(listed(folder).values()))
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


def listed(folder: Path) -> dict[str, str]:
    """Which file holds which tensor, where there are several files."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return {}
    names = read_json(folder / INDEX).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise ValueError(f"{folder / INDEX} has no weight_map")
    return names


def read_safetensors(path: Path) -> dict[str, Tensor]:
    with opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def read_tokenizers(folder: Path) -> list[Tokenizer]:
    """The tokenizer, or that of the source and that of the target."""
    folders = [folder, *([folder / TARGET] if (folder / TARGET / TOKENIZER).exists() else [])]
    return [read_tokenizer(each) for each in folders]


def read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER
    if not path.exists():
        raise ValueError(
            f"{folder} holds no {TOKENIZER}; a fast tokenizer writes one: "
            "AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(...)"
        )
    try:
        tokenizer = Tokenizer.from_str(text_of(path))
    except Exception:  # the library raises plain Exception for a file it cannot read
        refuse_odd(path)
        raise ValueError(f"{path} is not a tokenizer.json") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_dressing(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What is said of the tokenizer beside it, {"eos_token": "</s>", ...}, and notes."""
    special = read_json(folder / SPECIAL)
    check(special, SPECIAL_TOKENS, SPECIAL)
    said = read_json(folder / TOKENIZER_CONFIG)
    notes = check(said, TOKENIZING, TOKENIZER_CONFIG)
    return special | said, notes


def content(sign: Any) -> str | None:
    """ "</s>" and {"content": "</s>", ...} -> "</s>" """
    text = sign.get("content") if isinstance(sign, dict) else sign
    if not isinstance(text, str | None):
        raise ValueError(f"a sign of its tokenizer is a word, got {text!r}")
    return text


def read_chat(folder: Path) -> Chat | None:
    """How a conversation is written down for the model, where its folder says so."""
    path = folder / CHAT_TEMPLATE
    said = read_json(folder / TOKENIZER_CONFIG).get("chat_template")
    if isinstance(said, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in said if isinstance(each, dict)}
        said = named.get("default")
    template = text_of(path) if path.exists() else said
    if not isinstance(template, str):
        return None
    dressing, _ = read_dressing(folder)
    names = [name for name in SPECIAL_TOKENS if name.endswith("_token")]
    signs = {name: content(dressing.get(name)) for name in names}
    return Chat(template, {name: sign for name, sign in signs.items() if sign is not None})


def read_modules(folder: Path, measure: Measure) -> Iterator[tuple[str, dict[str, Any]]]:
    """What sentence-transformers puts on a model: ("Pooling", its settings), ..."""
    path = folder / "modules.json"
    held = parsed(path) if path.exists() else []
    if not isinstance(held, list) or not all(isinstance(each, dict) for each in held):
        raise ValueError(f"{path} is not a list of modules")
    for each in held:
        check(each, MODULES, path.name)
        name, within = each.get("type", "").rpartition(".")[2], each.get("path", "")
        if within != Path(within).name:
            raise ValueError(f"{path} names {within!r}, which is no folder of its own")
        tables: dict[str, Keys] = {"Pooling": POOLING, "Normalize": NORMALIZE}
        said = read_json(folder / within / CONFIG) if within and name in tables else {}
        check(said, tables.get(name, {}), f"{within}/{CONFIG}", measure)
        yield name, said


# ---- writing ---------------------------------------------------------------------------------


def write_json(path: Path, held: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")


def write_weights(folder: Path, held: dict[str, Tensor]) -> None:
    """Each tensor by itself: those that lie in one piece of memory are copied apart."""
    import safetensors.torch

    apart = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in held.items()}
    note = {"format": "pt"}  # what transformers looks for
    write_whole(
        folder / WEIGHTS, lambda beside: safetensors.torch.save_file(apart, beside, metadata=note)
    )
