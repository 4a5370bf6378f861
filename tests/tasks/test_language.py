"""A language model learns, is judged, and scores a text."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from designs import network_of
from torch import nn

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.data.shards import Shard, write_shard
from manyheads.data.windows import Windows
from manyheads.decoding.likelihood import compute_log_probs
from manyheads.modules.transformer import Tokens
from manyheads.tasks.language.corpus import TextCorpus, count_scored_bytes, prepare_texts
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.language.task import LanguageTask, sample_places
from manyheads.training.config import Training

TEXTS = ["ein hund läuft und ein hund schläft. " * 4, "eine katze läuft", "ja 日本"]
CODEC = Text.train(TEXTS, "byte")


def language(
    kind: Any = "transformer",
    context: int = 16,
    folder: Path | None = None,
    valid: list[str] = TEXTS[:2],
) -> LanguageTask:
    """With the texts to learn from, where there is a folder for them."""
    design = network_of(
        kind=kind, width=16, depth=1, heads=2, ffn_width=32, dropout=0.0, position="Rotary()"
    )
    data, layout = (
        TextData((Path("a.txt"),), context=context),
        "packed" if design.packs else "padded",
    )
    training = Training(tokens_per_batch=64, best_by="loss", label_smoothing=0.1)
    recipe = LanguageRecipe("language", data, network=design, training=training, layout=layout)
    if folder is not None:
        prepare_texts(TextCorpus(TEXTS, valid), CODEC, folder, framed=True)
    return LanguageTask(recipe, CODEC, folder)


@torch.no_grad()
def alone(network: nn.Module, ids: list[int], first: int) -> list[float]:
    """The log-probability of each token of one window, from `first` on."""
    logs = network(Tokens.padded([ids[:-1]]))[0].log_softmax(-1)
    return [logs[i - 1, ids[i]].item() for i in range(max(1, first), len(ids))]


def test_what_the_vocabulary_cannot_spell_is_told_before_training(tmp_path: Path) -> None:
    letters = Text.train(["ein hund"], "character")
    prepare_texts(TextCorpus(["ein hund"], ["日本 hund"]), letters, tmp_path, framed=False)
    told = (tmp_path / "corpus.txt").read_text(encoding="utf-8")
    assert "2 of 7 tokens to validate on are unknown: what they are is not scored\n" in told


# ---- learning --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_it_learns_what_it_reads(kind: Any, tmp_path: Path) -> None:
    task = language(kind, folder=tmp_path)
    network, batches = task.network(), task.batches()
    before, _ = task.validate(network)
    assert before["loss"] == pytest.approx(math.log(CODEC.size), rel=0.5)
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for epoch in range(12):
        for rows in batches.epoch(epoch):
            loss = task.loss(network, batches.batch(rows))["loss"] / batches.count(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    after, _ = task.validate(network)
    assert after["loss"] < before["loss"] / 2


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("context", [5, 16, 500])
def test_judged_is_every_token_once_after_what_its_window_holds(
    kind: Any, context: int, tmp_path: Path
) -> None:
    task = language(kind, context, tmp_path)
    network = task.network().double().eval()
    scores = task.measure(network)
    logs = []
    for text in TEXTS[:2]:
        ids = [*CODEC.special_tokens.bos, *CODEC.encode(text), CODEC.special_tokens.eos]
        for begin in range(0, len(ids) - 1, context):
            logs += alone(network, ids[begin : begin + context + 1], 1)
    total = -math.fsum(logs)
    assert [*scores] == ["bits_per_byte", "perplexity", "loss"]
    assert scores["loss"] == pytest.approx(total / len(logs), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(total / len(logs)), rel=1e-4)
    size = len("".join(TEXTS[:2]).encode())
    assert scores["bits_per_byte"] == pytest.approx(total / math.log(2) / size, rel=1e-5)


def test_the_loss_is_summed_whatever_the_batch_holds_and_smoothed_in_training(
    tmp_path: Path,
) -> None:
    task = language(folder=tmp_path)
    network = task.network()
    documents = task.batches().documents
    sums = []
    for tokens in (16, 64, 4096):
        plan = Windows(documents, 16, tokens)
        batches = [plan.batch(rows) for rows in plan.epoch(0)]
        sums.append(sum(task.loss(network.eval(), one)["loss"].item() for one in batches))
        plain, smoothed = (task.loss(network.train(mode), batches[0]) for mode in (False, True))
        assert plain["loss"] != smoothed["loss"]
    assert sums == pytest.approx([sums[0]] * 3, rel=1e-5)


def test_samples_show_the_same_places_and_what_follows_them(tmp_path: Path) -> None:
    task = language(folder=tmp_path, valid=TEXTS[:1])
    (_, first), (_, second) = (task.validate(task.network()) for _ in range(2))
    assert len(first) == 3
    for one, other in zip(first, second, strict=True):
        assert one[:2] == other[:2]
        assert one.source + one.reference in TEXTS[0]
        assert one.source
        assert one.reference


def test_a_sample_of_a_short_document_holds_nothing_of_the_next(tmp_path: Path) -> None:
    task = language(folder=tmp_path, valid=["eins", "zwei", "drei"])
    samples = task.samples(task.network().eval())
    assert [(one.source, one.reference) for one in samples] == [
        ("ei", "ns"),
        ("zw", "ei"),
        ("dr", "ei"),
    ]


def test_samples_begin_with_documents_unless_one_is_most_of_the_text(tmp_path: Path) -> None:
    write_shard(tmp_path / "many", [range(10)] * 9, 50)
    assert sample_places(Shard(tmp_path / "many")) == [(0, 10), (30, 40), (60, 70)]
    write_shard(tmp_path / "two", [range(10), range(50)], 50)
    assert sample_places(Shard(tmp_path / "two")) == [(0, 10), (20, 60), (40, 60)]
    write_shard(tmp_path / "one", [range(30)], 50)
    assert sample_places(Shard(tmp_path / "one")) == [(0, 30), (10, 30), (20, 30)]


def test_validation_asks_for_less_memory_until_there_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = language(folder=tmp_path)
    network = task.network()
    wanted, _ = task.validate(network)
    plain = LanguageTask.loss

    def short_of_memory(self: LanguageTask, network: nn.Module, batch: Any) -> Any:
        if batch.wanted.numel() > room:
            raise torch.OutOfMemoryError
        return plain(self, network, batch)

    monkeypatch.setattr(LanguageTask, "loss", short_of_memory)
    room = 64
    found, _ = task.validate(network)
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    room = 8
    with pytest.raises(torch.OutOfMemoryError):
        task.validate(network)


# ---- scoring ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize(
    ("context", "stride"), [(8, 8), (8, 3), (8, 1), (7, 4), (500, 100), (48, 6)]
)
def test_each_token_is_scored_once_as_one_window_at_a_time_would(
    kind: Any, context: int, stride: int
) -> None:
    network = language(kind).network().double().eval()
    text = CODEC.encode("ein hund läuft, eine katze schläft, ja 日本.")
    ids = [*CODEC.special_tokens.bos, *text]
    wanted = alone(network, ids[: context + 1], 1)
    begin = stride
    while len(wanted) < len(text):
        window = ids[begin : begin + context + 1]
        wanted += alone(network, window, len(wanted) + 1 - begin)
        begin += stride
    for tokens in (1, 20, 10_000):  # whatever is computed at once
        found = compute_log_probs(network, CODEC.special_tokens, text, context, stride, tokens)
        assert found == pytest.approx(wanted, abs=1e-5)


def test_moved_by_the_context_it_is_what_a_run_is_judged_by(tmp_path: Path) -> None:
    task = language(folder=tmp_path)
    network = task.network().eval()
    scores = task.measure(network)
    logs = [
        compute_log_probs(
            network, CODEC.special_tokens, [*CODEC.encode(text), CODEC.special_tokens.eos], 16, 16
        )
        for text in TEXTS[:2]
    ]
    flat = [log for some in logs for log in some]
    assert scores["loss"] == pytest.approx(-sum(flat) / len(flat), abs=1e-5)


def test_the_first_token_is_scored_where_a_sign_stands_before_it() -> None:
    network, text = language().network(), CODEC.encode("ein")
    for starts, count in (((), 2), ((1,), 3), ((1, 1), 3)):
        codec = Text(CODEC.tokenizer, SpecialTokens(bos=starts))
        assert len(compute_log_probs(network, codec.special_tokens, text, 8, 8)) == count
        assert count_scored_bytes("ein", codec) == count
    assert compute_log_probs(network, CODEC.special_tokens, [], 8, 8) == []


def test_a_first_token_that_is_not_scored_adds_no_bytes_to_the_judgement(tmp_path: Path) -> None:
    codec = Text(CODEC.tokenizer, SpecialTokens(bos=()))
    prepare_texts(TextCorpus(TEXTS, ["käse", "ab"]), codec, tmp_path, framed=True)
    task = LanguageTask(language().recipe, codec, tmp_path)
    found = task.measure(task.network())
    tokens = 4 + 1 + 2  # of "äse" and "b", and two ends
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2) * tokens / 5)


@pytest.mark.parametrize("stride", [0, 9])
def test_a_stride_that_leaves_tokens_out_is_refused(stride: int) -> None:
    with pytest.raises(ValueError, match=f"a window of 8 tokens moves by 1 to 8, got {stride}"):
        compute_log_probs(language().network(), CODEC.special_tokens, [5, 6], 8, stride)
