"""Make the tables of README.md, docs/results.md and docs/lab.md from the files in this folder.

python results/tables.py            print them
python results/tables.py --write    put them into their pages, between their marks; docs/settings.md
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.decoders import format_rows
from manyheads.lab.report import format_lab
from manyheads.tasks.describing import settings_of
from manyheads.tasks.table import TASKS, find_recipe

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
NAMES = (
    "translation.md",
    "results.md",
    "lab.md",
    "images.md",
    "graphs.md",
    "inspect.md",
    "parallel.md",
)
PAGES = (HERE.parent / "README.md", *(DOCS / name for name in NAMES))
SETTINGS = DOCS / "settings.md"
SETTINGS_HEAD = """# Settings

Every setting of a recipe. `manyheads train translation --settings` prints the settings of a task;
`python results/tables.py --write` makes this page from the code. Give a setting after a command, as
in `training.steps=20000`, or in a recipe. The preset (`--preset tiny`, `small`, `base`) sets the
rest, and the corpus and the machine choose the preset."""


def summary() -> str:
    """A few results of each kind, for a reader of only one table."""
    runs = HERE / "translation" / "multi30k-de-en"
    accuracy = json.loads((HERE / "language" / "accuracy.json").read_text())
    steps = speeds("training-h200.json")
    sampled = speeds("sampling-h200.json")
    searched = speeds("decoding-cpu.json")
    best = max(speed for (way, beam), speed in searched.items() if "Marian" in way and beam == 5)
    ours = steps["ours", "compiled"] / steps["nn.Transformer", "compiled"]
    drawn = sampled["ours", "recorded", 64]
    theirs = sampled["Hugging Face", "static cache, compiled", 64]
    rows = (
        ("Multi30k de→en, test 2016, beam 5: BLEU", f"{tested(runs, '2016'):.1f}"),
        (
            "— from the command to BLEU 40.9 on the validation set",
            f"{reached(runs, 40.9)[1]:.0f} seconds",
        ),
        ("tiny Shakespeare, characters: validation loss", f"{least_loss():.2f}"),
        (
            "TREC, six classes of questions: accuracy",
            f"{accuracy['trec-transformer']['test']:.1f} %",
        ),
        (
            "Bach's chorales, nats per note (Music Transformer: "
            f"{min(theirs for *_, theirs in CHORALES):.3f})",
            f"{min(likeliest(folder) for _, folder, _ in CHORALES):.3f}",
        ),
        (
            "training step of Transformer-base, compared with `nn.Transformer`, both compiled",
            f"{ours:.2f} × as fast",
        ),
        (
            "translating with beam 5 on two CPU cores, compared with Marian in transformers",
            f"{searched['ours', 5] / best:.2f} × as fast",
        ),
        (
            "sampling 64 texts at once from a GPT-2, compared with transformers, compiled",
            f"{drawn / theirs:.2f} × as fast",
        ),
    )
    head = "| measured on one NVIDIA H200, unless another machine is named | |\n|---|---|\n"
    return head + "\n".join(f"| {what} | {found} |" for what, found in rows)


def speeds(name: str) -> dict[tuple[Any, ...], float]:
    """Return speeds by network, way, batch and beam, if the rows of a file have them."""
    keys, units = ("network", "way", "batch", "beam"), ("tokens_per_second", "sentences_per_second")
    return {
        tuple(row[key] for key in keys if key in row): next(row[u] for u in units if u in row)
        for row in json.loads((HERE / name).read_text())["rows"]
    }


def claims() -> str:
    data = json.loads((HERE / "attention-h200.json").read_text())
    plain, local, plans = data["plain_causal"], data["local_growth"], data["planning"]
    worst = max(plain, key=lambda row: row["ratio"])
    farthest = max(local, key=lambda row: abs(row["linear"] - 1))
    taken = [row for row in plans if row["kernel"] == "varlen"]
    dearest = max(taken, key=lambda row: row["share"])
    lengths = f"{plain[0]['length']:,} to {plain[-1]['length']:,}"
    rows = [
        (
            f"plain causal attention through a plan, {lengths} tokens",
            f"{worst['ratio']:.3f} × torch's own call, in the worst case",
        ),
        (
            f"local attention, {local[0]['length']:,} to {local[-1]['length']:,} tokens",
            f"time per token {farthest['linear']:.3f} × that of the shortest, in the worst case",
        ),
        (
            f"planning {dearest['documents']} packed documents, {dearest['tokens']:,} tokens",
            f"{dearest['plan_ms']:.2f} ms, {dearest['share']:.1%} of a six-layer training step",
        ),
    ]
    head = f"| forward + backward, {data['machine']} | measured |\n|---|---|\n"
    return head + "\n".join(f"| {what} | {found} |" for what, found in rows)


def kernels() -> str:
    """Milliseconds by pattern and kernel at about 4,096 tokens, which all kernels ran."""
    data = json.loads((HERE / "attention-h200.json").read_text())
    table: list[dict[str, Any]] = data["table"]
    length = 4096
    names = ["reference", "sdpa", "varlen", "flex"]
    found: dict[str, dict[str, Any]] = {}
    for row in table:
        if row["length"] <= length:
            shorter = "" if row["length"] == length else f", {row['length']:,} tokens"
            found.setdefault(row["pattern"] + shorter, {})[row["kernel"]] = row
    batch = next(row["batch"] for row in table if row["length"] == length)
    lines = [
        f"| {batch} × {length:,} tokens, ms | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for pattern, by_kernel in found.items():
        lines.append(f"| {pattern} | {' | '.join(cell(by_kernel.get(name)) for name in names)} |")
    return "\n".join(lines)


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    text = f"{row['ms']:.2f}"
    return f"**{text}**" if row["taken"] else text


def translation() -> str:
    """Results of training on Multi30k, on one GPU, each run by one command."""
    runs = HERE / "translation"
    best, seconds = reached(runs / "multi30k-de-en", 40.9)
    rows = [
        ("de→en, validation, greedy, best BLEU of the run", f"{best:.1f}"),
        ("— seconds from the start of the command to BLEU 40.9", f"{seconds:.0f}"),
    ]
    for kind, name in (
        ("Transformer", "multi30k-de-en"),
        ("convolutional", "multi30k-de-en-convolutional"),
        ("recurrent with attention", "multi30k-de-en-recurrent"),
    ):
        rows.append((f"de→en, test 2016, beam 5, {kind}", f"{tested(runs / name, '2016'):.1f}"))
    tokenised = [tested(runs / "multi30k-en-de-tokenised", year) for year in ("2016", "2017")]
    rows.append(
        (
            "en→de, lower-cased and tokenised, test 2016 / 2017, beam 5",
            " / ".join(f"{value:.1f}" for value in tokenised),
        )
    )
    for name, what, score in (
        ("dialogsum", "DialogSum, three references, beam 5: ROUGE-L", "rouge_l"),
        ("squadshifts", "SQuADShifts, generated answers, trained from scratch, greedy: F1", "f1"),
        (
            "squadshifts-pointing",
            "SQuADShifts, extracted answers, from scratch, twelve minutes on one CPU core: F1",
            "f1",
        ),
        (
            "squadshifts-pointing-from-masked",
            "the same, five minutes as a masked language model, then seven of fine-tuning: F1",
            "f1",
        ),
    ):
        found = json.loads((runs / name / "test.json").read_text())["scores"][score]["value"]
        rows.append((what, f"{found:.1f}"))
    head = "| Multi30k and sacreBLEU unless named, one NVIDIA H200 | score |\n|---|---|\n"
    return head + "\n".join(f"| {what} | {found} |" for what, found in rows)


def reached(run: Path, bleu: float) -> tuple[float, float]:
    """Return the best score of a run, and the seconds from its start until it passed `bleu`."""
    started = json.loads((run / "wall.json").read_text())["started"]
    lines = [json.loads(line) for line in (run / "times.jsonl").read_text().splitlines()]
    scores = [(line["validated"]["bleu"], line["clock"]) for line in lines if "validated" in line]
    return max(scores)[0], next(clock for score, clock in scores if score >= bleu) - started


def tested(run: Path, name: str) -> float:
    value: float = json.loads((run / f"test-{name}.json").read_text())["scores"]["bleu"]["value"]
    return value


def training() -> str:
    """A training step of Transformer-base, ours and others'."""
    data = json.loads((HERE / "training-h200.json").read_text())
    lines = [
        "| Transformer-base, one training step | ms | target tokens/s | MFU |",
        "|---|---|---|---|",
    ]
    for row in data["rows"]:
        lines.append(
            f"| {row['network']}, {row['way']} | {row['ms']:.1f} | "
            f"{row['tokens_per_second']:,.0f} | {row['mfu']:.3f} |"
        )
    return "\n".join(lines)


