"""A page for each command, from click."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from markdown_table import plain, table

from evo.cli import evo

INTRODUCTION = """# Commands

These pages are made from the program's help texts. `evo COMMAND --help` prints the same.

Exit codes: 0 done; 1 the program or a scorer failed; 2 bad input, one line; 130 interrupted, everything committed.
`EVO_DB` names a database instead of `--db`. `EVO_TRACEBACK=1` prints the traceback behind a one-line message.
"""
FOLDER = "reference/commands"


def command_pages() -> dict[str, str]:
    """Path -> page: the list of commands, then each command with its subcommands, in the order of `evo --help`."""
    context = evo.context_class(evo, info_name="evo", **evo.context_settings)
    commands = dict(_visible(evo, context))
    rows = [
        (f"[`evo {name}`]({name}.md)", plain(command.get_short_help_str(200))) for name, command in commands.items()
    ]
    pages = {f"{FOLDER}/index.md": f"{INTRODUCTION}\n{table(('command', 'purpose'), rows)}\n"}
    for name, command in commands.items():
        sections = _sections(command, click.Context(command, info_name=name, parent=context), 1)
        pages[f"{FOLDER}/{name}.md"] = "\n\n".join(sections) + "\n"
    return pages


def _visible(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield name, command


def _sections(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield _section(command, context, level)
    if isinstance(command, click.Group):
        for name, inner in _visible(command, context):
            yield from _sections(inner, click.Context(inner, info_name=name, parent=context), level + 1)


def _section(command: click.Command, context: click.Context, level: int) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"{'#' * level} {context.command_path}", f"```text\n{context.command_path} {usage}\n```"]
    parts += _paragraphs(command.help or "")
    options = [
        (f"`{record[0]}`", plain(record[1]))
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
    ]
    parts.append(table(("option", "meaning"), options))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    """Click's help as Markdown: a paragraph after \\b is left as it is."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == "\b":
            yield "```text\n" + "\n".join(lines[1:]) + "\n```"
        else:
            yield plain(" ".join(lines))
