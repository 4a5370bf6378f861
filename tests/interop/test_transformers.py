"""The same models in transformers: what they compute, what we read, what they read of ours."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_folders import made
from torch import Tensor

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.interop.export import export
from manyheads.interop.huggingface import special_tokens
from manyheads.interop.huggingface.exporter import write_folder
from manyheads.interop.huggingface.family import Kind
from manyheads.interop.huggingface.importer import read_folder
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Portable
from manyheads.training.weights import weights_of

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; pip install transformers"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers are not ours

WORDS = [f"w{i}" for i in range(26)]
LINES = [" ".join(WORDS[i : i + 9]) for i in range(18)]
READ = [[4, 5, 6, 7, 8, 9, 2], [10, 11, 2], [12, 13, 14, 15, 2]]
WRITTEN = [[1, 9, 8, 7], [1, 20], [1, 6, 5]]
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}

BODY = {
    "vocab_size": 30,
    "hidden_size": 16,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
BOTH = {
    "vocab_size": 30,
    "d_model": 16,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 40 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    "max_position_embeddings": 24,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
SMALL_GPT2 = {"vocab_size": 30, "n_positions": 24, "n_embd": 16, "n_layer": 2, "n_head": 4}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", SMALL_GPT2),
    "gpt2 untied, relu": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**SMALL_GPT2, "n_inner": 24, "activation_function": "relu", "tie_word_embeddings": False},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", BODY),
    "llama grouped, tied": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **BODY,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "rope_theta": 500.0,
            "rms_norm_eps": 1e-5,
        },
    ),
    "llama biased": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**BODY, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
    ),
    "mistral": (
        "MistralForCausalLM",
        "MistralConfig",
        {**BODY, "num_key_value_heads": 1, "sliding_window": 3},
    ),
    "bert": ("BertModel", "BertConfig", BODY),
    "bert, hidden words": ("BertForMaskedLM", "BertConfig", BODY),
    "bert, relu, 3 labels": (
        "BertForSequenceClassification",
        "BertConfig",
        {**BODY, "num_labels": 3, "hidden_act": "relu"},
    ),
    "bert, a number": ("BertForSequenceClassification", "BertConfig", {**BODY, "num_labels": 1}),
    "bert, each word": ("BertForTokenClassification", "BertConfig", {**BODY, "num_labels": 5}),
    "marian": ("MarianMTModel", "MarianConfig", {**BOTH, "scale_embedding": True}),
    "marian, two vocabularies": (
        "MarianMTModel",
        "MarianConfig",
        {**BOTH, "share_encoder_decoder_embeddings": False},
    ),
    "marian untied, silu": (
        "MarianMTModel",
        "MarianConfig",
        {**BOTH, "tie_word_embeddings": False, "activation_function": "swish"},
    ),
    "pegasus": (
        "PegasusForConditionalGeneration",
        "PegasusConfig",
        {**BOTH, "scale_embedding": True, "activation_function": "relu"},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", BOTH),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", {**BOTH, "scale_embedding": True}),
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()


def codec(kind: Kind) -> Text:
    """30 numbers: 4 signs and 26 words."""
    text = Text.train(LINES, "word", 30)
    if kind in ("language", "translation"):
        return text
    return Text(text.tokenizer, SpecialTokens(encoder_bos=(1,), mask=3))


def saved(name: str, folder: Path) -> Any:
    """A model of random weights, everything that starts as zero or one shaken too."""
    model_class, config_class, settings = MODELS[name]
    torch.manual_seed(len(name))
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = getattr(transformers, config_class)(**{**special, **settings})
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    kind: Kind = "translation" if hasattr(model, "final_logits_bias") else "language"
    if "bert" in name:
        kind = "masked"
    dressed(codec(kind), kind, folder)
    return model


def dressed(text: Text, kind: Kind, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(special_tokens.frame_tokenizer(text, kind))


def scores(model: Portable) -> list[Tensor]:
    """Ours, each sequence cut to its own length."""
    tokens = Tokens.padded(READ)
    if model.kind == "translation":
        return cut(model.network(tokens, Tokens.padded(WRITTEN)), WRITTEN)
    out = model.network(tokens)
    return cut(out, READ) if out.dim() == 3 else list(out)


def their_scores(model: Any, kind: Kind) -> list[Tensor]:
    ids = Tokens.padded(READ).ids
    seen = (torch.arange(ids.shape[1]) < torch.tensor([[len(s)] for s in READ])).long()
    more = {}
    if kind == "translation":
        more["decoder_input_ids"] = Tokens.padded(WRITTEN).ids
    out = model(input_ids=ids, attention_mask=seen, **more)
    result = out.last_hidden_state if kind == "embedding" else out.logits
    if kind == "translation":
        return cut(result, WRITTEN)
    return cut(result, READ) if result.dim() == 3 else list(result)


def cut(out: Tensor, sequences: list[list[int]]) -> list[Tensor]:
    return [row[: len(s)] for row, s in zip(out, sequences, strict=True)]


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def loaded(folder: Path, name: str) -> Any:
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    missing = {key for key in info["missing_keys"] if "pooler" not in key}
    assert not missing
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_model_computes_the_same_here_and_again_there(name: str, tmp_path: Path) -> None:
    library = saved(name, tmp_path / "theirs")
    imported = read_folder(tmp_path / "theirs")
    model = imported.load()
    theirs = their_scores(library, model.kind)
    assert_same(scores(model), theirs)
    assert imported.weights.keys() == weights_of(model.network).keys()
    assert write_folder(model, tmp_path / "ours").name == library.config.model_type
    again = loaded(tmp_path / "ours", MODELS[name][0])
    assert_same(their_scores(again, model.kind), theirs)
    back, weights, _ = read_folder(tmp_path / "ours")
    assert (back.design, back.special_tokens, back.kind) == (
        model.design,
        model.special_tokens,
        model.kind,
    )
    assert weights.keys() == imported.weights.keys()
    for key, tensor in imported.weights.items():
        assert torch.equal(weights[key], tensor), key


PRE = TransformerConfig(width=16, depth=2, heads=4, ffn_width=40, dropout=0.1)
SWIGLU: dict[str, Any] = {"norm": "rms", "feed_forward": "swiglu", "bias": False}
LEARNED: dict[str, Any] = {"position": "Learned(24)"}
SHAPE: dict[str, Any] = {"width": 16, "depth": 2, "heads": 4, "ffn_width": 40}
BERT = TransformerConfig(
    **SHAPE,
    **LEARNED,
    norm_position="post",
    embedding_norm=True,
    feed_forward="gelu",
    token_types=2,
)
OURS: dict[str, tuple[Kind, NetworkConfig, str, str]] = {
    "translation, pre": ("translation", PRE, "pegasus", "AutoModelForSeq2SeqLM"),
    "translation, post, a head of its own": (
        "translation",
        TransformerConfig(**SHAPE, norm_position="post", tied=False, head_bias=True),
        "marian",
        "AutoModelForSeq2SeqLM",
    ),
    "language, tied and scaled": (
        "language",
        TransformerConfig(**SHAPE, **SWIGLU, position="Rotary()"),
        "llama",
        "AutoModelForCausalLM",
    ),
    "language, a window": (
        "language",
        TransformerConfig(
            **SHAPE, **SWIGLU, position="Rotary()", pattern="Window(2)", key_heads=2, tied=False
        ),
        "mistral",
        "AutoModelForCausalLM",
    ),
    "language, learned places": (
        "language",
        TransformerConfig(**SHAPE, **LEARNED, feed_forward="gelu-tanh", scale_embeddings=False),
        "gpt2",
        "AutoModelForCausalLM",
    ),
    "hidden words, scaled": ("masked", BERT, "bert", "AutoModelForMaskedLM"),
    "an encoder without types": (
        "embedding",
        TransformerConfig(
            **SHAPE, **LEARNED, norm_position="post", embedding_norm=True, scale_embeddings=False
        ),
        "bert",
        "AutoModel",
    ),
    "a verdict": ("classification", BERT, "bert", "AutoModelForSequenceClassification"),
}


@pytest.mark.parametrize("name", OURS)
@torch.no_grad()
def test_a_model_of_ours_computes_the_same_there(name: str, tmp_path: Path) -> None:
    kind, network, family, auto = OURS[name]
    torch.manual_seed(0)
    judge: Any = {"labels": ("bad", "good", "so-so"), "pooling": "first"}
    more = judge if kind == "classification" else {}
    model = made(kind, network, codec(kind), **more)
    for parameter in model.network.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    assert write_folder(model, tmp_path).name == family
    ours = scores(model)
    assert_same(their_scores(loaded(tmp_path, auto), kind), ours)
    imported = read_folder(tmp_path)
    back = imported.load()
    assert_same(scores(back), ours)
    assert (back.labels, back.context, back.special_tokens) == (
        model.labels,
        24,
        model.special_tokens,
    )
    if name == "language, tied and scaled":
        assert (back.design.tied, back.design.scale_embeddings) == (True, True)
        table = "embedding.table.weight"
        assert torch.equal(imported.weights[table], weights_of(model.network)[table])


@pytest.mark.parametrize("kind", ["translation", "language", "masked", "classification"])
def test_a_written_tokenizer_lays_out_a_text_as_we_do(kind: Kind, tmp_path: Path) -> None:
    network = {"translation": PRE, "language": OURS["language, a window"][1]}.get(kind, BERT)
    text = codec(kind)
    judge: Any = {"labels": ("a", "b"), "pooling": "first"}
    write_folder(made(kind, network, text, **(judge if kind == "classification" else {})), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    line = f"w3 </s> {WORDS[7]}" if kind != "masked" else "w3 w7"
    special, (ids,) = text.special_tokens, text.encode_special([line])
    laid = [*special.bos, *ids] if kind == "language" else [*special.encoder_bos, *ids, special.eos]
    assert tokenizer(line)["input_ids"] == laid
    assert tokenizer.pad_token_id == special.pad
    assert tokenizer.decode(laid, skip_special_tokens=True).split() == [
        word for word in text.render(ids).split() if word != "<unk>"
    ]


@torch.no_grad()
def test_greedy_writing_there_is_greedy_writing_here(tmp_path: Path) -> None:
    torch.manual_seed(3)
    text = codec("translation")
    ours = made("translation", PRE, text)
    write_folder(ours, tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    source = [[*text.encode(LINES[4]), 2]]
    written = model.generate(torch.tensor(source), max_new_tokens=8, do_sample=False)[0].tolist()
    row = (source[0], [])
    ids = ours.write([row], 8)[0]
    assert written == [1, *ids, *([2] if len(ids) < 8 else [])]


def test_what_begins_with_two_signs_is_written_as_far_there_as_here(tmp_path: Path) -> None:
    torch.manual_seed(1)
    text = Text(codec("translation").tokenizer, SpecialTokens(bos=(2, 5)))
    model = replace(made("translation", TransformerConfig(**SHAPE), text), context=128)
    found = export(model, "huggingface", tmp_path / "out", LINES[:3])
    assert (found.different, found.texts) == (0, 3)


@torch.no_grad()
def test_a_table_that_was_rounded_up_keeps_all_its_rows(tmp_path: Path) -> None:
    model_class, config_class, settings = MODELS["llama"]
    config = getattr(transformers, config_class)(
        **{**settings, "vocab_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    )
    model = getattr(transformers, model_class)(config).eval()
    model.save_pretrained(tmp_path)
    dressed(codec("language"), "language", tmp_path)
    ours = read_folder(tmp_path).load()
    assert ours.codecs[0].size == 32
    assert_same(scores(ours), their_scores(model, "language"))


@torch.no_grad()
def test_two_tables_of_one_vocabulary_are_read_as_they_are(tmp_path: Path) -> None:
    settings = {**BOTH, "bos_token_id": 1, "tie_word_embeddings": False}
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(**settings)).eval()
    model.model.encoder.embed_tokens.weight.normal_()
    model.model.decoder.embed_tokens.weight.normal_()
    model.save_pretrained(tmp_path)
    dressed(codec("translation"), "translation", tmp_path)
    ours = read_folder(tmp_path).load()
    assert [each.size for each in ours.codecs] == [30, 30]
    assert_same(scores(ours), their_scores(model, "translation"))


@torch.no_grad()
def test_a_model_in_several_files_is_read_whole(tmp_path: Path) -> None:
    model = saved("gpt2", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    assert_same(scores(read_folder(tmp_path).load()), their_scores(model, "language"))


@torch.no_grad()
def test_a_body_saved_alone_is_read_with_its_tied_head(tmp_path: Path) -> None:
    model = saved("gpt2", tmp_path)
    model.transformer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="GPT2Model has no head, so it scores no words; saved as"):
        read_folder(tmp_path)
    model.config.architectures = ["GPT2LMHeadModel"]
    model.config.save_pretrained(tmp_path)
    assert_same(scores(read_folder(tmp_path).load()), their_scores(model, "language"))


@torch.no_grad()
def test_types_of_tokens_mean_the_same(tmp_path: Path) -> None:
    model = saved("bert", tmp_path)
    tokens = Tokens.padded([READ[0]])
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    ours = read_folder(tmp_path).load().network(Tokens(tokens.ids, tokens.at, tokens.seen, types))
    theirs = model(input_ids=tokens.ids, token_type_ids=types).last_hidden_state
    torch.testing.assert_close(ours, theirs, **CLOSE)


@torch.no_grad()
def test_two_vocabularies_go_out_and_come_back(tmp_path: Path) -> None:
    codecs = [codec("translation"), Text.train(LINES, "word", 25)]
    model = made(
        "translation", TransformerConfig(**SHAPE, norm_position="post", dropout=0.1), *codecs
    )
    assert write_folder(model, tmp_path).name == "marian"
    theirs = their_scores(loaded(tmp_path, "MarianMTModel"), "translation")
    assert_same(theirs, scores(model))
    target = transformers.AutoTokenizer.from_pretrained(tmp_path / "target")
    assert target("w3")["input_ids"] == [*codecs[1].encode("w3"), 2]
    back = read_folder(tmp_path).load()
    assert back.design.tied
    assert [each.size for each in back.codecs] == [30, 25]
    assert_same(scores(back), scores(model))
