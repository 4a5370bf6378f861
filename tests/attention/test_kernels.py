"""Every kernel agrees with the reference, and the reference is what the books say."""

import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import pytest
import torch
from combinations import GEOMETRIES, MEANINGFUL, PATTERNS, RELATIVES, B, C, H, T, fits, relative_for
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from manyheads import (
    KERNELS,
    Additive,
    Attention,
    Blocks,
    Causal,
    Checked,
    Clipped,
    Dot,
    Every,
    Everything,
    Lengths,
    Multiplicative,
    Pairs,
    Prefix,
    RelativeBias,
    RelativeContent,
    Rotary,
    ScaledDot,
    Segments,
    Together,
    Window,
    Work,
    choose,
    grid,
    line,
    plan,
)
from manyheads.attention.biases import ContentBias, Kind
from manyheads.attention.evaluate import looks_ahead
from manyheads.attention.intervals import Verdict
from manyheads.attention.kernels import Fastest, kernel
from manyheads.attention.kernels.base import Kernel, Plain, Plan
from manyheads.attention.kernels.relative import describe_misfit
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Pair, Places
from manyheads.attention.positions import Relative
from manyheads.attention.scores import Score

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 3e-2}
FAST = [name for name in KERNELS if name != "reference"]


def attend(
    which: Kernel,
    pattern: Pattern,
    pairs: Pairs,
    relative: Relative,
    tensors: tuple[Tensor, ...],
    *,
    gradient: bool,
) -> list[Tensor]:
    """The output, and where asked the gradients of query, key, value and the position's tables."""
    features = relative.features | ({"gradient"} if gradient else set())
    q, k, v = (x.clone().requires_grad_(gradient) for x in tensors)
    work = Work(
        pattern, pairs, frozenset(features), q.dtype, q.shape[-1], k.shape[1], relative.kinds()
    )
    planned = plan(which, work)
    relative.zero_grad()
    with torch.set_grad_enabled(gradient):
        turned = relative.rotate(q, pairs.queries), relative.rotate(k, pairs.keys)
        out = planned(*turned, v, biases=relative.biases(q))
        if not gradient:
            return [out]
        out.square().sum().backward()
    tables = [p.grad.clone() for p in relative.parameters() if p.grad is not None]
    return [out.detach(), *(x.grad for x in (q, k, v)), *tables]


def random_tensors(
    dtype: torch.dtype, queries: int = T, keys: int = T, key_heads: int = H
) -> tuple[Tensor, ...]:
    sizes = (H, queries), (key_heads, keys), (key_heads, keys)
    return tuple(torch.randn(B, *size, C, dtype=dtype) for size in sizes)


def assert_agree(
    pattern: Pattern, pairs: Pairs, relative: Relative, tensors: tuple[Tensor, ...]
) -> int:
    """Compare all kernels that do not refuse; how many did not."""
    agreed = 0
    for gradient in (False, True):
        wanted = attend(KERNELS["reference"], pattern, pairs, relative, tensors, gradient=gradient)
        features = relative.features | ({"gradient"} if gradient else set())
        work = Work(
            pattern,
            pairs,
            frozenset(features),
            tensors[0].dtype,
            C,
            tensors[1].shape[1],
            relative.kinds(),
        )
        for name in FAST:
            if KERNELS[name].refuses(work):
                continue
            found = attend(KERNELS[name], pattern, pairs, relative, tensors, gradient=gradient)
            assert len(found) == len(wanted)
            tolerance = TOLERANCE[tensors[0].dtype]
            for a, b in zip(found, wanted, strict=True):
                scale = max(1.0, b.abs().max().item())
                torch.testing.assert_close(
                    a / scale, b / scale, atol=tolerance, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
                )
            agreed += 1
    return agreed


