"""EVOLVE-BLOCKs: what may change does, and nothing else ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.openevolve.evolve_block import NotSpliceable, regions, splice

PROGRAM = """import math  

# EVOLVE-BLOCK-START
def pick(n):
    return n
# EVOLVE-BLOCK-END


def fixed(n):
    return math.sqrt(pick(n))


if __name__ == "__main__":
    print(fixed(4))
"""
TWO = """a = 0
# EVOLVE-BLOCK-START
b = 1
# EVOLVE-BLOCK-END
c = 2
// EVOLVE-BLOCK-START
d = 3
// EVOLVE-BLOCK-END
"""


def fixed_parts(text):
    return regions(text).fixed


def test_the_seed_is_its_own_splice():
    for program in (PROGRAM, TWO, "no blocks at all\n"):
        assert splice(program, program) == program


def test_changes_outside_the_block_are_dropped():
    answer = PROGRAM.replace("return n\n", "return n + 1\n").replace("sqrt", "cbrt").replace("print", "exec")
    assert splice(PROGRAM, answer) == PROGRAM.replace("return n\n", "return n + 1\n")


def test_a_block_alone_with_its_markers_is_enough():
    answer = "# EVOLVE-BLOCK-START\ndef pick(n):\n    return 7\n# EVOLVE-BLOCK-END"
    assert splice(PROGRAM, answer) == PROGRAM.replace("return n\n", "return 7\n")


def test_a_whole_program_that_lost_its_markers_is_cut_at_what_stands_outside():
    lines = [line.rstrip() for line in PROGRAM.split("\n") if "EVOLVE" not in line]
    answer = "\n\n" + "\n".join(lines).replace("return n\n", "return 3\n") + "\n\n"
    assert splice(PROGRAM, answer) == PROGRAM.replace("return n\n", "return 3\n")


def test_a_blocks_content_alone_is_taken_unless_it_would_repeat_what_stands_outside():
    assert "return 5" in splice(PROGRAM, "def pick(n):\n    return 5\n")
    with pytest.raises(NotSpliceable, match="fixed, which stands outside"):
        splice(PROGRAM, "def pick(n):\n    return 5\n\ndef fixed(n):\n    return 1\n")


@pytest.mark.parametrize(
    ("program", "answer", "says"),
    [
        (TWO, "b = 9\n", "2 EVOLVE-BLOCKs and the answer no markers"),
        (TWO, "# EVOLVE-BLOCK-START\nb = 9\n# EVOLVE-BLOCK-END\n", "2 EVOLVE-BLOCK.* and the answer 1 blocks"),
        (PROGRAM, TWO, "1 EVOLVE-BLOCK.* and the answer 2 blocks"),
        (PROGRAM, "# EVOLVE-BLOCK-START\nx = 1\n", "unmatched markers"),
        (PROGRAM, "# EVOLVE-BLOCK-END\n# EVOLVE-BLOCK-START\n", "unmatched markers"),
        ("# EVOLVE-BLOCK-START\n", "x = 1\n", "own EVOLVE-BLOCK markers"),
    ],
)
def test_what_cannot_be_put_back_says_why(program, answer, says):
    with pytest.raises(NotSpliceable, match=says):
        splice(program, answer)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "", "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END", "def fixed(n):", "    pass", "import math  "]
        ),
        max_size=14,
    ).map("\n".join)
)
def test_nothing_outside_the_blocks_ever_changes_and_splicing_twice_changes_nothing(answer):
    for program in (PROGRAM, TWO):
        try:
            spliced = splice(program, answer)
        except NotSpliceable:
            continue
        assert fixed_parts(spliced) == fixed_parts(program)
        assert splice(program, spliced) == spliced
