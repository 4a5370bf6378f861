"""What all tests share."""

import pytest
import torch

from manyheads.training import pace

# Two workers on two cores: threads inside each would only get in each other's way.
torch.set_num_threads(1)


# No test asserts a speed: three steps are timed, and not two seconds of them.
pace.LEAST_SECONDS = 0.0


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: packed ones carry the time, and workers must agree."""
    return argname if isinstance(val, bytes) else None
