"""Models from elsewhere and to elsewhere, and whether they say the same there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.codecs.text import Signs, Text
from manyheads.config import write
from manyheads.interop import ctranslate2, huggingface, onnx, own, parity
from manyheads.interop.exports import Parity, worst, written_whole
from manyheads.interop.folders import (
    CHAT_TEMPLATE,
    TOKENIZER_CONFIG,
    read_chat,
    read_json,
    write_json,
)
from manyheads.models import load
from manyheads.modules.build import Network
from manyheads.modules.transformer import Tokens
from manyheads.tasks.classification.labels import LABELS, Labels
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelledData
from manyheads.tasks.language.chat import CHAT
from manyheads.tasks.language.corpus import TextCodec, TextData
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.language.settings import LanguageRecipe
from manyheads.tasks.masked import embedding
from manyheads.tasks.masked import settings as masked
from manyheads.tasks.masked.model import Embedder
from manyheads.tasks.masked.model import Reader as Understanding
from manyheads.tasks.music.model import Musician
from manyheads.tasks.seq2seq import settings as pairs
from manyheads.tasks.seq2seq.corpus import Codecs
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.settings import PairCodec, PairData
from manyheads.tasks.seq2seq.writing import Writing
from manyheads.tasks.seq2seq.writing import write as write_texts
from manyheads.training.averages import weights_of
from manyheads.training.config import Training
from manyheads.training.files import read_tensors, write_tensors, write_text
from manyheads.training.run import RECIPE, WEIGHTS, Run

Model = Translator | LanguageModel | Understanding
SAME = 1e-3  # between log-probabilities in 32 bits: more than rounding explains
AT_ONCE = 50  # texts that are compared together
TOKENS = 64  # of each text, and as many are written

# What a model is compared on, where no texts are given.
TEXTS = (
    "A dog runs across the wet grass.",
    "Ein Hund rennt \u00fcber das nasse Gras.",
    "Where is the nearest station, please?",
    "Ich habe heute keine Zeit.",
    "The film was long, but we liked the ending.",
    "Tom sagte, dass er morgen kommt.",
    "It costs 3.50 at most.",
    "She gave him the book that he had asked for.",
)


# ---- in --------------------------------------------------------------------------------------


def bring(folder: Path, out: Path, tell: Callable[[str], object] = lambda line: None) -> str:
    """A Hugging Face folder as a run of ours; gives the task that it is for.

    What its own library makes of a few texts is kept beside it, where that library is installed.
    """
    run = Run(out)
    with run.created():
        imported = huggingface.read(folder)
        codecs = imported.codecs()
        if imported.kind == "translation":
            Codecs(codecs[0], codecs[-1]).save(run.folder)
        else:
            codecs[0].save(run / "tokenizer.json")
        if imported.kind == "language" and (chat := read_chat(folder)):
            chat.save(run / CHAT)
        if imported.kind in ("classification", "labelling"):
            Labels(imported.labels).save(run / LABELS)
        elif imported.kind == "regression":
            Labels().save(run / LABELS)
        write_tensors(run / WEIGHTS, imported.weights, {"imported": str(folder)})
        run.text(RECIPE, write(recipe_of(imported, folder.resolve())))
        kind, notes = imported.kind, imported.notes
        del imported
        if notes:
            tell(f"left to the call: {', '.join(notes)}")
        keep_own(folder, run, tell)
    return kind


def keep_own(folder: Path, run: Run, tell: Callable[[str], object]) -> None:
    """What transformers makes of a few texts; refused where it is something else than here."""
    if find_spec("transformers") is None:
        tell("not compared with its own library: transformers is not installed")
        return
    model = load(run.folder, "cpu")
    if sum(tensor.numel() for tensor in model.network.parameters()) > own.MOST:
        tell("not compared with its own library: it is too large to be loaded a second time")
        return
    try:
        most = min(own.LONGEST, context_of(model))
        held = own.own_output(folder, kind_of(model), codecs_of(model), TEXTS, most)
        held |= own.own_vectors(folder, TEXTS) if isinstance(model, Embedder) else {}
    except Exception as error:  # whatever goes wrong in there is no fault of what is here
        first = str(error).strip().splitlines() or [type(error).__name__]
        tell(f"not compared with its own library, which fails: {first[0]}")
        return
    write_tensors(run / own.OWN, held, {"texts": list(TEXTS), "most": most})
    found = as_imported(model, run.folder)
    if not found.largest <= SAME:
        raise ValueError(
            f"{folder}: transformers computes something else from it than is computed here, by "
            f"{found.largest:.2g}; report it with its config.json"
        )
    tell(f"compared with its own library: largest difference {found.largest:.2g}")
    if found.different:
        tell(
            f"{found.different} of {found.texts} texts are read as other numbers there: "
            "its tokenizer.json is not what its own tokenizer does"
        )


def as_imported(model: Model, folder: Path) -> Parity:
    """The model against what was kept of it when it was imported."""
    held, note = read_tensors(folder / own.OWN)
    texts, most = note["texts"], note["most"]
    found = own.by_folder(model.network, kind_of(model), codecs_of(model), texts, most, held)
    if "vectors" in held and isinstance(model, Embedder):
        apart = float(np.abs(model.embed(texts) - held["vectors"].numpy()).max())
        found = found._replace(largest=worst([found.largest, apart]))
    return found


def recipe_of(imported: huggingface.Imported, folder: Path) -> Any:
    """What a run of such a model would be made by."""
    network, context = imported.network, imported.context
    size = imported.tokenizers[0].get_vocab_size()
    given = TextCodec("given", size)
    running = TextData(imported=folder, context=context)
    if imported.kind == "language":
        training = Training(best_by="loss")
        return LanguageRecipe("language", running, given, network, training)
    if imported.kind == "masked":
        return masked.Recipe("masked", running, given, network=network)
    if imported.kind == "embedding":
        how = imported.vectors
        return embedding.Recipe(
            "embedding",
            running,
            given,
            network,
            how.pooling,
            how.normalised,
            how.prompt,
            how.dimensions,
        )
    if imported.kind == "translation":
        both = PairCodec("given", size, joint=len(imported.tokenizers) == 1)
        data = PairData(imported=folder, longest_tokens=context)
        return pairs.Seq2SeqRecipe("translation", data, both, network, layout="padded")
    texts = LabelledData(imported=folder, longest_tokens=context)
    pooling = imported.pooling or "mean"
    return ClassificationRecipe(imported.kind, texts, given, network, pooling)


# ---- out -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """Where a model can go: what it needs there, and how it is written and compared."""

    needs: tuple[str, ...]
    send: Callable[[Model, Path, str], None]
    compare: Callable[[Model, Path, Sequence[str]], Parity]

    def missing(self) -> str:
        """The first library that is not there."""
        return next((name for name in self.needs if find_spec(name) is None), "")


def export(
    model: Model, to: str, folder: Path, texts: Sequence[str] = TEXTS, quantization: str = ""
) -> Parity:
    """Write the model for others to run, and compare it there with what it is here."""
    if to not in WAYS:
        raise ValueError(f"there is no way to {to!r}; there are {', '.join(WAYS)}")
    if quantization and to != "ctranslate2":
        raise ValueError(f"--quantization is for ctranslate2, {to} was asked for")
    refuse_music(model)
    model.network.cpu().float()
    WAYS[to].send(model, folder, quantization)
    return WAYS[to].compare(model, folder, texts)


def refuse_music(model: Any) -> None:
    if isinstance(model, Musician):
        raise ValueError(
            f"{model.name} is a model for music, whose voices, steps and pitches have no "
            "counterpart elsewhere; models of text are exported and verified"
        )


def design_of(model: Model) -> Network:
    return model.design if isinstance(model, Embedder) else model.task.design  # type: ignore[union-attr]


def kind_of(model: Model) -> Any:
    return "translation" if isinstance(model, Translator) else model.kind


def codecs_of(model: Model) -> list[Text]:
    if isinstance(model, Translator):
        codecs = model.task.codecs
        return [codecs.source] if codecs.joint else [codecs.source, codecs.target]
    return [model.task.codec if isinstance(model, LanguageModel) else model.codec]


def to_hugging_face(model: Model, folder: Path, quantization: str) -> None:
    design = design_of(model)
    named: dict[str, Any] = {"context": context_of(model)}
    if isinstance(model, Classifier):
        named["labels"] = model.task.labels.names
        named["pooling"] = None if model.kind == "labelling" else model.task.pooling
    elif isinstance(model, Embedder):
        named["pooling"] = model.pooling
        named["vectors"] = huggingface.Vectors(
            normalised=model.normalised, prompt=model.prompt, dimensions=model.dimensions
        )
    kind = kind_of(model)
    with written_whole(folder) as beside:
        huggingface.write(
            beside, kind, design, weights_of(model.network), codecs_of(model), **named
        )
        if isinstance(model, LanguageModel) and model.chat is not None:
            write_text(beside / CHAT_TEMPLATE, model.chat.template)
            held = read_json(beside / TOKENIZER_CONFIG)
            write_json(beside / TOKENIZER_CONFIG, {**model.chat.tokens, **held})


def context_of(model: Model) -> int:
    if isinstance(model, LanguageModel):
        return model.task.context
    if isinstance(model, Embedder):
        return model.context
    if isinstance(model, Classifier):
        return model.task.room
    return design_of(model).longest


def to_ctranslate2(model: Model, folder: Path, quantization: str) -> None:
    if isinstance(model, Translator):
        both = model.task.codecs.source, model.task.codecs.target
        ctranslate2.translation(model.network, design_of(model), both, folder, quantization)
    elif isinstance(model, LanguageModel):
        network: Any = model.network
        codec = model.task.codec
        ctranslate2.language(network, design_of(model), codec, folder, quantization)
    else:
        raise ValueError(
            f"CTranslate2 runs what writes, {model.name} is a model for {model.kind}; "
            "--to onnx or --to huggingface would do"
        )


def to_onnx(model: Model, folder: Path, quantization: str) -> None:
    network: Any = model.network
    if isinstance(model, Translator):
        both = model.task.codecs.source, model.task.codecs.target
        onnx.translation(network, design_of(model), both, folder)
    elif isinstance(model, LanguageModel):
        onnx.language(network, design_of(model), model.task.codec, folder)
    else:
        onnx.encoder(network, design_of(model), model.codec, folder)


# ---- the same there --------------------------------------------------------------------------


def by_hugging_face(model: Model, folder: Path, texts: Sequence[str]) -> Parity:
    """By transformers where it is installed; else as it is read back."""
    if find_spec("transformers") is not None:
        return together(
            parity.by_transformers(model.network, folder, some, signs_of(model))
            for some in batches(model, texts)
        )
    module = huggingface.read(folder).module()
    return together(parity.by_module(model.network, module, some) for some in batches(model, texts))


def by_ctranslate2(model: Model, folder: Path, texts: Sequence[str]) -> Parity:
    if isinstance(model, Translator):
        both = model.task.codecs.source, model.task.codecs.target
        network = model.network
        return together(
            ctranslate2.translation_parity(network, both, folder, some)
            for some in chunks(pairs_of(model, texts))
        )
    assert isinstance(model, LanguageModel)
    decoder: Any = model.network
    return together(
        ctranslate2.language_parity(decoder, model.task.codec, folder, some)
        for some in chunks(rows_of(model, texts))
    )


def by_onnx(model: Model, folder: Path, texts: Sequence[str]) -> Parity:
    if isinstance(model, Translator):
        both = model.task.codecs.source, model.task.codecs.target
        network = model.network
        return together(
            onnx.translation_parity(network, both, folder, some)
            for some in chunks(pairs_of(model, texts))
        )
    if isinstance(model, LanguageModel):
        decoder: Any = model.network
        return together(
            onnx.language_parity(decoder, model.task.codec, folder, some)
            for some in chunks(rows_of(model, texts))
        )
    return together(parity.by_onnx(model.network, folder, some) for some in batches(model, texts))


WAYS = {
    "huggingface": Way((), to_hugging_face, by_hugging_face),
    "ctranslate2": Way(("ctranslate2",), to_ctranslate2, by_ctranslate2),
    "onnx": Way(("onnx", "onnxscript", "onnxruntime"), to_onnx, by_onnx),
}


# ---- what is compared ------------------------------------------------------------------------


def together(found: Any) -> Parity:
    each = list(found)
    return Parity(
        worst([one.largest for one in each]),
        sum(one.different for one in each),
        sum(one.texts for one in each),
        each[0].by,
    )


def chunks(rows: Sequence[Any]) -> list[Sequence[Any]]:
    return [rows[i : i + AT_ONCE] for i in range(0, len(rows), AT_ONCE)]


def rows_of(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Texts as a language model reads them; half of what it reads at most, so that it can go on."""
    codec = model.task.codec
    most = min(TOKENS, max(1, model.task.context // 2))
    rows = [[*codec.signs.starts, *ids][:most] for ids in codec.encode_all(list(texts))]
    return [row for row in rows if row]


def pairs_of(model: Translator, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Texts and what the model writes for them."""
    encoded = model.task.codecs.source.encode_all(list(texts))
    sources = [ids[:TOKENS] for ids in encoded if ids]
    how = Writing(max_new_tokens=TOKENS)
    written = write_texts(model.network, sources, how, signs=model.signs)
    return [(ids, best.ids) for ids, (best, *_) in zip(sources, written, strict=True)]


def signs_of(model: Model) -> Signs:
    return codecs_of(model)[-1].signs


def batches(model: Model, texts: Sequence[str]) -> list[tuple[Tokens, ...]]:
    """What the network reads: a source and a target, or one text."""
    if isinstance(model, Translator):
        reads, writes = model.signs
        return [
            (
                Tokens.padded([[*reads.opens, *s, reads.stop] for s, _ in some], reads.pad),
                Tokens.padded([[*writes.starts, *t] for _, t in some], writes.pad),
            )
            for some in chunks(pairs_of(model, texts))
        ]
    if isinstance(model, LanguageModel):
        pad = model.task.codec.signs.pad
        return [(Tokens.padded(some, pad),) for some in chunks(rows_of(model, texts))]
    signs = model.codec.signs
    most = min(TOKENS, context_of(model)) - len(signs.opens) - 1
    encoded = model.codec.encode_all(list(texts))
    framed = [[*signs.opens, *ids[:most], signs.stop] for ids in encoded if ids]
    return [(Tokens.padded(some, signs.pad),) for some in chunks(framed)]
