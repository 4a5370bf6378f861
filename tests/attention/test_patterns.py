"""Who may attend to whom: each pattern, their algebra, their text, and their blocks."""

from functools import reduce
from operator import or_

import pytest
import torch
from combinations import GEOMETRIES, MEANINGFUL, PATTERNS, B, H
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from manyheads import (
    KERNELS,
    Blocks,
    Causal,
    Everything,
    Graph,
    Lengths,
    Pairs,
    Pattern,
    Prefix,
    Segments,
    Window,
    graph,
    grid,
    line,
    packed,
    read,
)
from manyheads.attention.evaluate import check, simplify
from manyheads.attention.intervals import Verdict
from manyheads.attention.kernels import Work, plan
from manyheads.attention.kernels.flex import Flex, block_truth, exact_truth
from manyheads.attention.places import Pair, Places


def matrix(pattern: Pattern, places: Places, batch: int = 1) -> list[list[int]]:
    pairs = Pairs(batch, 1, places, places)
    check(pattern, pairs)
    allowed = pattern.allows(pairs.everywhere())
    return allowed.expand(batch, 1, len(places), len(places))[0, 0].int().tolist()


# ---- each pattern ----------------------------------------------------------------------------


def test_causal_sees_itself_and_what_came_before() -> None:
    assert matrix(Causal(), line(3)) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_a_window_is_of_time_on_a_line_and_of_hops_in_a_graph() -> None:
    assert matrix(Window(1), line(4))[1] == [1, 1, 1, 0]
    assert matrix(Window(1), graph([(0, 3), (3, 1)], 4))[0] == [1, 0, 0, 1]


def test_a_window_on_an_image_is_a_square_and_leaves_unnamed_axes_free() -> None:
    seen = torch.tensor(matrix(Window(1), grid(4, 4))[5]).view(4, 4)
    assert seen.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    rows_only = torch.tensor(matrix(Window((0,)), grid(4, 4))[5]).view(4, 4)
    assert rows_only.tolist()[1] == [1, 1, 1, 1]
    assert rows_only.sum() == 4


def test_blocks_of_a_line_see_their_block_and_the_memory_around_it() -> None:
    rows = matrix(Blocks(2, 1), line(6))
    assert rows[2] == rows[3] == [0, 1, 1, 1, 1, 0]
    causal = matrix(Causal() & Blocks(2, 1), line(6))
    assert causal[2] == [0, 1, 1, 0, 0, 0]


def test_blocks_of_an_image_are_the_image_transformers_rectangles() -> None:
    at = grid(4, 6, blocks=(2, 3))
    token = int(((at.axes[0] == 2) & (at.axes[1] == 3)).nonzero())  # opens the last block
    seen = torch.tensor(matrix(Causal() & Blocks((2, 3), (1, 1)), at)[token])
    picture = torch.zeros(4, 6, dtype=torch.long)
    picture[at.axes[0], at.axes[1]] = seen
    assert picture.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 1],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 1, 0, 0, 0],
    ]


def test_a_prefix_is_seen_by_all_and_the_rest_is_causal() -> None:
    assert matrix(Prefix(2), line(4)) == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_lengths_hide_padding() -> None:
    assert matrix(Lengths(torch.tensor([2])), line(3)) == [[1, 1, 0]] * 3


def test_packed_documents_see_only_themselves_and_padding_nothing() -> None:
    documents = Segments.of([[2, 1]], 4)
    assert documents == Segments([[0, 0, 1, -1]])
    assert matrix(documents, line(4)) == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_packed_documents_keep_their_own_prefixes_and_blocks() -> None:
    at, seen = packed([[3, 3]], 6), Segments.of([[3, 3]], 6)
    for pattern in (Prefix(2), Blocks(2, 0), Causal() & Blocks(2, 1), Causal(), Window(1)):
        alone = torch.tensor(matrix(pattern, line(3)))
        assert matrix(pattern & seen, at) == torch.block_diag(alone, alone).tolist(), pattern


