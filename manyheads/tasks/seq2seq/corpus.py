"""From the files of a task to the data of a run: read, filter, encode, write."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.data.batches import Ints, split_off
from manyheads.data.filters import Report, filter_pairs, find_blank, some_left
from manyheads.data.shards import Shard, write_shard
from manyheads.data.sources import Example, kind_of, read_aligned, read_columns, read_lines
from manyheads.tasks.seq2seq.batches import PairShards
from manyheads.tasks.seq2seq.kinds import KINDS, write_held_out
from manyheads.tasks.seq2seq.parallel.config import ParallelConfig
from manyheads.tasks.seq2seq.settings import FILTERS, Kind, PairCodec, PairData, Seq2SeqRecipe
from manyheads.tasks.vocabulary import CHARACTERS_A_TOKEN
from manyheads.training.files import CORPUS, write_text

One = TypeVar("One")
ENCODED_AT_ONCE = 10_000  # lines
LOOKED_AT = 10_000  # pairs, whose words tell the two sides apart
SWAPPED = 0.4  # shares of known words, added over both sides
WHOSE = ", of those to validate on"
CAPITALS = "capitals.npy"  # index of each training pair's copy in ALL CAPS


@dataclass(frozen=True, eq=False)
class Codecs:
    """The tokenizers of source and target; one object where they are joint."""

    source: Text
    target: Text

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @property
    def special_tokens(self) -> tuple[SpecialTokens, SpecialTokens]:
        return self.source.special_tokens, self.target.special_tokens

    def save(self, folder: Path) -> None:
        if self.joint:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source.json")
            self.target.save(folder / "target.json")


@dataclass(frozen=True)
class PairCorpus:
    """The filtered examples of a task."""

    train: list[Example]
    valid: list[Example]
    report: Report

    def __str__(self) -> str:
        return f"{len(self.train):,} pairs to train on, {len(self.valid):,} to validate on"

    @property
    def tokens(self) -> int:
        """The approximate tokens of all pairs, on the longer side: there is no vocabulary yet."""
        read = sum(len(example.source) for example in self.train)
        written = sum(len(example.target) for example in self.train)
        return max(read, written) // CHARACTERS_A_TOKEN + len(self.train)


def gather(kind: Kind, data: PairData, seed: int = 0) -> PairCorpus:
    """Read all pairs; leave out bad ones, and report which and why."""
    if data.pairs is None and data.source is None:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not pairs of texts")
    report, given = Report(), bool(data.valid_source or data.valid_pairs)
    valid = list(read_held(kind, data, report)) if given else []
    if given and not valid:
        raise ValueError(
            f"{data.valid_pairs or data.valid_source} is empty: nothing to validate on"
        )
    filters = data.filters or FILTERS[kind]
    pairs = read_pairs(kind, data.source, data.target, data.pairs)
    train = list(filter_pairs(pairs, report, filters, held_out=valid))
    some_left(report)
    if kind == "answering" and all(one.target in one.source for one in train):
        report.remarks.append(
            "every answer stands in its text: `manyheads train pointing` learns to find it there, "
            "from far fewer questions"
        )
    copies = sum(one.source.strip() == one.target.strip() for one in train)
    if 2 * copies > len(train):
        report.remarks.append(f"{copies:,} of {len(train):,} targets are copies of their sources")
    for path in (data.pairs, data.valid_pairs):
        report.remarks += tell_unread_columns(path)
    if given:
        report.remarks += tell_swapped(train, valid)
    else:
        asked = [text_asked_about(one.source) for one in train]
        groups = asked if kind == "answering" else range(len(train))
        train, valid = hold_out(train, groups, data.held_out, seed)
    if not valid:
        raise ValueError(
            f"{len(train)} pairs are too few to hold some out for validation; "
            "give files for it, or 10 pairs at least"
        )
    return PairCorpus(train, valid, report)


def prepare(gathered: PairCorpus, recipe: Seq2SeqRecipe, folder: Path) -> None:
    """Train the tokenizer, unless the run starts from another, and write the corpus as ids.

    If a share is to be trained in ALL CAPS, the pairs that have capitals are written once more, in
    capitals, after the others. Pairs that the network cannot learn from are left out.
    """
    numbers, report = folder / "data", copy.deepcopy(gathered.report)
    numbers.mkdir(exist_ok=True)
    data, network, start = recipe.data, recipe.network, recipe.start_from
    if start is None:
        codecs = learn_codecs(recipe.codec, gathered.train, data.capitals)
    else:
        codecs = load_codecs(start)
    codecs.save(folder)
    longest = data.longest_tokens
    for name, examples in (("train", gathered.train), ("valid", gathered.valid)):
        sources = encode_lines(codecs.source, [example.source for example in examples])
        targets = encode_lines(codecs.target, [example.target for example in examples])
        most = longest - 1  # the end token counts too
        fits = [len(s) <= most and len(t) <= most for s, t in zip(sources, targets, strict=True)]
        if not any(fits):
            raise ValueError(
                f"nothing is left of the {name} pairs: all {len(fits)} are longer than "
                f"{longest} tokens; a larger data.longest_tokens would do"
            )
        over = list(compress(examples, [not fit for fit in fits]))
        whose = "" if name == "train" else WHOSE
        leave_out(report, over, f"longer than {longest} tokens{whose}", name == "train")
        if isinstance(network, ParallelConfig) and name == "train":
            fits = leave_out_refused(network, examples, sources, targets, fits, report)
        sources, targets = list(compress(sources, fits)), list(compress(targets, fits))
        if isinstance(network, ParallelConfig) and name == "valid":
            report.remarks += tell_refused(network, sources, targets)
        if name == "train":
            report.remarks += tell_unknown_tokens(codecs.source, sources, "read")
            report.remarks += tell_unknown_tokens(codecs.target, targets, "written")
        if data.capitals and name == "train":
            able = list(compress(examples, fits))
            where = add_capitals(codecs, able, sources, targets, most, network)
            np.save(numbers / CAPITALS, where)
        write_shard(numbers / f"{name}.source", sources, codecs.source.size)
        write_shard(numbers / f"{name}.target", targets, codecs.target.size)
    write_held_out(folder, compress(gathered.valid, fits))
    write_text(folder / CORPUS, f"{report}\n")


def tell_unknown_tokens(codec: Text, rows: Sequence[Any], what: str) -> Iterator[str]:
    """What a vocabulary lacks, as that of a run to start from may: the network never sees it."""
    met = sum(int((row == codec.special_tokens.unknown).sum()) for row in rows)
    if met:
        every = sum(map(len, rows))
        yield f"{met:,} of {every:,} tokens to be {what} are unknown to the vocabulary"


def refuse_ids(network: ParallelConfig, source: Any, target: Any) -> str:
    """Return why the network cannot write these ids for their source; empty if it can."""
    repeats = int((target[1:] == target[:-1]).sum())
    return network.refuse_pair(len(source) + 1, len(target), repeats)


def leave_out_refused(
    network: ParallelConfig,
    examples: Sequence[Example],
    sources: Sequence[Any],
    targets: Sequence[Any],
    fits: Sequence[bool],
    report: Report,
) -> list[bool]:
    """Return which pairs are kept; report those that the network cannot learn from."""
    left = list(fits)
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        reason = refuse_ids(network, source, target)
        if left[i] and reason:
            left[i] = False
            leave_out(report, [examples[i]], reason, True)
    if not any(left):
        raise ValueError(f"nothing is left of the train pairs: all {len(left)} are {reason}")
    return left


def tell_refused(
    network: ParallelConfig, sources: Sequence[Any], targets: Sequence[Any]
) -> Iterator[str]:
    """Yield a remark on pairs to validate on that the network cannot write, if there are any."""
    refused = [*filter(None, map(partial(refuse_ids, network), sources, targets))]
    if len(refused) == len(sources):
        raise ValueError(f"no loss can be measured: all pairs to validate on are {refused[0]}")
    if refused:
        told = f"{len(refused):,} of {len(sources):,} pairs to validate on are {refused[0]}"
        yield f"{told}: they count in the scores, not in the loss"


def add_capitals(
    codecs: Codecs,
    examples: Sequence[Example],
    sources: list[Any],
    targets: list[Any],
    most: int,
    network: Any = None,
) -> Ints:
    """Append the pairs in ALL CAPS after the others; return the index of each pair's copy.

    A pair that would be too long, or has unknown tokens, or that the network could not write, gets
    no copy and keeps its own index.
    """
    where = np.arange(len(examples))
    able = [i for i, example in enumerate(examples) if has_capitals(example)]
    read = encode_lines(codecs.source, [examples[i].source.upper() for i in able])
    written = encode_lines(codecs.target, [examples[i].target.upper() for i in able])
    reads, writes = codecs.special_tokens
    for i, source, target in zip(able, read, written, strict=True):
        unknown = (source == reads.unknown).any() or (target == writes.unknown).any()
        refused = isinstance(network, ParallelConfig) and refuse_ids(network, source, target)
        if not unknown and not refused and max(len(source), len(target)) <= most:
            where[i] = len(sources)
            sources.append(source)
            targets.append(target)
    return where


def has_capitals(example: Example) -> bool:
    """Whether both sides are in a script with capitals, and one of them has some."""
    both = f"{example.source} {example.target}"
    return both != both.lower() and all(map(has_cases, (example.source, example.target)))


def has_cases(text: str) -> bool:
    """Whether most letters have two cases: not those of Japanese text with a Latin name."""
    return 2 * sum(one.lower() != one.upper() for one in text) > sum(map(str.isalpha, text))


def encode_lines(codec: Text, lines: Sequence[str]) -> list[Any]:
    """Encode each line as an array: a list of Python integers would take ten times the memory."""
    rows = []
    for start in range(0, len(lines), ENCODED_AT_ONCE):
        some = codec.encode_all(lines[start : start + ENCODED_AT_ONCE])
        rows += [np.asarray(row, dtype=np.uint32) for row in some]
    return rows


def learn_codecs(codec: PairCodec, examples: Sequence[Example], capitals: float = 0.0) -> Codecs:
    """Train the tokenizers on the texts, and on a share of them in ALL CAPS.

    Not for a vocabulary of whole words: half of it would be words in capitals.
    """
    some: list[Example] = []
    if capitals and codec.kind != "word":
        some = [one for one in examples[:: round(1 / capitals)] if has_capitals(one)]
    train = partial(Text.train, kind=codec.kind, size=codec.size, normalize=codec.normalize)
    sources = chain((one.source for one in examples), (one.source.upper() for one in some))
    targets = chain((one.target for one in examples), (one.target.upper() for one in some))
    if codec.joint:
        both = train(chain(sources, targets))
        return Codecs(both, both)
    return Codecs(train(sources), train(targets))


def load_codecs(folder: Path) -> Codecs:
    if (folder / "source.json").exists():
        return Codecs(Text.load(folder / "source.json"), Text.load(folder / "target.json"))
    if not (folder / "tokenizer.json").exists():
        raise ValueError(f"{folder} has no tokenizer.json: it is not the folder of a run")
    both = Text.load(folder / "tokenizer.json")
    return Codecs(both, both)


def leave_out(report: Report, examples: Sequence[Example], reason: str, counted: bool) -> None:
    """Report examples that are left out; subtract those that were counted as kept."""
    for example in examples:
        report.kept -= int(counted)
        report.note(reason, example)


def load_pairs(folder: Path, name: str, codecs: Codecs) -> PairShards:
    source, target = (Shard(folder / "data" / f"{name}.{side}") for side in ("source", "target"))
    capitals = folder / "data" / CAPITALS
    drawn = name == "train" and capitals.exists()  # older runs do not have the file
    return PairShards(source, target, codecs.special_tokens, np.load(capitals) if drawn else None)


# ---- reading ---------------------------------------------------------------------------------


def tell_unread_columns(path: Path | None) -> Iterator[str]:
    """Yield a remark on a file with more than two columns, by its first line."""
    if path is None or kind_of(path) != ".tsv":
        return
    count = next((line.count("\t") + 1 for line in read_lines(path)), 0)
    if count > 2:
        yield f"{path} has {count} columns: 1 is read, 2 is written, the rest is left"


def tell_swapped(train: Sequence[Example], valid: Sequence[Example]) -> Iterator[str]:
    """Yield a remark if the validation sources have the words of the training targets, and the
    other way round.
    """
    some = train[:: 1 + len(train) // LOOKED_AT]
    read, written = collect_words(some)
    sources, targets = collect_words(valid)
    straight = share_known(sources, read) + share_known(targets, written)
    crossed = share_known(sources, written) + share_known(targets, read)
    if crossed > max(SWAPPED, 3 * straight):
        yield (
            "the validation sources look like targets, and the targets like sources: are the two "
            "files swapped?"
        )


def collect_words(examples: Sequence[Example]) -> tuple[set[str], set[str]]:
    """Return the words of all sources, and of all targets."""
    return (
        {word for one in examples for word in one.source.split()},
        {word for one in examples for word in one.target.split()},
    )


def share_known(words: set[str], known: set[str]) -> float:
    return len(words & known) / max(1, len(words))


def read_pairs(
    kind: Kind, source: Path | None, target: Path | None, pairs: Path | None
) -> Iterator[Example]:
    """Yield the examples of a task, from whichever files were given."""
    if pairs is None:
        yield from read_aligned(Path(source or ""), Path(target or ""))
    elif kind_of(pairs) == ".tsv":
        yield from read_columns(pairs)
    elif kind_of(pairs) == ".csv":
        raise ValueError(
            f"{pairs}: pairs come as .tsv, with a tab between source and target, or as .jsonl, "
            "this is '.csv'"
        )
    else:
        yield from KINDS[kind].records.examples(pairs)


def read_held(kind: Kind, data: PairData, report: Report) -> Iterator[Example]:
    """Yield the pairs to validate on; report those with an empty side, which measure nothing."""
    for example in read_pairs(kind, data.valid_source, data.valid_target, data.valid_pairs):
        if blank := find_blank(example):
            report.note(f"{blank}{WHOSE}", example)
        else:
            yield example


def hold_out(
    examples: list[One], groups: Sequence[Any], count: int, seed: int
) -> tuple[list[One], list[One]]:
    """Hold out about `count` examples at random, at most a tenth, those of a group together;
    return the others, and those.
    """
    count = min(count, len(examples) // 10)
    alone = range(len(examples))  # where one group has more than half of them
    chosen = draw_groups(groups, count, seed) or draw_groups(alone, count, seed)
    return split_off(examples, chosen)


def draw_groups(groups: Sequence[Any], count: int, seed: int) -> set[int]:
    """Return the numbers of at least `count` examples, if whole groups of at most half of all
    examples have so many.
    """
    members: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    several, chosen = [*members.values()], set[int]()
    for number in np.random.default_rng([seed, 1]).permutation(len(several)).tolist():
        if len(chosen) < count and len(chosen) + len(several[number]) <= len(groups) // 2:
            chosen |= {*several[number]}
    return chosen


def text_asked_about(source: str) -> str:
    """Return the text behind a question: "Who?\\nGoethe." -> "Goethe." """
    question, _, text = source.partition("\n")
    return text or question
