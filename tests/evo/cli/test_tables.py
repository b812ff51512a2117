"""Tables of the command line: whole names at any width, no text that is obeyed, and every set of problems."""

from rich.console import Console
from rich.text import Text
from support.command_line import evo

from evo.cli import problems
from evo.cli.options import open_console, print_table
from evo.process import wrap_words
from problems.registry import describe_sets

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


def test_a_terminal_breaks_lines_between_words_and_leaves_commands_and_paths_whole():
    prose = "  no difference shown (vpo - grpo = +0.25 [-0.14, 0.60], p = 0.50; 12 problems cannot show one)"
    path = "the folder /" + "long/" * 12 + "x.db does not exist"
    command = "Next: evo watch mazes --db sqlite:///" + "long/" * 8 + "x.db"
    console = open_console(width=50, force_terminal=True, color_system=None, markup=False)
    for text in (prose, Text(prose), path, Text(command), command):
        with console.capture() as captured:
            console.print(text, soft_wrap=True)
        lines, plain = captured.get().splitlines(), str(text)
        assert " ".join(lines).split() == plain.split()
        if text is command or plain == command:
            assert lines == [command]
        else:
            assert len(lines) > 1 and max(len(line) for line in lines if "long/" not in line) <= 50
    assert wrap_words("a  b\nc") == "a b c", "stderr is no terminal here"


def test_a_hostile_text_is_one_harmless_line():
    assert draw(("a", "b"), [("x\x1b[2J", "[red]one\ntwo")], 80)[1] == "x·[2J  [red]one two"


def test_every_set_has_a_line_with_its_size_objectives_source_and_licence(capsys):
    code, out, _ = evo(capsys, "problems")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert code == 0
    for row in describe_sets():
        line = lines[row["name"]]
        assert f"{row['count']:,}" in line and row["description"] in line
        for term in (row["objectives"][0], row["source"], row["licence"]):
            assert term and term in line


def test_a_set_of_unknown_size_and_without_terms(capsys, monkeypatch):
    row = {"name": "mine", "count": None, "objectives": [], "description": "", "source": "", "licence": ""}
    monkeypatch.setattr(problems, "describe_sets", lambda: [row])
    assert evo(capsys, "problems")[1].splitlines()[1].split() == ["mine"]
