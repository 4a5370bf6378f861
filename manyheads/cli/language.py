"""generate, score."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.cli.options import (
    CHANCE,
    SEARCH,
    DeviceOption,
    LeastTokens,
    LengthPenalty,
    ModelOption,
    Seed,
    TopK,
    TopP,
    given,
    loaded_as,
    option,
)
from manyheads.tasks.music import commands as music

if TYPE_CHECKING:
    from manyheads.tasks.language.decoding import LanguageDecoding
    from manyheads.tasks.language.model import LanguageModel, Scored

MUSIC = "Writing music"
OF_TEXT = (
    "prompt",
    "max_new_tokens",
    "min_new_tokens",
    "stop",
    "repetition_penalty",
    "beam",
    "length_penalty",
    "as_json",
    "chat",
    "special",
    "keep_newline",
)
OF_MUSIC = (
    "prime",
    "seconds",
    "harmonize",
    "voice",
    "track",
    "voice_leading",
    "out",
    "only_midi",
    "soundfont",
)


def generate(
    context: typer.Context,
    model: ModelOption,
    prompt: Annotated[
        str | None, typer.Option(help="What to go on from; without it, all of stdin.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Write so many, each drawn anew.")] = 1,
    max_new_tokens: Annotated[int, typer.Option(help="Write no more than this.")] = 200,
    min_new_tokens: LeastTokens = 0,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text; may be given again.")
    ] = None,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate",
            help="Take the end of a prompt longer than the context; else refuse it.",
        ),
    ] = False,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Answer the prompt, put into the model's own chat template."),
    ] = False,
    special: Annotated[
        bool,
        typer.Option("--special", help="Read special tokens in the prompt as such, not as text."),
    ] = False,
    keep_newline: Annotated[
        bool, typer.Option("--keep-newline", help="Keep the line break that stdin ends with.")
    ] = False,
    prime: Annotated[
        Path | None,
        typer.Option(help="A MIDI file to play on from.", rich_help_panel=MUSIC),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Of new music, if it does not end before.", rich_help_panel=MUSIC)
    ] = music.SECONDS,
    harmonize: Annotated[
        Path | None,
        typer.Option(
            help="A MIDI file with a melody: write the other voices of a chorale.",
            rich_help_panel=MUSIC,
        ),
    ] = None,
    voice: Annotated[
        str,
        typer.Option(help="Which one it is: soprano, alto, tenor or bass.", rich_help_panel=MUSIC),
    ] = music.SOPRANO,
    track: Annotated[
        str | None,
        typer.Option(
            help="Which track of --harmonize is the melody, by number from 1 or by name.",
            show_default="the only one, the voice of four, or the highest",
            rich_help_panel=MUSIC,
        ),
    ] = None,
    voice_leading: Annotated[
        float,
        typer.Option(
            help="Of chorales: what parallel fifths, octaves and crossings of voices cost, in "
            "nats; 0: nothing.",
            rich_help_panel=MUSIC,
        ),
    ] = music.VOICE_LEADING,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .mid file, or a folder for 001.mid, 002.mid, ...; beside each a .wav to hear "
            "and a .png to see. Without it events are printed.",
            rich_help_panel=MUSIC,
        ),
    ] = None,
    only_midi: Annotated[
        bool, typer.Option("--only-midi", help="No .wav, no .png.", rich_help_panel=MUSIC)
    ] = False,
    soundfont: Annotated[
        Path | None,
        typer.Option(
            help="An .sf2 file for the .wav, played by fluidsynth.", rich_help_panel=MUSIC
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="0: the likeliest; more boldly the higher.",
            show_default="0.8, of music 1",
            rich_help_panel=CHANCE,
        ),
    ] = None,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            help="Only those with this share of the likeliest one's chance.",
            rich_help_panel=CHANCE,
        ),
    ] = 0.0,
    repetition_penalty: Annotated[
        float,
        typer.Option(help="Above 1: what was written is less likely.", rich_help_panel=CHANCE),
    ] = 1.0,
    seed: Seed = 0,
    beam: Annotated[
        int,
        typer.Option(
            help="Above 1: search with so many beginnings at once.", rich_help_panel=SEARCH
        ),
    ] = 1,
    length_penalty: LengthPenalty = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each: prompt, text, score.")
    ] = False,
    device: DeviceOption = None,
) -> None:
    """Write on: text from a prompt, word by word as it comes; or music, into MIDI files.

    Which of the two, and so which options there are, is the model's affair.
    """
    from manyheads.tasks.language.decoding import LanguageDecoding
    from manyheads.tasks.language.model import LanguageModel
    from manyheads.tasks.music.model import Musician

    typed = given(context)
    writers: tuple[type[LanguageModel | Musician], ...] = (LanguageModel, Musician)
    loaded = loaded_as(writers, model, device)
    if isinstance(loaded, Musician):
        refuse_others(typed, OF_TEXT, f"write text, {model} writes music")
        wanted = music.Wanted(prime, seconds, harmonize, voice, track, out, only_midi, soundfont)
        wanted.check(count, typed)
        if "voice_leading" in typed and loaded.task.codec.kind != "chorales":
            raise ValueError(f"--voice-leading is for models of chorales, {model} is none")
        options = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
        options |= {"temperature": 1.0 if temperature is None else temperature}
        options["voice_leading"] = voice_leading
        music.generate(loaded, wanted, count, {**options, "truncate": truncate})
        return
    refuse_others(typed, OF_MUSIC, f"write music, {model} writes text")
    if beam > 1 and count > 1:
        raise ValueError(
            f"a beam finds the same each time, and --count asks for {count} drawn anew; "
            "leave out one of them"
        )
    chance = (0.0 if beam > 1 else 0.8) if temperature is None else temperature
    how = LanguageDecoding(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        temperature=chance,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        seed=seed,
        beam=beam,
        length_penalty=length_penalty,
        truncate=truncate,
        special=special,
        chat=chat,
    )
    begin = prompt
    if begin is None:
        begin = piped() if keep_newline else piped().removesuffix("\n")
    write(loaded, begin, how, count, as_json)


def refuse_others(typed: set[str], names: tuple[str, ...], whose: str) -> None:
    """Refuse the options of models that write something else."""
    if name := next((name for name in names if name in typed), None):
        raise ValueError(f"{option(name)} is for models that {whose}")


def write(
    loaded: LanguageModel, begin: str, how: LanguageDecoding, count: int, as_json: bool
) -> None:
    if as_json or count > 1 or how.beam > 1:
        for one, *_ in loaded.write([begin] * count, how):
            told = {"prompt": begin, "text": one.text, "score": round(one.score, 4)}
            shown = one.text if how.chat else begin + one.text
            print(json.dumps(told, ensure_ascii=False) if as_json else shown, flush=True)
            if count > 1 and not as_json:
                print("-" * 20, flush=True)
        return
    pieces = loaded.stream(begin, how)
    first = next(pieces, "")  # what is refused is refused before anything is written
    print(first if how.chat else begin + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print(flush=True)


def score(
    model: ModelOption,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of stdin is a text of its own.")
    ] = False,
    stride: Annotated[
        int,
        typer.Option(
            help="Of a text longer than the context, move the window by so many tokens; "
            "0: half the context."
        ),
    ] = 0,
    context: Annotated[
        str, typer.Option(help="What comes before each text, and is not scored itself.")
    ] = "",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object a text, with each token's log-probability."),
    ] = False,
    device: DeviceOption = None,
) -> None:
    """How likely a model finds the text on stdin: bits per byte, perplexity."""
    from manyheads.tasks.language.model import NOTHING, LanguageModel

    loaded = loaded_as(LanguageModel, model, device)
    nothing = True
    for text in texts(lines):
        nothing = False
        # A blank line has its own, so that line n here is of line n there.
        found = loaded.score(text, stride, context) if text or not lines else NOTHING
        told = json.dumps(described(found), allow_nan=False) if as_json else summary(found)
        print(told if text or as_json else "", flush=True)
    if nothing:
        raise ValueError("there is nothing to score: stdin has no lines")


def texts(lines: bool) -> Iterator[str]:
    text = piped()
    if not lines:
        yield text
        return
    *whole, last = text.split("\n")
    yield from [*whole, last] if last else whole


def piped() -> str:
    """All of stdin, as text."""
    from manyheads.data.sources import decoded

    if sys.stdin.isatty():
        print("reading from the terminal; Ctrl-D ends", file=sys.stderr)
    raw = sys.stdin.buffer.read().split(b"\n")
    each = (line.removesuffix(b"\r") for line in raw)  # as a corpus is read
    return "\n".join(decoded(line, Path("stdin"), i) for i, line in enumerate(each, start=1))


def summary(found: Scored) -> str:
    if not found.logs:
        return "nothing is scored: a first token needs a start sign or --context before it"
    return (
        f"{found.bits_per_byte:.4f} bits per byte  perplexity {found.perplexity:.4g}  "
        f"{len(found.logs):,} tokens  {found.bytes:,} bytes"
    )


def described(found: Scored) -> dict[str, object]:
    return {
        "bits_per_byte": finite(found.bits_per_byte),
        "perplexity": finite(found.perplexity),
        "bytes": found.bytes,
        "tokens": [
            {"text": piece, "log": finite(round(log, 6))}
            for piece, log in zip(found.pieces, found.logs, strict=True)
        ],
    }


def finite(number: float) -> float | None:
    """JSON has no word for what is not finite but null."""
    return number if math.isfinite(number) else None
