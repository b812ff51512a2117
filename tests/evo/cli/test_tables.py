"""Tables of the command line: whole names at any width, and no text that is obeyed."""

from rich.console import Console

from evo.cli.options import print_table

TITLES = ("run", "groups", "policy")
ROWS = [("calm-lake", "12", "embedded:base"), ("duel/best-of-n/s0", "7", "embedded:base and a policy of many words")]


def draw(titles, rows, width, **options):
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        print_table(console, titles, rows, **options)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_table_is_whole_where_nothing_limits_it():
    assert draw(TITLES, ROWS, 1000, right=("groups",)) == [
        "run                groups  policy",
        "calm-lake              12  embedded:base",
        "duel/best-of-n/s0       7  embedded:base and a policy of many words",
    ]


def test_no_text_is_cut_at_the_edge_of_a_terminal():
    lines = draw(TITLES, ROWS, 55, right=("groups",))
    assert max(map(len, lines)) <= 55
    assert all(word in " ".join(lines) for row in ROWS for word in row[-1].split())


def test_a_hostile_text_is_one_harmless_line():
    assert draw(("a", "b"), [("x\x1b[2J", "[red]one\ntwo")], 80)[1] == "x·[2J  [red]one two"
