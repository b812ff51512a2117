"""Help, tables and JSON of every command."""

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from rich.console import Console
from rich.text import Text
from support.command_line import output

from evo.cli import evo, invoke, problems
from evo.cli.flags import GroupedCommand
from evo.cli.options import SCHEMA, open_console, print_table
from evo.process import wrap_words
from problems.registry import describe_sets


def commands():
    """Every command and subcommand, by its path."""
    group = evo
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", it) for inner, it in command.commands.items())


@pytest.mark.parametrize(("path", "command"), [pytest.param(*pair, id=pair[0]) for pair in commands()])
def test_every_flag_is_described_by_itself(path, command):
    for option in (param for param in command.params if isinstance(param, click.Option)):
        text = re.sub(r"\s*\[[^]]*(\[[^]]*\][^]]*)?\]$", "", option.help or "")
        assert text and text.endswith((".", "...")), f"{path} {option.name}: {option.help!r}"
        assert text[0].isupper(), f"{path} {option.name}: {option.help!r}"
        assert not text.startswith(("Of ", "For ")), f"{path} {option.name}: {option.help!r}"


@pytest.mark.parametrize("name", ["run", "compare", "train"])
def test_long_helps_are_in_sections_with_ten_basic_options_first(name):
    command = evo.get_command(click.Context(evo), name)
    assert isinstance(command, GroupedCommand)
    named = [option for options in command.sections.values() for option in options]
    assert len(named) == len(set(named)) and next(iter(command.sections)) == "Basic"
    assert len(command.sections["Basic"]) == 10
    options = {param.name for param in command.params if isinstance(param, click.Option)}
    assert options == set(named)
    text = command.get_help(click.Context(command, info_name=name, help_option_names=["-h", "--help"]))
    assert text.index("Basic:") < text.index("Budget:") < text.index("Execution and output:")


def test_installed_packages_add_commands(install, here, monkeypatch, capsys):
    """`evo --help` reads the line of a command from its module, which is not imported before the command is called."""
    module = '"""Greet.\n\nMore."""\nimport click\n\n@click.command()\ndef hello():\n    click.echo("hi")\n'
    (here / "greeting_command.py").write_text(module)
    monkeypatch.syspath_prepend(str(here))
    install(EntryPoint("hello", "greeting_command:hello", "evo.commands"))
    assert invoke(["--help"]) == 0
    assert re.search(r"^  hello +Greet\.$", capsys.readouterr().out, re.M) and "greeting_command" not in sys.modules
    assert invoke(["hello"]) == 0 and capsys.readouterr().out == "hi\n"
    assert invoke(["helo"]) == 2 and "did you mean hello?" in capsys.readouterr().err
    install(EntryPoint("hello", "no_such_module:hello", "evo.commands"))  # a package without its module
    assert invoke(["hello"]) == 2 and len(capsys.readouterr().err.splitlines()) == 1


def draw(titles, rows, width, **options):
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        print_table(console, titles, rows, **options)
    return [line.rstrip() for line in captured.get().splitlines()]


TITLES = ("run", "groups", "policy")
ROWS = [("calm-lake", "12", "embedded:base"), ("duel/best-of-n/s0", "7", "embedded:base and a policy of many words")]


def test_a_table_has_numbers_at_the_right_and_no_text_is_cut_at_the_edge_of_a_terminal():
    assert draw(TITLES, ROWS, 1000, right=("groups",)) == [
        "run                groups  policy",
        "calm-lake              12  embedded:base",
        "duel/best-of-n/s0       7  embedded:base and a policy of many words",
    ]
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


def test_every_set_has_a_line_with_its_size_objectives_source_and_licence(capsys, monkeypatch):
    lines = {line.split()[0]: line for line in output(capsys, "problems").splitlines() if line.strip()}
    for row in describe_sets():
        line = lines[row["name"]]
        assert f"{row['count']:,}" in line and row["description"] in line
        for term in (row["objectives"][0], row["source"], row["licence"]):
            assert term and term in line
    row = {"name": "mine", "count": None, "objectives": [], "description": "", "source": "", "licence": ""}
    monkeypatch.setattr(problems, "describe_sets", lambda: [row])
    assert output(capsys, "problems").splitlines()[1].split() == ["mine"], "of unknown size and without terms"


ROOT = Path(__file__).parents[3]
METRICS = r"(best|solve)@\d+|mean\[.*\]|diversity.*|pareto_fraction|E_w\[best\]|distinct_vectors|written|valid"
RANDOM = ("--policy", "scripted:random-route")
COMMANDS = {
    "evo run, evo resume": ("run", "maze:test/0", *RANDOM, "--iterations", "2", "--name", "r", "--plain"),
    "evo compare, evo show COMPARISON": (
        *("compare", "maze:test/0", "--arm", "a=scripted:random-route", "--arm", "b=scripted:mutate"),
        *("--iterations", "2", "--seeds", "1", "--processes", "1", "--name", "c", "--plain"),
    ),
    "evo watch": ("watch", "r"),
    "evo runs": ("runs",),
    "evo show RUN": ("show", "r"),
    "evo show RUN CANDIDATE": ("show", "r", "1"),
    "evo best": ("best", "r"),
    "evo evaluate": ("evaluate", "maze:test/0", *RANDOM, "--answers-total", "3"),
    "evo problems": ("problems",),
    "evo problems ADDRESS": ("problems", "maze:test/0"),
}


def test_the_page_names_every_key_of_every_command(here, monkeypatch, capsys):
    monkeypatch.delenv("EVO_DB", raising=False)
    page = (ROOT / "docs/guides/runs.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in re.split("\n##+ ", page)[1:]}
    for section, arguments in COMMANDS.items():
        out = output(capsys, *arguments, "--json")
        assert out.count("\n") == 1, section
        value = json.loads(out)
        rows = value if isinstance(value, list) else [value]
        assert rows and all(row.pop("schema") == SCHEMA for row in rows), section
        keys = {key for key in rows[0] if not re.fullmatch(METRICS, key)}
        heads = [line.split("|")[1] for line in sections[section].splitlines() if line.startswith("| `")]
        assert keys == {key for head in heads for key in re.findall("`(.*?)`", head)}, section


def test_all_json_of_commands_has_a_version():
    for file in [*(ROOT / "evo/cli").glob("*.py"), *(ROOT / "evo/plugins").rglob("command.py")]:
        text = file.read_text(encoding="utf-8")
        if file.name != "options.py":
            assert not re.search(r"(echo|stdout\.write|print)\(\s*json\.dumps", text), f"{file.name}: use print_json"
