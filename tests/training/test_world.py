"""One process alone, on the device that was asked for."""

import pytest
import torch

from manyheads.training.distributed import World, choose_device, join_processes, leave_processes


def test_alone_everything_is_what_it_is() -> None:
    world = World()
    assert world.first
    assert world.broadcast(3) == 3
    assert world.sum_over(0.1) == 0.1
    world.wait()
    leave_processes()
    assert not World(rank=1, size=2).first


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_processes("cpu") == World(device=torch.device("cpu"))


@pytest.mark.parametrize("name", ["gpu", "mps", "meta", "cuda:x", ""])
def test_another_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError) as error:
        choose_device(name)
    assert str(error.value) == f"a device is cpu or cuda, got {name!r}"


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None) == torch.device("cpu")
    with pytest.raises(ValueError, match="cuda was asked for and torch finds no GPU here; cpu wou"):
        choose_device("cuda")
