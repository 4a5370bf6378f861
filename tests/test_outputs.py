"""The built-in models write what they wrote before."""

import json

import pytest
from outputs import KEPT, write

from manyheads.catalog import built_in

BEFORE = json.loads(KEPT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", built_in())
def test_a_built_in_model_writes_what_it_wrote_before(name: str) -> None:
    assert write(name) == BEFORE[name]
