"""Pictures say what the pattern says."""

from pathlib import Path

import pytest
import torch

from manyheads import AttentionMap, Blocks, Causal, Everything, Window, draw, graph, grid, line


def test_a_small_pattern_is_drawn_a_sign_a_pair() -> None:
    assert str(draw(Causal() & Window(1), line(4))).splitlines() == [
        "Causal() & Window(1) on a line of 4: 7 of 16 pairs (44%)",
        "",
        "rows are queries, columns are keys",
        "■ · · ·",
        "■ ■ · ·",
        "· ■ ■ ·",
        "· · ■ ■",
    ]


def test_a_grid_also_shows_what_one_token_may_see() -> None:
    shown = str(draw(Causal() & Window(1), grid(4, 4), query=6))
    assert shown.endswith("what token 6 (◆) may see\n· ■ ■ ■\n· ■ ◆ ·\n· · · ·\n· · · ·")


def test_larger_patterns_fit_a_terminal() -> None:
    for places in (grid(8, 8), grid(16, 16, blocks=(4, 4)), line(300)):
        lines = str(draw(Causal() & Blocks(16, 16), places)).splitlines()
        assert max(map(len, lines)) <= 80
    assert "one cell is 10 x 10 pairs" in str(draw(Everything(), line(300)))


def test_half_blocks_show_two_rows_in_a_line() -> None:
    body = str(draw(Causal(), line(40))).splitlines()[3:]
    assert len(body) == 20
    assert body[0].startswith("█▄ ")


def test_a_graph_is_drawn_by_its_hops() -> None:
    assert str(draw(Window(1), graph([(0, 2)], 3))).splitlines()[-3:] == ["■ · ■", "· ■ ·", "■ · ■"]


def test_a_picture_is_a_png_here_and_in_a_notebook(tmp_path: Path) -> None:
    picture = draw(Causal() & Window(2), grid(8, 8))
    picture.save(tmp_path / "pattern.png")
    assert (tmp_path / "pattern.png").read_bytes().startswith(b"\x89PNG")
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_a_head_is_drawn_darker_where_it_takes_more(tmp_path: Path) -> None:
    weights = torch.tensor([[[0.0, 1.0], [0.5, 0.5]], [[0.9, 0.1], [1.0, 0.0]]])
    attention = AttentionMap(weights, ["x", "y"], ["a", "b"])
    assert attention.head(0).splitlines() == ["   a   b", "x     ███", "y ▒▒▒ ▒▒▒"]
    assert attention.sharpest() == 1
    attention.save(tmp_path / "heads.png")
    assert (tmp_path / "heads.png").stat().st_size > 1000


def test_a_token_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="numbered 0 to 15, token 16 was asked for"):
        draw(Causal(), grid(4, 4), query=16)
    with pytest.raises(ValueError, match=r"drawn on places, as in draw\(Causal\(\), line\(8\)\)"):
        draw("Causal()", line(4))  # type: ignore[arg-type]
