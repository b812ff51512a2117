"""The page of commands, from click."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from markdown_table import plain, table

from evo.cli import evo

INTRODUCTION = """# Commands

This page is made from the program's own help texts. `evo COMMAND --help` prints the same.

Exit codes: 0 done; 1 a fault of the program or of a scorer; 2 bad input, one line; 130 interrupted, everything
committed. `EVO_DB` names a database in the place of `--db`. `EVO_TRACEBACK=1` prints the traceback behind a one-line
message.
"""


def commands_page() -> str:
    """One section a command, in the order of `evo --help`."""
    context = evo.context_class(evo, info_name="evo", **evo.context_settings)
    return "\n\n".join([INTRODUCTION.strip(), *_sections(evo, context, 2)]) + "\n"


def _sections(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield _section(command, inner, level)
        if isinstance(command, click.Group):
            yield from _sections(command, inner, level + 1)


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
    """Click's help as Markdown: a paragraph after \\b stands as it is."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == "\b":
            yield "```text\n" + "\n".join(lines[1:]) + "\n```"
        else:
            yield plain(" ".join(lines))
