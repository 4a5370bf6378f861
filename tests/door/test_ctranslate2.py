import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from manyheads.codecs.text import Signs, Text
from manyheads.interop import ctranslate2, exports
from manyheads.modules import build
from manyheads.modules.build import Network

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 4, "inner": 24}
CODEC = Text.train([" ".join(a + b for a in "bdfgklmn" for b in "aeiou")], "word", 44)
WORDS = CODEC.size
VARIED: list[dict[str, Any]] = [
    {},
    {"order": "post", "embedding_norm": True},
    {"norm": "rms", "order": "post", "norm_epsilon": 0.01},
    {"norm": "rms", "bias": False, "feed_forward": "swiglu", "position": "rotary", "key_heads": 2},
    {"feed_forward": "gelu", "tied": False},
    {"feed_forward": "gelu-tanh", "tied": False, "head_bias": True},
    {"feed_forward": "silu", "head_bias": True, "embedding_norm": True},
    {"feed_forward": "geglu", "scaled": False},
    {"position": "learned", "longest": 20},
    {"position": "rotary", "longest_wave": 500.0, "width": 20},  # 5 channels: one does not turn
    {"position": "none", "key_heads": 1},
    {"longest_wave": 100.0},
    {"bias": False},
]


def installed() -> bool:
    try:
        return bool(exports.needed("ctranslate2"))
    except ValueError:
        return False


pytestmark = pytest.mark.skipif(not installed(), reason=exports.EXTRA)


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


def translator(design: Network, joint: bool = True) -> Any:
    return shaken(build.encoder_decoder(design, WORDS, WORDS, joint=joint))


# ---- what it writes --------------------------------------------------------------------------


@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_a_translation_is_scored_and_written_as_ours(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    design = Network(**SMALL | setting)
    network = translator(design)
    ctranslate2.translation(network, design, (CODEC, CODEC), tmp_path)
    parity = ctranslate2.translation_parity(
        network, (CODEC, CODEC), tmp_path, PAIRS, max_new_tokens=12
    )
    assert parity.largest < 1e-4
    assert (parity.different, parity.texts) == (0, len(PAIRS))


@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_a_language_model_scores_and_writes_on_as_ours(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    design = Network(**SMALL | setting)
    network = shaken(build.decoder(design, WORDS))
    ctranslate2.language(network, design, CODEC, tmp_path)
    texts = [[1, *row] for row in rows_of(3, 7, 1)]
    parity = ctranslate2.language_parity(network, CODEC, tmp_path, texts, max_new_tokens=10)
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_the_parity_of_another_network_is_far_off(tmp_path: Path) -> None:
    design = Network(**SMALL)
    ctranslate2.translation(translator(design), design, (CODEC, CODEC), tmp_path)
    parity = ctranslate2.translation_parity(translator(design), (CODEC, CODEC), tmp_path, PAIRS)
    assert parity.largest > 0.1
    assert parity.different > 0


def test_two_vocabularies_are_two_tokenizers(tmp_path: Path) -> None:
    target = Text.train(["one two three four five six seven"], "word", 40)
    design = Network(**SMALL)
    network = shaken(build.encoder_decoder(design, WORDS, target.size, joint=False))
    ctranslate2.translation(network, design, (CODEC, target), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.bin",
        "source.json",
        "source_vocabulary.json",
        "target.json",
        "target_vocabulary.json",
    }
    pairs = [(source, [4, 9, 10, 5][: len(source)]) for source, _ in PAIRS]
    parity = ctranslate2.translation_parity(
        network, (CODEC, target), tmp_path, pairs, max_new_tokens=12
    )
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_a_model_with_other_signs_is_framed_by_them(tmp_path: Path) -> None:
    # As a Marian or a BART of others: a sign before the source, and the padding to start with.
    signs = Signs(pad=5, stop=7, starts=(5,), opens=(6,), unknown=None)
    codec = Text(CODEC.tokenizer, signs)
    design = Network(**SMALL)
    network = translator(design)
    ctranslate2.translation(network, design, (codec, codec), tmp_path)
    assert (tmp_path / "tokenizer.signs.json").exists()
    rows = [([4, 8, 9], [8, 4]), ([9], [4, 4, 8])]
    parity = ctranslate2.translation_parity(network, (codec, codec), tmp_path, rows)
    assert parity.largest < 1e-4
    assert parity.different == 0


def test_int8_is_smaller_and_near_and_leaves_our_weights_alone(tmp_path: Path) -> None:
    design = Network(width=64, depth=1, heads=4, inner=256, position="rotary")
    network = build.encoder_decoder(design, WORDS, WORDS, joint=True).eval()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    sizes = {}
    for quantization in ("int8", ""):
        folder = tmp_path / (quantization or "float32")
        ctranslate2.translation(network, design, (CODEC, CODEC), folder, quantization)
        sizes[quantization] = (folder / "model.bin").stat().st_size
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    assert sizes["int8"] < 0.4 * sizes[""]
    parity = ctranslate2.translation_parity(network, (CODEC, CODEC), tmp_path / "int8", PAIRS)
    assert 1e-4 < parity.largest < 0.5


# ---- what it refuses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            {"position": "bias"},
            "no counterpart of position: bias; sinusoidal, learned, rotary, none would do$",
        ),
        ({"position": "content"}, "no counterpart of position: content"),
        ({"window": 8}, "no counterpart of window: 8; 0 would do$"),
        ({"types": 2}, "no counterpart of types: 2; 0 would do$"),
        ({"residual": False}, "no counterpart of residual: False; True would do$"),
        ({"kind": "recurrent"}, "no counterpart of kind: recurrent; transformer would do$"),
        ({"kind": "convolutional"}, "no counterpart of kind: convolutional"),
    ],
    ids=str,
)
def test_a_setting_without_counterpart_is_refused_by_its_name(
    setting: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    design = Network(**SMALL | setting)
    network = build.encoder_decoder(design, WORDS, WORDS, joint=True)
    with pytest.raises(ValueError, match=f"^CTranslate2 has {sentence}"):
        ctranslate2.translation(network, design, (CODEC, CODEC), tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_an_unknown_quantization_is_answered_with_those_there_are(tmp_path: Path) -> None:
    design = Network(**SMALL)
    with pytest.raises(ValueError, match="no quantization 'int3'; there are int8, int8_float32"):
        ctranslate2.translation(translator(design), design, (CODEC, CODEC), tmp_path, "int3")


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    design = Network(**SMALL)
    for folder, sentence in ((tmp_path, "is not empty"), (tmp_path / "mine.txt", "is a file")):
        with pytest.raises(ValueError, match=f"{sentence}; an export goes into a folder that is"):
            ctranslate2.translation(translator(design), design, (CODEC, CODEC), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_signs_that_it_cannot_put_are_refused(tmp_path: Path) -> None:
    design = Network(**SMALL)
    for signs, sentence in (
        (replace(CODEC.signs, starts=(2, 1)), "before what is written, this model has 0 and 2$"),
        (replace(CODEC.signs, opens=(1, 4)), "before what is written, this model has 2 and 1$"),
    ):
        codec = Text(CODEC.tokenizer, signs)
        with pytest.raises(ValueError, match=sentence):
            ctranslate2.translation(translator(design), design, (codec, codec), tmp_path)
    other = Text(CODEC.tokenizer, replace(CODEC.signs, stop=4))
    with pytest.raises(ValueError, match="ends both sides with one sign, these end with </s> and"):
        ctranslate2.translation(translator(design), design, (CODEC, other), tmp_path)
