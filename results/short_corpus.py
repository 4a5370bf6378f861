"""Make the corpus that the demo trains on: short sentences of frequent words.

python results/short_corpus.py train.de.gz train.en.gz

It keeps the training pairs with 2 to 7 words on both sides that have only the 500 most frequent
words of such pairs; one translation for each German sentence.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from manyheads.data.sources import read_aligned
from manyheads.demo import CORPUS

FREQUENT = 500


def words(line: str) -> list[str]:
    return re.findall(r"\w+(?:'\w+)?|[^\w\s]", line.lower())


def frequent(lines: Iterable[str]) -> set[str]:
    counts = Counter(word for line in lines for word in words(line))
    return {word for word, _ in counts.most_common(FREQUENT)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("source", type=Path)
    options.add_argument("target", type=Path)
    asked = options.parse_args()
    short = [
        pair
        for pair in read_aligned(asked.source, asked.target)
        if all(2 <= len(line.split()) <= 7 for line in (pair.source, pair.target))
    ]
    known = [frequent(pair[side] for pair in short) for side in (0, 1)]
    kept: dict[str, str] = {}
    for pair in short:
        if all(set(words(pair[side])) <= known[side] for side in (0, 1)):
            kept.setdefault(pair.source, pair.target)
    lines = "".join(f"{source}\t{target}\n" for source, target in sorted(kept.items()))
    CORPUS.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(f"{len(kept):,} pairs, {CORPUS.stat().st_size / 1e3:.0f} kB: {CORPUS}")


if __name__ == "__main__":
    main()
