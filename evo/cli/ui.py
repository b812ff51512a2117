"""`evo ui`: runs in a browser. Reads only."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from evo.cli.options import db_option
from evo.errors import BadInput

HOST = "127.0.0.1"


@click.command()
@click.argument("databases", metavar="[DATABASE]...", nargs=-1)
@db_option
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="The address to listen on; others than this machine's require a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port to listen on; 0: a free one.",
)
@click.option("--token", is_flag=True, help="Require a token on this machine too, for machines with several users.")
def ui(databases: tuple[str, ...], db: str, host: str, port: int, token: bool) -> int:
    """Show runs, charts and candidates of one or more DATABASEs in a browser.

    A DATABASE is an address or a SQLite file; without one it is that of --db. The page only
    reads, also while runs write, and needs no network.
    """
    from evo.ui.databases import RunDatabase
    from evo.ui.server import PageServer
    from islands.engine import parse_address

    addresses = [address_of(named) for named in databases] or [db]
    for address in addresses:
        parse_address(address)  # a mistyped one is reported here, not in the browser
    try:
        server = PageServer([RunDatabase(address) for address in addresses], host, port, token=token)
    except OSError as error:
        raise BadInput(
            f"{host} port {port} is not available ({error.strerror or error}); --port 0 chooses a free one"
        ) from None
    click.echo(f"The page is at {server.address}\nCtrl-C ends it; runs continue")
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return 0


def address_of(named: str) -> str:
    """The address of a database that may be named by its file."""
    return named if "://" in named else f"sqlite:///{Path(named).expanduser()}"
