"""The supported families, and the docs of every key of their files."""

from __future__ import annotations

from manyheads.interop.huggingface.bart import Bart
from manyheads.interop.huggingface.bert import Bert
from manyheads.interop.huggingface.config_keys import CONFIG_KEYS, EVERY, ROTARY
from manyheads.interop.huggingface.family import Family
from manyheads.interop.huggingface.file_keys import (
    MODULES,
    NORMALIZE,
    POOLING,
    READING,
    SENTENCES,
    SPECIAL_TOKENS,
    TOKENIZING,
    WRITING,
)
from manyheads.interop.huggingface.gpt2 import Gpt2
from manyheads.interop.huggingface.keys import Keys, format_keys
from manyheads.interop.huggingface.llama import Llama

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Gpt2(),
        Llama("llama", "LlamaForCausalLM", windowed=False),
        Llama("mistral", "MistralForCausalLM", windowed=True),
        Bert(),
        Bart(
            "pegasus",
            "PegasusForConditionalGeneration",
            norm_position="pre",
            position="Sinusoidal()",
        ),
        Bart(
            "marian", "MarianMTModel", norm_position="post", position="Sinusoidal()", separate=True
        ),
        Bart("bart", "BartForConditionalGeneration", norm_position="post", position="Learned()"),
        Bart("mbart", "MBartForConditionalGeneration", norm_position="pre", position="Learned()"),
    )
}


def document_keys() -> str:
    """Return the tables of docs/interop.md: what import does with every key of every file."""
    files: dict[str, Keys] = {
        "`generation_config.json`, or `config.json` if there is no such file": WRITING,
        "`config.json` of every family": take_out(EVERY, WRITING),
        **{
            f"`config.json` of {name}": take_out(keys, EVERY)
            for name, keys in CONFIG_KEYS.items()
            if name not in ("bart", "mbart")
        },
        "`tokenizer_config.json`": TOKENIZING,
        "`special_tokens_map.json`": SPECIAL_TOKENS,
        "`modules.json`, each entry": MODULES,
        "`config_sentence_transformers.json`": SENTENCES,
        "`sentence_bert_config.json`": READING,
        "`1_Pooling/config.json`": POOLING,
        "`2_Normalize/config.json`": NORMALIZE,
        "`rope_parameters` and `rope_scaling`": ROTARY,
    }
    titled = [f"### {title}\n\n{format_keys(keys)}" for title, keys in files.items()]
    return "\n\n".join(titled).replace("of pegasus", "of pegasus, bart and mbart")


def take_out(keys: Keys, shared: Keys) -> Keys:
    """Return the keys that are not shared."""
    return {name: key for name, key in keys.items() if shared.get(name) != key}
