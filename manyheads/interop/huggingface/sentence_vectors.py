"""Read and write the files of sentence-transformers: how a text becomes a vector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers

from manyheads.interop.huggingface.file_keys import (
    MODES,
    MODULES,
    NORMALIZE,
    POOLING,
    READING,
    SENTENCES,
)
from manyheads.interop.huggingface.folders import parse_json, read_json, write_json
from manyheads.interop.huggingface.keys import (
    CONFIG,
    LONGEST,
    Keys,
    Measure,
    check_keys,
    is_words,
    shorten_value,
)
from manyheads.modules.config import Pooling
from manyheads.tasks.portable import VectorSettings

MODULE_LIST = "modules.json"
SENTENCES_CONFIG, READING_CONFIG = "config_sentence_transformers.json", "sentence_bert_config.json"
PARTS = ["Transformer", "Pooling", "Normalize"]  # of a sentence-transformer
POOLINGS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
}


def read_vectors(
    folder: Path, width: int, measure: Measure, tokenizer: Tokenizer, names: dict[str, Any]
) -> tuple[VectorSettings, list[str]]:
    """Read how a text becomes a vector, and notes; the default is the mean of its states.

    If texts are lower-cased, the tokenizer is changed to do it. `names` is tokenizer_config.json.
    """
    said, read = read_json(folder / SENTENCES_CONFIG), read_json(folder / READING_CONFIG)
    notes = check_keys(said, SENTENCES, SENTENCES_CONFIG, measure)
    notes += check_keys(read, READING, READING_CONFIG, measure)
    prompts, name = said.get("prompts") or {}, said.get("default_prompt_name")
    if not is_words([*prompts.values()]) or (name is not None and name not in prompts):
        raise ValueError(
            f"{SENTENCES_CONFIG}: prompts are words by a name, and default_prompt_name is one of "
            f"the names, got {shorten_value(prompts)} and {name}"
        )
    if others := [each for each, prompt in prompts.items() if prompt and each != name]:
        notes.append(f"prompts: {', '.join(others)} (put them before a text)")
    modules = dict(read_modules(folder, measure))
    if read.get("do_lower_case"):
        small = [normalizers.Replace(Regex(r"(?<=\p{L})\u03a3(?!\p{L})"), "\u03c2")]
        before = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([*small, normalizers.Lowercase(), *before])
    return VectorSettings(
        read_pooling(modules["Pooling"], width) if modules else "mean",
        normalised=not modules or "Normalize" in modules,
        prompt=prompts.get(name, ""),
        dimensions=said.get("truncate_dim") or 0,
        context=read.get("max_seq_length") or read_longest(names),
    ), notes


def read_longest(names: dict[str, Any]) -> int:
    """Return the tokenizer's limit, which newer versions write instead of max_seq_length; 0: none.

    A tokenizer without a limit says 1e30.
    """
    longest = names.get("model_max_length", names.get("max_len"))
    if not isinstance(longest, int | float) or not 1 <= longest <= LONGEST:
        return 0
    return int(longest)


def read_modules(folder: Path, measure: Measure) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the modules of modules.json with their settings: ("Pooling", {...}), ..."""
    path = folder / MODULE_LIST
    held = parse_json(path) if path.exists() else []
    if not isinstance(held, list) or not all(isinstance(each, dict) for each in held):
        raise ValueError(f"{path} is not a list of modules")
    names = []
    for each in held:
        check_keys(each, MODULES, path.name)
        names.append(each.get("type", "").rpartition(".")[2])
        below = each.get("path", "")
        if below != Path(below).name:
            raise ValueError(f"{path} names {below!r}, which is no folder of its own")
        tables: dict[str, Keys] = {"Pooling": POOLING, "Normalize": NORMALIZE}
        said = read_json(folder / below / CONFIG) if below and names[-1] in tables else {}
        check_keys(said, tables.get(names[-1], {}), f"{below}/{CONFIG}", measure)
        yield names[-1], said
    if odd := [name for name in names if name not in PARTS]:
        raise ValueError(
            f"{MODULE_LIST} has a {odd[0]}, which is not computed here; {', '.join(PARTS)} are"
        )
    if names and names not in (PARTS, PARTS[:2]):
        raise ValueError(
            f"{MODULE_LIST} has {', '.join(names)}; {', '.join(PARTS)} in this order would do, "
            "the last or not"
        )


def read_pooling(settings: dict[str, Any], width: int) -> Pooling:
    for name in ("word_embedding_dimension", "embedding_dimension"):
        if settings.get(name, width) != width:
            raise ValueError(f"1_Pooling: {name} is {settings[name]}, the model's width {width}")
    modes = [mode for mode, on in settings.items() if on is True and mode.startswith("pooling_")]
    newer = settings.get("pooling_mode")
    if newer is not None:
        several = newer if isinstance(newer, list) else [newer]
        modes += [f"pooling_mode_{MODES.get(str(mode), mode)}" for mode in several]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(
            f"states are pooled by {' and '.join(modes) or 'nothing'}, which is not "
            f"computed here; one of {', '.join(POOLINGS)} would do"
        )
    return POOLINGS[modes[0]]


def write_vectors(folder: Path, width: int, how: VectorSettings) -> None:
    """Write the files for pooling, and for normalisation to length one if wanted."""
    modules = {"": "Transformer", "1_Pooling": "Pooling"}
    if how.normalised:
        modules["2_Normalize"] = "Normalize"
        (folder / "2_Normalize").mkdir(exist_ok=True)
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (path, name) in enumerate(modules.items())
    ]
    write_json(folder / MODULE_LIST, listed)
    modes = {mode: pooling == how.pooling for mode, pooling in POOLINGS.items()}
    write_json(folder / "1_Pooling" / CONFIG, {"word_embedding_dimension": width, **modes})
    write_json(folder / READING_CONFIG, {"max_seq_length": how.context, "do_lower_case": False})
    said: dict[str, Any] = {}
    if how.prompt:
        said |= {"prompts": {"text": how.prompt}, "default_prompt_name": "text"}
    if how.dimensions:
        said["truncate_dim"] = how.dimensions
    write_json(folder / SENTENCES_CONFIG, said)
