"""What stands on a screen, wide and narrow, and in a log."""

import io

import pytest
from rich.console import Console

from manyheads.cli.run_screen import Screen
from manyheads.cli.screen import count_items
from manyheads.training.trainer import Sample, StepLog

NOTE = StepLog(12_000, 200_000, 3, 2.5, 1e-3, 123_456.0, 3700.0)
SAMPLE = Sample("[bold]read :dog: " + "x" * 200, "wanted", "written " + "y" * 200)


def shown(width: int, terminal: bool) -> str:
    file = io.StringIO()
    screen = Screen(Console(file=file, width=width, force_terminal=terminal, color_system=None))
    with screen:
        screen.say("z" * 300)
        screen.on_log(NOTE)
        screen.on_validate(12_000, {"bleu": 12.345}, [SAMPLE] * 3)
    return file.getvalue()


def test_a_log_has_a_line_for_each_thing_however_long() -> None:
    assert shown(80, terminal=False).splitlines() == [
        "z" * 300,
        "step  12,000 of 200,000  epoch 3  loss 2.500  rate 1.00e-03  123,456 tokens/s  "
        "1:01:40, 16:06:07 left",
        "step 12,000 validated: bleu 12.35",
        *[
            "    read     [bold]read :dog: " + "x" * 82 + "…",
            "    written  written " + "y" * 91 + "…",
        ]
        * 2,
    ]


@pytest.mark.parametrize(("width", "speed"), [(60, False), (100, True)])
def test_the_bar_fits_a_narrow_terminal(width: int, speed: bool) -> None:
    lines = [line.split("\r")[-1] for line in shown(width, terminal=True).splitlines()]
    *_, bar = (line for line in lines if "left" in line)
    assert "step 12,000 of 200,000 " in bar
    assert "loss 2.500" in bar
    assert "16:06:07 left" in bar
    assert ("123,456 tokens/s" in bar) == speed
    assert all(len(line) < width for line in lines if line.startswith("    "))


def test_items_pass_as_they_are_and_a_log_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.cli.screen.EVERY_SECONDS", 1000.0)
    assert list(count_items(iter("abc"), 3)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("manyheads.cli.screen.EVERY_SECONDS", 0.0)
    assert list(count_items(iter("ab"), 2, "pieces", "read")) == ["a", "b"]
    assert capsys.readouterr() == ("", "1 of 2 pieces read\n2 of 2 pieces read\n")


def test_the_bar_is_there_before_the_first_step() -> None:
    file = io.StringIO()
    with Screen(Console(file=file, width=80, force_terminal=True, color_system=None)) as screen:
        screen.on_start(0, 200)
        screen.bar.refresh()
        assert "step 0 of 200" in file.getvalue()


def test_what_is_counted_is_named() -> None:
    file = io.StringIO()
    with Screen(Console(file=file, width=80)) as screen:
        screen.on_log(NOTE._replace(unit="texts"))
    assert "123,456 texts/s" in file.getvalue()
