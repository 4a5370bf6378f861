"""What is said if compressed data does not come out."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from manyheads.devices import use_threads
from manyheads.tasks.packing import explain_damage, map_parts


def test_another_cpu_is_named_as_a_reason_why_a_file_does_not_come_out() -> None:
    here = torch.backends.cpu.get_cpu_capability()
    same = {"torch": torch.__version__, "instructions": here}
    plain = "image 1 does not come out as it went in: the file is damaged; nothing is written"
    assert explain_damage(same, "image 1") == plain
    assert explain_damage(same | {"instructions": ""}, "image 1") == plain  # compressed on a GPU
    assert explain_damage(same | {"instructions": "VSX"}, "image 1") == plain.replace(
        ";",
        f", or a CPU with {here} computes otherwise than a CPU with VSX, which compressed it;",
    )


def test_when_one_part_is_interrupted_the_others_end_where_they_are() -> None:
    told: list[float] = []

    def work(number: int, tell: Any) -> None:
        if number == 0:
            raise KeyboardInterrupt  # as Ctrl-C in the main thread, which waits for the parts
        for _ in range(100):
            tell(1)
            time.sleep(0.01)

    model: Any = SimpleNamespace(device=torch.device("cpu"))
    with use_threads(2), pytest.raises(KeyboardInterrupt):
        map_parts(model, work, [0, 1], told.append)
    assert len(told) < 100
