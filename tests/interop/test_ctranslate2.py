import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from designs import network_of
from torch import nn

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.interop import format
from manyheads.interop.ctranslate2 import CTranslate2
from manyheads.interop.parity import Parity, compare
from manyheads.modules import build
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.tasks.portable import Portable

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 4, "ffn_width": 24}
CODEC = Text.train([" ".join(a + b for a in "bdfgklmn" for b in "aeiou")], "word", 44)
WORDS = CODEC.size
VARIED: list[dict[str, Any]] = [
    {},
    {"norm_position": "post", "embedding_norm": True},
    {"norm": "rms", "norm_position": "post", "norm_epsilon": 0.01},
    {
        "norm": "rms",
        "bias": False,
        "feed_forward": "swiglu",
        "position": "Rotary()",
        "key_heads": 2,
    },
    {"feed_forward": "gelu", "tied": False},
    {"feed_forward": "gelu-tanh", "tied": False, "head_bias": True},
    {"feed_forward": "silu", "head_bias": True, "embedding_norm": True},
    {"feed_forward": "geglu", "scale_embeddings": False},
    {"position": "Learned(20)"},
    {"position": "Rotary(500.0)", "width": 20},  # 5 channels: one does not turn
    {"position": None, "key_heads": 1},
    {"position": "Sinusoidal(100.0)"},
    {"bias": False},
]


def installed() -> bool:
    try:
        return bool(format.require("ctranslate2"))
    except ValueError:
        return False


pytestmark = pytest.mark.skipif(not installed(), reason=format.EXTRA)


def rows_of(*lengths: int) -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(4, WORDS) for _ in range(length)] for length in lengths]


PAIRS = list(zip(rows_of(3, 9, 1, 6), rows_of(5, 1, 8, 2), strict=True))


def shaken(network: Any) -> Any:
    """With weights so large that every part of it matters, and what it writes is no one word."""
    for name, weight in network.named_parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=1.0)
        else:
            nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.1)
    return network.eval()


def translator(design: NetworkConfig, codecs: tuple[Text, ...] = (CODEC,)) -> Portable:
    sizes = codecs[0].size, codecs[-1].size
    network = build.build_encoder_decoder(design, *sizes, joint=len(codecs) == 1)
    return Portable(
        "encoder-decoder", "translation", design, codecs, design.places or 1024, shaken(network)
    )


def found_of(
    model: Portable, folder: Path, pairs: Sequence[tuple[list[int], list[int]]], longest: int = 12
) -> Parity:
    """Of pairs without their signs."""
    reads, writes = model.codecs[0].special_tokens, model.special_tokens
    rows = [([*reads.encoder_bos, *s, reads.eos], [*writes.bos, *t]) for s, t in pairs]
    return compare(CTranslate2().open(model, folder), rows, longest)


# ---- what it writes --------------------------------------------------------------------------


