"""generate as a person types it."""

import json
from pathlib import Path

import books
import pytest
from typed import Command, Refuses

SHORT = ("--max-new-tokens", "12", "--device", "cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.language(tmp_path_factory.getbasetemp())


def objects(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_prompt_is_written_with_what_follows_it(manyheads: Command, model: Path) -> None:
    done = manyheads("generate", "--model", model, "--prompt", "the old", *SHORT)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the old")
    assert done.out.endswith("\n")
    assert len(done.out) > len("the old\n")


@pytest.mark.parametrize("how", [(), ("--temperature", "0"), ("--top-k", "3", "--seed", "4")])
def test_what_is_written_as_it_comes_is_what_is_written_at_once(
    how: tuple[str, ...], manyheads: Command, model: Path
) -> None:
    given = ("generate", "--model", model, "--prompt", "the old", *SHORT, *how)
    (one,) = objects(manyheads(*given, "--json").out)
    assert manyheads(*given).out == f"the old{one['text']}\n"


def test_the_same_seed_writes_the_same_and_another_does_not(
    manyheads: Command, model: Path
) -> None:
    given = ("generate", "--model", model, "--prompt", "the old", *SHORT, "--seed")
    one, same, other = (manyheads(*given, seed).out for seed in (1, 1, 2))
    assert one == same != other


def test_several_are_each_drawn_anew_and_set_apart(manyheads: Command, model: Path) -> None:
    given = ("generate", "--model", model, "--prompt", "a dog", "--count", "3", *SHORT)
    told = objects(manyheads(*given, "--json").out)
    assert [one["prompt"] for one in told] == ["a dog"] * 3
    assert len({str(one["text"]) for one in told}) == 3
    assert all(isinstance(one["score"], float) and one["score"] < 0 for one in told)
    line = "-" * 20
    assert manyheads(*given).out == "".join(f"a dog{one['text']}\n{line}\n" for one in told)


def test_the_prompt_may_come_on_stdin(manyheads: Command, model: Path) -> None:
    given = ("generate", "--model", model, *SHORT)
    typed = manyheads(*given, "--prompt", "a dog")
    for piped in (b"a dog", b"a dog\n", b"a dog\r\n"):
        assert manyheads(*given, stdin=piped) == typed


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_what_of_a_prompt_is_unknown_is_told(
    how: tuple[str, ...], manyheads: Command, model: Path
) -> None:
    done = manyheads("generate", "--model", model, "--prompt", "the old 猫犬", *SHORT, *how)
    told = "2 of 10 tokens of the prompt are unknown to the model\n"
    assert (done.code, done.err) == (0, told)


def test_a_text_that_ends_it_is_not_written(manyheads: Command, model: Path) -> None:
    given = ("generate", "--model", model, "--prompt", "a dog", "--min-new-tokens", "12", *SHORT)
    (full,) = objects(manyheads(*given, "--json").out)
    end = str(full["text"])[4]
    before, _, _ = str(full["text"]).partition(end)
    (cut,) = objects(manyheads(*given, "--json", "--stop", end).out)
    assert cut["text"] == before
    assert manyheads(*given, "--stop", end).out == f"a dog{before}\n"


def test_a_beam_finds_what_is_likelier_than_one_by_one(manyheads: Command, model: Path) -> None:
    given = ("generate", "--model", model, "--prompt", "a dog", *SHORT, "--json")
    more = ("--min-new-tokens", "12")
    (greedy,) = objects(manyheads(*given, *more, "--temperature", "0").out)
    (beam,) = objects(manyheads(*given, *more, "--beam", "8").out)
    assert beam["score"] >= greedy["score"]  # type: ignore[operator]


def test_a_beam_lists_as_many_as_are_asked_for(manyheads: Command, model: Path) -> None:
    given = ("generate", "--model", model, "--prompt", "a dog", *SHORT)
    three = objects(manyheads(*given, "--beam", "3", "--nbest", "3", "--json").out)
    assert len({str(one["text"]) for one in three}) == 3
    (named,) = objects(manyheads(*given, "--strategy", "beam", "--json").out)
    (wide,) = objects(manyheads(*given, "--beam", "5", "--json").out)
    assert named == wide
    assert manyheads(*given, "--strategy", "greedy").out == (
        manyheads(*given, "--temperature", "0").out
    )


def test_many_are_written_some_at_a_time(
    manyheads: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("generate", "--model", model, "--prompt", "a dog", *SHORT, "--count", "5", "--json")
    together = manyheads(*given).out
    monkeypatch.setattr("manyheads.tasks.language.commands.AT_ONCE", 2)
    assert manyheads(*given).out == together


def test_of_a_long_prompt_the_end_is_read_where_that_is_asked_for(
    manyheads: Command, refuses: Refuses, model: Path
) -> None:
    long = "the old dog sees a red cat. " * 3
    given = ("generate", "--model", model, *SHORT, "--prompt")
    refuses(
        "the prompt has 85 tokens and the context 32; shorten it, or read its end alone: "
        "--truncate, truncate=True",
        *given,
        long,
    )
    (whole,) = objects(manyheads(*given, long, "--truncate", "--json").out)
    (end,) = objects(manyheads(*given, long[-32:], "--truncate", "--json").out)
    assert whole["prompt"] == long
    assert whole["text"] == end["text"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ("--temperature", "inf"),
            "a temperature is a finite number from 0 (greedy) up, got inf",
        ),
        (
            ("--beam", "2", "--temperature", "0.5"),
            "a beam searches and a temperature of 0.5 draws; temperature=0 goes with a beam",
        ),
        (
            ("--beam", "2", "--count", "3"),
            "a beam finds the same each time, and --count asks for 3 drawn anew; "
            "leave out one of them",
        ),
        (
            ("--strategy", "greedy", "--temperature", "0.5"),
            "strategy=greedy takes what is likeliest, and a temperature of 0.5 draws; "
            "ask for one of them",
        ),
        (
            ("--prompt", "half \udcff"),
            "the prompt: '\\udcff' is half of a character, which is no text",
        ),
        (("--temperature", "-1"), "a temperature is a finite number from 0 (greedy) up, got -1.0"),
        (
            ("--temperature", "0", "--top-k", "3"),
            "--top-k, --top-p and --min-p narrow what is drawn; give a temperature too",
        ),
        (("--max-new-tokens", "0"), "--max-new-tokens is 1 or more, got 0"),
        (
            ("--beam", "2", "--stop", "x"),
            "stop ends a text that is written once; leave it out with a beam",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    given: tuple[str, ...], sentence: str, refuses: Refuses, model: Path
) -> None:
    refuses(sentence, "generate", "--model", model, "--device", "cpu", *given)


def test_what_is_not_utf_8_is_refused_with_its_place(refuses: Refuses, model: Path) -> None:
    refuses(
        "stdin:2: byte 3 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so",
        "generate",
        "--model",
        model,
        stdin=b"fine\nno\xff\n",
    )


@pytest.mark.parametrize("how", [("--temperature", "0"), ("--seed", "3"), ("--beam", "2")])
def test_where_a_sign_starts_a_text_it_is_written_from_nothing(
    how: tuple[str, ...], manyheads: Command, model: Path
) -> None:
    given = ("generate", "--model", model, "--max-new-tokens", "9", "--device", "cpu", *how)
    typed, piped = manyheads(*given, "--prompt", ""), manyheads(*given, stdin=b"")
    assert typed.code == 0, typed.err
    assert typed.out == piped.out
    assert len(typed.out) > 2
