"""`evo ui`: runs in a browser."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path

import click

from evo.cli.options import db_option
from evo.errors import BadInput
from evo.process import handling


@click.command("ui")
@click.argument("database", metavar="[DATABASE]", required=False)
@db_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port to listen on; 0: a free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; 0.0.0.0: all of this machine. One that others reach requires a token.",
)
@click.option("--token", is_flag=True, help="Require a token, for machines with several users.")
def ui_command(database: str | None, db: str, port: int, host: str, token: bool) -> int:
    """Show the runs of DATABASE, and the page of each, in a browser.

    DATABASE is an address or a SQLite file; without one it is that of --db. The pages need no network, are live while
    runs write, and change nothing. They are served on this machine only, unless --host names another address.
    """
    from evo.ui.pages import RunPages
    from evo.ui.server import PageServer
    from islands.errors import NoRuns
    from islands.store import Store

    address = db if database is None else database if "://" in database else f"sqlite:///{Path(database).expanduser()}"
    with contextlib.suppress(NoRuns), Store.open(address, read_only=True):
        pass  # a mistyped one is reported here, not in the browser; one without runs may get some
    try:
        server = PageServer(RunPages(address), port, host=host, token=token)
    except OSError as error:
        raise BadInput(
            f"port {port} of {host} is not available ({error.strerror or error}); --port 0 chooses a free one, --host "
            "names an address of this machine"
        ) from None
    click.echo(f"The page is at {server.address}\nCtrl-C ends it; runs continue")
    ending = handling(lambda _: threading.Thread(target=server.shutdown).start(), signal.SIGTERM)
    with server, ending, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0