@pytest.fixture
def flex_untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flex computes the same without being traced at each call, which takes half a second; traced
    it is in 32 bits below, and compiled on a GPU.
    """
    flag = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(flag, True, raising=False)
    monkeypatch.setattr(
        "manyheads.attention.kernels.flex.compile_for_shape", lambda *_: flex_attention
    )


@pytest.mark.usefixtures("flex_untraced")
@pytest.mark.parametrize(("geometry", "name"), MEANINGFUL)
def test_kernels_agree_whatever_the_place_pattern_and_position(geometry: str, name: str) -> None:
    places, pattern = GEOMETRIES[geometry], PATTERNS[name]
    pairs = Pairs(B, H, places, places)
    agreed = 0
    for relative in RELATIVES:
        if fits(places, relative):
            position = relative_for(relative, places).double()
            agreed += assert_agree(pattern, pairs, position, random_tensors(torch.float64))
    assert agreed >= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [name for geometry, name in MEANINGFUL if geometry == "line"])
def test_kernels_agree_in_every_precision(
    name: str, dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    if dtype == torch.bfloat16:
        request.getfixturevalue("flex_untraced")
    places = GEOMETRIES["line"]
    pattern, pairs = PATTERNS[name], Pairs(B, H, places, places)
    for relative in ("none", "bias", "music"):
        position = relative_for(relative, places).to(dtype)
        assert assert_agree(pattern, pairs, position, random_tensors(dtype))


@pytest.mark.parametrize("key_heads", [1, 2])
@pytest.mark.parametrize(
    "name", ["everything", "causal", "causal window", "lengths", "causal packed"]
)
def test_heads_may_share_their_keys_on_every_kernel(name: str, key_heads: int) -> None:
    pairs = Pairs(B, H, line(T), line(T))
    tensors = random_tensors(torch.float64, key_heads=key_heads)
    assert assert_agree(PATTERNS[name], pairs, Relative(), tensors) >= 3


@pytest.mark.usefixtures("flex_untraced")
@pytest.mark.parametrize("name", ["everything", "causal", "causal window", "blocks", "prefix"])
@pytest.mark.parametrize("queries", [1, 5])
def test_a_few_queries_at_the_end_of_a_cache_agree_on_every_kernel(name: str, queries: int) -> None:
    keys, pattern = line(T), PATTERNS[name]
    pairs = Pairs(B, H, keys[T - queries :], keys)
    tensors = random_tensors(torch.float64, queries=queries)
    for relative in ("none", "bias", "music"):
        position = relative_for(relative, keys).double()
        assert assert_agree(pattern, pairs, position, tensors) >= 2


@dataclass(frozen=True)
class Mirrored(Clipped):
    """A rule of one's own: a key ahead reads the entry of one as far behind."""

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return tuple(self.reach - step.abs().clamp(max=self.reach) for step in pair.apart)


