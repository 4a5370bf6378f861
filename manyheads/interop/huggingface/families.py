"""The supported families."""

from __future__ import annotations

from manyheads.interop.huggingface.bart import Bart
from manyheads.interop.huggingface.bert import Bert
from manyheads.interop.huggingface.family import Family
from manyheads.interop.huggingface.gpt2 import Gpt2
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
