"""Settings to and from YAML."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from manyheads.config import Mistakes, load, read, write


@dataclass(frozen=True)
class Training:
    steps: int = 1000
    learning_rate: float = 2e-3
    schedule: Literal["linear", "cosine"] = "linear"
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps is 1 or more, got {self.steps}")


@dataclass(frozen=True)
class Recipe:
    name: str
    training: Training = Training(steps=500)
    seed: int = 0
    compiled: bool = False
    data: Path = Path("data")
    sizes: tuple[int, ...] = ()
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass(frozen=True)
class Everything:
    whole: int
    number: float
    truth: bool
    text: str
    path: Path
    choice: Literal["no", "1e-3", "3", 3, True]
    maybe: str | None
    several: str | int | float | bool | None
    numbers: tuple[float, ...]
    pair: tuple[int, str]
    group: Training
    maybe_group: Training | None
    groups: tuple[Training, ...]


@dataclass(frozen=True)
class Two:
    a: Training
    b: Training


@dataclass(frozen=True)
class Loose:
    a: str | int | float | bool | None
    b: Literal["3", 3] = 3


@dataclass(frozen=True)
class NoKind:
    a: set[int]


@dataclass(frozen=True)
class TwoKinds:
    a: Training | Recipe


def mistakes(text: str, *overrides: str, kind: type = Recipe) -> list[str]:
    with pytest.raises(Mistakes) as caught:
        read(kind, text, overrides=overrides)
    assert str(caught.value) == "\n".join(caught.value.lines)
    return list(caught.value.lines)


numbers = st.floats(allow_nan=False)
texts = st.text(st.characters()) | st.sampled_from(
    [
        *[
            "no",
            "1e-3",
            "null",
            "~",
            "",
            "3",
            "0x1f",
            "<<",
            "=",
            "- a",
            "a: b",
            "# a",
            "2020-01-01",
        ],
        *["inf", ".nan", "a\n b\n", " a ", "'", '"', "!x", "&x", "*x", "%", "\x85", "\ufeff", "\0"],
    ]
)
trainings = st.builds(
    Training,
    steps=st.integers(1),
    learning_rate=numbers,
    schedule=st.sampled_from(["linear", "cosine"]),
    clip_norm=st.none() | numbers,
)


@given(
    st.builds(
        Everything,
        whole=st.integers(),
        number=numbers,
        truth=st.booleans(),
        text=texts,
        path=texts.map(Path),
        choice=st.sampled_from(["no", "1e-3", "3", 3, True]),
        maybe=st.none() | texts,
        several=st.none() | st.integers() | numbers | st.booleans() | texts,
        numbers=st.lists(numbers, max_size=3).map(tuple),
        pair=st.tuples(st.integers(), texts),
        group=trainings,
        maybe_group=st.none() | trainings,
        groups=st.lists(trainings, max_size=2).map(tuple),
    )
)
def test_what_is_written_reads_back_as_the_same(value: Everything) -> None:
    again = read(Everything, write(value))
    assert again == value
    assert repr(again) == repr(value)  # 1 and 1.0 and True are equal, and not the same


@pytest.mark.parametrize("text", ["1e-3", "inf", "3", "no", "null", "", "2020-01-01", "a\nb"])
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert read(Loose, write(Loose(text))) == Loose(text)


def test_where_text_is_one_of_several_kinds_it_is_the_last_tried() -> None:
    assert read(Loose, "a: 3\nb: 3") == Loose(3, 3)
    assert read(Loose, "a: '3'\nb: '3'") == Loose("3", "3")


def test_written_settings_are_for_a_person_to_read() -> None:
    value = Recipe("no", Training(learning_rate=1e-5), sizes=(1, 2), betas=(0.9, math.inf))
    assert write(value) == (
        'name: "no"\n'
        "training:\n"
        "  steps: 1000\n"
        "  learning_rate: 1.0e-05\n"
        "  schedule: linear\n"
        "  clip_norm: null\n"
        "seed: 0\n"
        "compiled: false\n"
        "data: data\n"
        "sizes: [1, 2]\n"
        "betas: [0.9, .inf]\n"
    )


def test_another_reader_of_yaml_sees_the_same_values() -> None:
    value = Recipe("1_0", Training(learning_rate=1e-5, clip_norm=1e22), data=Path("2020-01-01"))
    assert yaml.safe_load(write(value)) == {
        "name": "1_0",
        "training": {
            "steps": 1000,
            "learning_rate": 1e-5,
            "schedule": "linear",
            "clip_norm": 1e22,
        },
        "seed": 0,
        "compiled": False,
        "data": "2020-01-01",
        "sizes": [],
        "betas": [0.9, 0.99],
    }


def test_not_a_number_goes_through_yaml() -> None:
    assert math.isnan(read(Training, write(Training(learning_rate=math.nan))).learning_rate)


def test_what_is_no_setting_is_not_written() -> None:
    with pytest.raises(TypeError, match="settings hold no list, got \\[1\\]"):
        write([1])


def test_a_value_is_read_as_its_field_is_declared() -> None:
    text = (
        "name: no\ncompiled: no\nseed: 2_000\ndata: 1e-3\nsizes: [1, 2]\n"
        "training: {learning_rate: 1e-3, clip_norm: ~}\n"
    )
    assert read(Recipe, text) == Recipe(
        name="no",
        training=Training(steps=500, learning_rate=1e-3),
        seed=2000,
        data=Path("1e-3"),
        sizes=(1, 2),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("yes", True), ("On", True), ("true", True), ("no", False), ("OFF", False), ("false", False)],
)
def test_truths_have_six_words(text: str, value: bool) -> None:
    assert read(Recipe, f"name: a\ncompiled: {text}").compiled is value


def test_a_group_given_in_part_keeps_the_rest_of_its_fields_default() -> None:
    assert read(Recipe, "name: a\ntraining:\n  schedule: cosine").training.steps == 500
    assert read(Recipe, "name: a\ntraining:\n  # steps: 3").training.steps == 500
    assert read(Recipe, "name: a", overrides=["training.schedule=cosine"]) == Recipe(
        "a", Training(steps=500, schedule="cosine")
    )


def test_five_mistakes_are_five_lines_in_order() -> None:
    text = (
        "seed: 1.5\n"
        "training:\n"
        "  lerning_rate: 1e-3\n"
        "  steps: many\n"
        "  schedule: cosin\n"
        "sizes: [1, two]\n"
        "name: a\n"
    )
    assert mistakes(text) == [
        "recipe.yaml:1:7: seed is a whole number, got '1.5'",
        "recipe.yaml:3:3: training has no field 'lerning_rate'; did you mean learning_rate?",
        "recipe.yaml:4:10: training.steps is a whole number, got 'many'",
        "recipe.yaml:5:13: training.schedule is one of linear, cosine, got 'cosin'; "
        "did you mean cosine?",
        "recipe.yaml:6:12: sizes[1] is a whole number, got 'two'",
    ]


GROUP = "a group of steps, learning_rate, schedule, clip_norm"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("seed: 1", ["1:1: name is missing; it is text"]),
        ("", ["1:1: name is missing; it is text"]),
        ("nam: a", ["1:1: recipe has no field 'nam'; did you mean name?"]),
        ("name:", ["1:6: name is text, got nothing"]),
        ("name: null", ["1:7: name is text, got null"]),
        ("name: a\nseed: '3'", ["2:7: seed is a whole number, got the text '3'"]),
        ("name: a\nseed: ٣", ["2:7: seed is a whole number, got '٣'"]),
        ("name: a\nseed: {a: 1}", ["2:7: seed is a whole number, got a mapping"]),
        ("name: a\nseed: [1]", ["2:7: seed is a whole number, got a list"]),
        ("name: a\ntraining: 3", [f"2:11: training is {GROUP}, got '3'"]),
        ("name: a\nsizes: 3", ["2:8: sizes is a list, each a whole number, got '3'"]),
        ("name: a\nbetas: [1, 2, 3]", ["2:8: betas is a list of 2, got a list of 3"]),
        ("name: a\ncompiled: 1", ["2:11: compiled is true or false, got '1'"]),
        (
            "name: a\ntraining: {clip_norm: x}",
            ["2:23: training.clip_norm is a number or null, got 'x'"],
        ),
        ("name: a\nname: b", ["2:1: 'name' is given twice, first at recipe.yaml:1:1"]),
        ("name: a\n[1]: b", ["2:1: a field's name is text, got a list"]),
        ("name: a\n<<: {seed: 1}", ["2:1: merging with << is not read; write the fields out"]),
        ("name: a\ntraining:\n  steps: 0", ["3:3: steps is 1 or more, got 0"]),
        (
            "name: a\ntraining: {zzz: 1, steps: 0}",
            [
                "2:12: training has no field 'zzz'; its fields are steps, learning_rate, schedule, "
                "clip_norm",
                "2:20: steps is 1 or more, got 0",
            ],
        ),
        ("name: a\nsizes: &x [1, *x]", ["2:8: an alias stands inside its own anchor"]),
        (
            "name: !!python/object/apply:os.system [ls]",
            [
                "1:7: the tag !!python/object/apply:os.system is not read; "
                "write the plain value without a tag"
            ],
        ),
        (
            "name: a\nsizes: [1",
            [
                "2:10: not YAML: while parsing a flow sequence, "
                "expected ',' or ']', but got '<stream end>'"
            ],
        ),
        ("name: a: b", ["1:8: not YAML: mapping values are not allowed here"]),
        ("name: *a", ["1:7: not YAML: found undefined alias 'a'"]),
        ("name: a\nseed: \x07", ["2:7: not YAML: the character '\\x07' is not allowed"]),
        ("name: '\\UFFFFFFFF'".replace("'", '"'), ["1:10: not YAML: an escape names no character"]),
        ("name: " + "[" * 1500, ["1:1: nested too deep to be settings"]),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, lines: list[str]) -> None:
    assert mistakes(text) == [f"recipe.yaml:{line}" for line in lines]


@pytest.mark.parametrize(("text", "got"), [("[1]", "a list"), ("hello", "'hello'")])
def test_a_document_is_a_mapping(text: str, got: str) -> None:
    assert mistakes(text, kind=Training) == [f"recipe.yaml:1:1: training is {GROUP}, got {got}"]


def test_an_alias_means_what_its_anchor_says() -> None:
    assert read(Recipe, "name: &x a\ndata: *x").data == Path("a")


def test_many_aliases_of_aliases_are_read_at_once() -> None:
    text = "a0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)
    )
    assert len(mistakes(text)) == 41  # each name is unknown, and there is no name


def test_an_override_replaces_what_the_file_says() -> None:
    text = "name: a\ntraining: &t {steps: 5}\nseed: 1"
    overrides = ["training.steps=7", "seed = 2", "sizes=[3]", "seed=3"]
    assert read(Recipe, text, overrides=overrides) == Recipe("a", Training(steps=7), 3, sizes=(3,))


def test_an_override_of_one_alias_leaves_the_other() -> None:
    assert read(Two, "a: &x {steps: 1}\nb: *x", overrides=["a.steps=2"]) == Two(
        Training(2), Training(1)
    )


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("training.steps=many", ": training.steps is a whole number, got 'many'"),
        ("training.stepz=3", ": training has no field 'stepz'; did you mean steps?"),
        ("trainig.steps=3", ": recipe has no field 'trainig'; did you mean training?"),
        ("seed.x=3", ": seed is a whole number, got a mapping"),
        ("seed=", ": seed is a whole number, got nothing"),
        ("seed", ": an override reads like field=value or group.field=value"),
        ("training..steps=3", ": an override reads like field=value or group.field=value"),
        ("name=!x a", ": the tag !x is not read; write the plain value without a tag"),
        ("name=a: b: c", ": not YAML: mapping values are not allowed here"),
        ("training.steps=0", ": steps is 1 or more, got 0"),
    ],
)
def test_a_mistake_in_an_override_is_told_with_the_override(override: str, line: str) -> None:
    assert mistakes("name: a", override) == [override + line]


def test_a_failed_check_names_the_file_and_the_override() -> None:
    assert mistakes("name: a\ntraining:\n  steps: 3", "training.steps=0") == [
        "recipe.yaml:3:3 with training.steps=0: steps is 1 or more, got 0"
    ]


def test_mistakes_of_overrides_come_after_those_of_the_file_in_order() -> None:
    assert mistakes("name: a\nzzzz: 1", "seed=b", "betas=1", "sizes") == [
        "recipe.yaml:2:1: recipe has no field 'zzzz'; its fields are name, training, seed, "
        "compiled, data, sizes, betas",
        "seed=b: seed is a whole number, got 'b'",
        "betas=1: betas is a list of 2, got '1'",
        "sizes: an override reads like field=value or group.field=value",
    ]


def test_a_syntax_error_hides_only_what_cannot_be_known() -> None:
    assert mistakes("name: a: b", "seed", "seed=x") == [
        "recipe.yaml:1:8: not YAML: mapping values are not allowed here",
        "seed: an override reads like field=value or group.field=value",
    ]


def test_a_kind_that_cannot_be_read_is_the_programmers_mistake() -> None:
    with pytest.raises(TypeError, match="settings are not read as set\\[int\\]"):
        read(NoKind, "a: 1")


def test_two_groups_in_one_field_are_the_programmers_mistake() -> None:
    with pytest.raises(TypeError, match=r"^a: YAML does not tell the kinds of .* apart$"):
        read(TwoKinds, "a: {steps: 1}")


def test_a_file_is_read_with_its_name_in_the_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("\ufeffname: ä\nseed: 1".encode())
    assert load(Recipe, path, ["seed=2"]) == Recipe("ä", seed=2)
    path.write_bytes("\ufeffseed: x\nname: a".encode())  # the mark before it is no column
    with pytest.raises(Mistakes) as caught:
        load(Recipe, path)
    assert str(caught.value) == f"{path}:1:7: seed is a whole number, got 'x'"


def test_what_is_no_file_of_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with pytest.raises(ValueError) as caught:
        load(Recipe, path)
    assert str(caught.value) == f"settings are read from a file, and there is no {path}"
    with pytest.raises(ValueError) as caught:
        load(Recipe, tmp_path)
    assert str(caught.value) == f"settings are read from a file, {tmp_path} is a folder"
    path.write_bytes(b"name: \xff")
    with pytest.raises(ValueError) as caught:
        load(Recipe, path)
    assert str(caught.value) == f"settings are UTF-8 text, byte 6 of {path} is 0xff"
