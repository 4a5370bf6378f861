"""Whoever guesses for a model, it writes what it writes alone."""

import copy
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import books
import pytest
import torch
from tunes import pianist, singer
from typed import learned, texts, trained

from manyheads.cli.drafts import train_drafts
from manyheads.decoding.draft_heads import DraftHead, HeadDraft, HeadDrafter
from manyheads.decoding.draft_table import DraftTable, make_table
from manyheads.decoding.packed import PackedStep
from manyheads.models import load
from manyheads.modules.transformer import Tokens
from manyheads.tasks.draft_file import DRAFTS, DraftFile, Pairs, read_drafts, write_drafts
from manyheads.tasks.drafted import DraftedModel
from manyheads.tasks.drafting import draft_loss, make_drafts
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.seq2seq.model import Translator
from manyheads.verifying import run_checks

SOURCES = ["ba du", "nu ki lo me", "", "lo lo lo lo lo", "me ba nu"]


@pytest.fixture
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(learned(tmp_path_factory.getbasetemp()), "cpu")


@pytest.fixture
def author(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(books.language(tmp_path_factory.getbasetemp()), "cpu")


@pytest.mark.parametrize("recorded", ["cuda", "cpu"])  # by a step that is recorded on a GPU
@pytest.mark.parametrize("draft", ["again", "lookup", "model"])
@pytest.mark.parametrize("how", [{}, {"temperature": 1.5, "seed": 3}, {"repetition_penalty": 1.3}])
def test_translations_are_the_same(
    translator: Translator, draft: str, how: Any, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.seq2seq.writing.RECORDED_ON", (recorded,))
    translator.add_drafter("model", translator)
    wanted = translator.translate(SOURCES, beam=1, **how)
    assert translator.translate(SOURCES, draft=draft, **how) == wanted
    for one in SOURCES:
        alone = translator.translate(one, beam=1, **how)
        assert translator.translate(one, draft=draft, **how) == alone


@pytest.mark.parametrize("draft", ["again", "lookup", "model"])
def test_a_few_texts_are_drafted_together_and_many_are_not(
    translator: Translator, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    class Watched(PackedStep):
        def read(self, new: Mapping[int, Sequence[int]]) -> torch.Tensor:
            batches.append(len(new))
            return super().read(new)

    monkeypatch.setattr("manyheads.tasks.seq2seq.writing.PackedStep", Watched)
    translator.add_drafter("model", translator)
    for prefix in ("", "ki"):
        wanted = translator.translate(SOURCES, beam=1, prefix=prefix)
        assert translator.translate(SOURCES, draft=draft, prefix=prefix) == wanted
        assert not batches  # without guesses they take less time
        assert translator.translate(SOURCES[:3], draft=draft, prefix=prefix) == wanted[:3]
        assert batches[0] == 2  # nothing is written for an empty one
        batches.clear()


def add_drafters(model: DraftedModel) -> None:
    """The model itself, and a head that knows nothing."""
    torch.manual_seed(0)
    head = DraftHead(model.decoder.stack.width, torch.arange(3, 9), 8, reads=False, beat=model.beat)
    torch.nn.init.normal_(head.say.weight)
    model.add_drafter("model", model)
    model.drafters["heads"] = HeadDrafter(head, model.network, stops=model.stops())


@pytest.mark.parametrize("recorded", ["cuda", "cpu"])
@pytest.mark.parametrize("draft", ["again", "lookup", "heads", "model"])
@pytest.mark.parametrize(
    "how",
    [
        {"seed": 3, "max_new_tokens": 50},  # past the context
        {"seed": 3, "max_new_tokens": 9, "truncate": True, "prompt": "the old dog " * 9},
        {"temperature": 0, "max_new_tokens": 20},
        {"stop": ("s", "e"), "max_new_tokens": 20},
        {"repetition_penalty": 1.5, "top_p": 0.9, "max_new_tokens": 20},
    ],
)
def test_texts_are_the_same_at_once_and_in_pieces(
    author: LanguageModel, draft: str, how: Any, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.language.generate.RECORDED_ON", (recorded,))
    add_drafters(author)
    prompt = how.get("prompt", "the old dog")
    how = {name: value for name, value in how.items() if name != "prompt"}
    wanted = author.generate(prompt, **how)
    assert author.generate(prompt, draft=draft, **how) == wanted
    drafted = LanguageDecoding(draft=draft, **how)
    assert "".join(author.stream(prompt, drafted)) == wanted


@pytest.mark.parametrize("make", [singer, pianist])
@pytest.mark.parametrize("draft", ["again", "lookup", "heads", "model"])
def test_music_is_the_same(make: Any, draft: str) -> None:
    model = make()
    add_drafters(model)
    for count, how in ((2, {"seed": 4}), (4, {"seed": 4}), (1, {"temperature": 0.0})):
        wanted = model.compose(seconds=1.0, count=count, **how)
        found = model.compose(seconds=1.0, count=count, draft=draft, **how)
        assert [one.ids for one in found] == [one.ids for one in wanted]
    streamed = [log for _, log in model.stream(seconds=1.0, draft=draft, temperature=0.0)]
    assert streamed == pytest.approx(wanted[0].logs, abs=1e-4)


def test_who_speaks_otherwise_does_not_guess(translator: Translator, author: LanguageModel) -> None:
    sentence = "cannot guess for .*: it is no model of the same kind with the same vocabulary"
    with pytest.raises(ValueError, match=sentence):
        translator.add_drafter("other", author)
    with pytest.raises(ValueError, match=r"has no drafts\.safetensors with heads"):
        author.generate("the", draft="heads")


def test_a_model_that_drafts_is_named_first(translator: Translator) -> None:
    told = r"there is no drafter 'runs/small'; .*: add_drafter\('runs/small', manyheads\.load\("
    with pytest.raises(ValueError, match=told):
        translator.translate(SOURCES[0], draft="runs/small")


# ---- what is made for a model ------------------------------------------------------------------


def test_a_table_knows_what_follows_by_the_source() -> None:
    pairs = [([5, 6, 7], [8, 9, 2]), ([5, 6], [8, 2]), ([7], [4, 2])] * 3
    table = make_table(pairs)
    parts = table.prepare([5, 6, 7])
    assert max(table.look_up(parts, []), key=lambda one: one[1])[0] == 8
    assert max(table.look_up(table.prepare([7]), []), key=lambda one: one[1])[0] == 4
    again = DraftTable.of(table.tensors(), table.reads)
    assert again.entries.keys() == table.entries.keys()
    assert not [*table.look_up(table.prepare([50]), [60])]


def test_heads_are_not_trained_for_what_has_no_states_to_guess_by(tmp_path: Path) -> None:
    files = texts(tmp_path)
    given = ("translation", "--source", files[0], "--target", files[1], "--network", "recurrent")
    settings = ["network.width=16", "training.steps=1", "codec.kind=word"]
    run = trained(tmp_path / "run", *given, settings=settings)
    with pytest.raises(ValueError, match=f"for a transformer, {run} is a recurrent network"):
        train_drafts(str(run), device="cpu")


def test_drafts_are_kept_beside_the_weights_that_they_are_of(
    translator: Translator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})  # which are verified elsewhere
    translator.save(tmp_path / "saved")
    saved = load(tmp_path / "saved", "cpu")
    with pytest.raises(ValueError, match=r"has no drafts.safetensors with heads; `manyheads train"):
        saved.translate("ba du", draft="heads")
    with pytest.raises(ValueError, match="was trained elsewhere; --source FILE says what"):
        train_drafts(str(tmp_path / "saved"), device="cpu")
    (tmp_path / "sources.txt").write_text("\n".join(SOURCES * 20))
    train_drafts(str(tmp_path / "saved"), None, tmp_path / "sources.txt", 0.005, "cpu")
    assert "drafts.safetensors: " in capsys.readouterr().out
    checks = {one.name: one for one in run_checks(saved, [text for text in SOURCES if text])}
    assert checks["drafted by heads = plain"].holds
    assert "20 of 20 alike; smallest margin" in checks["drafted by lookup = plain"].note
    wanted = saved.translate(SOURCES, beam=1)
    for draft in ("lookup", "heads"):
        assert saved.translate(SOURCES, draft=draft) == wanted
    train_drafts(
        str(tmp_path / "saved"), tmp_path / "saved", tmp_path / "sources.txt", 0.005, "cpu"
    )
    with pytest.raises(
        ValueError, match="for models that write token by token, digits is for image"
    ):
        train_drafts("digits", device="cpu")
    with pytest.raises(ValueError, match="drafts of music are made from nothing; leave out"):
        train_drafts("chorales", None, tmp_path / "sources.txt", device="cpu")
    with pytest.raises(ValueError, match="has other weights than de-en"):
        train_drafts("de-en", tmp_path / "saved", device="cpu")
    (tmp_path / "saved" / DRAFTS).rename(tmp_path / DRAFTS)
    with torch.no_grad():
        next(saved.network.parameters()).add_(0.1)
    saved.save(tmp_path / "other")
    (tmp_path / DRAFTS).rename(tmp_path / "other" / DRAFTS)
    with pytest.raises(ValueError, match="guesses for other weights than those beside it"):
        load(tmp_path / "other", "cpu").translate("ba", draft="lookup")


def test_a_head_that_knows_nothing_changes_nothing(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "saved")
    width = translator.network.decoder.stack.width
    torch.manual_seed(0)
    head = DraftHead(width, torch.arange(3, 9), hidden=8)
    write_drafts(tmp_path / "saved", DraftFile(make_table([([5], [6, 2])] * 3), head))
    saved = load(tmp_path / "saved", "cpu")
    for how in ({"temperature": 0.0}, {"temperature": 2.0, "seed": 1}):
        wanted = saved.translate(SOURCES, beam=1, **how)
        assert saved.translate(SOURCES, draft="heads", **how) == wanted


@pytest.mark.parametrize("most", [9, 32_768, 70_000])  # as many words as GPT-2 has, and more
def test_drafts_keep_the_ids_of_a_large_vocabulary(
    translator: Translator, tmp_path: Path, most: int
) -> None:
    translator.save(tmp_path)
    head = DraftHead(16, torch.arange(most - 3, most + 1), hidden=8)
    write_drafts(tmp_path, DraftFile(make_table([((), [most, most, 2])] * 3), head))
    found = read_drafts(tmp_path)
    assert found.head is not None
    assert found.head.words.tolist() == head.words.tolist()
    assert {token for token, _ in found.table.entries.values()} == {2, most}


def test_a_head_thinks_while_it_writes_as_it_learned(translator: Translator) -> None:
    """The products that are made once a sentence change nothing but the time."""
    width = translator.network.decoder.stack.width
    torch.manual_seed(0)
    head = DraftHead(width, torch.arange(3, 9), hidden=8)
    torch.nn.init.normal_(head.say.weight)
    drafter = HeadDrafter(head, translator.network)
    translator.translate(SOURCES[0], beam=1)  # so that there is a memory
    state, memory = torch.randn(1, width), drafter.memory.states[0]
    with torch.no_grad():
        found, (token, share) = HeadDraft(drafter, [], memory).think(state, [3, 4, 7], new=2)
        for word in (4, 7):
            read = drafter.read[word : word + 1]
            state = head(state, read, head.look_up(state + read, memory))
        scores = (state @ translator.network.decoder.embedding.table.weight[3:9].T).softmax(-1)
    assert torch.allclose(found, state, atol=1e-5)
    assert token == 3 + int(scores.argmax())
    assert share == pytest.approx(float(scores.max()), abs=1e-5)


def test_a_head_of_voices_sees_the_same_voice_a_beat_before() -> None:
    model = singer()
    add_drafters(model)
    drafter = model.drafters["heads"]
    assert isinstance(drafter, HeadDrafter)
    assert model.beat == 4
    state, ids = torch.randn(1, model.decoder.stack.width), [5, 6, 7, 8, 9, 10]
    with torch.no_grad():
        found, _ = HeadDraft(drafter, []).think(state, ids, new=2)
        for word, before in (
            (9, 6),
            (10, 7),
        ):  # tokens, and those that stand a beat before the next
            state = drafter.head(state, drafter.read[[word]], drafter.read[[before]])
    assert torch.allclose(found, state, atol=1e-5)


def test_a_head_waits_where_it_saw_only_a_part_of_what_was_read() -> None:
    """As where the window of a model moves: tokens are read in parts then."""
    model = singer()
    add_drafters(model)
    drafter = model.drafters["heads"]
    assert isinstance(drafter, HeadDrafter)
    draft = HeadDraft(drafter, [])
    drafter.states = torch.randn(1, model.decoder.stack.width)
    draft.tell([5, 6], [7, 8, 9])
    assert draft.state is None
    assert draft.propose([5, 6], 7) == []
    draft.tell([5, 6], [])
    assert draft.state is not None


def test_heads_are_made_of_what_a_model_writes_from_a_beginning_or_from_nothing(
    author: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.tasks.language.model.BEGINNINGS", 20)
    shutil.copytree(author.task.held_in(), tmp_path / "run")
    train_drafts(str(tmp_path / "run"), minutes=0.01, device="cpu")
    saved = load(tmp_path / "run", "cpu")
    wanted = saved.generate("the old dog", max_new_tokens=30, seed=1)
    assert saved.generate("the old dog", max_new_tokens=30, seed=1, draft="heads") == wanted
    assert saved.drafters["heads"].pace.counts.tokens
    voices = singer()
    made = make_drafts(voices, voices.find_sources(None)[:4], 0.01, lambda said: None)
    assert made.head is not None
    assert made.head.beat == 4
    assert made.head.look is None


def test_a_file_of_blank_lines_begins_no_text(author: LanguageModel, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=r"blank\.txt has no text to go on from"):
        author.find_sources(tmp_path / "blank.txt")


def test_drafts_are_made_from_lines_longer_than_the_context(
    author: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("the old dog " * 90)
    monkeypatch.setattr(type(author.task), "context", 12)
    for path in (tmp_path / "long.txt", None):
        some = author.find_sources(path)[:2]
        assert {*map(len, some)} == {5}
        assert all(author.write_for(some, 0))


def test_outputs_too_short_to_guess_ahead_in_teach_nothing(translator: Translator) -> None:
    """The shortest outputs share a batch: in it, no token may be three ahead."""
    pairs: Pairs = [([5, 6], [7, 2]), ([5], [2])]
    head = DraftHead(translator.decoder.stack.width, torch.arange(2, 9))
    for some in (pairs, pairs[1:]):
        loss = draft_loss(translator, head, some)
        loss.backward()
        assert loss.isfinite()
        assert all(one.grad is None or one.grad.isfinite().all() for one in head.parameters())


def test_a_head_reads_the_words_of_weights_that_were_changed(translator: Translator) -> None:
    """As when a network is trained on, or moved to another device, after it has written."""
    network = copy.deepcopy(translator.network)
    drafter = HeadDrafter(DraftHead(network.decoder.stack.width, torch.arange(3, 9)), network)
    assert network.encode(Tokens.padded([[5, 6, 2]])).states.requires_grad
    assert (
        not drafter.memory.states.requires_grad
    )  # it would keep what a step of training has computed
    before = drafter.scored.clone()
    drafter.start([5, 6])
    assert torch.equal(drafter.scored, before)
    with torch.no_grad():
        network.decoder.embedding.table.weight.mul_(2)
    drafter.start([5, 6])
    assert torch.equal(drafter.scored, 2 * before)