@dataclass(frozen=True)
class Paired(Every):
    """A rule of one's own: two distances after each other share an entry."""

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return tuple(index // 2 for index in super().indices(pair))


@pytest.mark.usefixtures("flex_untraced")
@pytest.mark.parametrize("queries", [1, 5, T])
@pytest.mark.parametrize("rule", [Mirrored(3), Paired(T)], ids=lambda rule: type(rule).__name__)
def test_a_rule_made_from_another_is_not_taken_for_it(rule: Clipped | Every, queries: int) -> None:
    keys = line(T)
    pairs = Pairs(B, H, keys[T - queries :], keys)
    tensors = random_tensors(torch.float64, queries=queries)
    for relative in (RelativeBias(H, rule), RelativeContent(C, rule)):
        assert assert_agree(Causal(), pairs, relative.double(), tensors) >= 2
    work = Work(Causal(), pairs, kinds=RelativeContent(16, rule).kinds(), channels=16)
    assert "not by " in describe_misfit(work)


def test_packed_queries_see_the_same_documents_of_packed_keys_on_every_kernel() -> None:
    target = Segments.of([[4, 9, 3], [20]], 20)
    source = Segments.of([[6, 2, 30], [36]], 38)
    pairs = Pairs(B, H, line(20), line(38))
    tensors = random_tensors(torch.float64, queries=20, keys=38)
    assert assert_agree(target.towards(source), pairs, Relative(), tensors) >= 4


# ---- the reference ---------------------------------------------------------------------------


def test_the_reference_is_softmax_of_scaled_products() -> None:
    q, k, v = random_tensors(torch.float64)
    pairs = Pairs(B, H, line(T), line(T))
    out = plan(KERNELS["reference"], Work(Everything(), pairs, dtype=torch.float64))(q, k, v)
    torch.testing.assert_close(out, torch.softmax(q @ k.mT / math.sqrt(C), -1) @ v)


def test_shaw_adds_embeddings_of_the_clipped_distance_to_keys_and_values() -> None:
    q, k, v = random_tensors(torch.float64)
    shaw = RelativeContent(C, Clipped(3), values=True).double()
    pairs = Pairs(B, H, line(T), line(T))
    steps = (torch.arange(T)[None] - torch.arange(T)[:, None]).clamp(-3, 3) + 3
    assert shaw.value_tables is not None
    key_embedding, value_embedding = shaw.key_tables[0, 0][steps], shaw.value_tables[0, 0][steps]
    scores = (q @ k.mT + torch.einsum("bhqc,qkc->bhqk", q, key_embedding)) / math.sqrt(C)
    weights = scores.softmax(-1)
    wanted = weights @ v + torch.einsum("bhqk,qkc->bhqc", weights, value_embedding)
    work = Work(Everything(), pairs, dtype=torch.float64, kinds=shaw.kinds())
    out = plan(KERNELS["reference"], work)(q, k, v, biases=shaw.biases(q))
    torch.testing.assert_close(out, wanted)


# ---- no permitted key ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "relative"),
    [
        *(
            (which, relative)
            for which in ("reference", "sdpa", "flex")
            for relative in ("none", "bias", "music")
        ),
        ("varlen", "none"),
    ],
)
def test_a_query_with_no_permitted_key_gives_zeros_and_finite_gradients(
    which: str, relative: str
) -> None:
    padded = Segments.of([[10, 5], [T]], T)  # 21 tokens of padding in the first row
    pairs, position = Pairs(B, H, line(T), line(T)), relative_for(relative, line(T))
    gradient = which != "flex"  # FlexAttention has none on a CPU
    tensors = random_tensors(torch.float32)
    out, *gradients = attend(KERNELS[which], padded, pairs, position, tensors, gradient=gradient)
    assert out[0, :, 15:].abs().max() == 0
    assert out[0, :, :15].abs().min() > 0
    assert all(torch.isfinite(g).all() for g in gradients)
    assert gradient == bool(gradients)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_no_step_of_an_empty_rows_gradient_is_not_a_number() -> None:
    pairs, empty = Pairs(B, H, line(T), line(T)), Lengths(torch.tensor([0, 3]))
    tensors = random_tensors(torch.float32)
    with torch.autograd.detect_anomaly(check_nan=True):
        attend(KERNELS["reference"], empty, pairs, Relative(), tensors, gradient=True)


# ---- scores ----------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(
    "score", [ScaledDot(), Dot(), Multiplicative(C, C)], ids=lambda s: type(s).__name__
)
def test_scores_that_are_products_run_on_every_kernel(score: ScaledDot) -> None:
    score, pairs = score.double(), Pairs(B, H, line(T), line(T))
    tensors = random_tensors(torch.float64)
    segments = Segments.of([[10, 26], [36]], T)
    work = Work(segments, pairs, score.features, torch.float64)
    wanted = plan(KERNELS["reference"], work)(*tensors, score=score)
    plainly = [name for name in FAST if not KERNELS[name].refuses(work)]
    assert {"sdpa", "varlen", "flex"} <= set(plainly)
    for name in plainly:
        torch.testing.assert_close(
            plan(KERNELS[name], work)(*tensors, score=score), wanted, msg=name
        )


def test_the_additive_score_is_computed_by_the_reference_alone() -> None:
    additive = Additive(C, C, 5).double()
    q, k, _ = random_tensors(torch.float64)
    one = additive.hidden_to_score(
        torch.tanh(additive.query_to_hidden(q[0, 1, 2]) + additive.key_to_hidden(k[0, 1, 7]))
    )
    torch.testing.assert_close(additive(q, k)[0, 1, 2, 7], one[0])
    work = Work(Everything(), Pairs(B, H, line(T), line(T)), additive.features)
    choice = choose(work)
    assert choice.kernel.name == "reference"
    assert set(choice.refusals.values()) >= {"it has no score other than a product"}


