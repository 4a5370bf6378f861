"""One process alone, on the device that was asked for."""

from contextlib import nullcontext

import pytest
import torch

from manyheads.devices import choose_device, make_current, on_its_gpu
from manyheads.training.distributed import World, join_processes, leave_processes


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


def test_of_several_gpus_the_one_with_this_number_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    for name in ("cpu", "cuda", "cuda:1"):
        assert make_current(choose_device(name)) == torch.device(name)
    assert current == [torch.device("cuda:1")]
    with pytest.raises(ValueError, match="cuda:2 was asked for, torch finds 2 here, from cuda:0 o"):
        choose_device("cuda:2")


class Placed:
    """What has a device, as a tensor has."""

    def __init__(self, device: str):
        self.device = torch.device(device)


def test_programs_are_launched_on_the_gpu_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda at: entered.append(at) or nullcontext())
    launch = on_its_gpu(lambda x, *, times: (x.device, times))
    for name in ("cpu", "cuda:0", "cuda:1"):
        assert launch(Placed(name), times=3) == (torch.device(name), 3)
    assert entered == [torch.device("cuda:1")]
