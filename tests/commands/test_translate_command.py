"""translate as a person types it, mistakes and all."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import IO, cast

import pytest
from typed import SETTINGS, Command, Files, Refuses, trained

from manyheads.decoding.config import DecodingConfig
from manyheads.models import load
from manyheads.tasks.seq2seq.model import AT_ONCE, Translator

FEW = ("--max-new-tokens", "3", "--device", "cpu")
UNREADABLE = "byte 1 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so"


def test_a_line_is_written_for_each_line_read_in_order(manyheads: Command, run: Path) -> None:
    lines = ["ba du", "", "ki", "du ba", "  ", "lo me nu"] * 12
    stdin = "".join(f"{line}\n" for line in lines).encode()
    done = manyheads("translate", "--model", run, *FEW, stdin=stdin)
    assert (done.code, done.err) == (0, "")
    alone = {line: manyheads("translate", "--model", run, *FEW, line).out for line in set(lines)}
    assert done.out == "".join(alone[line] for line in lines)
    assert alone["ba du"] == "one two\n"
    assert alone[""] == alone["  "] == "\n", "nothing read is nothing written"


def test_the_best_are_listed_with_their_scores(manyheads: Command, run: Path) -> None:
    given = ("--nbest", "3", "--beam", "4", "--length-penalty", "0.5")
    done = manyheads("translate", "--model", run, *FEW, *given, "ba du", " ", "ki")
    cells = [line.split("\t") for line in done.out.splitlines()]
    assert [number for number, *_ in cells] == ["1", "1", "1", "2", "3", "3", "3"]
    assert cells[3] == ["2", "", ""]
    assert len({text for _, _, text in cells[:3]}) == 3
    (best, *_), *_ = load(run, "cpu").write(
        ["ba du"], DecodingConfig(beam=4, nbest=3, length_penalty=0.5, max_new_tokens=3)
    )
    assert best.finished
    assert float(cells[0][1]) == pytest.approx(best.score, abs=1e-4)
    assert best.score == pytest.approx(best.log_prob / 3**0.5), "with the stop"
    scores = [float(score) for _, score, _ in cells[:3]]
    assert scores == sorted(scores, reverse=True), "what is shown is what ranks them"


def test_the_best_one_is_listed_like_several_where_it_is_asked_for(
    manyheads: Command, run: Path
) -> None:
    done = manyheads("translate", "--model", run, *FEW, "--nbest", "1", "ba du")
    assert [cell for cell in done.out.split("\t") if "-" not in cell] == ["1", "one two\n"]


def test_json_tells_scores_and_alignments(manyheads: Command, run: Path) -> None:
    given = ("--model", run, *FEW, "--min-new-tokens", "2", "--json", "--nbest", "2")
    done = manyheads("translate", *given, "ba du", "")
    read, empty = map(json.loads, done.out.splitlines())
    assert read["source"] == "ba du"
    assert read["words"] == ["ba", "du"]
    told = {"text", "score", "log_prob", "finished", "words", "alignment"}
    assert [set(one) for one in read["best"]] == [told] * 2
    best = read["best"][0]
    assert best["words"] == best["text"].split() == ["one", "two"]
    assert best["alignment"][0][1] == 0
    assert best["score"] == pytest.approx(best["log_prob"] / 3, abs=1e-3), "two words and the end"
    nothing = {"text": "", "score": 0.0, "log_prob": 0.0, "finished": True}
    assert empty["best"] == [{**nothing, "words": [], "alignment": []}]


def test_a_score_is_the_same_in_json_in_a_table_and_in_python(
    manyheads: Command, run: Path
) -> None:
    given = ("translate", "--model", run, *FEW, "--nbest", "2", "ba du")
    table = [line.split("\t")[1] for line in manyheads(*given).out.splitlines()]
    (line,) = manyheads(*given, "--json").out.splitlines()
    (python,) = load(run, "cpu").translate_nbest(["ba du"], 2, max_new_tokens=3)
    assert [f"{one['score']:.4f}" for one in json.loads(line)["best"]] == table
    assert [one.score for one in python] == pytest.approx([float(one) for one in table], abs=1e-4)


def test_a_line_of_several_sentences_is_written_whole(
    manyheads: Command, refuses: Refuses, run: Path
) -> None:
    long = "ba du\nnu ki\nlo me"
    given = ("translate", "--model", run, long, "--beam", "3")
    assert manyheads(*given).out == "one two six three four five\n"
    assert manyheads(*given, "--long", "truncate").out != "one two six three four five\n"
    refuses("long is one of split, truncate, refuse, got 'cut'", *given, "--long", "cut")


def test_one_endless_line_ends_nothing_for_the_others(manyheads: Command, run: Path) -> None:
    stdin = b"ba du\n" + b"ba" * 5_000 + b"\n" + b"ba " * 10_000 + b"\nnu ki\n"
    done = manyheads("translate", "--model", run, *FEW, stdin=stdin)
    assert (done.code, done.err) == (0, "")
    first, _, _, last = done.out.splitlines()
    assert (first, last) == ("one two", "six three")
    done = manyheads("translate", "--model", run, *FEW, "--long", "truncate", stdin=stdin)
    assert done.code == 0
    assert done.err == "line 3 has 10,000 tokens: the first 4,096 are read\n"


def test_a_network_without_attention_aligns_nothing(
    manyheads: Command, files: Files, tmp_path: Path
) -> None:
    given = ("--source", files[0], "--target", files[1], "--network", "recurrent")
    shared = [one for one in SETTINGS if "heads" not in one and "ffn_width" not in one]
    settings = [*shared, "network.score=none", "training.steps=2"]
    model = trained(tmp_path / "run", "translation", *given, settings=settings)
    asked = ("--model", model, *FEW, "--min-new-tokens", "1", "--json", "ba du")
    done = manyheads("translate", *asked)
    assert done.code == 0
    (best,) = json.loads(done.out)["best"]
    assert best["text"]
    assert best["alignment"] == []


def test_a_prefix_begins_all_that_is_written(manyheads: Command, run: Path) -> None:
    done = manyheads("translate", "--model", run, *FEW, "--prefix", "six five", "ba", "du")
    assert all(line.startswith("six five") for line in done.out.splitlines())
    assert len(done.out.splitlines()) == 2


def test_in_8_bits_the_same_is_written(manyheads: Command, refuses: Refuses, run: Path) -> None:
    done = manyheads("translate", "--model", run, *FEW, "--precision", "int8", "ba du")
    assert (done.code, done.out) == (0, "one two\n")
    assert cast(Translator, load(run, "cpu", precision="int8")).translate("ba du") == "one two"
    refuses(
        "a precision is float32, bfloat16 or int8, got 'int4'",
        *("translate", "--model", run, "--precision", "int4", "ba du"),
    )


def test_a_seed_draws_the_same_again_and_another_does_not(manyheads: Command, run: Path) -> None:
    given = ("translate", "--model", run, "--temperature", "2", *FEW, "ba du", "ki", "--seed")
    one, again, other = (manyheads(*given, seed).out for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_records_hold_texts_with_newlines(manyheads: Command, run: Path) -> None:
    stdin = b'{"source": "ba\\ndu"}\n\n{"text": "ki"}\n'
    done = manyheads("translate", "--model", run, "--records", "--json", *FEW, stdin=stdin)
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == ["ba\ndu", "ki"]


@pytest.mark.parametrize(
    ("task", "record", "source", "missing"),
    [
        (
            "summarization",
            {"document": "ba du\nki", "summary": "ba"},
            "ba du\nki",
            "document or dialogue or article or text or source",
        ),
        (
            "answering",
            {"question": "ba?", "context": "du\nki", "answers": ["du"]},
            "ba?\ndu\nki",
            "question",
        ),
    ],
)
def test_documents_and_questions_are_read_as_they_were_learned(
    task: str,
    record: dict[str, object],
    source: str,
    missing: str,
    manyheads: Command,
    refuses: Refuses,
    tmp_path: Path,
) -> None:
    pairs = tmp_path / "pairs.jsonl"
    first = next(iter(record))
    records = [{**record, first: f"{record[first]} {i}"} for i in range(20)]
    pairs.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    run = trained(tmp_path / "run", task, "--pairs", pairs)
    given = ("translate", "--model", run, "--records", *FEW)
    done = manyheads(*given, "--json", stdin=json.dumps(record).encode())
    assert json.loads(done.out)["source"] == source
    sentence = f"stdin:1: no text under {missing}; its keys are x"
    refuses(sentence, *given, stdin=b'{"x": "ba"}')


def test_each_question_of_a_record_is_answered(
    manyheads: Command, refuses: Refuses, tmp_path: Path
) -> None:
    questions = [{"question": f"{word}?", "answers": [word]} for word in ("ba", "du", "ki")]
    records = [{"context": f"ba du ki {i}", "qas": questions} for i in range(20)]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    run = trained(tmp_path / "run", "answering", "--pairs", pairs)
    given = ("translate", "--model", run, "--records", "--json", *FEW)
    done = manyheads(*given, stdin=json.dumps(records[0]).encode())
    sources = [json.loads(line)["source"] for line in done.out.splitlines()]
    assert sources == ["ba?\nba du ki 0", "du?\nba du ki 0", "ki?\nba du ki 0"]
    sentence = "stdin:1: qas is a list of questions, each an object with its answers"
    refuses(sentence, *given, stdin=b'{"context": "ba", "qas": 7}')
    long = {"context": "ba " * 5000, "question": "ba?"}
    done = manyheads(*given, stdin="\n\n".join(map(json.dumps, (records[0], long))).encode())
    assert done.err.startswith("line 3 has ")  # after three questions of line 1


@pytest.mark.parametrize(
    ("more", "sent"), [((), "{}\n"), (("--records",), '{{"source": "{}"}}\n\n')]
)
def test_who_sends_a_line_and_waits_is_answered(
    run: Path, more: tuple[str, ...], sent: str
) -> None:
    with started(run, *more) as process:
        for text, answer in (("ba du", b"one two\n"), ("nu ki", b"six three\n")):
            process.stdin.write(sent.format(text).encode())
            process.stdin.flush()
            assert process.stdout.readline() == answer
        process.stdin.close()
        assert process.stdout.read() == b""


def test_a_reader_that_leaves_early_is_no_mistake(run: Path) -> None:
    with started(run) as process:
        process.stdin.write(b"ba du\n" * 20)
        process.stdin.flush()
        assert process.stdout.readline(), "the first lines come while stdin is open"
        process.stdout.close()
        process.stdin.write(b"ba du\n" * 2000)
        process.stdin.close()
        assert process.stderr.read() == b""


class Piped(subprocess.Popen[bytes]):
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


def started(run: Path, *more: str) -> Piped:
    command = [sys.executable, "-m", "manyheads", "translate", "--model", str(run), *FEW, *more]
    pipe = subprocess.PIPE
    return Piped(command, stdin=pipe, stdout=pipe, stderr=pipe)


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("third", "more", "sentence"),
    [
        (b"\xff", (), f"stdin:3: {UNREADABLE}"),
        (
            b"ba " * 333_333,
            ("--long", "refuse"),
            "line 3 has 333,333 tokens, 4,096 are the most that are read at once; "
            "cut it into sentences",
        ),
        (b"{", ("--records",), "stdin:3:2: not JSON: Expecting property name enclosed in double "),
        (b"[]", ("--records",), "stdin:3: a JSON object was asked for, got a list"),
        (
            b'{"source": "\\ud800"}',
            ("--records",),
            "stdin:3: '\\ud800' is half of a character, which is no text",
        ),
    ],
)
def test_the_lines_before_one_that_cannot_be_read_are_written(
    third: bytes, more: tuple[str, ...], sentence: str, manyheads: Command, run: Path
) -> None:
    line = b'{"source": "ba du"}\n' if "--records" in more else b"ba du\n"
    stdin = 2 * line + third + b"\n" + line
    done = manyheads("translate", "--model", run, *more, *FEW, stdin=stdin)
    assert done.err.startswith(f"manyheads: {sentence}")
    assert len(done.err.splitlines()) == 1
    assert done.code == 2
    assert done.out == 2 * manyheads("translate", "--model", run, *FEW, "ba du").out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("--beam 0", "beam is 1 or more, got 0"),
        ("--nbest 6", "6 best were asked for, a beam of 5 finds 5 at most"),
        ("--nbest 0", "--nbest is 1 or more, got 0"),
        ("--temperature -1", "a temperature is a finite number from 0 (greedy) up, got -1.0"),
        (
            "--temperature nan",
            "a temperature is a finite number from 0 (greedy) up, got nan",
        ),
        (
            "--temperature 1 --beam 5",
            "a beam searches and a temperature of 1.0 draws; temperature=0 goes with a beam",
        ),
        (
            "--temperature 1 --nbest 2",
            "a --temperature draws one, --nbest lists what a beam found; ask for one",
        ),
        (
            "--top-p 0.5",
            "--top-k, --top-p and --min-p narrow what is drawn; give a temperature too",
        ),
        ("--top-p 2 --temperature 1", "--top-p is 1 at most, got 2.0"),
        (
            "--strategy beam --temperature 0.5",
            "strategy=beam takes what is likeliest, and a temperature of 0.5 draws; "
            "ask for one of them",
        ),
        (
            "--strategy greedy --beam 5",
            "a beam of 5 searches, and strategy=greedy does not; beam=1 goes with it",
        ),
        ("--strategy greedy --nbest 3", "3 best were asked for, a beam of 1 finds 1 at most"),
        ("--strategy sample", "strategy=sample draws, and needs a temperature above 0"),
        ("--top-k -2 --temperature 1", "--top-k is 0 or more, got -2"),
        ("--length-penalty -1", "--length-penalty is 0 or more, got -1.0"),
        ("--min-new-tokens 9 --max-new-tokens 3", "--min-new-tokens=9 is over --max-new-tokens=3"),
        ("--records", "--records reads stdin, and texts were given too; one of them is enough"),
        ("--device tpu", "a device is cpu or cuda, got 'tpu'"),
        ("\udcff", "line 2: '\\udcff' is half of a character, which is no text"),
        ("--prefix \udcff", "the prefix: '\\udcff' is half of a character, which is no text"),
    ],
)
def test_a_way_of_writing_that_cannot_be_is_refused(
    given: str, sentence: str, manyheads: Command, run: Path
) -> None:
    done = manyheads("translate", "--model", run, "ba", *given.split())
    assert done.err == f"manyheads: {sentence}\n"
    assert done.code == 2


def test_what_is_no_model_is_refused(refuses: Refuses, run: Path, tmp_path: Path) -> None:
    def asked(folder: object) -> tuple[object, ...]:
        return ("translate", "--model", folder, "ba")

    refuses("there is no model 'nope': it is no folder; built in: none", *asked("nope"))
    refuses(f"{tmp_path} holds no recipe.yaml: it is not the folder of a run", *asked(tmp_path))

    early = copytree(run, tmp_path / "early")
    (early / "weights.safetensors").unlink()
    refuses(
        f"{early} has no weights.safetensors yet; they are written at the first validation",
        *asked(early),
    )
    cut = copytree(run, tmp_path / "cut")
    whole = (cut / "weights.safetensors").read_bytes()
    (cut / "weights.safetensors").write_bytes(whole[:-5])
    refuses(
        f"{cut}/weights.safetensors is not a whole safetensors file (Error while deserializing "
        "header: incomplete metadata, file not fully covered); it was cut short or is something "
        "else",
        *asked(cut),
    )
    other = copytree(run, tmp_path / "other")
    recipe = (other / "recipe.yaml").read_text(encoding="utf-8")
    (other / "recipe.yaml").write_text(recipe.replace("width: 32", "width: 16"), encoding="utf-8")
    refuses(
        f"{other}/weights.safetensors belongs to another network: "
        "its encoder.embedding.table.weight is (16, 32), here it is (16, 16)",
        *asked(other),
    )


def test_a_foreign_tokenizer_is_refused(manyheads: Command, run: Path, tmp_path: Path) -> None:
    folder = copytree(run, tmp_path / "run")
    file = folder / "tokenizer.json"
    foreign = file.read_text(encoding="utf-8").replace("<pad>", "[PAD]").encode()
    for content in (b'{"model": "theirs"}', b"", foreign):
        file.write_bytes(content)
        done = manyheads("translate", "--model", folder, "ba")
        assert done.code == 2
        assert "tokenizer" in done.err
        assert len(done.err.splitlines()) == 1


def test_a_file_passes_through_with_few_lines_in_memory(run: Path) -> None:
    model = load(run, "cpu")
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "ba"

    written = model.write(lines())
    for number in range(1, 3 * AT_ONCE):
        next(written)
        assert taken - number <= AT_ONCE