@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_a_translation_is_scored_and_written_as_ours(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    design = TransformerConfig(**SMALL | setting)
    model = translator(design)
    CTranslate2().export(model, tmp_path)
    parity = found_of(model, tmp_path, PAIRS)
    assert parity.largest < 1e-4
    assert (parity.different, parity.texts) == (0, len(PAIRS))


@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_a_language_model_scores_and_writes_on_as_ours(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    design = TransformerConfig(**SMALL | setting)
    network = shaken(build.build_decoder(design, WORDS))
    model = Portable("decoder", "language", design, (CODEC,), 20, network)
    CTranslate2().export(model, tmp_path)
    texts = [([1, *row],) for row in rows_of(3, 7, 1)]
    parity = compare(CTranslate2().open(model, tmp_path), texts, 10)
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_the_parity_of_another_network_is_far_off(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL)
    CTranslate2().export(translator(design), tmp_path)
    parity = found_of(translator(design), tmp_path, PAIRS, 64)
    assert parity.largest > 0.1
    assert parity.different > 0


def test_two_vocabularies_are_two_tokenizers(tmp_path: Path) -> None:
    target = Text.train(["one two three four five six seven"], "word", 40)
    design = TransformerConfig(**SMALL)
    model = translator(design, (CODEC, target))
    CTranslate2().export(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.bin",
        "source.json",
        "source_vocabulary.json",
        "target.json",
        "target_vocabulary.json",
    }
    pairs = [(source, [4, 9, 10, 5][: len(source)]) for source, _ in PAIRS]
    parity = found_of(model, tmp_path, pairs)
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_a_model_with_other_signs_is_framed_by_them(tmp_path: Path) -> None:
    # As a Marian or a BART of others: a sign before the source, and the padding to start with.
    special = SpecialTokens(pad=5, eos=7, bos=(5,), encoder_bos=(6,), unknown=None)
    codec = Text(CODEC.tokenizer, special)
    design = TransformerConfig(**SMALL)
    model = translator(design, (codec,))
    CTranslate2().export(model, tmp_path)
    assert (tmp_path / "tokenizer.signs.json").exists()
    rows = [([4, 8, 9], [8, 4]), ([9], [4, 4, 8])]
    parity = found_of(model, tmp_path, rows, 64)
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_any_of_several_ends_ends_a_translation_there_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    codec = Text(CODEC.tokenizer, SpecialTokens(other_eos=tuple(range(20, 30))))
    model = translator(TransformerConfig(**SMALL), (codec,))
    CTranslate2().export(model, tmp_path)
    assert found_of(model, tmp_path, PAIRS, 64).different == 0


def test_int8_is_smaller_and_near_and_leaves_our_weights_alone(tmp_path: Path) -> None:
    design = TransformerConfig(width=64, depth=1, heads=4, ffn_width=256, position="Rotary()")
    network = build.build_encoder_decoder(design, WORDS, WORDS, joint=True).eval()
    model = replace(translator(design), network=network)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    sizes = {}
    for quantization in ("int8", ""):
        folder = tmp_path / (quantization or "float32")
        CTranslate2().export(model, folder, quantization)
        sizes[quantization] = (folder / "model.bin").stat().st_size
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    assert sizes["int8"] < 0.4 * sizes[""]
    parity = found_of(model, tmp_path / "int8", PAIRS, 64)
    assert 1e-4 < parity.largest < 0.5


# ---- what it refuses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            {"position": "RelativeBias()"},
            r"no counterpart of position: RelativeBias\(\); Sinusoidal\(\), Learned\(\), "
            r"Rotary\(\), null would do$",
        ),
        ({"position": "RelativeContent(16)"}, r"no counterpart of position: RelativeContent\(16\)"),
        (
            {"pattern": "Window(7)"},
            r"no counterpart of pattern: Window\(7\); Everything\(\) would do$",
        ),
        ({"token_types": 2}, "no counterpart of token_types: 2; 0 would do$"),
        ({"residual": False}, "no counterpart of residual: False; True would do$"),
        ({"kind": "recurrent"}, "no counterpart of kind: recurrent; transformer would do$"),
        ({"kind": "convolutional"}, "no counterpart of kind: convolutional"),
    ],
    ids=str,
)
def test_a_setting_without_counterpart_is_refused_by_its_name(
    setting: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    design: Any = network_of(**SMALL | setting)
    with pytest.raises(ValueError, match=f"^CTranslate2 has {sentence}"):
        CTranslate2().export(translator(design), tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_an_unknown_quantization_is_answered_with_those_there_are(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL)
    with pytest.raises(ValueError, match="no quantization 'int3'; there are int8, int8_float32"):
        CTranslate2().export(translator(design), tmp_path, "int3")


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    design = TransformerConfig(**SMALL)
    for folder, sentence in ((tmp_path, "is not empty"), (tmp_path / "mine.txt", "is a file")):
        with pytest.raises(ValueError, match=f"{sentence}; an export goes into a folder that is"):
            CTranslate2().export(translator(design), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_signs_that_it_cannot_put_are_refused(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL)
    for special, sentence in (
        (
            replace(CODEC.special_tokens, bos=(2, 1)),
            "before what is written, this model has 0 and 2$",
        ),
        (
            replace(CODEC.special_tokens, encoder_bos=(1, 4)),
            "before what is written, this model has 2 and 1$",
        ),
    ):
        codec = Text(CODEC.tokenizer, special)
        with pytest.raises(ValueError, match=sentence):
            CTranslate2().export(translator(design, (codec,)), tmp_path)
    other = Text(CODEC.tokenizer, replace(CODEC.special_tokens, eos=4))
    with pytest.raises(ValueError, match="ends both sides with one sign, these end with </s> and"):
        CTranslate2().export(translator(design, (CODEC, other)), tmp_path)
