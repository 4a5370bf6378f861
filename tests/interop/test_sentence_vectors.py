"""Folders of sentence-transformers: the same vectors here and there, or a sentence."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_folders import BERT, change, made

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.interop.export import export
from manyheads.interop.huggingface.exporter import write_folder
from manyheads.interop.huggingface.importer import read_folder
from manyheads.interop.importing import import_folder
from manyheads.models import load
from manyheads.modules.config import TransformerConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library are not ours

if find_spec("sentence_transformers") is None:
    pytest.skip("sentence-transformers is not installed", allow_module_level=True)

SENTENCES = ["A dog runs.", "Ein Hund rennt", "the film was long; a DOG The"]


def folder_of(folder: Path) -> Path:
    words = Text(Text.train(SENTENCES, "character", 40).tokenizer, SpecialTokens(encoder_bos=(1,)))
    network = TransformerConfig(**{**BERT, "position": "Learned(200)"}, scale_embeddings=False)
    write_folder(made("embedding", network, words, context=200), folder)
    return folder


def test_a_text_becomes_the_vector_that_sentence_transformers_gives(tmp_path: Path) -> None:
    import sentence_transformers as library  # seconds, which other tests need not wait for

    folder = folder_of(tmp_path / "in")
    texts = ["a DOG runs.", "The film", "ein"]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("sentence_bert_config.json", {"do_lower_case": True}),
        (
            "config_sentence_transformers.json",
            {"prompts": {"q": "the ", "d": ""}, "default_prompt_name": "q"},
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 5}),
        ("modules.json", {}),
    ]
    before = np.zeros(0)
    for number, (name, values) in enumerate(changes):
        if values:
            change(folder / name, **values)
        else:  # without Normalize
            change_list(folder / name)
        theirs = library.SentenceTransformer(str(folder), device="cpu").encode(texts)
        run = tmp_path / f"run{number}"
        import_folder(folder, run)
        ours = load(run, "cpu")
        assert np.abs(ours.embed(texts) - theirs).max() < 1e-5, name
        assert theirs.shape != before.shape or np.abs(theirs - before).max() > 1e-3, name
        before = theirs
    export(ours, "huggingface", tmp_path / "out")
    again = library.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert np.abs(again - before).max() < 1e-5


def change_list(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text())[:2]))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "1_Pooling/config.json",
        {"include_prompt": False},
        "include_prompt: False is not computed here; True would do",
    ),
    (
        "1_Pooling/config.json",
        {"word_embedding_dimension": 8},
        "1_Pooling: word_embedding_dimension is 8, the model's width 16",
    ),
    (
        "sentence_bert_config.json",
        {"transformer_task": "fill-mask"},
        "transformer_task: fill-mask is not computed here; nothing or feature-extraction would do",
    ),
    (
        "config_sentence_transformers.json",
        {"model_type": "SparseEncoder"},
        "model_type: SparseEncoder is not computed here; nothing or SentenceTransformer would do",
    ),
    (
        "config_sentence_transformers.json",
        {"default_prompt_name": "q"},
        "prompts are words by a name, and default_prompt_name is one of the names, got {} and q",
    ),
    (
        "sentence_bert_config.json",
        {"max_seq_length": "all"},
        "max_seq_length is a whole number from 1 up, got 'all'",
    ),
    ("config_sentence_transformers.json", {"new": 1}, "new is not known here, so nobody can tell"),
]


@pytest.mark.parametrize(("file", "values", "sentence"), REFUSED)
def test_what_changes_a_vector_is_refused_by_its_name(
    file: str, values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path)
    change(folder / file, **values)
    with pytest.raises(ValueError) as error:
        read_folder(folder)
    assert sentence in str(error.value)


def test_prompts_that_stand_before_no_text_are_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    change(folder / "config_sentence_transformers.json", prompts={"query": "query: ", "text": ""})
    assert read_folder(folder).notes == ["prompts: query (put them before a text)"]


def test_a_limit_that_only_the_tokenizer_has_cuts_texts_here_too(tmp_path: Path) -> None:
    import sentence_transformers as library

    folder, text = folder_of(tmp_path / "in"), " ".join(SENTENCES)
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    del settings["max_seq_length"]  # newer versions write none
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    for longest, kept in ((9, 9), (10**30, 200)):
        change(folder / "tokenizer_config.json", model_max_length=longest)
        import_folder(folder, tmp_path / f"run{longest}")
        ours = load(tmp_path / f"run{longest}", "cpu")
        theirs = library.SentenceTransformer(str(folder), device="cpu").encode([text])
        assert ours.task.recipe.data.context == kept
        assert np.abs(ours.embed([text]) - theirs).max() < 1e-5
