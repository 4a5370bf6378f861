"""The command compare decoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from manyheads.cli.options import DeviceOption
from manyheads.cli.train import (
    PresetOption,
    RunsOption,
    SettingsArgument,
    add_file_options,
    catch_signals,
    file_options,
)

ABOUT = "Ways to decode a translation: token by token, CTC, mask-predict, latent codes."
EXAMPLE = (
    "Example: manyheads compare decoders --source train.de --target train.en --minutes 30 "
    "--out runs/decoders"
)


def compare_decoders(
    *,
    files: dict[str, Any],
    what: str,
    settings: SettingsArgument = None,
    out: RunsOption = None,
    preset: PresetOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Time for all of them together; sets the number of steps."),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Train models that decode token by token and models that decode in parallel, and compare them.

    Each is trained on the targets of the corpus and on the output of the first model (distilled).

    Prints one table for the validation set: BLEU, chrF, the share of repeated words, passes of the
    decoder, milliseconds per sentence, one at a time and 64 at once; decoders.png plots speed
    against quality.

    Ctrl-C stops after the current step; type the same command to continue.
    """
    from manyheads.cli.run_screen import show_progress
    from manyheads.decoders import (
        TARGETS,
        ask_for,
        draw_rows,
        format_rows,
        make_rivals,
        measure_ways,
        train_until,
    )
    from manyheads.learn import Request, refuse_minutes, resolve
    from manyheads.training.distributed import join_processes
    from manyheads.training.run import RECIPE, Run

    given = list(settings or [])
    if out is None:
        raise ValueError("the runs need a folder: --out runs/decoders")
    if any(one.partition("=")[0].strip() in ("network.kind", "data.teacher") for one in given):
        raise ValueError("kinds of networks and a teacher are compared; leave both out")
    if minutes is not None:
        refuse_minutes(minutes, given)
    if out.exists() and not any(out.glob(f"*/{RECIPE}")) and any(out.iterdir()):
        raise ValueError(f"{out} is there already and holds no runs; give --out a new folder")
    world = join_processes(device)
    if world.size > 1:
        raise ValueError("ways to write are timed by one process; start one")
    asked_for = Request("translation", given, files, world.device.type, preset=preset)
    first, corpus = resolve(asked_for)
    rivals, rows = make_rivals(max(first.network.depths)), list[dict[str, Any]]()
    share = None if minutes is None else minutes / (len(rivals) * len(TARGETS))
    with show_progress(True) as watch, catch_signals() as asked:
        for rival in rivals:
            for targets in TARGETS:
                watch.say(f"== {rival.name}, {targets}")
                run = Run(out / rival.folder(targets))
                request = ask_for(rival, targets, asked_for, out, rivals)
                if not train_until(request, run, corpus, watch, asked, minutes=share):
                    watch.say("stopped; the same command goes on from here")
                    raise typer.Exit(asked.code)
                rows += measure_ways(rival, targets, run, corpus.valid, str(world.device))
                kept = json.dumps(rows, indent=1, ensure_ascii=False)
                (out / "decoders.json").write_text(f"{kept}\n", encoding="utf-8")
    (out / "decoders.md").write_text(format_rows(rows) + "\n", encoding="utf-8")
    draw_rows(rows, out / "decoders.png")
    print(format_rows(rows))
    print(f"\nspeed against quality: {out / 'decoders.png'}")


def make_compare_decoders(what: str) -> Callable[..., None]:
    """Make the command: it has the files of translation except the teacher, which is a rival."""
    more = [one for one in file_options("translation") if one.name != "teacher"]
    return add_file_options(compare_decoders, what, more, EXAMPLE)
