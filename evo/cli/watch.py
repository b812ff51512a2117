"""`evo watch`: a run or a comparison on a live screen, from another terminal or another machine. Reads only.

Each way of watching is loaded when it is asked for: the screen is there before what reads the database is.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from rich.console import Console

from evo.cli.options import db_option, plain_option
from evo.errors import BadInput
from evo.tui.terminal import can_show


@click.command()
@click.argument("name", metavar="RUN")
@db_option
@click.option(
    "--against", metavar="ARM", help="the arm that others are measured against  [default: grpo, or the first]"
)
@plain_option
@click.option("--once", is_flag=True, help="print one picture and end")
@click.option("--svg", metavar="FILE", help="write one picture of 160x50 characters and end")
@click.option("--serve", is_flag=True, help="show it in a local browser  [needs: pip install 'evo-search[serve]']")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="of --serve; 0: a free one"
)
def watch(
    name: str, db: str, against: str | None, plain: bool, once: bool, svg: str | None, serve: bool, port: int
) -> int:
    """Watch RUN, a search or a comparison, while it runs or after; q leaves it running.

    It reads the database alone and never writes, so it may run anywhere that reaches the database. --serve prints an
    address with a token: only this machine can open it, and only with that token.
    """
    if sum((once, serve, svg is not None)) > 1 or (plain and serve):
        raise BadInput("--once, --svg and --serve exclude each other, and --serve has no --plain")
    console = Console(highlight=False, markup=False, emoji=False)
    if serve:
        from evo.cli.watch_served import serve_screen

        return serve_screen(name, db, against, port, console)
    if plain or once or svg is not None or not can_show(console):
        from evo.cli import watch_plain

        if once:
            return watch_plain.print_picture(name, db, against, console)
        if svg is not None:
            return watch_plain.write_picture(name, db, against, Path(svg))
        return watch_plain.print_lines(name, db, against, console)
    from evo.tui.shown import show

    return asyncio.run(show(db, name, console, against))
