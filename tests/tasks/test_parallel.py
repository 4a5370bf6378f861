"""Networks that write all at once: what they lose, what they write, what they refuse."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from designs import network_of
from small import begun, pairs, recipe_in, trainer_of

from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import NOTHING
from manyheads.decoding.config import DecodingConfig
from manyheads.models import load
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.parallel.checks import compare_batches
from manyheads.tasks.seq2seq.parallel.ctc import CTCNetwork
from manyheads.tasks.seq2seq.parallel.latent import ScalarCodes
from manyheads.tasks.seq2seq.parallel.table import NETWORKS
from manyheads.tasks.seq2seq.settings import PairData, Seq2SeqRecipe
from manyheads.tasks.seq2seq.writing import write_targets
from manyheads.training.config import Training
from manyheads.training.files import CORPUS, write_tensors
from manyheads.training.weights import adopt, weights_of

WORDS = 9
SMALL: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "ffn_width": 32, "dropout": 0.0}


def network_for(kind: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = network_of(kind, **{**SMALL, **settings})
    return NETWORKS[kind](config, WORDS, WORDS, True, SpecialTokens()).eval()


# ---- all kinds -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_text_alone_is_written_as_among_others(kind: str) -> None:
    sources = [[5, 6, 7, 8, 4, 5], [8], [4, 4, 6]]
    with torch.no_grad():
        found = dict(compare_batches(network_for(kind), sources, SpecialTokens()))
    assert max(found.values()) < 1e-5, found


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_row_that_holds_nothing_costs_nothing(kind: str) -> None:
    network = network_for(kind)
    source, wanted = Tokens.padded([[5, 2], [2]]), torch.tensor([[6, 2], [NOTHING, NOTHING]])
    both, alone = network(source, wanted), network(Tokens.padded([[5, 2]]), wanted[:1])
    for name, term in both.items():
        assert float(term.detach()) == pytest.approx(float(alone[name].detach()), rel=1e-5)


@pytest.mark.parametrize("kind", NETWORKS)
def test_pairs_are_learned_and_translated(tmp_path: Path, kind: str) -> None:
    network = {"kind": kind, "width": 32, "dropout": 0.0}
    steps = {"ctc": 40, "mask-predict": 100, "latent": 70}[kind]
    few = {"steps": steps, "validate_every": steps, "tokens_per_batch": 256}
    recipe = recipe_in(tmp_path, "padded", network, **few, learning_rate=0.01, ema=0.9)
    run = begun(recipe, tmp_path / "run")
    trainer_of(recipe, run).fit()
    model: Any = load(run.folder, "cpu")
    sources, targets = zip(*pairs(60), strict=True)
    outputs = model.translate([*sources])
    right = sum(one.split() == other.split() for one, other in zip(outputs, targets, strict=True))
    assert right > 5, outputs  # by chance none is
    with pytest.raises(ValueError, match=f"is a {kind} network, which has no counterpart"):
        model.portable()
    with pytest.raises(ValueError, match=f"a {kind} network writes in parallel and knows no draft"):
        model.translate("ba", draft="lookup", beam=1)
    with pytest.raises(ValueError, match=f"are for a transformer, .* is a {kind} network"):
        model.translate("ba", draft="heads", beam=1)
    assert [one.text for one in model.translate_nbest(sources[0], 1)] == outputs[:1]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_step_is_not_recorded(kind: str) -> None:
    with pytest.raises(ValueError, match=r"training.cuda_graph: false would do"):
        Seq2SeqRecipe(
            "translation",
            PairData(pairs=Path("a.tsv")),
            network=network_of(kind),
            training=Training(cuda_graph=True),
            layout="padded",
        )


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_starts_from_a_model_that_writes_token_by_token(tmp_path: Path, kind: str) -> None:
    other = build_encoder_decoder(network_of(**SMALL), WORDS, WORDS, joint=True)
    write_tensors(tmp_path / "start", weights_of(other), {})
    network = network_for(kind)
    assert not adopt(network, tmp_path / "start")  # some of it begins anew
    mine = weights_of(network)
    assert all(torch.equal(mine[name], tensor) for name, tensor in weights_of(other).items())


# ---- ctc -------------------------------------------------------------------------------------


def collapse(path: tuple[int, ...]) -> list[int]:
    """(0, 5, 5, 0, 5) -> [5, 5]"""
    return [token for i, token in enumerate(path) if token and (i == 0 or path[i - 1] != token)]


def log_probs(network: CTCNetwork, source: Tokens) -> torch.Tensor:
    with torch.no_grad():
        memory = network.encode(source)
        lengths = torch.tensor([source.ids.shape[1]])
        return network.log_probs(network.frames(memory, lengths), memory)[0]


def test_the_loss_is_that_of_all_paths_that_collapse_to_the_target() -> None:
    network, source = network_for("ctc", upsample=2), Tokens.padded([[5, 6]])
    logs = log_probs(network, source)
    paths = [path for path in product(range(WORDS), repeat=4) if collapse(path) == [7, 7]]
    chance = sum(float(logs[range(4), list(path)].sum().exp()) for path in paths)
    (loss,) = network(source, torch.tensor([[7, 7, 2]])).values()
    assert float(loss.detach().exp()) == pytest.approx(1 / chance, rel=1e-4)


def test_each_state_is_aligned_with_what_it_most_likely_stands_for() -> None:
    network, source = network_for("ctc", upsample=2), Tokens.padded([[5, 6]])
    logs, target = log_probs(network, source), [7, 4]
    paths = [path for path in product(range(WORDS), repeat=4) if collapse(path) == target]
    share = torch.zeros(4, WORDS)
    for path in paths:
        share[range(4), list(path)] += logs[range(4), list(path)].sum().exp()
    found = network.align(logs[None], torch.tensor([target]), torch.tensor([[4], [2]]))
    assert found[0].tolist() == share.argmax(-1).tolist()


@torch.no_grad()
def test_what_is_written_twice_in_a_row_counts_once_and_blanks_not_at_all() -> None:
    network, source = network_for("ctc", upsample=3), Tokens.padded([[5, 6, 7, 8, 2]])
    logs = log_probs(network, source)
    logs[:, [1, 2]] = -torch.inf
    (found,) = network.write(network.encode(source), torch.tensor([5]), DecodingConfig())
    assert found.ids == collapse(tuple(logs.argmax(-1).tolist()))
    assert found.log_prob == pytest.approx(float(logs.max(-1).values.sum()), rel=1e-4)


def test_pairs_with_too_short_a_source_are_counted_and_left_out(tmp_path: Path) -> None:
    network = {"kind": "ctc", "upsample": 1, "glancing": 0.3}
    recipe = recipe_in(tmp_path, "padded", network)
    target = tmp_path / "target.txt"
    _, *others = target.read_text(encoding="utf-8").splitlines()
    target.write_text("\n".join(["one " * 12, *others]) + "\n", encoding="utf-8")
    run = begun(recipe, tmp_path / "run")
    told = (run / CORPUS).read_text(encoding="utf-8")
    assert "longer than 1 times the source, which is all that ctc can write" in told


SHORT, LONG = "drei zwei\tthree\n", "drei\tone two one two one two\n"


def validating_on(folder: Path, lines: str) -> Seq2SeqRecipe:
    recipe = recipe_in(folder, "padded", {"kind": "ctc", "upsample": 1})
    (folder / "valid.tsv").write_text(lines, encoding="utf-8")
    return replace(recipe, data=replace(recipe.data, valid_pairs=folder / "valid.tsv"))


def test_the_validation_loss_is_that_of_pairs_that_ctc_can_write(tmp_path: Path) -> None:
    losses = []
    for name, lines in (("one", SHORT), ("two", SHORT + LONG)):
        recipe = validating_on(tmp_path / name, lines)
        trainer = trainer_of(recipe, begun(recipe, tmp_path / name / "run"))
        losses.append(trainer.task.validate(trainer.learner.network).scores["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    told = (tmp_path / "two" / "run" / CORPUS).read_text(encoding="utf-8")
    assert "  1 of 2 pairs to validate on are longer than 1 times the source" in told


def test_a_validation_set_that_ctc_cannot_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no loss can be measured: all pairs to validate on are"):
        begun(validating_on(tmp_path, LONG), tmp_path / "run")


# ---- mask-predict ------------------------------------------------------------------------------


def test_in_training_each_target_hides_one_token_at_least_and_sometimes_all() -> None:
    network, counts = network_for("mask-predict").train(), torch.tensor([4] * 400)
    (hidden,) = network.hide(counts, 4)
    often = torch.bincount(hidden.sum(1), minlength=5).tolist()
    assert often[0] == 0
    assert all(60 < n < 140 for n in often[1:])
    both = network.eval().hide(counts, 4)
    assert (sum(both) == 1).all()  # to validate, each token once


@torch.no_grad()
def test_each_pass_writes_again_what_is_least_certain() -> None:
    network, source = network_for("mask-predict"), Tokens.padded([[5, 6, 7, 2]])
    memory, counts = network.encode(source), torch.tensor([4])
    first, logs = network.refine(memory, counts, 1)
    second, _ = network.refine(memory, counts, 2)
    kept = logs[0].argsort(descending=True)[:2]
    assert second[0, kept].tolist() == first[0, kept].tolist()
    shown = torch.full((1, 4), network.mask)
    shown[0, kept] = first[0, kept]
    scores = network.score(shown, counts, memory)
    scores[..., network.never()] = -torch.inf
    others = logs[0].argsort()[:2]
    assert second[0, others].tolist() == scores[0, others].argmax(-1).tolist()


@torch.no_grad()
def test_of_several_lengths_the_likeliest_stays() -> None:
    network, source = network_for("mask-predict", length_range=2), Tokens.padded([[5, 6, 7, 2]])
    memory, lengths = network.encode(source), torch.tensor([4])
    (found,) = network.write(memory, lengths, DecodingConfig(passes=3, lengths=5))
    ends = network.length_scores(memory).log_softmax(-1)[0]
    worth = {}
    for end, count in zip(ends, range(2, 7), strict=True):
        ids, logs = network.refine(memory, torch.tensor([count]), 3)
        worth[float((logs.sum() + end) / (count + 1))] = ids[0].tolist()
    assert found.ids == worth[max(worth)]
    with pytest.raises(ValueError, match="6 lengths were asked for, this model knows 5"):
        network.refuse(DecodingConfig(lengths=6))


def test_no_passes_are_refused() -> None:
    with pytest.raises(ValueError, match="passes"):
        DecodingConfig(passes=0)
    with pytest.raises(ValueError, match="a ctc network writes in parallel and knows no passes"):
        network_for("ctc").refuse(DecodingConfig(passes=4))


# ---- latent --------------------------------------------------------------------------------------


def test_a_code_and_its_numbers_are_the_same() -> None:
    codes = ScalarCodes((4, 3, 2))
    ids = torch.arange(codes.size)
    numbers = codes.look_up(ids)
    assert codes.number(numbers).tolist() == ids.tolist()
    assert float(numbers.abs().max()) == 1
    assert torch.allclose(codes.quantise((0.999 * numbers).atanh()), numbers)


def test_rounding_lets_gradients_pass() -> None:
    values = torch.tensor([[0.3, -0.2]], requires_grad=True)
    ScalarCodes((8, 5)).quantise(values).sum().backward()
    assert values.grad is not None
    assert torch.allclose(values.grad, 1 - values.detach().tanh() ** 2)


@torch.no_grad()
def test_codes_are_fewer_than_tokens_and_a_text_ends_with_its_end() -> None:
    network = network_for("latent", compression=3)
    wanted = torch.tensor([[5, 6, 7, 8, 4, 2]])
    memory = network.encode(Tokens.padded([[5, 6, 2]]))
    assert network.read_target(wanted, torch.tensor([6]), memory).shape == (1, 2, 3)
    assert network.cut([5, 6, 2, 7], [-1.0] * 4, -0.5).ids == [5, 6]
    assert network.cut([5, 6, 2, 7], [-1.0] * 4, -0.5).log_prob == -3.5
    assert network.count_passes(DecodingConfig(), 6) == 4


def test_drawn_codes_do_not_depend_on_the_texts_beside_them() -> None:
    network, how = network_for("latent"), DecodingConfig(temperature=2.0, seed=3)
    sources = [[5, 6, 7], [8], [4, 4, 6, 5], [7, 8], [5, 6, 7]]
    together = [best.ids for best, *_ in write_targets(network, sources, how)]
    alone = [
        best.ids
        for i, source in enumerate(sources)
        for best, *_ in write_targets(network, [source], how, numbers=[i])
    ]
    assert together == alone
    assert together[0] != together[4], "a text that comes again is drawn anew"


def test_too_many_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="make 262,144 codes, 65,536 are the most"):
        network_of("latent", levels=(64, 64, 64))