def language() -> str:
    """Results of language modelling and text classification."""
    accuracy = json.loads((HERE / "language" / "accuracy.json").read_text())
    rows = [
        ("tiny Shakespeare, characters: validation loss, best of the run", f"{least_loss():.4f}")
    ]
    for corpus, name in (("sst2", "SST-2, phrases"), ("trec", "TREC, coarse")):
        for kind, told in (
            ("transformer", "Transformer from scratch"),
            ("from-masked", "Transformer pretrained as a masked language model"),
            ("recurrent", "LSTM"),
        ):
            found = accuracy[f"{corpus}-{kind}"]
            dev = f"{found['dev']:.1f} / " if "dev" in found else ""
            rows.append((f"{name}: {told}", f"{dev}{found['test']:.1f} %"))
    head = "| one NVIDIA H200 | loss; accuracy, dev / test |\n|---|---|\n"
    return head + "\n".join(f"| {what} | {found} |" for what, found in rows)


def least_loss() -> float:
    text = (HERE / "language" / "shakespeare" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    best: float = min(line["valid"]["loss"] for line in lines if "valid" in line)
    return best


def gpt2() -> str:
    """Training and sampling at the size of the smallest GPT-2, ours and others'."""
    lines = ["| GPT-2 124M | tokens/s | MFU |", "|---|---|---|"]
    for row in json.loads((HERE / "gpt2-training-h200.json").read_text())["rows"]:
        lines.append(
            f"| training step of 32 × 1024 tokens, {row['network']}, {row['way']} | "
            f"{row['tokens_per_second']:,.0f} | {row['mfu']:.3f} |"
        )
    for row in json.loads((HERE / "sampling-h200.json").read_text())["rows"]:
        lines.append(
            f"| sampling, batch of {row['batch']}, {row['network']}, {row['way']} | "
            f"{row['tokens_per_second']:,.0f} | |"
        )
    return "\n".join(lines)


def decoding() -> str:
    """Sentences per second on a CPU, ours and the best of the others."""
    rows = json.loads((HERE / "decoding-cpu.json").read_text())["rows"]
    lines = [
        "| 1,000 sentences on 2 CPU cores | ours | Marian in transformers | ours / Marian |",
        "|---|---|---|---|",
    ]
    for beam, name in ((5, "beam 5"), (1, "greedy")):
        speeds = {row["way"]: row["sentences_per_second"] for row in rows if row["beam"] == beam}
        best = max(speed for way, speed in speeds.items() if way.startswith("Marian"))
        ratio = speeds["ours"] / best
        lines.append(f"| {name}, sentences/s | {speeds['ours']:.0f} | {best:.0f} | {ratio:.2f} × |")
    return "\n".join(lines)


def commands() -> str:
    """The speed of `train`, with each set of options."""
    rows = json.loads((HERE / "train-translation-h200.json").read_text())["rows"]
    lines = ["| `manyheads train translation --preset base` | target tokens/s |", "|---|---|"]
    lines += [f"| {row['way']} | {row['tokens_per_second']:,.0f} |" for row in rows]
    return "\n".join(lines)


def translating() -> str:
    """Tokens per second on a GPU, ours and transformers'."""
    rows = json.loads((HERE / "decoding-h200.json").read_text())["rows"]
    lines = ["| Transformer-base, bfloat16, 32 tokens each | ours | Marian | ours / Marian |"]
    lines.append("|---|---|---|---|")
    for row in rows:
        name = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        name += f", batch of {row['batch']}, tokens/s"
        ours, theirs = row["ours"], row["Marian"]
        lines.append(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} × |")
    return "\n".join(lines)


def exported() -> str:
    """The same model in manyheads and exported, 1,000 sentences, beam 5."""
    rows = json.loads((HERE / "decoding-cpu.json").read_text())["rows"]
    lines = [
        "| built-in `de-en`, 1,000 sentences on 2 CPU cores, beam 5 | sentences/s "
        "| sentences per CPU second | BLEU |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if "bleu" in row and row["beam"] == 5:
            way = row["way"].replace("ours, de-en, ", "").replace("ours, de-en", "here")
            way = way.replace("ours in 8 bits, de-en", "here, `--precision int8`")
            speed = row["sentences_per_second"]
            busy = speed * row["seconds"] / row["cpu_seconds"]
            lines.append(f"| {way} | {speed:.0f} | {busy:.0f} | {row['bleu']:.2f} |")
    return "\n".join(lines)


def compared() -> str:
    """The table that compares architectures, from the output of `manyheads compare`."""
    rows = json.loads((HERE / "compared-short.json").read_text())
    lines = [
        "| network | BLEU | tokens/s | path length, 32 tokens | sequential steps "
        "| operations per layer |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        speed, millions = row["tokens_per_second"], row["operations_a_layer"] / 1e6
        lines.append(
            f"| {row['network']} | {row['bleu']:.1f} | {speed:,} | {row['path']} "
            f"| {row['sequential_steps']} | {millions:.1f} M |"
        )
    return "\n".join(lines)


CHORALES = (  # the model, its folder, and the value in Music Transformer's table
    ("absolute positions, added", "jsb-absolute", 0.417),
    ("absolute positions, concatenated", "jsb-absolute-concatenated", 0.398),
    ("the same, with voice labels", "jsb-absolute-concatenated-labels", 0.370),
    ("relative", "jsb-relative", 0.357),
    ("relative, positions concatenated, voice labels", "jsb-relative-concatenated-labels", 0.347),
    ("the same, relative also in time and pitch", "jsb-relative-pitch-and-time", 0.335),
)


def chorales() -> str:
    """Music Transformer's table of Bach's chorales, row by row; and the built-in model."""
    lines = ["| nats per note, validation split | ours | Music Transformer |", "|---|---|---|"]
    for what, folder, theirs in CHORALES:
        lines.append(f"| {what} | {likeliest(folder):.3f} | {theirs:.3f} |")
    lines.append(f"| built-in `chorales`: as row 5, 4,500 steps | {likeliest('chorales'):.3f} | |")
    return "\n".join(lines)


def local() -> str:
    """Local attention over images, as a share of the time of dense causal attention."""
    rows = json.loads((HERE / "local-h200.json").read_text())["rows"]
    lines = [
        "| image, three channels | tokens | dense, ms | local 2D, ms | local 1D, ms |",
        "|---|---|---|---|---|",
    ]
    for side in dict.fromkeys(row["side"] for row in rows):
        some = {row["what"]: row for row in rows if row["side"] == side}
        dense, cells = some.get("all before"), []
        for what in ("local 2D", "local 1D"):
            share = some[what]["ratio"]
            cells.append(f"{some[what]['ms']:.2f}" + (f" ({share:.2f} ×)" if share else ""))
        first = some["local 2D"]
        size = f"{first['batch']} of {side} × {side}"
        limit = f"{dense['ms']:.2f}" if dense else "not run"
        lines.append(f"| {size} | {first['tokens']:,} | {limit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def images() -> str:
    """Results on images, with the values of papers."""
    theirs = {
        ("best", "best"): "Image Transformer 2.90, PixelCNN++ 2.92, PixelCNN 3.14",
        ("memory", "local 1D, memory 8"): "4.06",
        ("memory", "local 1D, memory 16"): "3.47",
        ("memory", "local 1D, memory 64"): "3.13",
        ("memory", "local 1D, memory 256"): "2.99",
        ("mnist", "mnist"): "PixelCNN 81.30, PixelRNN 79.20",
    }
    lines = ["| | ours | papers | parameters | minutes |", "|---|---|---|---|---|"]
    for row in json.loads((HERE / "images-h200.json").read_text())["rows"]:
        found, cost = describe_image_row(row), ("", "")
        if "minutes" in row:
            cost = (f"{row['parameters']:,}", f"{row['minutes']:.1f}")
        paper = theirs.get((row["part"], row["name"]), "")
        lines.append(f"| {row['part']}: {row['name']} | {found} | {paper} | {' | '.join(cost)} |")
    return "\n".join(lines)


def describe_image_row(row: dict[str, Any]) -> str:
    match row["part"]:
        case "sampling":
            return f"{row['images_per_second']:.3g} images per second"
        case "growth":
            return f"{row['nanoseconds_per_token']:,.0f} ns per token"
        case "formats":
            return f"{row['bits_per_dim']:.3f} bits/dim"
        case "compression":
            equal, more = f"{row['bit_equal']:,} of {row['images']:,}", row["more_than_likely"]
            return (
                f"{row['bits_per_dim']:.3f} bits/dim, {equal} bit-equal, {more:+.2%} of likelihood"
            )
    name = "nats_per_image" if "nats_per_image" in row else "bits_per_dim"
    found = f"{row[name]['value']:.3f} ± {row[name]['error']:.3f} {name.replace('_', ' ')}"
    return found + "".join(
        f"; {what} {level:.1f} dB" for what, level in row.get("psnr", {}).items()
    )


def likeliest(folder: str) -> float:
    text = (HERE / "music" / folder / "metrics.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    best: float = min(line["valid"]["notes"] for line in found if "valid" in line)
    return best


def piano() -> str:
    """Held-out performances, in windows of the training length, and longer."""
    lines = [
        "| nats per event, windows of 1,024 / 2,048 events | ASAP | POP909 |",
        "|---|---|---|",
    ]
    named = {
        "relative": "relative positions",
        "absolute": "absolute positions",
        "lstm": "LSTM, two layers",
    }
    for folder, what in named.items():
        held = json.loads((HERE / "music" / f"piano-{folder}" / "held_out.json").read_text())
        cells = (
            " / ".join(f"{held[f'{corpus} {length}']:.3f}" for length in (1024, 2048))
            for corpus in ("asap", "pop")
        )
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def relative() -> str:
    """The cost of relative attention, forward and backward, with our kernel and others."""
    rows = json.loads((HERE / "relative-h200.json").read_text())["rows"]
    shapes = [*dict.fromkeys((row["batch"], row["length"]) for row in rows if row["batch"] > 1)]
    names = {
        "skewed": "fused, `skewed`",
        "skew, eager": "skewing",
        "skew, compiled": "skewing, compiled",
    }
    names["flex"] = "FlexAttention, products looked up"
    sizes = " | ".join(f"{batch} × {length:,}" for batch, length in shapes)
    lines = [
        f"| time / plain causal attention | {sizes} | GiB, {shapes[-1][0]} × {shapes[-1][1]:,} |"
    ]
    lines.append("|---" * (len(shapes) + 2) + "|")
    for name, told in names.items():
        of = {(row["batch"], row["length"]): row for row in rows if row["way"] == name}
        cells = " | ".join(f"{of[shape]['ratio']:.1f}" for shape in shapes)
        lines.append(f"| {told} | {cells} | {of[shapes[-1]]['gib']:.2f} |")
    return "\n".join(lines)


# ---- graphs ----------------------------------------------------------------------------------

SETS = {"esol": "ESOL", "freesolv": "FreeSolv", "lipo": "Lipophilicity", "bbbp": "BBBP"}
PUBLISHED = {"cora": (81.5, 83.0), "citeseer": (70.3, 72.5)}  # GCN and GAT, as their papers say


def graph_rows(data: str, relations: str | None = "default") -> list[dict[str, Any]]:
    path = HERE / "graphs.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [
        row
        for row in rows
        if row["data"] == data and row.get("relations") == relations and "error" not in row
    ]


def score_of(rows: list[dict[str, Any]], digits: int = 3) -> str:
    """Format the mean and the standard deviation of the score over seeds."""
    if not rows:
        return ""
    name = next(one for one in ("rmse", "auc", "accuracy") if one in rows[0])
    each = [row[name] for row in rows]
    shown = f"{np.mean(each):.{digits}f}"
    return f"{shown} ± {np.std(each):.{digits}f}" if len(each) > 1 else shown


def molecules() -> str:
    forest = json.loads((HERE / "graphs.json").read_text())["forest"]
    lines = ["| | test molecules | networks | ours, five runs | random forest |"]
    lines.append("|---|---|---|---|---|")
    for name, called in SETS.items():
        rows = graph_rows(name)
        unit = "AUC, higher is better" if name == "bbbp" else "RMSE, lower is better"
        about = f"{called}, {unit} | {rows[0]['examples']} | {rows[0].get('members', 1)}"
        lines.append(f"| {about} | {score_of(rows)} | {score_of(forest[name])} |")
    return "\n".join(lines)


def papers() -> str:
    lines = ["| accuracy, public split | runs | ours | GCN | GAT |", "|---|---|---|---|---|"]
    for name, (gcn, gat) in PUBLISHED.items():
        rows = graph_rows(name)
        cells = f"{len(rows)} | {score_of(rows, 1)} | {gcn} | {gat}"
        lines.append(f"| {name.capitalize()} | {cells} |")
    return "\n".join(lines)


def relations() -> str:
    lines = ["| `relations` | ESOL, RMSE | Cora, accuracy |", "|---|---|---|"]
    for name in ("none", "hops", "edges", "both"):
        esol, cora = graph_rows("esol", name), graph_rows("cora", name)
        lines.append(f"| `{name}` | {score_of(esol)} | {score_of(cora, 1)} |")
    return "\n".join(lines)


def edges() -> str:
    rows = graph_rows("10000 nodes", None)
    devices, counts = ({row[name] for row in rows} for name in ("device", "edges"))
    times = {(row["edges"], row["device"]): f"{row['ms_a_step']:.1f}" for row in rows}
    named = sorted(devices, reverse=True)
    heads = "".join(f" {one}, ms per step |" for one in named)
    lines = [f"| edges among {rows[0]['data']} |{heads}", "|---|" + "---|" * len(named)]
    for count in sorted(counts):
        cells = "".join(f" {times.get((count, one), '')} |" for one in named)
        lines.append(f"| {count:,} |{cells}")
    return "\n".join(lines)


GRAPHS = {  # each with its rows, if it was measured
    "molecules": (molecules, graph_rows("bbbp")),
    "papers": (papers, graph_rows("citeseer")),
    "relations": (relations, graph_rows("esol", "edges") and graph_rows("cora", "both")),
    "edges": (edges, graph_rows("10000 nodes", None)),
}


def tell_experiment(name: str) -> str:
    """The table and text of an experiment of the lab, and how long it took."""
    report = json.loads((HERE / "lab" / f"{name}.json").read_text())
    took = (
        f"{len(report['measured'])} seeds, {report['cpu_seconds'] / 60:.1f} minutes on one CPU core"
    )
    return f"{format_lab(report)} ({took}.)"


def inspecting() -> str:
    """Time and size of the attention page, for a sentence and for 512 tokens with 40 heads."""
    found = json.loads((HERE / "inspect-cpu.json").read_text())
    large = f"{found['large_tokens']} tokens, {found['large_heads']} heads"
    rows = (
        (
            f"a sentence by `{found['model']}`, each of its {found['heads']} heads switched off",
            f"{found['inspect_seconds']:.2f} s",
        ),
        (f"{large}: the file", f"{found['large_bytes'] / 1e6:.1f} MB"),
        ("— time to open it", f"{found['open_seconds']:.2f} s"),
        ("— time to draw all small maps", f"{found['draw_milliseconds']:.0f} ms"),
        ("— reaction to the mouse over a word", f"{found['hover_milliseconds']:.1f} ms"),
    )
    head = "| task | time or size |\n|---|---|\n"
    return head + "\n".join(f"| {what} | {found} |" for what, found in rows)


def parallel() -> str:
    """The quality and speed of decoding methods on Multi30k."""
    found = json.loads((HERE / "parallel-h200.json").read_text())
    minutes = f"{found['seconds'] / 60:.0f} minutes for all"
    return f"{format_rows(found['rows'])}\n\nMulti30k, test 2016, {found['machine']}: {minutes}."


def drafts() -> str:
    """Speculative decoding of one text at a time: identical outputs, and the speedup."""
    found = json.loads((HERE / "drafts-cpu.json").read_text())
    head = (
        f"| one at a time, {found['machine']} | `--draft` | identical | tokens per pass | "
        "speedup in CPU time |\n|---|---|---|---|---|\n"
    )
    return head + "\n".join(
        f"| {row['what']} | {row['draft']} | {row['alike']:,} of {row['texts']:,} | "
        f"{row['tokens_per_pass']:.2f} | {row['cpu_ratio']:.2f} |"
        for row in found["rows"]
    )


def drafts_together() -> str:
    """Speculative decoding of several texts at once: the speedup."""
    found = json.loads((HERE / "drafts-together.json").read_text())
    names = [*dict.fromkeys(row["draft"] for row in found["rows"])]
    head = f"| de-en, greedy: batch size | identical |{''.join(f' `{name}` |' for name in names)}\n"
    lines = [head + "|---" * (2 + len(names)) + "|"]
    for size in dict.fromkeys(row["together"] for row in found["rows"]):
        rows = [row for row in found["rows"] if row["together"] == size]
        alike, texts = (sum(row[key] for row in rows) for key in ("alike", "texts"))
        ratios = (f" {row['plain_cpu_s'] / row['drafted_cpu_s']:.2f} |" for row in rows)
        lines.append(f"| {size} | {alike:,} of {texts:,} |{''.join(ratios)}")
    return "\n".join(lines)


TABLES = {
    "summary": summary,
    "drafts": drafts,
    "drafts-together": drafts_together,
    "compared": compared,
    "claims": claims,
    "kernels": kernels,
    "translation": translation,
    "training": training,
    "decoding": decoding,
    "exported": exported,
    "commands": commands,
    "translating": translating,
    "language": language,
    "gpt2": gpt2,
    "chorales": chorales,
    "piano": piano,
    "relative": relative,
    "inspecting": inspecting,
    **{name: made for name, (made, rows) in GRAPHS.items() if rows},
    "local": local,
    **({"images": images} if (HERE / "images-h200.json").exists() else {}),
    **({"parallel": parallel} if (HERE / "parallel-h200.json").exists() else {}),
    **{f"lab {path.stem}": partial(tell_experiment, path.stem) for path in HERE.glob("lab/*.json")},
}


def with_tables(page: str) -> str:
    for name, made in TABLES.items():
        marks = f"<!-- {name} -->", f"<!-- /{name} -->"
        between = re.compile(f"({re.escape(marks[0])}\n).*?({re.escape(marks[1])})", re.DOTALL)
        page = between.sub(lambda found, made=made: found[1] + made() + "\n" + found[2], page)
    return page


def describe_settings() -> str:
    """Every setting as Markdown, a part for each family of tasks."""
    lines = [SETTINGS_HEAD]
    families: dict[int, list[str]] = {}
    for task, family in ((name, find_recipe(name)) for name in TASKS):
        if family.files:
            families.setdefault(id(family), []).append(task)
    for first, *more in families.values():
        lines += [f"\n## {', '.join([first, *more])}\n"]
        lines += ["| setting | default | what it does |", "|---|---|---|"]
        for one in settings_of(first):
            if one.default is None:
                lines.append(f"| **{one.name}** | | **{one.about}** |")
            else:
                kind = f" ({one.kind})" if one.kind.startswith("one of") else ""
                default = f"`{one.default}`" if one.default else ""
                about = one.about.replace("|", r"\|")  # otherwise it would end the cell
                lines.append(f"| `{one.name}` | {default} | {about}{kind} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        for one in PAGES:
            one.write_text(with_tables(one.read_text()))
        SETTINGS.write_text(describe_settings())
    else:
        print("\n\n".join(made() for made in TABLES.values()))