class Cosine(Score):
    """A score of one's own that is no product of two vectors."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.cosine_similarity(query[..., :, None, :], key[..., None, :, :], -1)


class Squared(Multiplicative):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key) ** 2


@pytest.mark.parametrize("score", [Cosine(), Squared(C, C)], ids=lambda s: type(s).__name__)
def test_a_score_with_a_definition_of_its_own_is_computed_by_it(score: Score) -> None:
    layer, x = Attention(H * C, H, score=score).double(), torch.randn(B, T, H * C).double()
    pairs = Pairs(B, H, line(T), line(T))
    choice = choose(work := layer.work(Causal(), pairs, x))
    assert choice.kernel.name == "reference"
    assert set(choice.refusals.values()) >= {"it has no score other than a product"}
    query, key, value = (layer.split(part) for part in layer.inward(x).chunk(3, -1))
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    weights = score(query, key).masked_fill(hidden, -torch.inf).softmax(-1)
    wanted = layer.out((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, plan(choice.kernel, work)), wanted)


@pytest.mark.parametrize("name", ["reference", "sdpa"])
def test_a_plan_refuses_a_score_it_was_not_told_of(name: str) -> None:
    planned = plan(name, Work(Everything(), Pairs(B, H, line(T), line(T)), channels=C))
    with pytest.raises(ValueError, match="told of no score other than a product and Cosine came"):
        planned(*random_tensors(torch.float32), score=Cosine())


def test_dropout_empties_weights_and_keeps_their_mean() -> None:
    pairs, ones = Pairs(1, 1, line(1), line(400)), torch.ones(1, 1, 400, 1)
    for name in ("reference", "sdpa", "blockwise"):
        work = Work(Everything(), pairs, frozenset({"dropout"}), channels=1)
        planned = plan(KERNELS[name], work)
        outs = torch.stack([planned(ones[:, :, :1], ones, ones, dropout=0.5) for _ in range(200)])
        assert outs.std() > 0.01
        assert abs(outs.mean() - 1) < 0.02
        torch.testing.assert_close(planned(ones[:, :, :1], ones, ones), torch.ones(1, 1, 1, 1))


class Strided(Pattern):
    """What intervals know nothing of."""

    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.order - pair.k.order) % 3 == 0


class Listed(Pattern):
    """A pattern of one's own with a list: steps that a query may look back."""

    steps: list[int]

    def allows(self, pair: Pair) -> Verdict:
        back = pair.q.order - pair.k.order
        return reduce(or_, (back == step for step in self.steps))


class Table(Pattern):
    """A pattern of one's own that finds its pairs by name."""

    steps: dict[str, int]

    def allows(self, pair: Pair) -> Verdict:
        return pair.q.order - pair.k.order <= self.steps["most"]


@torch.no_grad()
def test_a_pattern_with_a_list_is_read_as_the_list_is_now() -> None:
    pairs, listed = Pairs(B, H, line(T), line(T)), Listed([0])
    tensors = random_tensors(torch.float64)
    for steps in ([0, 1, 3], [2, 0], [0, 1, 3]):
        listed.steps[:] = steps
        assert assert_agree(Causal() & listed, pairs, Relative(), tensors) >= 3
    assert looks_ahead(listed) == ""
    listed.steps[:] = [0, -20]
    assert looks_ahead(listed) == "token 0 sees token 20"


class Whole(Pattern):
    """A pattern of one's own that answers for all pairs, whichever it is asked about."""

    def allows(self, pair: Pair) -> Verdict:
        queries, keys = pair.pairs.queries.order, pair.pairs.keys.order
        return queries[:, None] - keys < 3


def test_an_answer_that_is_not_that_of_a_block_drops_no_pattern() -> None:
    pairs, tensors = Pairs(B, H, line(T), line(T)), random_tensors(torch.float64)
    work = Work(Causal() & Whole(), pairs, frozenset(), torch.float64, C)
    wanted = plan("reference", replace(work, pattern=Causal() & Window(2)))(*tensors)
    for name in ("reference", "sdpa", "blockwise"):
        torch.testing.assert_close(plan(name, work)(*tensors), wanted, msg=name)
    with pytest.raises(
        TypeError, match=r"about one pair and answered for \(36, 36\); an answer is"
    ):
        plan("flex", work)


