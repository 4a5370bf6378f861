"""A vector is that of its text, whatever else is read."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from films import DESIGN, LINES, task_of

from manyheads.codecs.text import Text
from manyheads.modules.build import build_encoder, build_masked_lm
from manyheads.modules.config import change_kind
from manyheads.tasks.masked.vectors import embed


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_vector_is_that_of_its_text_whatever_the_batch(
    codec: Text, kind: Any, pooling: Any
) -> None:
    network = build_encoder(change_kind(DESIGN, kind), codec.size)
    vectors = embed(network, codec, LINES, pooling, tokens=60)
    assert vectors.shape == (40, 16)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(40), abs=1e-5)
    for line, vector in zip(LINES, vectors, strict=True):
        assert embed(network, codec, [line], pooling)[0] == pytest.approx(vector, abs=1e-5)


def test_vectors_come_from_the_encoder_whatever_stands_on_it(codec: Text) -> None:
    guessing = build_masked_lm(DESIGN, codec.size)
    raw = embed(guessing, codec, LINES[:3], normalise=False)
    guessing.head = torch.nn.Identity()
    assert embed(guessing, codec, LINES[:3], normalise=False) == pytest.approx(raw)
    reader = task_of("classification", codec).network()
    assert (embed(reader, codec, LINES) == embed(reader.encoder, codec, LINES)).all()


@pytest.mark.parametrize("asked", [{}, {"longest": 8}], ids=["of a learned position", "asked for"])
def test_a_text_longer_than_the_reach_is_cut_and_told(codec: Text, asked: Any) -> None:
    design = DESIGN if asked else replace(DESIGN, position="Learned(8)")
    network = build_encoder(design, codec.size)
    long = "film " * 20
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 8 tokens this encoder"):
        vectors = embed(network, codec, ["film", long], **asked)
    kept = codec.render(codec.encode(long)[:6])
    assert vectors[1] == pytest.approx(embed(network, codec, [kept])[0], abs=1e-5)


def test_what_cannot_be_made_a_vector_is_refused(codec: Text) -> None:
    network = build_encoder(DESIGN, codec.size)
    with pytest.raises(ValueError, match="texts come as a list, got one text"):
        embed(network, codec, "a film")
    with pytest.raises(ValueError, match="a text is pooled by first or mean, got 'last'"):
        embed(network, codec, ["a film"], "last")  # type: ignore[arg-type]
    assert embed(network, codec, []).shape[0] == 0
