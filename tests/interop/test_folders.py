"""Folders made by hand: what is read of them, and each sentence that refuses one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tokenizers import Tokenizer, processors

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.interop.huggingface.exporter import write_folder
from manyheads.interop.huggingface.families import FAMILIES
from manyheads.interop.huggingface.family import Kind
from manyheads.interop.huggingface.importer import (
    ARCHITECTURES,
    build_network,
    list_weights,
    read_folder,
)
from manyheads.interop.huggingface.tensors import TensorNames, give_tensors, take_tensors
from manyheads.modules.config import NetworkConfig, RecurrentConfig, TransformerConfig
from manyheads.tasks.portable import Portable, VectorSettings
from manyheads.training.weights import weights_of

LINES = [" ".join(f"w{i + j}" for j in range(9)) for i in range(18)]
SHAPE: dict[str, Any] = {"width": 16, "depth": 2, "heads": 4, "ffn_width": 24, "dropout": 0.1}
LEARNED: dict[str, Any] = {"position": "Learned(24)"}
LLAMA: dict[str, Any] = {
    **SHAPE,
    "position": "Rotary()",
    "norm": "rms",
    "feed_forward": "swiglu",
    "bias": False,
}
BERT: dict[str, Any] = {
    **SHAPE,
    **LEARNED,
    "norm_position": "post",
    "embedding_norm": True,
    "feed_forward": "gelu",
    "token_types": 2,
}
NETWORKS: dict[str, tuple[Kind, NetworkConfig]] = {
    "gpt2": (
        "language",
        TransformerConfig(**SHAPE, **LEARNED, feed_forward="gelu-tanh", scale_embeddings=False),
    ),
    "llama": ("language", TransformerConfig(**LLAMA, key_heads=2)),
    "mistral": (
        "language",
        TransformerConfig(**LLAMA, pattern="Window(4)", tied=False, scale_embeddings=False),
    ),
    # It guesses by its one table all the same.
    "bert": ("masked", TransformerConfig(**BERT, tied=False)),
    "pegasus": ("translation", TransformerConfig(**SHAPE)),
    "marian": (
        "translation",
        TransformerConfig(**SHAPE, norm_position="post", tied=False, head_bias=True),
    ),
    "pegasus with a short decoder": (
        "translation",
        TransformerConfig(**{**SHAPE, "depth": (2, 1)}),
    ),
}
JUDGES: dict[Kind, dict[str, Any]] = {
    "classification": {"labels": ("a", "b", "c"), "pooling": "first"},
    "regression": {"pooling": "first"},
    "labelling": {"labels": ("a", "b", "c")},
}
WEIGHTS = "model.safetensors"


def codec(kind: Kind) -> Text:
    text = Text.train(LINES, "word", 30)
    if kind in ("language", "translation"):
        return text
    return Text(text.tokenizer, SpecialTokens(encoder_bos=(1,)))


def described(kind: Kind, design: NetworkConfig, *codecs: Text, **more: Any) -> Portable:
    """A model without a network."""
    architecture = ARCHITECTURES.get(kind, "encoder")
    return Portable(architecture, kind, design, codecs or (codec(kind),), **{"context": 24, **more})


def made(kind: Kind, design: NetworkConfig, *codecs: Text, **more: Any) -> Portable:
    """A model of random weights."""
    model = described(kind, design, *codecs, **more)
    return replace(model, network=build_network(model).eval())


def folder_of(family: str, folder: Path) -> Path:
    write_folder(made(*NETWORKS[family]), folder)
    return folder


def judging(kind: Kind, folder: Path) -> Path:
    write_folder(
        made(kind, TransformerConfig(**BERT, scale_embeddings=False), **JUDGES[kind]), folder
    )
    return folder


def change(path: Path, **values: Any) -> None:
    """Set these of a JSON file; what is set to ... is taken out."""
    held = {**(json.loads(path.read_text()) if path.exists() else {}), **values}
    path.write_text(json.dumps({k: v for k, v in held.items() if v is not ...}))


def rename(folder: Path, names: dict[str, str]) -> None:
    held = safetensors.torch.load_file(folder / WEIGHTS)
    tensors = {names.get(name, name): tensor for name, tensor in held.items()}
    safetensors.torch.save_file(tensors, folder / WEIGHTS)


def put(folder: Path, **tensors: Any) -> None:
    """Tensors by names whose dots are written as __; None takes one out."""
    held = safetensors.torch.load_file(folder / WEIGHTS)
    held |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    kept = {name: tensor for name, tensor in held.items() if tensor is not None}
    safetensors.torch.save_file(kept, folder / WEIGHTS)


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        read_folder(folder)
    assert str(error.value) == sentence.replace("FOLDER", str(folder))


# ---- one table, both ways --------------------------------------------------------------------


def test_a_pair_gives_back_what_it_was_given() -> None:
    whole = torch.randn(6, 4)
    for pair in (
        TensorNames("a", ("b",)),
        TensorNames("a", ("b", "c", "d"), rows=(3, 2, 1)),
        TensorNames("a", ("b", "c"), rows=(4, 2), turned=True),
        TensorNames("a", ("b",), ahead=2),
    ):
        assert torch.equal(pair.join_parts(pair.split_whole(whole)), whole)
    lifted = TensorNames("a", ("b",), lifted=True)
    assert lifted.split_whole(whole[0])[0].shape == (1, 4)
    assert torch.equal(lifted.join_parts(lifted.split_whole(whole[0])), whole[0])


def test_rows_before_the_first_place_are_empty_there_and_left_out_here() -> None:
    pair = TensorNames("a", ("b",), ahead=2)
    there = pair.split_whole(torch.ones(3, 4))[0]
    assert there.sum(1).tolist() == [0, 0, 4, 4, 4]


@pytest.mark.parametrize("family", NETWORKS)
def test_a_family_names_every_tensor_once(family: str, tmp_path: Path) -> None:
    model = made(*NETWORKS[family])
    weights = weights_of(model.network)
    pairs = FAMILIES[family.split()[0]].pairs(weights, model.design)
    assert [pair.ours for pair in pairs] == [*weights]
    names = [name for pair in pairs for name in pair.theirs]
    assert len(names) == len(set(names))
    back = take_tensors(give_tensors(weights, pairs), pairs, list_weights(model), tmp_path)
    assert all(torch.equal(back[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize("family", NETWORKS)
def test_what_was_written_is_read_as_it_was(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = made(*NETWORKS[family])
    weights = weights_of(model.network)
    if "decoder.head.bias" in weights:
        weights["decoder.head.bias"] += 1.0
    write_folder(model, tmp_path)
    back, held, _ = read_folder(tmp_path)
    assert (back.kind, back.context) == (model.kind, 24)
    assert (back.design.places, back.design.depths) == (model.design.places, model.design.depths)
    assert back.codecs[0].encode("w3 w4") == model.codecs[0].encode("w3 w4")
    assert back.special_tokens == model.special_tokens
    assert held.keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(held[name], tensor), name


@pytest.mark.parametrize("kind", JUDGES)
def test_a_judge_comes_back_with_its_labels(kind: Kind, tmp_path: Path) -> None:
    back = read_folder(judging(kind, tmp_path)).load()
    assert back.kind == kind
    assert back.labels == JUDGES[kind].get("labels", ())
    assert back.pooling == JUDGES[kind].get("pooling")


# ---- as others save it -----------------------------------------------------------------------


def test_a_tied_head_may_be_there_twice_or_under_its_other_name(tmp_path: Path) -> None:
    folder = folder_of("gpt2", tmp_path)
    table = read_folder(folder).weights["embedding.table.weight"]
    put(folder, lm_head__weight=table.clone())
    assert torch.equal(read_folder(folder).weights["embedding.table.weight"], table)
    put(folder, transformer__wte__weight=None)
    assert torch.equal(read_folder(folder).weights["embedding.table.weight"], table)
    put(folder, transformer__wte__weight=table + 1)
    refused(
        folder,
        "FOLDER: transformer.wte.weight and lm_head.weight are said to be one and differ",
    )


def test_an_old_bert_is_read(tmp_path: Path) -> None:
    folder = folder_of("bert", tmp_path)
    before = read_folder(folder).weights
    held = safetensors.torch.load_file(folder / WEIGHTS)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    rename(folder, {n: n.replace(k, v) for n in held for k, v in old.items() if k in n})
    put(
        folder,
        bert__embeddings__position_ids=torch.arange(24)[None],
        cls__seq_relationship__weight=torch.zeros(2, 16),
        bert__pooler__dense__weight=torch.zeros(16, 16),
    )
    after = read_folder(folder).weights
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_a_half_precise_model_is_read_as_float32(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    held = safetensors.torch.load_file(folder / WEIGHTS)
    small = {name: tensor.bfloat16() for name, tensor in held.items()}
    safetensors.torch.save_file(small, folder / WEIGHTS)
    assert {tensor.dtype for tensor in read_folder(folder).weights.values()} == {torch.float32}


def test_a_language_model_begins_as_its_tokenizer_does(tmp_path: Path) -> None:
    folder = folder_of("gpt2", tmp_path)
    assert read_folder(folder).model.special_tokens.bos == (1,)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    change(folder / "config.json", pad_token_id=None)
    change(folder / "generation_config.json", pad_token_id=...)
    change(folder / "tokenizer_config.json", pad_token=...)
    special = read_folder(folder).model.special_tokens
    assert (special.bos, special.pad, special.eos) == ((), 2, 2)


def test_of_several_ends_the_tokenizers_own_is_first_and_all_end_a_text(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    change(folder / "generation_config.json", eos_token_id=[5, 2])
    assert read_folder(folder).model.special_tokens.all_eos == (2, 5)
    change(folder / "tokenizer_config.json", eos_token=...)
    assert read_folder(folder).model.special_tokens.all_eos == (5, 2)


def test_what_may_not_be_written_is_not_written(tmp_path: Path) -> None:
    folder = folder_of("marian", tmp_path)
    # As every published Marian has it: its padding, and nothing else.
    change(folder / "generation_config.json", bad_words_ids=[[0]], suppress_tokens=None)
    assert read_folder(folder).model.special_tokens == SpecialTokens()
    change(folder / "generation_config.json", bad_words_ids=[[0], [7], [2]], suppress_tokens=[9])
    assert read_folder(folder).model.special_tokens.never == (0, 1, 7, 9)
    change(folder / "generation_config.json", bad_words_ids=[[7, 8]])
    refused(
        folder,
        "FOLDER: bad_words_ids: [7, 8] is not computed here; lists of one token each would do",
    )
    change(folder / "generation_config.json", bad_words_ids=None, suppress_tokens=[2])
    refused(folder, "FOLDER: suppress_tokens forbids 2, which ends a text; nothing would")


def test_where_one_file_says_how_to_write_the_other_is_not_asked(tmp_path: Path) -> None:
    folder = folder_of("marian", tmp_path)
    change(folder / "config.json", bad_words_ids=[[7]], num_beams=6)
    assert read_folder(folder).model.special_tokens == SpecialTokens()
    assert read_folder(folder).notes == [
        "max_length: 24 (--max-new-tokens, which counts only new tokens)"
    ]
    (folder / "generation_config.json").unlink()
    assert read_folder(folder).model.special_tokens.forbidden == (7,)
    assert read_folder(folder).notes == ["num_beams: 6 (--beam)"]


def test_writing_may_begin_with_two_signs(tmp_path: Path) -> None:
    folder = folder_of("pegasus", tmp_path)
    change(folder / "generation_config.json", decoder_start_token_id=2, forced_bos_token_id=0)
    assert read_folder(folder).model.special_tokens.bos == (2, 0)


def test_states_are_pooled_as_sentence_transformers_says(tmp_path: Path) -> None:
    how = VectorSettings("first")
    write_folder(
        made("embedding", TransformerConfig(**BERT, scale_embeddings=False), vectors=how), tmp_path
    )
    assert read_folder(tmp_path).model.vectors == replace(how, context=24)
    change(tmp_path / "sentence_bert_config.json", max_seq_length=12)
    assert read_folder(tmp_path).model.context == 12
    pooling = tmp_path / "1_Pooling" / "config.json"
    change(pooling, pooling_mode_max_tokens=True)
    refused(
        tmp_path,
        "FOLDER: states are pooled by pooling_mode_cls_token and pooling_mode_max_tokens, which "
        "is not computed here; one of pooling_mode_cls_token, pooling_mode_mean_tokens would do",
    )
    modules = tmp_path / "modules.json"
    modules.write_text(json.dumps([{"type": "sentence_transformers.models.Dense", "path": "2"}]))
    refused(
        tmp_path,
        "FOLDER: modules.json has a Dense, which is not computed here; "
        "Transformer, Pooling, Normalize are",
    )
    modules.write_text(json.dumps([{"type": "Pooling", "path": "../1_Pooling"}]))
    refused(tmp_path, "FOLDER/modules.json names '../1_Pooling', which is no folder of its own")


# ---- folders that are refused ----------------------------------------------------------------


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    refused(tmp_path / "none", f"there is no folder {tmp_path / 'none'}")
    refused(
        tmp_path,
        "FOLDER holds no config.json; a folder that model.save_pretrained(...) wrote is wanted",
    )
    folder = folder_of("gpt2", tmp_path)
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, "FOLDER/tokenizer.json is not a tokenizer.json")
    (folder / "tokenizer.json").unlink()
    refused(
        folder,
        "FOLDER holds no tokenizer.json; a fast tokenizer writes one: "
        "AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(...)",
    )
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:-10])
    with pytest.raises(ValueError, match=r"model.safetensors is not a whole safetensors file \("):
        read_folder(folder)
    (folder / WEIGHTS).unlink()
    refused(folder, "FOLDER holds no weights; model.safetensors is wanted")
    (folder / "pytorch_model.bin").write_bytes(b"\x80")
    refused(
        folder,
        "FOLDER holds pickled weights (pytorch_model.bin), which can run code; save it as "
        "safetensors: model.save_pretrained(..., safe_serialization=True)",
    )
    (folder / "config.json").write_text("{")
    refused(folder, "FOLDER/config.json is not JSON")


def test_an_index_names_files_of_its_own_folder(tmp_path: Path) -> None:
    folder = folder_of("gpt2", tmp_path)
    (folder / WEIGHTS).rename(folder / "model-1.safetensors")
    index = folder / "model.safetensors.index.json"
    change(index, weight_map={"transformer.wte.weight": "model-1.safetensors"})
    read_folder(folder)
    change(index, weight_map={"more": "model-1.safetensors"})
    refused(folder, "FOLDER/model.safetensors.index.json lists more, which none of its files holds")
    change(index, weight_map={"more": "../model-1.safetensors"})
    refused(
        folder,
        "FOLDER/model.safetensors.index.json names '../model-1.safetensors', "
        "which is no file of its folder",
    )
    change(index, weight_map={"more": "model-2.safetensors"})
    refused(folder, "there is no FOLDER/model-2.safetensors")
    change(index, weight_map=...)
    refused(folder, "FOLDER/model.safetensors.index.json has no weight_map")


def test_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    name = "model.layers.1.self_attn.k_proj.weight"
    put(folder, **{name: torch.zeros(16, 16)})
    refused(folder, f"FOLDER: {name} is (16, 16), its config.json asks for (8, 16)")
    put(folder, **{name: None})
    refused(folder, f"FOLDER holds no tensor {name}, which its config.json asks for")
    put(folder, **{name: torch.zeros(8, 16), "model.extra": torch.zeros(1)})
    refused(folder, "FOLDER holds model.extra, which has no place in its network here")


CONFIGS: list[tuple[str, dict[str, Any], str]] = [
    (
        "gpt2",
        {"model_type": "t5"},
        "model_type 't5' is not known here; there are "
        "gpt2, llama, mistral, bert, pegasus, marian, bart, mbart",
    ),
    (
        "gpt2",
        {"architectures": ["GPT2ForSequenceClassification"]},
        "architecture GPT2ForSequenceClassification is not known here; there are GPT2LMHeadModel",
    ),
    ("gpt2", {"n_head": 0}, "n_head is a whole number from 1 up, got 0"),
    (
        "gpt2",
        {"scale_attn_by_inverse_layer_idx": True},
        "scale_attn_by_inverse_layer_idx: True is not computed here; False would do",
    ),
    ("gpt2", {"layer_norm_epsilon": "x"}, "layer_norm_epsilon is a number, got 'x'"),
    ("gpt2", {"eos_token_id": 99}, "eos_token_id is 0 to 29, got 99"),
    ("llama", {"hidden_size": ...}, "hidden_size is a whole number from 1 up, got None"),
    ("llama", {"head_dim": 8}, "head_dim: 8 is not computed here; 4 would do"),
    (
        "llama",
        {"hidden_act": "relu2"},
        "hidden_act: relu2 is not computed here; there are gelu, swish, silu",
    ),
    (
        "llama",
        {"rope_parameters": {"rope_type": "llama3"}},
        "rope_parameters: rotary positions of type llama3 are not computed here; "
        "those of type default are",
    ),
    (
        "llama",
        {"quantization_config": {"bits": 4}},
        "its weights are quantized; those before that would do",
    ),
    (
        "pegasus",
        {"decoder_ffn_dim": 8},
        "encoder_ffn_dim: 24, decoder_ffn_dim: 8; a network here has the same on both sides",
    ),
    ("bert", {"is_decoder": True}, "is_decoder: True is not computed here; False would do"),
]


@pytest.mark.parametrize(("family", "values", "sentence"), CONFIGS)
def test_a_setting_that_is_not_computed_here_is_named(
    family: str, values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = folder_of(family, tmp_path)
    (folder / "generation_config.json").unlink(missing_ok=True)
    change(folder / "config.json", **values)
    refused(folder, f"FOLDER: config.json: {sentence}")


def test_signs_that_are_not_said_are_asked_for(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path / "a")
    for name in ("config", "generation_config"):
        change(folder / f"{name}.json", eos_token_id=...)
    change(folder / "tokenizer_config.json", eos_token=...)
    refused(folder, "FOLDER: config.json names no eos_token_id, the sign that ends a text")
    folder = folder_of("pegasus", tmp_path / "b")
    for name in ("config", "generation_config"):
        change(folder / f"{name}.json", decoder_start_token_id=...)
    refused(
        folder,
        "FOLDER: config.json names no decoder_start_token_id, which all writing begins with",
    )


def test_a_text_has_one_sign_after_it(tmp_path: Path) -> None:
    folder = folder_of("pegasus", tmp_path)
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    two = [("</s>", 2), ("<unk>", 3)]
    for after, said in (("", "none"), (" </s> <unk>", "</s> <unk>")):
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A{after}", pair="$A $B", special_tokens=two
        )
        tokenizer.save(path)
        refused(
            folder,
            f"FOLDER: a text is read with one sign after it, its tokenizer puts {said} there",
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <unk>", pair="$A $B", special_tokens=two
    )
    tokenizer.save(path)
    refused(
        folder,
        "FOLDER: what is read ends with number 3 and what is written with 2; "
        "one sign ends both here",
    )


def test_a_tokenizer_of_more_words_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = folder_of("llama", tmp_path)
    change(folder / "config.json", vocab_size=20)
    refused(folder, "FOLDER: its tokenizer numbers 30 words up to 29, its model knows 0 to 19")


def test_several_labels_for_one_text_are_refused(tmp_path: Path) -> None:
    folder = judging("classification", tmp_path)
    change(folder / "config.json", problem_type="multi_label_classification")
    refused(
        folder,
        "FOLDER: config.json: several labels for one text are not computed here; one is",
    )


# ---- networks that are refused ---------------------------------------------------------------

REFUSED: list[tuple[Kind, NetworkConfig, str]] = [
    (
        "translation",
        TransformerConfig(**SHAPE, position="RelativeBias()"),
        "network.position: RelativeBias() has no counterpart in Hugging Face's models; "
        "pegasus, the nearest, has Sinusoidal()",
    ),
    (
        "translation",
        TransformerConfig(**SHAPE, key_heads=2),
        "network.key_heads: 2 has no counterpart in Hugging Face's models; "
        "pegasus, the nearest, has None",
    ),
    (
        "language",
        RecurrentConfig(),
        "network.kind: recurrent has no counterpart in Hugging Face's models; "
        "gpt2, the nearest, has transformer",
    ),
    (
        "language",
        TransformerConfig(**{**LLAMA, "bias": True}, pattern="Window(3)"),
        "network.pattern: Window(3) has no counterpart in Hugging Face's models; "
        "llama, the nearest, has Everything()",
    ),
    (
        "language",
        TransformerConfig(**{**LLAMA, "feed_forward": "relu2"}),
        "network.feed_forward: relu2 has no counterpart in Hugging Face's models; "
        "llama, the nearest, has geglu or swiglu",
    ),
    (
        "language",
        TransformerConfig(**{**LLAMA, "width": 12}),
        "network.position: Rotary() over 3 channels has no counterpart in Hugging Face's models; "
        "an even number has",
    ),
    (
        "masked",
        TransformerConfig(**{**BERT, "feed_forward": "relu"}),
        "network.feed_forward: relu has no counterpart in Hugging Face's models; "
        "bert, the nearest, has gelu",
    ),
    (
        "classification",
        TransformerConfig(**BERT),
        "pooling: mean has no counterpart in Hugging Face's models; first has",
    ),
]


@pytest.mark.parametrize(("kind", "network", "sentence"), REFUSED)
def test_a_network_that_no_family_holds_is_refused_by_its_setting(
    kind: Kind, network: NetworkConfig, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as error:
        write_folder(described(kind, network, pooling="mean"), tmp_path / "out")
    assert str(error.value) == sentence
    assert not (tmp_path / "out").exists()


def test_no_more_is_promised_than_learned_positions_reach(tmp_path: Path) -> None:
    model = made(*NETWORKS["gpt2"], context=512)
    write_folder(model, tmp_path)
    said = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert said["model_max_length"] == model.design.places == 24


def test_two_vocabularies_are_marians_alone(tmp_path: Path) -> None:
    codecs = [codec("translation")] * 2
    with pytest.raises(ValueError) as error:
        write_folder(described("translation", TransformerConfig(**SHAPE), *codecs), tmp_path)
    assert str(error.value) == (
        "two vocabularies have no counterpart in pegasus; marian has them, which is "
        "network.norm_position: post and network.position: Sinusoidal()"
    )


def test_a_kind_that_is_none_is_refused(tmp_path: Path) -> None:
    kind: Any = "song"
    with pytest.raises(ValueError) as error:
        write_folder(described(kind, TransformerConfig()), tmp_path)
    assert str(error.value) == (
        "there is no kind 'song'; there are language, masked, embedding, classification, "
        "regression, labelling, translation"
    )


def test_writing_begins_with_one_sign_or_two(tmp_path: Path) -> None:
    text = Text(codec("translation").tokenizer, SpecialTokens(bos=(1, 3, 3)))
    with pytest.raises(ValueError, match=r"begins with 1 or 2 signs in .* models, here with 3"):
        write_folder(made("translation", TransformerConfig(**SHAPE), text), tmp_path)