class Three(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return torch.tensor([True, False, True])


@pytest.mark.parametrize("name", ["reference", "sdpa", "flex", "blockwise"])
def test_an_answer_for_other_pairs_is_refused(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"allows of Three\(\) was asked about .* and answered for \(3,\)"
    ):
        plan(name, work_on_a_line(Three()))


def test_flex_refuses_a_pattern_by_which_it_finds_no_program() -> None:
    sentence = "it reads patterns of numbers, tuples, lists and tensors, not of a dict"
    assert KERNELS["flex"].refuses(work_on_a_line(Causal() & Table({"most": 2}))) == sentence


LOCAL = {
    "window": (line(300), Causal() & Window(9)),
    "blocks": (grid(15, 20), Causal() & Blocks((4, 4), (2, 2))),
    "two places": (line(300), Window(2) | Prefix(5)),
    "some see nothing": (line(300), Causal() & ~Window(140)),
    "lengths": (line(300), Causal() & Lengths([300, 7])),
    "one's own": (line(300), Window(40) & Strided()),
}


@pytest.mark.parametrize("key_heads", [H, 2])
@pytest.mark.parametrize("name", LOCAL)
def test_strips_that_leave_out_what_nobody_sees_agree_with_the_reference(
    name: str, key_heads: int
) -> None:
    places, pattern = LOCAL[name]
    pairs, tensors = Pairs(B, H, places, places), random_tensors(torch.float64, 300, 300, key_heads)
    ours, theirs = (
        attend(KERNELS[which], pattern, pairs, Relative(), tensors, gradient=True)
        for which in ("blockwise", "reference")
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=0)


def test_local_attention_on_a_cpu_visits_what_is_near() -> None:
    places = grid(64, 64)
    work = Work(Causal() & Blocks((8, 8), (4, 4)), Pairs(1, 1, places, places))
    strips = plan("fastest", work).form
    visited = sum(strip.keys.stop - strip.keys.start for strip in strips) * 128
    assert visited < 4096**2 / 6
    assert choose(Work(Causal(), work.pairs)).kernel.name == "sdpa"


# ---- choosing --------------------------------------------------------------------------------


def work_on_a_line(pattern: Pattern, *features: str, places: Places = GEOMETRIES["line"]) -> Work:
    return Work(pattern, Pairs(B, H, places, places), frozenset(features))  # type: ignore[arg-type]


LONG = Segments.of([[1024, 1024]] * B, 2048)  # a loop over few long documents beats a mask


@pytest.mark.parametrize(
    ("work", "taken"),
    [
        (work_on_a_line(Causal(), "gradient"), "sdpa"),
        (work_on_a_line(Causal() & Window(3), "gradient"), "sdpa"),
        (work_on_a_line(PATTERNS["causal packed"], "gradient"), "sdpa"),
        (work_on_a_line(LONG, "gradient", places=line(2048)), "varlen"),
        (work_on_a_line(PATTERNS["causal packed"], "dropout"), "sdpa"),
        (work_on_a_line(Causal(), "content bias", "value bias"), "reference"),
    ],
)
def test_choose_takes_the_fastest_that_does_not_refuse(work: Work, taken: str) -> None:
    choice = choose(work)
    assert choice.kernel.name == taken
    assert f"{taken}: about" in str(choice)
    assert set(choice.costs) | set(choice.refusals) == set(KERNELS)


def test_choose_says_why_not_another() -> None:
    assert "varlen: no, it computes Segments(...), with or without Causal()" in str(
        choose(work_on_a_line(Causal()))
    )
    assert "flex: no, it has no gradient on a CPU" in str(
        choose(work_on_a_line(Causal(), "gradient"))
    )


def test_a_kernel_asked_for_by_name_never_falls_back() -> None:
    with pytest.raises(
        ValueError, match=r"the varlen kernel refuses Causal\(\): it computes Segments"
    ):
        plan(KERNELS["varlen"], work_on_a_line(Causal()))
    with pytest.raises(
        ValueError, match="there is no kernel 'flash'; there are reference, sdpa, short, varlen"
    ):
        kernel("flash")
    assert isinstance(kernel("fastest"), Fastest)


@pytest.mark.parametrize("pattern", [Causal(), Everything()], ids=str)
def test_the_short_way_through_a_plan_gives_what_the_long_way_gives(pattern: Pattern) -> None:
    q, k, v = random_tensors(torch.float64)
    pairs = Pairs(B, H, line(T), line(T))
    short = plan("sdpa", Work(pattern, pairs, dtype=torch.float64, channels=C))
    assert short.bare is not None
    long = plan("sdpa", Work(pattern, pairs, frozenset({"dropout"}), torch.float64, C))
    assert long.bare is None
    torch.testing.assert_close(short(q, k, v), long(q, k, v))
    torch.testing.assert_close(short(q, k, v, score=Dot()), long(q, k, v, score=Dot()))
    assert plan("sdpa", Work(pattern, pairs, channels=C, key_heads=2)).bare is None


def test_plain_attention_needs_no_mask() -> None:
    sdpa = KERNELS["sdpa"]
    assert sdpa.prepare(work_on_a_line(Causal())) == Plain(causal=True)
    assert sdpa.prepare(work_on_a_line(Everything())) == Plain(causal=False)
    last = Work(Causal() & Window(50), Pairs(B, H, line(1, start=T - 1), line(T)))
    assert sdpa.prepare(last) == Plain(causal=False)
    narrow = Work(Causal() & Window(5), Pairs(B, H, line(1, start=T - 1), line(T)))
    assert not isinstance(sdpa.prepare(narrow), Plain)


class Backwards(Causal):
    """Nothing earlier: what a kernel made for its parent must not take for it."""

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order >= pair.q.order


class Strangers(Segments):
    """Other documents, and not one's own."""

    def allows(self, pair: Pair) -> Verdict:
        return ~super().allows(pair)


OTHERS = Strangers(torch.zeros(B, T, dtype=torch.long), lengths=((T,),) * B)


@pytest.mark.parametrize("pattern", [Backwards(), OTHERS, OTHERS & Causal()], ids=str)
def test_a_pattern_made_from_another_is_not_taken_for_it(pattern: Pattern) -> None:
    relative = RelativeContent(16, Clipped(4))
    work = Work(pattern, Pairs(B, H, line(T), line(T)), channels=16, kinds=relative.kinds())
    assert "not " in describe_misfit(work)
    assert not isinstance(KERNELS["sdpa"].prepare(work), Plain)
    with pytest.raises(ValueError, match="the varlen kernel refuses"):
        plan("varlen", work_on_a_line(pattern))


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_a_form_that_a_kernel_did_not_prepare_is_never_read_as_no_mask(name: str) -> None:
    relative = RelativeContent(C, Clipped(2)) if name == "blockwise" else Relative()
    work = work_on_a_line(PATTERNS["packed"] if name == "varlen" else Causal())
    if name == "sparse":
        work = work_on_a_line(Window(1), places=GEOMETRIES["graph by its edges"])
    work = replace(work, channels=C, kinds=relative.kinds())
    q, k, v = random_tensors(torch.float32)
    on_cuda = name in ("skewed", "short", "block-sparse")  # they plan there alone
    form = None if on_cuda else plan(name, work).form
    for foreign in (None, True, False, 0, object()):
        if type(foreign) is type(form):
            continue
        handed = Plan(work, KERNELS[name], foreign)
        with pytest.raises((TypeError, AttributeError, ValueError)):
            handed(q, k, v, biases=relative.biases(q))


def test_a_plan_refuses_dropout_it_was_not_told_of() -> None:
    q, k, v = random_tensors(torch.float32)
    with pytest.raises(ValueError, match=r"the plan was told of no dropout and 0\.9 came"):
        plan("sdpa", work_on_a_line(Causal()))(q, k, v, dropout=0.9)


def test_a_plan_refuses_tensors_it_was_not_made_for() -> None:
    planned = plan(KERNELS["sdpa"], work_on_a_line(Causal()))
    q, k, v = random_tensors(torch.float32)
    with pytest.raises(ValueError, match="the plan is for 36 queries and 36 keys of 2 sequences"):
        planned(q[:, :, :5], k, v)


def test_a_plan_refuses_a_bias_it_was_not_told_of() -> None:
    q, k, v = random_tensors(torch.float32)
    for which in ("reference", "sdpa", "varlen", "flex"):
        work = work_on_a_line(PATTERNS["packed"] if which == "varlen" else Causal())
        with pytest.raises(ValueError, match="told of 0 biases and 1 came"):
            plan(which, work)(q, k, v, biases=RelativeBias(H, Clipped(2)).biases(q))
    with pytest.raises(ValueError, match="36 keys came with 35 values; each key has one"):
        plan("sdpa", work_on_a_line(Causal()))(q, k, v[:, :, 1:])


@dataclass(frozen=True, eq=False)
class Doubled(ContentBias):
    """A bias of one's own."""

    def by_row(self, scale: float, part: slice = slice(None)) -> Tensor:
        return 2 * super().by_row(scale, part)


class Untold(RelativeContent):
    def biases(self, query: Tensor) -> tuple[ContentBias, ...]:
        return (Doubled(query, self.key_tables, self.value_tables, self.rule),)


class Told(Untold):
    def kinds(self) -> tuple[Kind, ...]:
        return (Kind(Doubled, self.rule, self.axes, self.value_tables is not None),)


@pytest.mark.usefixtures("flex_untraced")
@pytest.mark.parametrize("values", [False, True])
def test_a_bias_made_from_another_is_not_taken_for_it(values: bool) -> None:
    pairs, tensors = Pairs(B, H, line(T), line(T)), random_tensors(torch.float64)
    relative = Told(C, Clipped(3), values=values).double()
    assert assert_agree(Causal(), pairs, relative, tensors) >= (0 if values else 2)
    assert "distance bias" in KERNELS["blockwise"].refuses(
        Work(Causal(), pairs, relative.features, kinds=relative.kinds())
    )


def test_a_plan_refuses_a_bias_of_another_kind_than_it_was_told_of() -> None:
    pairs, relative = Pairs(B, H, line(T), line(T)), Untold(C, Clipped(3))
    query, key, value = random_tensors(torch.float32)
    planned = plan("blockwise", Work(Causal(), pairs, kinds=relative.kinds(), channels=C))
    sentence = r"told of a ContentBias by Clipped\(reach=3\) and a Doubled by Clipped"
    with pytest.raises(ValueError, match=sentence):
        planned(query, key, value, biases=relative.biases(query))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_is_named_with_its_place(bad: float) -> None:
    q, k, v = random_tensors(torch.float32)
    k[1, 2, 3, 4] = bad
    planned = plan(Checked(KERNELS["sdpa"]), work_on_a_line(Causal()))
    with pytest.raises(
        ValueError, match=r"the key of Causal\(\) should be finite numbers"
    ) as error:
        planned(q, k, v)
    assert f"{bad} arrived at (1, 2, 3, 4)" in str(error.value)


def test_varlen_leaves_documents_of_unknown_length_to_others() -> None:
    work = Work(Segments([[0, 1, 0, 1]]), Pairs(1, H, line(4), line(4)))
    assert "where documents end: Segments.of" in KERNELS["varlen"].refuses(work)
    assert choose(work).kernel.name == "sdpa"
    across = Segments.of([[2, 2]], 4).towards(Segments([[0, 0, 1, 1]]))
    half_known = Work(across, Pairs(1, H, line(4), line(4)))
    assert "where documents end: Segments.of" in KERNELS["varlen"].refuses(half_known)


def test_varlen_refuses_causal_documents_of_another_tensor() -> None:
    across = Segments.of([[2, 2]], 4).towards(Segments.of([[1, 3]], 4))
    work = Work(Causal() & across, Pairs(1, H, line(4), line(4)))
    assert "look at themselves, not at another tensor" in KERNELS["varlen"].refuses(work)


def test_empty_documents_and_empty_batches_pass_through_every_kernel() -> None:
    hollow = Segments.of([[3, 0, 4], [0, 0, 0]], 8)
    pairs = Pairs(2, H, line(8), line(8))
    assert assert_agree(hollow, pairs, Relative(), random_tensors(torch.float64, 8, 8)) >= 3
    nothing = Pairs(B, H, line(0), line(0))
    for pattern in (Causal(), Lengths([0, 0]), Segments.of([[], []], 0)):
        planned = plan(choose(Work(pattern, nothing)).kernel, Work(pattern, nothing))
        assert planned(*random_tensors(torch.float32, 0, 0)).shape == (B, H, 0, C)


def test_rotation_does_not_reach_the_query_of_a_content_bias() -> None:
    """Turned queries would tell where they stand; with both, only distances count."""
    both = Together(Rotary(), RelativeContent(C, Clipped(3))).double()
    tensors = random_tensors(torch.float64)
    here, there = (
        attend(KERNELS["reference"], Causal(), Pairs(B, H, at, at), both, tensors, gradient=False)
        for at in (line(T), line(T, start=9))
    )
    torch.testing.assert_close(here[0], there[0], atol=1e-12, rtol=0)


def test_a_bias_may_be_asked_of_a_kernel_that_has_none() -> None:
    work = work_on_a_line(PATTERNS["packed"], *RelativeBias(H, Clipped(2)).features)
    assert KERNELS["varlen"].refuses(work) == "it has no distance bias"
