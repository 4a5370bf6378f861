"""The smallest tasks train to perfection, in seconds, on a CPU."""

from dataclasses import replace

import pytest
import torch
from toy_tasks import COPY, REVERSAL, Majority, read, spelled
from toy_training import Task, evaluate, train

from manyheads.training.config import Training

QUICK = Training(steps=800, learning_rate=3e-3, warmup_steps=100)
COPYING = replace(QUICK, steps=500)  # which is easier


@pytest.mark.parametrize(
    ("task", "training"), [(REVERSAL, QUICK), (COPY, COPYING)], ids=["reversal", "copy"]
)
def test_rewriting_is_learned_to_the_last_word(task: Task[str], training: Training) -> None:
    assert evaluate(task, train(task, training)) == {"exact": 1.0}


def test_the_majority_of_neighbours_is_learned_to_the_last_graph() -> None:
    task = Majority()
    network = train(task, Training(steps=150, warmup_steps=20), batch_size=32)
    assert evaluate(task, network) == {"nodes": 1.0, "graphs": 1.0}


def test_the_same_seed_gives_the_same_network() -> None:
    short = Training(steps=5, warmup_steps=1)
    one, same, other = (train(REVERSAL, short, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_words_are_spelled_and_read() -> None:
    assert read(spelled("attention")) == "attention"
    assert read([0, 28]) == "a·"


def test_a_wrong_answer_counts_as_wrong() -> None:
    assert REVERSAL.measure(["ba", "xx"], ["ab", "cd"]) == {"exact": 0.5}
