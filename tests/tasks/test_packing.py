"""What is said if compressed data does not come out."""

import torch

from manyheads.tasks.packing import explain_damage


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
