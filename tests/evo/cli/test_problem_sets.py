"""`evo problems`: every set with its size, objectives, source and licence, readable at 80 columns."""

import pytest

from evo.cli.problems import draw_sets
from problems.registry import describe_sets


@pytest.mark.parametrize("width", [80, 110])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, draw_sets(describe_sets(), width))) <= width


def test_every_set_is_followed_by_its_objectives_source_and_licence():
    blocks = "\n".join(draw_sets(describe_sets(), 80)).split("\n\n")[1:]
    told = {
        line.split()[0]: " ".join(block.split()) for block in blocks for line in block.splitlines() if line[:1] != " "
    }
    for row in describe_sets():
        block = told[row["name"]]
        assert f"{row['count']:,}" in block
        for term in (row["objectives"][0], row["source"], row["licence"]):
            assert term and term in block


def test_sets_that_share_their_terms_share_the_line_that_says_them():
    rows = [
        {"name": name, "count": 3, "objectives": ["a"], "description": "d", "source": source, "licence": "L"}
        for name, source in (("x:1", "s"), ("x:2", "s"), ("x:3", "t"))
    ]
    text = "\n".join(draw_sets(rows, 80))
    assert text.count("a; s; L") == 1 and text.count("a; t; L") == 1


def test_a_set_of_unknown_size_and_without_terms():
    row = {"name": "mine", "count": None, "objectives": [], "description": "", "source": "", "licence": ""}
    assert [line.rstrip() for line in draw_sets([row], 80)][3:] == ["mine     -", ""]