def test_patterns_combine_as_sets() -> None:
    assert matrix(Causal() & Window(1), line(3)) == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert matrix(Causal() | Window(1), line(3)) == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert matrix(~Causal(), line(3)) == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]


# ---- values ----------------------------------------------------------------------------------


def test_the_shortest_way_to_say_it_is_taken() -> None:
    assert Everything() & Causal() == Causal()
    assert Causal() & Causal() == Causal()
    assert ~~Causal() == Causal()
    assert (Causal() & Window(2)) & Window(3) == Causal() & (Window(2) & Window(3))
    assert Everything() & Everything() == Everything()


def test_patterns_compare_by_what_they_say() -> None:
    assert Window(2) == Window(2) != Window(3)
    assert Lengths([3, 1]) == Lengths(torch.tensor([3, 1])) != Lengths([3, 2])
    assert len({Causal(), Causal(), Window(1)}) == 2


SIMPLE = st.one_of(
    st.just(Causal()),
    st.builds(Window, st.integers(0, 9)),
    st.builds(Window, st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.builds(Blocks, st.integers(1, 9), st.integers(0, 9)),
    st.just(Blocks((2, 3), (1, 0))),
    st.builds(Prefix, st.integers(0, 9)),
    st.builds(Lengths, st.lists(st.integers(0, 9), min_size=1, max_size=3).map(torch.tensor)),
    st.just(Segments([[0, 1, -1]])),
    st.just(Segments([[0, 1]], [[0, 0, 1]])),
)
ANY = st.recursive(
    SIMPLE,
    lambda p: st.one_of(
        st.tuples(p, p).map(lambda two: two[0] & two[1]),
        st.tuples(p, p).map(lambda two: two[0] | two[1]),
        p.map(lambda one: ~one),
    ),
    max_leaves=6,
)


@given(pattern=ANY)
def test_a_pattern_prints_as_it_is_written_and_reads_back(pattern: Pattern) -> None:
    assert read(str(pattern)) == pattern


def test_patterns_print_as_written() -> None:
    for text in (
        "Causal() & Window(2)",
        "(Causal() | Window((1, 2))) & ~Prefix(3)",
        "Everything()",
    ):
        assert str(read(text)) == text
    assert str(read("Blocks(query=256, memory=512)")) == "Blocks(256, 512)"


def test_a_batchs_pattern_is_not_fixed_and_moves_with_its_tensors() -> None:
    assert (Causal() & Window(2) | ~Prefix(3)).fixed
    assert not (Causal() & Lengths([3])).fixed
    assert not (~Segments([[0]])).fixed
    moved = (Causal() & Lengths([3])).to("meta")
    assert moved.parts()[1].lengths.device.type == "meta"  # type: ignore[attr-defined]


# ---- blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("geometry", "name"), MEANINGFUL)
@pytest.mark.parametrize("size", [4, 7])
def test_blocks_planned_by_intervals_never_skip_a_pair_nor_let_one_in(
    geometry: str, name: str, size: int
) -> None:
    pattern, places = PATTERNS[name], GEOMETRIES[geometry]
    pairs = Pairs(B, H, places, places)
    planned, exact = block_truth(pattern, pairs, size), exact_truth(pattern, pairs, size)
    assert planned.some.shape[2:] == exact.some.shape[2:]
    assert (planned.some | ~exact.some).all(), "a block with an allowed pair is skipped"
    assert (~planned.all | exact.all).all(), "a block with a forbidden pair is taken whole"


@pytest.mark.parametrize("name", ["causal", "window", "causal blocks", "prefix", "causal packed"])
def test_on_a_line_the_blocks_are_exactly_those_that_matter(name: str) -> None:
    pattern, pairs = PATTERNS[name], Pairs(B, H, line(36), line(36))
    planned, exact = block_truth(pattern, pairs, 4), exact_truth(pattern, pairs, 4)
    assert torch.equal(*torch.broadcast_tensors(planned.all, exact.all))
    if name != "causal packed":  # its padding may be visited in vain
        assert torch.equal(*torch.broadcast_tensors(planned.some, exact.some))


class Strided(Pattern):
    """A pattern of one's own, in words that intervals do not know."""

    step: int

    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.order - pair.k.order) % self.step == 0


