"""Make the draft table and the draft head of a built-in model.

python results/builtin_drafts.py de-en --source train.de.gz --minutes 10

It does what `manyheads train drafts` does, and writes into the folder of the model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from manyheads.catalog import find_model
from manyheads.data.sources import read_lines
from manyheads.models import load
from manyheads.tasks.draft_file import DRAFTS, write_drafts
from manyheads.tasks.drafting import make_drafts
from manyheads.tasks.seq2seq.model import Translator


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("model", help="a name, de-en")
    options.add_argument("--source", type=Path, required=True, help="what it was trained to read")
    options.add_argument("--minutes", type=float, default=10)
    asked = options.parse_args()
    model = cast(Translator, load(asked.model, "cpu"))
    codec = model.task.codecs.source
    sources = codec.encode_all([*read_lines(asked.source)])
    made = make_drafts(model, [ids for ids in sources if ids], asked.minutes, print)
    folder = find_model(asked.model)
    write_drafts(folder, made)
    print(f"{folder / DRAFTS}: {(folder / DRAFTS).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
