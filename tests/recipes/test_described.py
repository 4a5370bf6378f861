"""Every setting says what it does, in the code, on the command line and in the docs."""

import pytest

from manyheads.tasks.describing import list_settings, settings_of
from manyheads.tasks.table import TASKS, find_recipe

TRAINED = [task for task in TASKS if find_recipe(task).files]


@pytest.mark.parametrize("task", TRAINED)
def test_every_setting_has_a_sentence_and_is_listed(task: str) -> None:
    settings = settings_of(task)
    mute = [
        one.name for one in settings if not (one.about.endswith(".") and one.about[0].isupper())
    ]
    assert not mute, f"no sentence in setting(default, about) for {mute}"
    names = {one.name for one in settings}
    assert {"data.held_out", "network.width", "training.steps", "start_from"} <= names
    shown = list_settings(task)
    assert all(f"  {name}" in shown or f"\n{name}: " in shown for name in names)


def test_a_default_is_a_value_or_says_what_decides_it() -> None:
    defaults = {one.name: one.default for one in settings_of("translation")}
    assert defaults["data.held_out"] == "500"
    assert defaults["network.width"] == "tiny 128, small 256, base 512"
    assert defaults["training.steps"] == "by the corpus"
    assert defaults["training.precision"] == "float32; on a GPU bfloat16"
    assert defaults["data.source"] == ""
    assert defaults["network"] is None, "a group"
    summaries = {one.name: one.default for one in settings_of("summarization")}
    assert summaries["data.filters.ratio"] == "0.0"
