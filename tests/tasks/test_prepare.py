"""A corpus is read, looked through and laid down as numbers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from designs import network_of
from small import pairs

from manyheads.data.filters import Filters
from manyheads.tasks.seq2seq.corpus import gather, load_codecs, load_pairs, prepare
from manyheads.tasks.seq2seq.settings import PairCodec, PairData, Seq2SeqRecipe
from manyheads.training.run import Run


def tsv(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    return path


def test_what_would_do_harm_is_left_out_and_told(tmp_path: Path) -> None:
    rows = pairs(30)
    data = PairData(pairs=tsv(tmp_path / "a.tsv", [*rows, ("du", ""), rows[0], ("lo", "x" * 50)]))
    gathered = gather("translation", data)
    assert len(gathered.train) + len(gathered.valid) == gathered.report.kept
    told = str(gathered.report)
    assert "left out: empty on one side" in told
    assert "left out: met before" in told
    assert "left out: one side over 6 times as long as the other" in told


def test_a_table_is_known_by_its_last_ending_in_capitals_too(tmp_path: Path) -> None:
    data = PairData(pairs=tsv(tmp_path / "A.TSV", pairs(30)))
    assert gather("translation", data).report.kept == 30
    records = tmp_path / "a.tsv.jsonl"
    rows = (json.dumps({"source": one, "target": other}) for one, other in pairs(30))
    records.write_text("\n".join(rows), encoding="utf-8")
    assert gather("translation", PairData(pairs=records)).report.kept == 30


def test_a_long_text_and_its_short_answer_are_no_mistake(tmp_path: Path) -> None:
    rows = [{"dialogue": f"{i} " * 3000, "summary": f"{i}"} for i in range(20)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert gather("summarization", PairData(pairs=path)).report.kept == 20
    strict = PairData(pairs=path, filters=Filters(ratio=6.0))
    with pytest.raises(ValueError, match="nothing is left of the corpus: 20 pairs read, 0 kept"):
        gather("summarization", strict)


def test_what_is_validated_on_is_not_trained_on(tmp_path: Path) -> None:
    rows = pairs(30)
    data = PairData(
        pairs=tsv(tmp_path / "a.tsv", rows), valid_pairs=tsv(tmp_path / "b.tsv", rows[:5])
    )
    gathered = gather("translation", data)
    assert [(e.source, e.target) for e in gathered.valid] == rows[:5]
    assert not {e[:2] for e in gathered.valid} & {e[:2] for e in gathered.train}


def test_too_little_to_validate_on_is_refused(tmp_path: Path) -> None:
    few, none = tsv(tmp_path / "a.tsv", pairs(8)), tsv(tmp_path / "b.tsv", [])
    with pytest.raises(ValueError) as error:
        gather("translation", PairData(pairs=few))
    assert str(error.value) == (
        "8 pairs are too few to hold some out for validation; "
        "give files for it, or 10 pairs at least"
    )
    with pytest.raises(ValueError, match=r"b\.tsv is empty: nothing to validate on"):
        gather("translation", PairData(pairs=few, valid_pairs=none))


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(("kind", "size"), [("word", 40), ("byte", 9), ("character", 30)])
def test_numbers_on_disk_render_to_the_text_they_came_from(
    tmp_path: Path, kind: Any, size: int, joint: bool
) -> None:
    data = PairData(pairs=tsv(tmp_path / "a.tsv", pairs(30)))
    gathered, run = gather("translation", data), Run(tmp_path / "run")
    run.create()
    recipe = Seq2SeqRecipe("translation", data, PairCodec(kind, size, joint))
    prepare(gathered, recipe, run.folder)
    codecs = load_codecs(run.folder)
    kept = load_pairs(run.folder, "train", codecs)
    assert codecs.joint == joint
    assert len(kept) == len(gathered.train)
    for i, example in enumerate(gathered.train):
        assert codecs.source.render(kept.source[i].tolist()) == example.source
        assert codecs.target.render(kept.target[i].tolist()) == example.target


def test_what_has_too_many_tokens_is_left_out_and_told(tmp_path: Path) -> None:
    data = PairData(pairs=tsv(tmp_path / "a.tsv", pairs(40)))
    gathered, run = gather("translation", data), Run(tmp_path / "run")
    run.create()
    before = gathered.report.kept
    shorter = replace(data, longest_tokens=6)
    prepare(gathered, Seq2SeqRecipe("translation", shorter, PairCodec("word", 40)), run.folder)
    kept = load_pairs(run.folder, "train", load_codecs(run.folder))
    assert 0 < len(kept) < len(gathered.train)
    assert kept.lengths().max() == 6
    told = (run / "corpus.txt").read_text(encoding="utf-8")
    assert "left out: longer than 6 tokens" in told
    assert f"{before - len(gathered.train) + len(kept)} kept" in told
    assert gathered.report.kept == before  # another run of the same corpus counts anew


def test_a_long_line_to_validate_on_is_neither_written_nor_measured(tmp_path: Path) -> None:
    data = PairData(
        pairs=tsv(tmp_path / "a.tsv", pairs(40)),
        valid_pairs=tsv(tmp_path / "b.tsv", [("ein Hund", "a dog"), ("lang " * 5000, "long")]),
    )
    gathered, run = gather("translation", data), Run(tmp_path / "run")
    run.create()
    shorter = replace(data, longest_tokens=20)
    prepare(gathered, Seq2SeqRecipe("translation", shorter, PairCodec("word", 40)), run.folder)
    assert len(load_pairs(run.folder, "valid", load_codecs(run.folder))) == 1
    lines = (run / "data" / "valid.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["source"] for line in lines] == ["ein Hund"]
    told = (run / "corpus.txt").read_text(encoding="utf-8")
    assert "1 left out: longer than 20 tokens, of those to validate on" in told


def test_a_pair_with_an_empty_side_is_not_validated_on(tmp_path: Path) -> None:
    rows = [("ein Hund", "a dog"), ("eine Katze", ""), ("", "a cat"), ("", "")]
    train = tsv(tmp_path / "a.tsv", [(f"ein Hund {i}", f"a dog {i}") for i in range(9)])
    data = PairData(pairs=train, valid_pairs=tsv(tmp_path / "b.tsv", rows))
    gathered = gather("translation", data)
    assert [one.target for one in gathered.valid] == ["a dog"]
    assert "2 left out: empty on one side, of those to validate on" in str(gathered.report)
    assert "1 left out: empty on both sides, of those to validate on" in str(gathered.report)
    assert "9 pairs read, 9 kept" in str(gathered.report)
    with pytest.raises(ValueError, match=r"b\.tsv is empty: nothing to validate on"):
        gather("translation", replace(data, valid_pairs=tsv(tmp_path / "b.tsv", rows[1:])))


def test_what_a_vocabulary_lacks_is_told(tmp_path: Path) -> None:
    """As where a run starts from one of another script: the network would learn from nothing."""
    data, other = (PairData(pairs=tmp_path / name) for name in ("a.tsv", "b.tsv"))
    tsv(tmp_path / "a.tsv", [(f"ja {i}", f"yes {i}") for i in range(20)])
    tsv(tmp_path / "b.tsv", [(f"{i} はい", f"yes {i}") for i in range(20)])
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    start = None
    for run, files in ((one, data), (two, other)):
        run.create()
        recipe = Seq2SeqRecipe("translation", files, PairCodec("character"), start_from=start)
        prepare(gather("translation", files), recipe, run.folder)
        start = run.folder
    told = [(run / "corpus.txt").read_text(encoding="utf-8") for run in (one, two)]
    assert "unknown" not in told[0]
    assert "\n  36 of 81 tokens to be read are unknown to the vocabulary\n" in told[1]
    assert "written" not in told[1]


def test_a_folder_without_a_vocabulary_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer\.json: it is not the folder of a run"):
        load_codecs(tmp_path)


CASED = [("Ich habe keine Zeit.", "I have no time."), ("Ein Hund!", "A dog!")] * 9
CASED = [(f"{one} {i}", f"{other} {i}") for i, (one, other) in enumerate(CASED)]


def in_capitals(tmp_path: Path, rows: list[tuple[str, str]], longest: int = 512) -> Run:
    data = PairData(pairs=tsv(tmp_path / "a.tsv", rows), longest_tokens=longest, capitals=0.5)
    gathered, run = gather("translation", data), Run(tmp_path)
    prepare(gathered, Seq2SeqRecipe("translation", data, PairCodec("byte")), run.folder)
    return run


def test_every_pair_lies_in_capitals_too(tmp_path: Path) -> None:
    run = in_capitals(tmp_path, CASED)
    codecs = load_codecs(run.folder)
    kept = load_pairs(run.folder, "train", codecs)
    assert kept.capitals is not None
    assert len(kept.source) == len(kept.target) == 2 * len(kept)
    for i, at in enumerate(kept.capitals):
        for shard, codec in ((kept.source, codecs.source), (kept.target, codecs.target)):
            plain, capital = (codec.render(shard[j].tolist()) for j in (i, at))
            assert capital == plain.upper() != plain


@pytest.mark.parametrize(
    ("rows", "longest"),
    [
        ([(f"猫が好き Tom {i}", f"I like cats {i}") for i in range(20)], 512),  # no capitals there
        ([(one.lower(), other.lower()) for one, other in CASED], 512),  # none are ever written
        ([(f"Ein ΐ{i % 10}", f"{i // 10} Dog") for i in range(20)], 8),  # has two signs more
    ],
)
def test_a_pair_that_cannot_be_in_capitals_stays_as_it_is(
    tmp_path: Path, rows: list[tuple[str, str]], longest: int
) -> None:
    kept = load_pairs(run := in_capitals(tmp_path, rows, longest), "train", load_codecs(run.folder))
    assert kept.capitals is not None
    assert kept.capitals.tolist() == list(range(len(kept)))
    assert len(kept.source) == len(kept)


def test_capitals_that_ctc_cannot_write_are_not_learned_from(tmp_path: Path) -> None:
    rows = [(f"{one}{i}", "ßaß") for one in "AB" for i in range(10)]  # SSASS needs 7 states of 6
    data = PairData(pairs=tsv(tmp_path / "a.tsv", rows), capitals=0.5)
    for kind, copies in (("ctc", 0), ("mask-predict", 18)):
        network, run = network_of(kind), Run(tmp_path / kind)
        run.folder.mkdir()
        recipe = Seq2SeqRecipe("translation", data, PairCodec("byte"), network, layout="padded")
        prepare(gather("translation", data), recipe, run.folder)
        kept = load_pairs(run.folder, "train", load_codecs(run.folder))
        assert len(kept) == 18
        assert len(kept.source) == 18 + copies
