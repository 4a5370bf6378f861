"""What all tests share."""

import gc
import os
from collections.abc import Iterator

import pytest
import torch

from manyheads.training import pace

# Two workers on two cores: threads inside each would only get in each other's way.
torch.set_num_threads(1)
# No test asserts a speed: three steps are timed, and not two seconds of them.
pace.LEAST_SECONDS = 0.0


@pytest.fixture(autouse=True)
def _alike() -> Iterator[None]:
    """Begin each test with one seed and one thread: `--threads 2` in a test sets both for all."""
    torch.manual_seed(0)
    before = dict(os.environ)
    yield
    torch.set_num_threads(1)
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what all tests share: a tenth of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: packed ones carry the time, and workers must agree."""
    return argname if isinstance(val, bytes) else None
