"""The help of every command: each option is a sentence or a noun phrase, and the longest helps are in sections."""

import re
import sys
from importlib.metadata import EntryPoint

import click
import pytest

from evo.cli import evo, invoke
from evo.cli.flags import GroupedCommand


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
