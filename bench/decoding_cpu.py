"""How fast are sentences translated on a CPU: ours against Hugging Face's `generate`.

    python bench/decoding_cpu.py                        a table on this machine
    python bench/decoding_cpu.py --json results/x.json  write the results to a file
    python bench/decoding_cpu.py --model de-en --sentences FILE   a trained model of ours as well
    python bench/decoding_cpu.py ... --references FILE  and how good its translations are
    python bench/decoding_cpu.py ... --only-model       that alone: FILE of --json keeps the rest
    python bench/decoding_cpu.py --quick                toy sizes, to see that it runs

One claim: of two networks of the same size, ours writes the same number of sentences and tokens in
less time. The weights are random and would never write an end token, so the lengths are forced.
Sources have 4 to 30 tokens, drawn once; those of 4 to 6, of 7 to 9 and so on are translated
together, with padding, and each output has exactly as many tokens as the longest of its group may
have. No sentence waits for a longer one: that would favour ours, which drops finished sentences.

Ours cuts a group into batches by its own default. Marian gets it in batches of several sizes,
longest first as in ours, and its fastest size counts. A group is translated in every way before the
next one, several turns, and the best turn of each way counts: the others contain other work of the
machine.

A second claim where CTranslate2 is installed: per CPU second, from text to text, a trained model in
8 bits writes at least 0.6 times as many sentences here as in CTranslate2, with a BLEU within 0.3.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

import torch

from manyheads.codecs.text import BOS, EOS, PAD
from manyheads.decoding.config import DecodingConfig
from manyheads.interop.ctranslate2 import CTranslate2
from manyheads.metrics.bleu import bleu
from manyheads.models import load
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.transformer import EncoderDecoder
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.writing import find_longest, write_targets

SHORTEST, LONGEST, APART = 4, 30, 3  # tokens of a source, and lengths in a group
SPECIAL = 4  # the first entries of the vocabulary are special tokens
BATCHES = (16, 32, 64, 128)  # batch sizes to try with Marian
BEAMS = (5, 1)
EXPORTS = ("int8", "float32")  # the precisions of CTranslate2
EXPORTED_TOKENS = 1024  # in a batch of CTranslate2: small enough that all threads stay busy


@dataclass(frozen=True)
class Size:
    """The sizes of both networks, and the number of sources."""

    width: int = 256
    depth: int = 4  # of the encoder and of the decoder, each
    heads: int = 4
    inner: int = 1024
    vocabulary: int = 8000
    sentences: int = 1000


TOY = Size(width=32, depth=1, heads=4, inner=64, vocabulary=100, sentences=20)

Group = tuple[int, list[list[int]]]  # number of tokens to write, and the sources
Translate = Callable[[Sequence[list[int]], int, int], int]  # sources, tokens each, beam -> written


def groups(size: Size) -> list[Group]:
    """Return sources grouped by similar length; most have about a dozen tokens, as captions do."""
    chance, found = Random(0), dict[int, list[list[int]]]()
    for _ in range(size.sentences):
        length = min(max(round(chance.lognormvariate(2.5, 0.4)), SHORTEST), LONGEST)
        to_write = SHORTEST - 1 + -(-(length - SHORTEST + 1) // APART) * APART
        words = [chance.randrange(SPECIAL, size.vocabulary) for _ in range(length)]
        found.setdefault(to_write, []).append(words)
    return sorted(found.items(), reverse=True)


# ---- the two -----------------------------------------------------------------------------------


def ours(size: Size) -> Translate:
    network = transformer(size)

    def translate(sources: Sequence[list[int]], tokens: int, beam: int) -> int:
        how = DecodingConfig(beam=beam, min_new_tokens=tokens, max_new_tokens=tokens)
        return sum(len(best.ids) for best, *_ in write_targets(network, sources, how))

    return translate


def transformer(size: Size) -> EncoderDecoder:
    shape = TransformerConfig(
        width=size.width,
        depth=size.depth,
        heads=size.heads,
        ffn_width=size.inner,
        norm_position="post",
    )
    return build_encoder_decoder(shape, size.vocabulary, size.vocabulary, joint=True).eval()


def marian(size: Size, batch: int) -> Translate:
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    sides = ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=size.vocabulary,
        d_model=size.width,
        **{f"{side}_layers": size.depth for side in sides},
        **{f"{side}_attention_heads": size.heads for side in sides},
        **{f"{side}_ffn_dim": size.inner for side in sides},
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=2 * LONGEST,
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
        attn_implementation="sdpa",
    )
    model: Any = MarianMTModel(config).eval()

    def translate(sources: Sequence[list[int]], tokens: int, beam: int) -> int:
        how = GenerationConfig(
            num_beams=beam,
            early_stopping=beam > 1,
            do_sample=False,
            use_cache=True,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
        ordered, written = sorted(sources, key=len, reverse=True), 0
        for first in range(0, len(ordered), batch):
            rows = [[*source, EOS] for source in ordered[first : first + batch]]
            ids = torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, rows)], True, PAD)
            with torch.inference_mode():
                found = model.generate(
                    input_ids=ids, attention_mask=(ids != PAD).long(), generation_config=how
                )
            written += found[:, 1:].numel()  # all have one length; without the start token
        return written

    return translate


def ways(size: Size) -> dict[str, Translate]:
    made = {"ours": ours(size)}
    try:
        made |= {f"Marian, batches of {batch}": marian(size, batch) for batch in BATCHES}
    except ModuleNotFoundError as missing:
        print(f"Marian: left out, `pip install {missing.name}` would do")
    return made


# ---- measuring ---------------------------------------------------------------------------------


def timed(translate: Translate, group: Group, beam: int) -> float:
    """Return the seconds for one group; refuse an output with another number of tokens."""
    tokens, sources = group
    began = time.perf_counter()
    written, asked = translate(sources, tokens, beam), tokens * len(sources)
    seconds = time.perf_counter() - began
    if written != asked:
        raise ValueError(f"{asked} tokens were asked for and {written} written")
    return seconds


def measured(size: Size, turns: int) -> list[dict[str, Any]]:
    """Return a row for each way and beam: the sum over groups of the best turn of each."""
    torch.manual_seed(0)
    work, translators, rows = groups(size), ways(size), []
    tokens = sum(each * len(sources) for each, sources in work)
    for beam in BEAMS:
        for translate in translators.values():
            timed(translate, work[0], beam)  # to warm up
        seconds = dict.fromkeys(translators, 0.0)
        for group in work:
            found = [
                [timed(each, group, beam) for each in translators.values()] for _ in range(turns)
            ]
            for name, turn in zip(translators, zip(*found, strict=True), strict=True):
                seconds[name] += min(turn)
        for name, total in seconds.items():
            rows.append(row(name, beam, size.sentences, tokens, total))
            print(shown(rows[-1]), flush=True)
    return rows


# ---- a trained model ---------------------------------------------------------------------------

Written = tuple[list[str], int]  # texts, and their number of tokens


def trained(
    name: str, sentences: list[str], references: list[str], turns: int
) -> list[dict[str, Any]]:
    """Time a trained model, which stops by itself, from text to text."""
    model, rows = cast(Translator, load(name, "cpu")), []
    with tempfile.TemporaryDirectory() as folder:
        rounded = cast(Translator, load(name, "cpu", precision="int8"))
        made = {f"ours, {name}": native(model), f"ours in 8 bits, {name}": native(rounded)}
        made |= exported(model, name, Path(folder))
        for beam in BEAMS:
            best = dict.fromkeys(made, float("inf"))
            busy = dict(best)
            found: dict[str, Written] = {}
            for _ in range(turns):
                for way, translate in made.items():
                    began, before = time.perf_counter(), time.process_time()
                    found[way] = translate(sentences, beam)
                    best[way] = min(best[way], time.perf_counter() - began)
                    busy[way] = min(busy[way], time.process_time() - before)
            for way, (texts, tokens) in found.items():
                rows.append(row(way, beam, len(sentences), tokens, best[way]))
                rows[-1]["cpu_seconds"] = busy[way]  # without the time of other processes
                if references:
                    rows[-1]["bleu"] = bleu(texts, references).value
                print(shown(rows[-1]), flush=True)
    return rows


def native(model: Translator) -> Callable[[list[str], int], Written]:
    def translate(sentences: list[str], beam: int) -> Written:
        best = [best for best, *_ in model.write(sentences, DecodingConfig(beam=beam))]
        return [one.text for one in best], sum(len(one.ids) for one in best)

    return translate


def exported(
    model: Translator, name: str, folder: Path
) -> dict[str, Callable[[list[str], int], Written]]:
    """Return the model in CTranslate2, with one worker for each thread that ours has."""
    try:
        import ctranslate2
    except ModuleNotFoundError:
        print("CTranslate2: left out, `pip install ctranslate2` would do")
        return {}
    source, target = model.task.codecs.source, model.task.codecs.target
    reading, writing = source.tokenizer, target.tokenizer

    def running(translator: Any) -> Callable[[list[str], int], Written]:
        def translate(sentences: list[str], beam: int) -> Written:
            rows = source.encode_all(sentences)
            longest = find_longest(DecodingConfig(), max(map(len, rows)))
            found = translator.translate_batch(
                [[reading.id_to_token(i) for i in row] for row in rows],
                beam_size=beam,
                max_batch_size=EXPORTED_TOKENS,
                batch_type="tokens",
                max_decoding_length=longest,
            )
            ids = [[writing.token_to_id(t) for t in one.hypotheses[0]] for one in found]
            return [target.render(row) for row in ids], sum(map(len, ids))

        return translate

    made, workers = {}, torch.get_num_threads()
    for numbers in EXPORTS:
        place = folder / numbers
        CTranslate2().export(model.portable(), place, numbers)
        translator = ctranslate2.Translator(str(place), inter_threads=workers, intra_threads=1)
        made[f"ours, {name}, CTranslate2 {numbers}"] = running(translator)
    torch.set_num_threads(workers)  # intra_threads changes torch's threads too
    return made


# ---- showing -----------------------------------------------------------------------------------


def row(way: str, beam: int, sentences: int, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        "way": way,
        "beam": beam,
        "seconds": seconds,
        "sentences_per_second": sentences / seconds,
        "tokens_per_second": tokens / seconds,
    }


def shown(row: dict[str, Any]) -> str:
    return (
        f"{row['way']:36}{row['beam']:>5}{row['seconds']:>9.2f}"
        f"{row['sentences_per_second']:>13.1f}{row['tokens_per_second']:>11,.0f}"
        + (f"{row['bleu']:>8.2f}" if "bleu" in row else "")
    )


def claims(rows: list[dict[str, Any]]) -> list[str]:
    """Compare ours with the fastest of Marian, both in this run."""
    found = []
    for beam in BEAMS:
        us = next(row for row in rows if (row["way"], row["beam"]) == ("ours", beam))
        them = [row for row in rows if row["way"].startswith("Marian") and row["beam"] == beam]
        if them:
            best = min(them, key=lambda row: row["seconds"])
            ratio = best["seconds"] / us["seconds"]
            found.append(f"beam {beam}: ours is {ratio:.2f} x {best['way']}")
    found += [claim for beam in BEAMS for claim in in_8_bits(rows, beam)]
    return found + [
        beside(row, other)
        for row in rows
        for other in rows
        if "CTranslate2" in row["way"]
        and (row["way"].rpartition(",")[0], row["beam"]) == (other["way"], other["beam"])
    ]


def in_8_bits(rows: list[dict[str, Any]], beam: int) -> Iterator[str]:
    """Compare int8 here with int8 in CTranslate2, by CPU time."""
    ours, theirs = (
        [row for row in rows if named in row["way"] and row["beam"] == beam]
        for named in ("in 8 bits", "CTranslate2 int8")
    )
    for us, them in zip(ours, theirs, strict=bool(theirs)):
        ratio = them["cpu_seconds"] / us["cpu_seconds"]
        said = f"beam {beam}: {us['way']} writes {ratio:.2f} x as many sentences a CPU second as "
        both = f", BLEU {us['bleu']:.2f} and {them['bleu']:.2f}" if "bleu" in us else ""
        yield said + them["way"] + both


def beside(exported: dict[str, Any], native: dict[str, Any]) -> str:
    """Compare an export with the original model."""
    ratio = native["seconds"] / exported["seconds"]
    said = f"beam {native['beam']}: {exported['way']} is {ratio:.2f} x {native['way']}"
    if "bleu" in native:
        said += f", BLEU {exported['bleu']:.2f} and {native['bleu']:.2f}"
    return said


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--turns", type=int, default=3, help="of which the best counts")
    options.add_argument("--model", help="also a trained model of ours: a name or a folder")
    options.add_argument("--sentences", type=Path, help="what it translates, one a line")
    options.add_argument("--references", type=Path, help="their translations, to count BLEU with")
    options.add_argument("--only-model", action="store_true", help="leave the other networks out")
    asked = options.parse_args()
    if (asked.model is None) != (asked.sentences is None):
        options.error("--model NAME and --sentences FILE come together")
    if asked.references and not asked.model:
        options.error("--references FILE are those of --model NAME and --sentences FILE")
    if asked.only_model and not (asked.model and asked.json and asked.json.exists()):
        options.error("--only-model takes a --model NAME, and --json FILE with the other rows")
    size, turns = (TOY, 1) if asked.quick else (Size(), asked.turns)
    machine = f"{os.cpu_count()} CPU cores, {torch.get_num_threads()} threads"
    machine += f", torch {torch.__version__}"
    print(f"{machine}\n{size}\n")
    titles = ("beam", 5), ("seconds", 9), ("sentences/s", 13), ("tokens/s", 11)
    titles += (("BLEU", 8),) if asked.references else ()
    print(f"{'way':36}" + "".join(f"{title:>{width}}" for title, width in titles))
    if asked.only_model:
        rows = [
            row for row in json.loads(asked.json.read_text())["rows"] if "cpu_seconds" not in row
        ]
    else:
        rows = measured(size, turns)
    if asked.model:
        sentences = asked.sentences.read_text().splitlines()
        references = asked.references.read_text().splitlines() if asked.references else []
        rows += trained(asked.model, sentences, references, turns)
    print("", *claims(rows), sep="\n")
    if asked.json:
        kept = {"machine": machine, "size": asdict(size), "rows": rows, "claims": claims(rows)}
        asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