class ByHead(Pattern):
    """Head h sees as far as 8 - 3 h."""

    def allows(self, pair: Pair) -> Verdict:
        return abs(pair.q.order - pair.k.order) <= 8 - 3 * pair.h


class Product(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return pair.q.order * pair.k.order <= 20


class SameHalf(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.order < 4) == (pair.k.order < 4)


class Grouped(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return pair.q.order // (pair.h + 1) == pair.k.order // (pair.h + 1)


class Marked(Pattern):
    """A table of tokens, looked up."""

    marks: torch.Tensor

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.pick(self.marks)


class Chained(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return 0 <= pair.q.order - pair.k.order <= 100


class Certain(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return True


class Silent(Pattern):
    pass


class Doubled(Pattern):
    """A number before the sign."""

    def allows(self, pair: Pair) -> Verdict:
        return 2 * pair.k.order <= 3 + pair.q.order


def test_a_pattern_of_ones_own_may_use_any_arithmetic() -> None:
    pairs = Pairs(1, 1, line(20), line(20))
    truth = block_truth(Causal() & Strided(8), pairs, 4)
    wanted = [[j <= i and (i - j) % 2 == 0 for j in range(5)] for i in range(5)]
    assert truth.some[0, 0].tolist() == wanted
    assert str(Strided(8) & Causal()) == "Strided(8) & Causal()"


def test_the_lists_of_blocks_are_those_of_the_dense_mask_and_lie_plainly_in_memory() -> None:
    hops = torch.randint(0, 6, (2, 300, 300))
    nodes = Graph(torch.minimum(hops, hops.mT))
    documents = Causal() & Segments.of([[100, 50, 130], [300]], 300)
    for places, pattern in (
        (line(300), documents),
        (nodes, Window(0)),
        (line(300), Lengths([300, 9])),
    ):
        pairs = Pairs(2, 1, places, places)
        mask = Flex().prepare(Work(pattern, pairs))
        assert mask is not None
        for name in (
            "kv_num_blocks",
            "kv_indices",
            "full_kv_indices",
            "q_indices",
            "full_q_indices",
        ):
            assert getattr(mask, name).is_contiguous(), name
        blocks = exact_truth(pattern, pairs, 128).some
        visited = torch.zeros(2, 1, 3, 3, dtype=torch.bool)
        turned = torch.zeros(2, 1, 3, 3, dtype=torch.bool)
        for b in range(2):
            for i in range(3):
                for side, grid_ in (("kv", visited), ("q", turned)):
                    for kind in ("", "full_"):
                        count = int(getattr(mask, f"{kind}{side}_num_blocks")[b, 0, i])
                        for j in getattr(mask, f"{kind}{side}_indices")[b, 0, i, :count].tolist():
                            grid_[b, 0, i, j] = True
        assert (visited | ~blocks).all()
        assert torch.equal(turned.mT, visited)


def test_what_is_known_to_allow_everything_is_left_out() -> None:
    last = Pairs(1, 1, line(1, start=9), line(10))
    assert simplify(Causal() & Window(20), last) == Everything()
    assert simplify(Causal() & Window(4), last) == Window(4)
    assert simplify(Lengths([10]), last) == Lengths([10])  # only the tensor knows


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "places", "sentence"),
    [
        (Causal(), GEOMETRIES["graph"], r"Causal\(\) needs tokens with an order"),
        (Prefix(2), GEOMETRIES["graph"], r"Prefix\(length\) needs tokens with an order"),
        (Blocks(2, 1), GEOMETRIES["graph"], "cuts tokens that have an order"),
        (Blocks((2, 2), (1, 1)), line(8), "names 2 axes, but a line has 1; one number would do"),
        (Window((1, 1)), line(8), "names 2 axes, but a line has 1"),
        (Lengths([1, 2, 3]), line(8), "Lengths describes 3 sequences, but a batch of 1 arrived"),
        (Segments([[0, 0]]), line(8), "Segments names 2 queries and 2 keys, but 8 and 8 arrived"),
        (~Causal() & Window(2), GEOMETRIES["graph"], "needs tokens with an order"),
    ],
    ids=lambda x: "",
)
def test_a_pattern_for_the_wrong_geometry_is_refused_in_words(
    pattern: Pattern, places: Places, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        matrix(pattern, places, batch=len(places.hops) if isinstance(places, Graph) else 1)


@pytest.mark.parametrize(
    ("join", "sentence"),
    [
        (lambda: Causal() and Window(2), "patterns join with & | ~, not and or not"),
        (lambda: Causal() & Window, r"& joins two patterns, got .*; Window\(\.\.\.\) is one"),
        (lambda: Causal() | 3, r"\| joins two patterns, got 3"),
    ],
)
def test_patterns_join_with_signs_and_not_with_words(join: object, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        join()  # type: ignore[operator]


def test_a_large_pattern_prints_in_a_line() -> None:
    assert (
        str(Causal() & Segments.of([[4096, 4096]], 8192))
        == "Causal() & Segments(<1 x 8192 numbers>)"
    )


def test_a_pattern_of_ones_own_runs_on_every_kernel() -> None:
    x, marks = torch.randn(1, 3, 20, 4), Marked(torch.rand(1, 20) < 0.5)
    own = [Causal() & Strided(8), Doubled(), ByHead(), Product(), SameHalf(), Grouped(), marks]
    for pattern in own:
        work = Work(pattern, Pairs(1, 3, line(20), line(20)), channels=4)
        outs = [plan(KERNELS[name], work)(x, x, x) for name in ("reference", "sdpa", "flex")]
        for out in outs[1:]:
            torch.testing.assert_close(out, outs[0])


@pytest.mark.parametrize("which", ["reference", "sdpa", "flex"])
@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (Chained(), "written with & | ~ and single comparisons".replace("|", r"\|")),
        (Certain(), r"allows of Certain\(\) gives a tensor of yes and no, bool came"),
        (Silent(), r"Silent has no allows\(self, pair\)"),
    ],
)
def test_a_predicate_that_is_none_gets_one_sentence(
    pattern: Pattern, sentence: str, which: str
) -> None:
    with pytest.raises(TypeError, match=sentence):
        plan(which, Work(pattern, Pairs(1, 3, line(20), line(20))))


def test_a_table_for_all_tokens_is_not_asked_about_the_last_ones() -> None:
    table = Marked(torch.ones(1, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match="a table for 9 tokens was asked about 4"):
        matrix(table, line(4))


def test_documents_of_other_keys_are_another_pattern() -> None:
    ids = torch.tensor([[0, 0, 1]])
    assert Segments(ids) != Segments(ids, torch.tensor([[5, 5, 5]]))


class Several(Pattern):
    """A pattern of one's own with tensors, or with patterns that have them."""

    bounds: tuple[Tensor, ...] | list[Tensor] | list[Pattern]

    def allows(self, pair: Pair) -> Verdict:
        return reduce(
            or_,
            (
                bound.allows(pair) if isinstance(bound, Pattern) else pair.k.order < bound[pair.b]
                for bound in self.bounds
            ),
        )


BOUNDS = torch.tensor([3, 5]), torch.tensor([1, 2])


@pytest.mark.parametrize(
    "pattern",
    [Several(BOUNDS), Several([*BOUNDS]), Several([*map(Lengths, BOUNDS)])],
    ids=["tuple", "list", "patterns"],
)
def test_what_a_pattern_holds_in_a_tuple_or_a_list_belongs_to_the_batch(pattern: Pattern) -> None:
    assert not pattern.fixed
    chosen = pattern.select(torch.tensor([1, 1, 0]))
    allowed = chosen.allows(Pairs(3, 1, line(6), line(6)).everywhere())
    assert allowed[:, 0, 0].sum(-1).tolist() == [5, 5, 3]
    assert pattern == pattern.select(torch.tensor([0, 1]))
    assert pattern.to("cpu") == pattern != chosen


def test_a_hash_does_not_wait_for_the_contents_of_a_tensor() -> None:
    here = Causal() & Lengths(torch.tensor([3, 1]))
    away = Causal() & Lengths(torch.empty(2, dtype=torch.long, device="meta"))  # has no contents
    assert hash(here) == hash(away)


def test_sequences_of_a_batch_are_selected() -> None:
    documents = Segments.of([[1, 1], [2]], 2)
    chosen = (Lengths([3, 5]) & documents).select(torch.tensor([1, 1]))
    assert chosen == Lengths([5, 5]) & Segments([[0, 0], [0, 0]])
    assert chosen.parts()[1].lengths == ((2,), (2,))  # type: ignore[attr-defined]


def test_a_selected_pattern_made_from_documents_is_still_one_of_its_own() -> None:
    class Strangers(Segments):
        def allows(self, pair: Pair) -> Verdict:
            return ~super().allows(pair)

    documents = Strangers.of([[1, 2], [3]], 3)
    others = Strangers(documents.ids, lengths=documents.lengths)
    chosen = others.select(torch.tensor([1]))
    assert type(chosen) is Strangers
    assert (chosen.ids.tolist(), chosen.lengths) == ([[0, 0, 0]], ((3,),))


def test_places_of_another_batch_are_refused() -> None:
    nodes = Graph(torch.zeros(3, 2, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="3 graphs came with a batch of 2"):
        matrix(Window(1), nodes, batch=2)
    with pytest.raises(
        ValueError, match=r"a square for each graph of the batch, \(B, T, T\), got \(2, 2\)"
    ):
        Graph(torch.zeros(2, 2))
    with pytest.raises(ValueError, match="places for 3 sequences came with a batch of 2"):
        matrix(Causal() & Window(1), packed([[2]] * 3, 2), batch=2)
    shared = Graph(torch.tensor([[[0, 1], [1, 0]]]))
    assert matrix(Window(0), shared, batch=2) == [[1, 0], [0, 1]]


def test_a_window_across_two_geometries_is_refused() -> None:
    with pytest.raises(ValueError, match="queries are on a line and keys on a grid of 2 axes"):
        check(Window(2), Pairs(1, 1, line(4), grid(2, 2)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Window(-1), "Window takes a radius of whole numbers from 0 to 2147483647, got -1"),
        (lambda: Window(1.5), "got 1.5"),  # type: ignore[arg-type]
        (
            lambda: Blocks(0, 1),
            "Blocks takes a query block of whole numbers from 1 to 2147483647, got 0",
        ),
        (lambda: Blocks((2, 2), 1), "a query block and a memory of the same axes"),
        (lambda: Prefix(-2), "Prefix takes a length of whole numbers from 0 to 2147483647, got -2"),
        (lambda: Lengths([[1]]), r"Lengths takes whole numbers, one a sequence.*got 1 x 1 of"),
        (lambda: Lengths(None), "Lengths takes whole numbers, one a sequence.*got None"),
        (lambda: Segments([[0, 0], [1]]), r"a row a sequence, as in .* got \[\[0, 0\], \[1\]\]"),
        (lambda: Window(10**30), "Window takes a radius of whole numbers from 0 to"),
        (lambda: Lengths([1.5]), "of torch.float32"),
    ],
)
def test_a_pattern_with_impossible_numbers_is_refused(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Casual()", "there is no pattern 'Casual'; did you mean Causal"),
        ("Zebra()", "there is no pattern 'Zebra'; There are Everything, Causal"),
        ("Causal", "Causal is called to be a pattern"),
        ("Causal() and Window(2)", "patterns join with &, | and ~"),
        ("Causal(", "is not a pattern; one reads like"),
        ("Window()", r"Window takes \(radius\), got \(\)"),
        ("Window(radius=2, colour=1)", r"got \(radius=2, colour=1\)"),
        ("Window(__import__('os'))", "is not a number or a list of numbers"),
        ("2 + 2", "is not a pattern"),
        ("", "is not a pattern"),
    ],
)
def test_text_that_is_not_a_pattern_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("|", r"\|")):
        read(text)
