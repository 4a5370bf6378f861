"""Every key of the library's own config classes, set to another value: read, idle or refused."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_transformers import BODY, BOTH, SMALL_GPT2, codec, cut, dressed
from torch import Tensor

from manyheads.interop.huggingface.config_keys import CONFIG_KEYS, EVERY, ROTARY
from manyheads.interop.huggingface.exporter import Transformers
from manyheads.interop.huggingface.family import Kind
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
from manyheads.interop.huggingface.importer import read_folder
from manyheads.interop.huggingface.keys import (
    Config,
    Field,
    Idle,
    Key,
    Keys,
    Left,
    Only,
    Read,
    Same,
    shorten_value,
)
from manyheads.modules.transformer import Tokens

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; pip install transformers"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers are not ours

READ_IDS = [[4, 5, 6, 7, 8, 9, 2], [10, 11, 2]]
SPECIAL_TOKEN_NAMES = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL: dict[str, tuple[str, str, Kind, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", "language", SMALL_GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", "language", BODY),
    "mistral": (
        "MistralForCausalLM",
        "MistralConfig",
        "language",
        {**BODY, "num_key_value_heads": 2, "sliding_window": 3},
    ),
    "bert": ("BertForSequenceClassification", "BertConfig", "masked", {**BODY, "num_labels": 3}),
    "marian": ("MarianMTModel", "MarianConfig", "translation", BOTH),
    "bart": ("BartForConditionalGeneration", "BartConfig", "translation", BOTH),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", "translation", BOTH),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", "translation", BOTH),
}
# What another value is, where one more, the contrary or a number does not say much.
OTHER: dict[str, Any] = {
    "activation_function": "silu",
    "hidden_act": "gelu_new",
    "architectures": ["Other"],
    "model_type": "t5",
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0},
    "dtype": "bfloat16",
    "transformers_version": "4.0.0",
    "problem_type": "multi_label_classification",
    "id2label": {"0": "x", "1": "y", "2": "z"},
    "label2id": {"x": 0},
    "classifier_dropout": 0.5,
    "return_dict": True,  # without it the library's own model fails
    "pruned_heads": {"0": [1]},
    "summary_type": "mean",
    "summary_activation": "tanh",
    "begin_suppress_tokens": [9],
    "forced_eos_token_id": 2,
    "sequence_bias": [[[9], 5.0]],
    "stop_strings": ["w3"],
    "temperature": 0.5,
    "early_stopping": "never",
}


# A size that is not the tensors' is refused by the tensor.
SIZES = ("its config.json asks for", "does not hold what its family computes there")


@pytest.fixture(scope="module", autouse=True)
def quiet() -> None:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: made(family, tmp_path_factory.mktemp(family)) for family in SMALL}


def made(family: str, folder: Path) -> Path:
    """A model as the library saves it, its weights large enough to tell one from another."""
    model_class, config_class, kind, settings = SMALL[family]
    torch.manual_seed(1)
    config = getattr(transformers, config_class)(**{**SPECIAL_TOKEN_NAMES, **settings})
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    dressed(codec(kind), kind, folder)
    # As here: what only fills a row or starts a text is not written.
    change(folder / "generation_config.json", suppress_tokens=[0, 1])
    return folder


def change(path: Path, **values: Any) -> None:
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **values}))


def other(name: str, value: Any) -> Any:
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2 + 0.1
    return 3 if value is None else "other"


@torch.no_grad()
def their_scores(folder: Path, family: str) -> list[Tensor]:
    model_class, _, kind, _ = SMALL[family]
    found = getattr(transformers, model_class)
    model = found.from_pretrained(folder, dtype=torch.float32).eval()
    ids = Tokens.padded(READ_IDS).ids
    seen = (torch.arange(ids.shape[1]) < torch.tensor([[len(s)] for s in READ_IDS])).long()
    written = {"decoder_input_ids": torch.tensor([[1, 9, 8], [1, 6, 5]])}
    more = written if kind == "translation" else {}
    out = model(input_ids=ids, attention_mask=seen, return_dict=True, **more).logits
    return cut(out, READ_IDS) if kind == "language" else list(out)


@torch.no_grad()
def our_scores(folder: Path) -> list[Tensor]:
    model = read_folder(folder).load()
    if model.kind == "translation":
        both = Tokens.padded(READ_IDS), Tokens.padded([[1, 9, 8], [1, 6, 5]])
        return list(model.network(*both))
    out = model.network(Tokens.padded(READ_IDS))
    return cut(out, READ_IDS) if out.dim() == 3 else list(out)


def ours_or_refused(folder: Path) -> tuple[list[Tensor], str]:
    try:
        return our_scores(folder), ""
    except ValueError as error:
        return [], str(error)


def alike(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a, b, atol=1e-4)
        for a, b in zip(some, others, strict=True)
    )


def of_class(family: str) -> dict[str, Any]:
    """The keys of a config class; what all of them share is looked at in one family."""
    held: dict[str, Any] = getattr(transformers, SMALL[family][1])().to_dict()
    own = {name: value for name, value in held.items() if family == "gpt2" or name not in EVERY}
    more = {"rope_scaling": None, "is_causal": True} if "rope_parameters" in held else {}
    return own | more


@pytest.mark.parametrize("family", SMALL)
def test_a_key_that_is_set_to_something_else_is_read_idle_or_refused(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    plain = their_scores(folders[family], family)
    assert alike(our_scores(folders[family]), plain)
    held = json.loads((folders[family] / "config.json").read_text())
    followed, refused = [], []
    for name, value in of_class(family).items():
        if name in WRITING:
            continue
        folder = tmp_path / name
        shutil.copytree(folders[family], folder)
        change(folder / "config.json", **{name: other(name, held.get(name, value))})
        key = CONFIG_KEYS[family].get(name)
        ours, said = ours_or_refused(folder)
        if not ours:
            assert name.removesuffix("s") in said or any(each in said for each in SIZES), said
            assert not isinstance(key, Idle), name
            refused.append(name)
            continue
        assert not isinstance(key, Only), name
        theirs = their_scores(folder, family)
        assert alike(ours, theirs), name
        if isinstance(key, Idle):
            assert alike(theirs, plain), name
        followed += [name] if not alike(theirs, plain) else []
    assert refused
    assert followed


@pytest.mark.parametrize("family", ["llama", "marian"])
def test_a_way_to_write_is_read_told_or_refused(
    family: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = json.loads((folders[family] / "generation_config.json").read_text())
    told, refused, followed = [], [], []
    before = written(folders[family], family)
    met = before[0][1]  # a token that it writes
    monkeypatch.setitem(OTHER, "eos_token_id", [2, met])
    monkeypatch.setitem(OTHER, "bad_words_ids", [[met]])
    monkeypatch.setitem(OTHER, "suppress_tokens", [0, 1, met])
    for name, value in vars(transformers.GenerationConfig()).items():
        if isinstance(WRITING[name], Idle) and name not in NOT_FASTER:
            continue  # speed, which its own tests are for, and what is not asked for here
        folder = tmp_path / name
        shutil.copytree(folders[family], folder)
        new = {name: other(name, plain.get(name, value))}
        change(folder / "generation_config.json", **new)
        try:
            notes = read_folder(folder).notes
        except ValueError as error:
            refused.append((name, str(error)))
            continue
        if notes:
            assert isinstance(WRITING[name], Left), name
            assert [note.split(":")[0] for note in notes] == [name]
            told.append(name)
            continue
        ours, theirs = written(folder, family)
        # The last may differ: a forced end takes its place there, a forced beginning counts there.
        assert ours[:11] == theirs[:11], name
        followed += [name] if (ours, theirs) != before else []
    assert not [name for name, sentence in refused if name not in sentence]
    assert not [name for name, _ in refused if not isinstance(WRITING[name], Only)]
    assert {"num_beams", "no_repeat_ngram_size", "repetition_penalty"} <= {*told}
    assert {"eos_token_id", "bad_words_ids", "suppress_tokens"} <= {*followed}


NOT_FASTER = ("bos_token_id", "forced_eos_token_id", "remove_invalid_values")


@torch.no_grad()
def written(folder: Path, family: str) -> tuple[list[int], list[int]]:
    """What both write by taking the likeliest token."""
    model = read_folder(folder).load()
    rows = [(READ_IDS[0], [1])[: 2 if model.kind == "translation" else 1]]
    return model.write(rows, 12)[0], Transformers(model, folder).write(rows, 12)[0]


def test_what_a_table_calls_read_is_asked_for(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a table cannot promise what no code does."""
    asked: set[str] = set()
    real = Config.get

    def get(config: Config, name: str, default: Any = None) -> Any:
        asked.add(name)
        return real(config, name, default)

    monkeypatch.setattr(Config, "get", get)
    for folder in folders.values():
        read_folder(folder)
    every = [item for keys in CONFIG_KEYS.values() for item in keys.items()]
    listed = {name for name, key in every if isinstance(key, Read)}
    # One model here has but one vocabulary.
    assert listed - asked == {"decoder_vocab_size"}


def test_the_docs_have_the_tables_that_the_code_reads_by() -> None:
    page = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")
    assert document_keys() in page


def document_keys() -> str:
    """Every key of every file and what becomes of it, as docs/interop.md has them."""
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
    """Those that are not the shared ones."""
    return {name: key for name, key in keys.items() if shared.get(name) != key}


def describe_key(key: Key) -> str:
    """What becomes of it, in words."""
    if isinstance(key, Read):
        return f"read: {key.what}{key.more if isinstance(key, Field) else ''}"
    if isinstance(key, Idle):
        return f"no effect: {key.why}"
    if isinstance(key, Same):
        return f"refused unless it equals {key.name}"
    if isinstance(key, Left):
        return f"not taken over, and reported; here: {key.how}"
    values = " or ".join("null" if one is None else shorten_value(one) for one in key.values)
    return f"refused unless {values}"


def format_keys(keys: Keys) -> str:
    """As a table of Markdown: keys of one meaning in one row."""
    rows: dict[str, list[str]] = {}
    for name, key in keys.items():
        rows.setdefault(describe_key(key), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {what} |" for what, names in rows.items()]
    return "\n".join(["| key | what `import` does with it |", "|---|---|", *lines])
