"""How a tensor comes to a device."""

from __future__ import annotations

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on that device. The host does not wait for a copy to a GPU: of memory that stays
    in its place the GPU takes it when it comes to it.
    """
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
