"""Models from elsewhere, as runs of ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config import write
from manyheads.interop.export import TEXTS
from manyheads.interop.exports import save_codecs
from manyheads.interop.huggingface import convert, own
from manyheads.interop.huggingface.folders import read_chat
from manyheads.interop.parity import SAME, Parity, worst
from manyheads.models import load
from manyheads.tasks.classification.labels import LABELS, Labels
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelledData
from manyheads.tasks.language.chat import CHAT
from manyheads.tasks.language.corpus import TextCodec, TextData
from manyheads.tasks.language.settings import LanguageRecipe
from manyheads.tasks.masked import embedding
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.portable import Portable, portable
from manyheads.tasks.seq2seq import settings as pairs
from manyheads.tasks.seq2seq.settings import PairCodec, PairData
from manyheads.training.config import Training
from manyheads.training.files import read_tensors, write_tensors
from manyheads.training.run import RECIPE, WEIGHTS, Run


def import_folder(
    folder: Path, out: Path, tell: Callable[[str], object] = lambda line: None
) -> str:
    """A Hugging Face folder as a run of ours; gives the task that it is for.

    What its own library makes of a few texts is kept beside it, where that library is installed.
    """
    run = Run(out)
    with run.created():
        imported = convert.read(folder)
        save_codecs(imported.codecs(), run.folder)
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
    model = portable(load(run.folder, "cpu"))
    if sum(tensor.numel() for tensor in model.network.parameters()) > own.MOST:
        tell("not compared with its own library: it is too large to be loaded a second time")
        return
    try:
        most = min(own.LONGEST, model.context)
        held = own.own_output(folder, model, TEXTS, most)
        held |= own.own_vectors(folder, TEXTS) if model.embed is not None else {}
    except Exception as error:  # whatever goes wrong in there is no fault of what is here
        first = str(error).strip().splitlines() or [type(error).__name__]
        tell(f"not compared with its own library, which fails: {first[0]}")
        return
    write_tensors(run / own.OWN, held, {"texts": list(TEXTS), "most": most})
    found = compare_as_imported(model, run.folder)
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


def compare_as_imported(model: Portable, folder: Path) -> Parity:
    """The model against what was kept of it when it was imported."""
    held, note = read_tensors(folder / own.OWN)
    found = own.by_folder(model, note["texts"], note["most"], held)
    if "vectors" in held and model.embed is not None:
        apart = float(np.abs(model.embed(note["texts"]) - held["vectors"].numpy()).max())
        found = found._replace(largest=worst([found.largest, apart]))
    return found


def recipe_of(imported: convert.Imported, folder: Path) -> Any:
    """What a run of such a model would be made by."""
    network, context = imported.network, imported.context
    size = imported.tokenizers[0].get_vocab_size()
    given = TextCodec("given", size)
    running = TextData(imported=folder, context=context)
    if imported.kind == "language":
        training = Training(best_by="loss")
        return LanguageRecipe("language", running, given, network, training)
    if imported.kind == "masked":
        return MaskedRecipe("masked", running, given, network=network)
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
