"""Folders that mean no good, or are broken: one sentence, before anything large is made."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from test_folders import change, folder_of, put, refused
from toys import classifying, speaking

from manyheads.catalog import BUILT_IN
from manyheads.codecs.text import Text
from manyheads.interop.export import TEXTS, export
from manyheads.interop.huggingface.importer import read_folder
from manyheads.interop.importing import import_folder
from manyheads.interop.parity import Runtime, compare, find_worst
from manyheads.models import load
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.portable import Portable, require_portable
from manyheads.verifying import Check, run_checks

HUGE: list[tuple[str, dict[str, Any], str]] = [
    (
        "llama",
        {"vocab_size": 2_000_000_000},
        "vocab_size is 2000000000, and no tensor has more than 30 rows or columns",
    ),
    (
        "llama",
        {"num_hidden_layers": 1_000_000_000},
        "num_hidden_layers is 1000000000, and there are 21 tensors",
    ),
    (
        "llama",
        {"hidden_size": 2**62},
        f"hidden_size is {2**62}, and no tensor has more than 30 rows or columns",
    ),
    (
        "llama",
        {"max_position_embeddings": 2**62},
        f"max_position_embeddings is {2**62}, and 16777216 tokens are the most",
    ),
    (
        "pegasus",
        {"encoder_layers": 10**9, "decoder_layers": 10**9},
        "encoder_layers is 1000000000, and there are 92 tensors",
    ),
    ("gpt2", {"n_inner": 2**62}, f"n_inner is {2**62}, and no tensor has more than 48 rows"),
    ("bert", {"type_vocab_size": 2**40}, f"type_vocab_size is {2**40}, and no tensor has more"),
]


@pytest.mark.parametrize(("family", "values", "sentence"), HUGE)
def test_a_size_that_no_tensor_has_is_refused(
    family: str, values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = folder_of(family, tmp_path)
    change(folder / "config.json", **values)
    with pytest.raises(ValueError) as error:
        read_folder(folder)
    assert str(error.value).startswith(f"{folder}: config.json: {sentence}")


WRONG: list[tuple[str, str, Any, str]] = [
    ("config.json", "architectures", "Llama", "architectures is a list of words, got Llama"),
    ("config.json", "architectures", [7], "architectures is a list of words, got [7]"),
    ("config.json", "hidden_act", ["silu"], "hidden_act is a word, got ['silu']"),
    ("config.json", "tie_word_embeddings", "no", "tie_word_embeddings is true or false, got no"),
    ("config.json", "rope_parameters", [1], "rope_parameters is an object, got [1]"),
    ("config.json", "rms_norm_eps", math.inf, "rms_norm_eps is a number, got inf"),
    ("config.json", "hidden_size", [16], "hidden_size is a whole number from 1 up, got [16]"),
    ("config.json", "num_attention_heads", True, "num_attention_heads is a whole number from 1"),
    ("config.json", "tie_word_embeddings", None, "tie_word_embeddings is true or false, got None"),
    ("config.json", "rms_norm_eps", None, "rms_norm_eps is null; leave it out, or say it"),
    ("config.json", "eos_token_id", "</s>", "eos_token_id is 0 to 29, got '</s>'"),
    ("config.json", "model_type", ["llama"], "model_type ['llama'] is not known here; there are"),
    ("config.json", "attention_chunk_size", 4, "attention_chunk_size is not known here, so nobody"),
    ("config.json", "bad_words_ids", True, "bad_words_ids is a list, got True"),
    ("config.json", "suppress_tokens", 7, "suppress_tokens is a list, got 7"),
    ("tokenizer_config.json", "add_prefix_space", 1, "add_prefix_space is true or false, got 1"),
    ("tokenizer_config.json", "extra_special_tokens", 1, "extra_special_tokens is a list or an ob"),
]


@pytest.mark.parametrize(("file", "name", "value", "sentence"), WRONG)
def test_a_value_of_another_form_is_refused(
    file: str, name: str, value: Any, sentence: str, tmp_path: Path
) -> None:
    folder = folder_of("llama", tmp_path)
    (folder / "generation_config.json").unlink()
    change(folder / file, **{name: value})
    with pytest.raises(ValueError) as error:
        read_folder(folder)
    assert str(error.value).startswith(f"{folder}: {file}: {sentence}")


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"]
)
def test_a_pipe_is_no_file(name: str, tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, f"FOLDER/{name} is no file")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_what_is_nested_too_deep_is_no_json(name: str, tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    (folder / name).write_text("[" * 200_000 + "]" * 200_000)
    refused(folder, f"FOLDER/{name} is not JSON")


def test_a_folder_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    deep, pipe = (folder_of("llama", tmp_path / name) for name in ("deep", "pipe"))
    (deep / "config.json").write_text("[" * 200_000 + "]" * 200_000)
    (pipe / "config.json").unlink()
    os.mkfifo(pipe / "config.json")
    folders = [deep, pipe]
    for i, (family, values, _) in enumerate([*HUGE, ("llama", {"hidden_act": ["silu"]}, "")]):
        folders.append(folder_of(family, tmp_path / str(i)))
        change(folders[-1] / "config.json", **values)
    told = refused_without_torch("import", folders, "--out", str(tmp_path / "out"))
    assert [line.split(":")[:2] for line in told][2:] == [
        ["manyheads", f" {folder}"] for folder in folders[2:]
    ]
    assert not (tmp_path / "out").exists()


def refused_without_torch(command: str, folders: Sequence[Path], *options: str) -> list[str]:
    """What the command says of each folder, each a sentence before torch is loaded."""
    code = (
        "import sys; from manyheads.cli.app import main\n"
        f"for folder in {[*map(str, folders)]}:\n"
        f"    sys.argv = ['manyheads', {command!r}, *{options}, folder]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as stopped:\n"
        "        assert stopped.code == 2\n"
        "    assert 'torch' not in sys.modules, f'{folder} loaded torch'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


# ---- heads and tables that are not there -----------------------------------------------------


def test_no_head_is_made_up(tmp_path: Path) -> None:
    folder = folder_of("mistral", tmp_path)
    put(folder, lm_head__weight=None)
    sentence = "there is no tensor lm_head.weight, and tie_word_embeddings says it is its own"
    refused(folder, f"FOLDER: {sentence}")
    change(folder / "config.json", architectures=["MistralModel"])
    refused(
        folder,
        "FOLDER: config.json: MistralModel has no head, so it scores no words; "
        "saved as MistralForCausalLM it would do",
    )


def test_places_that_are_no_sine_waves_are_refused(tmp_path: Path) -> None:
    folder = folder_of("pegasus", tmp_path)
    name = "model.encoder.embed_positions.weight"
    put(folder, **{name: torch.randn(24, 16)})
    refused(folder, f"FOLDER: {name} does not hold what its family computes there")


def test_a_triangle_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = folder_of("gpt2", tmp_path)
    put(folder, transformer__h__0__attn__bias=torch.ones(1, 1, 24, 24).tril())
    read_folder(folder)
    put(folder, transformer__h__0__attn__bias=torch.ones(1, 1, 24, 24))
    refused(
        folder,
        "FOLDER: transformer.h.0.attn.bias does not hold what its family computes there",
    )


def test_two_ways_to_turn_are_one_or_refused(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    change(folder / "config.json", rope_scaling={"rope_type": "linear", "factor": 2.0})
    refused(
        folder,
        "FOLDER: config.json: rope_scaling: rotary positions of type linear are not computed "
        "here; those of type default are",
    )
    change(folder / "config.json", rope_scaling=None, rope_theta=5.0)
    refused(
        folder,
        "FOLDER: config.json: rope_parameters.rope_theta: 10000, rope_theta: 5; "
        "they are one setting and differ",
    )


def test_a_tokenizer_is_as_its_settings_say(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    change(folder / "tokenizer_config.json", added_tokens_decoder={"5": {"content": "<new>"}})
    refused(
        folder,
        "FOLDER: tokenizer_config.json: added_tokens_decoder: 5: <new>, where tokenizer.json has "
        "w11; AutoTokenizer.from_pretrained(...).save_pretrained(...) makes them one",
    )
    change(folder / "tokenizer_config.json", added_tokens_decoder={}, add_eos_token=True)
    read_folder(folder)
    change(folder / "tokenizer_config.json", tokenizer_class="LlamaTokenizer")
    with pytest.raises(ValueError, match=r"add_eos_token: True, where tokenizer.json has F"):
        read_folder(folder)


# ---- no numbers ------------------------------------------------------------------------------


def test_weights_that_are_no_numbers_are_not_imported(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    put(folder, **{"model.norm.weight": torch.tensor([math.nan] * 16)})
    refused(
        folder,
        "FOLDER: stack.norm.weight holds values that are no numbers (NaN or infinite); "
        "weights from before training went wrong would do",
    )


def test_weights_that_are_no_numbers_are_not_loaded(tmp_path: Path) -> None:
    from manyheads.training.files import read_tensors, write_tensors

    export(speaking(), "huggingface", tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    held, note = read_tensors(path)
    held["stack.norm.weight"][3] = math.inf
    write_tensors(path, held, note)
    with pytest.raises(ValueError, match=r"stack.norm.weight holds values that are no numbers"):
        load(tmp_path / "run")


def test_nan_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})
    model = classifying()
    with torch.no_grad():
        [*model.network.parameters()][-1].fill_(math.nan)
    checks = {one.name: one for one in run_checks(model, TEXTS[:2])}
    assert not checks["batch of 1 = batch of N"].holds
    assert not Check("a = b", math.nan, 1.0).holds
    assert math.isnan(find_worst([0.0, math.nan, 1.0]))
    described = require_portable(model)
    there = require_portable(classifying())
    monkeypatch.setattr("manyheads.tasks.portable.AT_ONCE", 1)
    assert math.isnan(compare(Here(described, there), described.rows(TEXTS[:2])).largest)


class Here(Runtime):
    """Another network of the same settings."""

    def __init__(self, model: Portable, other: Portable):
        super().__init__(model)
        self.other = other

    def scores(self, batch: Any) -> torch.Tensor:
        found: torch.Tensor = self.other.network(*batch)
        return found

    def write(self, rows: Any, longest: int) -> list[list[int]]:
        return self.other.write(rows, longest)


# ---- runs ------------------------------------------------------------------------------------


def test_a_recipe_of_more_than_its_weights_is_refused(tmp_path: Path) -> None:
    export(speaking(), "huggingface", tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.yaml"
    plain = recipe.read_text()
    recipe.write_text(plain.replace("depth: 2", "depth: 900"))
    with pytest.raises(ValueError, match=r"network.depth is 900, and the \d+ tensors of weights"):
        load(tmp_path / "run")
    recipe.write_text(plain.replace("depth: 2", "depth: 1000000"))
    with pytest.raises(ValueError, match="depth is 1000 at most, got 1000000"):
        load(tmp_path / "run")
    recipe.unlink()
    os.mkfifo(recipe)
    with pytest.raises(ValueError, match=r"recipe.yaml is none"):
        load(tmp_path / "run")


def test_a_run_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("large", "deep", "pipe", "none")]
    for folder in folders[:3]:
        shutil.copytree(BUILT_IN / "de-en", folder)
    for folder, depth in zip(folders, ("1000000", "900"), strict=False):
        recipe = folder / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("depth: 3", f"depth: {depth}"))
    (folders[2] / "recipe.yaml").unlink()
    os.mkfifo(folders[2] / "recipe.yaml")
    large, deep, pipe, none = refused_without_torch("translate", folders, "text", "--model")
    assert large.endswith("network.depth is 1000 at most, got 1000000")
    assert "network.depth is 900, and the 95 tensors of weights.safetensors" in deep
    assert pipe.endswith("recipe.yaml is none")
    assert none.startswith(f"manyheads: there is no model '{folders[3]}'")


def test_a_tokenizer_of_a_run_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match=r"tokenizer.json is no file"):
        Text.load(tmp_path / "tokenizer.json")


def test_no_network_is_larger_than_anyone_builds() -> None:
    with pytest.raises(ValueError, match="width is 131072 at most, got 4611686018427387904"):
        TransformerConfig(width=2**62)


def test_an_index_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": 3}}))
    refused(folder, "FOLDER/model.safetensors.index.json has no weight_map")
