"""What an ONNX runtime computes is what the network does."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from manyheads.attention.places import line
from manyheads.codecs.text import Text
from manyheads.decoding.beam import beam
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.step import CachedStep
from manyheads.interop import format, onnx
from manyheads.interop.onnx import Onnx
from manyheads.interop.parity import compare, token_mask
from manyheads.modules import build
from manyheads.modules.config import NetworkConfig, RecurrentConfig, TransformerConfig
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Architecture, Portable

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 4, "ffn_width": 24}
CODEC = Text.train([" ".join(a + b for a in "bdfgklmn" for b in "aeiou")], "word", 44)
WORDS = CODEC.size
LENGTHS = (4, 1, 7)
VARIED: list[dict[str, Any]] = [
    {},
    {"norm_position": "post", "embedding_norm": True},
    {"norm": "rms", "bias": False, "feed_forward": "swiglu"},
    {"feed_forward": "gelu-tanh", "tied": False, "head_bias": True},
    {"position": "Learned(20)", "scale_embeddings": False},
    {"position": "Rotary()", "key_heads": 2},
    {"position": "RelativeBias()", "key_heads": 1},
    {"position": "RelativeContent(16)", "residual": False},
    {"position": None, "token_types": 2},
    {"pattern": "Window(2)"},
]


def rows_of(*lengths: int) -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(4, WORDS) for _ in range(length)] for length in lengths]


def filled(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """[[5, 6], [7]] -> [[5, 6], [7, 0]] and [[1, 1], [1, 0]]"""
    tokens = Tokens.padded(rows)
    return tokens.ids, token_mask(tokens)


def shaken(network: Any) -> Any:
    """With weights so large that every part of it matters, and what it writes is no one word."""
    for name, weight in network.named_parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=1.0)
        else:
            nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.1)
    return network.eval()


def described(architecture: Architecture, design: NetworkConfig, network: Any) -> Portable:
    return Portable(architecture, "toy", design, (CODEC,), design.places or 1024, network)


def installed() -> bool:
    try:
        return all(map(format.require, ("onnxscript", "onnxruntime")))
    except ValueError:
        return False


exported = pytest.mark.skipif(not installed(), reason=format.EXTRA)

# ---- what is exported is the network ---------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_the_plain_encoder_gives_the_states_of_the_network(setting: dict[str, Any]) -> None:
    network = shaken(build.build_encoder(TransformerConfig(**SMALL | setting), WORDS)).double()
    rows = rows_of(*LENGTHS)
    found = onnx.Understanding(network)(*filled(rows))
    wanted = network(Tokens.padded(rows))
    for i, row in enumerate(rows):
        torch.testing.assert_close(found[i, : len(row)], wanted[i, : len(row)])


@torch.no_grad()
@pytest.mark.parametrize("setting", VARIED, ids=str)
def test_the_plain_step_gives_the_scores_of_the_network(setting: dict[str, Any]) -> None:
    design = TransformerConfig(**SMALL | setting)
    network = shaken(build.build_encoder_decoder(design, WORDS, WORDS, joint=True)).double()
    sources, targets = rows_of(*LENGTHS), torch.tensor(rows_of(5, 5, 5))
    ids, mask = filled(sources)
    memory, step = onnx.Remembering(network)(ids, mask), onnx.Stepping(network.decoder)
    past = torch.zeros(2, 2, 3, design.key_heads or 4, 0, 4, dtype=torch.float64)
    first, past = step(targets[:, :2], past, memory, mask)
    second, _ = step(targets[:, 2:], past, memory, mask)
    wanted = network(Tokens.padded(sources), Tokens(targets, line(5)))
    torch.testing.assert_close(torch.cat([first, second], 1), wanted)


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["first", "mean", None])
def test_the_plain_reader_gives_the_verdict_of_the_network(pooling: Any) -> None:
    network = shaken(
        build.build_classifier(TransformerConfig(**SMALL), WORDS, outcomes=3, pooling=pooling)
    ).double()
    rows = rows_of(3, 5)
    found = onnx.Understanding(network)(*filled(rows))
    wanted = network(Tokens.padded(rows))
    if pooling is None:  # a verdict on each token: those of the padding are nobody's
        found, wanted = found[:, :3], wanted[:, :3]
    torch.testing.assert_close(found, wanted)


# ---- what the runtime computes ---------------------------------------------------------------


@exported
def test_a_translation_runs_at_other_sizes_than_it_was_traced_with(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL | {"depth": 1, "position": "RelativeBias()"})
    network = shaken(build.build_encoder_decoder(design, WORDS, WORDS, joint=True))
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    model = described("encoder-decoder", design, network)
    Onnx().export(model, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "encoder.onnx",
        "step.onnx",
        "tokenizer.json",
    }
    for lengths in ((3,), (1, 1), (9, 2, 5, 1, 6)):
        both = zip(rows_of(*lengths), rows_of(*reversed(lengths)), strict=True)
        pairs = [([*source, 2], [1, *target]) for source, target in both]
        found = compare(Onnx().open(model, tmp_path / "out"), pairs, 12)
        assert found.largest < 1e-4
        assert (found.different, found.texts) == (0, len(lengths))
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())

    # A beam keeps some sequences, drops others and goes on from others' words: so can the export.
    sources = rows_of(5, 2, 3)
    steps = (
        CachedStep(network.decoder, network.encode(Tokens.padded(sources))),
        Onnx().open(model, tmp_path / "out").step((Tokens.padded(sources),)),
    )
    start, bounds = torch.full((3, 1), 1), Bounds(stop=2, longest=8, never=(0, 1))
    ours, theirs = (beam(step, start, bounds) for step in steps)
    assert [best.ids for best, *_ in ours] == [best.ids for best, *_ in theirs]

    other = shaken(build.build_encoder_decoder(design, WORDS, WORDS, joint=True))
    found = compare(Onnx().open(replace(model, network=other), tmp_path / "out"), pairs)
    assert found.largest > 0.1


@exported
def test_a_language_model_writes_on_as_ours_does(tmp_path: Path) -> None:
    setting = {
        "position": "Rotary()",
        "key_heads": 2,
        "norm": "rms",
        "bias": False,
        "pattern": "Window(3)",
    }
    design = TransformerConfig(**SMALL | setting | {"depth": 1, "feed_forward": "swiglu"})
    network = shaken(build.build_decoder(design, WORDS))
    model = described("decoder", design, network)
    Onnx().export(model, tmp_path)
    for lengths in ((1,), (2, 9, 4)):
        texts = [([1, *row],) for row in rows_of(*lengths)]
        found = compare(Onnx().open(model, tmp_path), texts, 12)
        assert found.largest < 1e-4
        assert found.different == 0


@exported
def test_an_encoder_with_a_head_gives_its_scores(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL | {"depth": 1})
    network = shaken(build.build_classifier(design, WORDS, outcomes=3))
    Onnx().export(described("encoder", design, network), tmp_path)
    session = onnx.Session(tmp_path / "encoder.onnx")
    for lengths in ((4,), (1, 7, 3)):
        ids, mask = filled(rows_of(*lengths))
        (found,) = session(ids=ids, mask=mask)
        with torch.no_grad():
            wanted = network(Tokens.padded(rows_of(*lengths)))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


@exported
def test_an_encoder_that_tells_parts_apart_asks_which_is_which(tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL | {"depth": 1, "token_types": 3})
    network = shaken(build.build_classifier(design, WORDS, outcomes=3))
    model = described("encoder", design, network)
    Onnx().export(model, tmp_path / "out")
    session = onnx.Session(tmp_path / "out" / "encoder.onnx")
    rows = rows_of(1, 7, 3)
    (ids, mask), types = filled(rows), torch.arange(7).expand(3, 7).contiguous() % 3
    (found,) = session(ids=ids, mask=mask, types=types)
    with torch.no_grad():
        wanted = network(replace(Tokens.padded(rows), types=types))
        all_first = network(Tokens.padded(rows))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    assert (found - all_first).abs().max() > 0.1

    texts = [(row,) for row in rows]
    assert compare(Onnx().open(model, tmp_path / "out"), texts).largest < 1e-4
    with torch.no_grad():  # the comparison looks at every type
        network.encoder.embedding.types.weight[2] *= -1
    assert compare(Onnx().open(model, tmp_path / "out"), texts).largest > 0.1


@exported
@pytest.mark.parametrize("types", [0, 1])
def test_an_encoder_of_one_part_asks_for_no_types(types: int, tmp_path: Path) -> None:
    design = TransformerConfig(**SMALL | {"depth": 1, "token_types": types})
    network = build.build_classifier(design, WORDS, outcomes=3)
    Onnx().export(described("encoder", design, network), tmp_path)
    assert "types" not in onnx.Session(tmp_path / "encoder.onnx").inputs


# ---- what is refused -------------------------------------------------------------------------


def test_a_network_without_attention_is_refused_by_its_kind(tmp_path: Path) -> None:
    design = RecurrentConfig(width=16)
    network: Any = build.build_decoder(design, WORDS)
    sentence = "^kind: recurrent is not exported to ONNX; transformer is$"
    with pytest.raises(ValueError, match=sentence):
        Onnx().export(described("decoder", design, network), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@exported
def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    design = TransformerConfig(**SMALL)
    network: Any = build.build_decoder(design, WORDS)
    with pytest.raises(ValueError, match="is not empty; an export goes into a folder that is new"):
        Onnx().export(described("decoder", design, network), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_library_is_named_with_what_brings_it() -> None:
    with pytest.raises(ValueError, match=r"needs no_such_library; `pip install 'manyheads\[exp"):
        format.require("no_such_library")


def test_what_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(_: Onnx, model: Portable, folder: Path, quantization: str) -> None:
        (folder / "half").write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(Onnx, "write", fill)
    design = TransformerConfig(**SMALL)
    with pytest.raises(OSError, match="the disk is full"):
        Onnx().export(
            described("decoder", design, build.build_decoder(design, WORDS)), tmp_path / "out"
        )
    assert not any(tmp_path.iterdir())
