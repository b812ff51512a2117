"""`evo watch` where there is no screen: lines now and then, one picture of text, one picture in a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from evo.cli.lines import plain_lines, plain_pause
from evo.encoding import spell
from evo.errors import BadInput
from evo.monitor.poller import Poller
from evo.tui.picture import draw_text, save_svg
from islands.db.store import Store

ONCE_WIDTH, ONCE_HEIGHT = 100, 40
ARCHIVES_SECONDS = 5.0
"""For the archives of a picture; what is not read by then is left out of its means, and the picture says so."""


def print_lines(name: str, db: str, against: str | None, console: Console) -> int:
    """A line for each arm every few seconds, until every run has ended."""
    began = time.monotonic()
    with _poller(name, db, against) as poller:
        while True:
            snapshot = poller.poll_whole(0.0)
            for line in plain_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True)
            if snapshot.ended:
                for verdict in snapshot.verdict:
                    console.print(verdict.text, soft_wrap=True)
                return 0
            time.sleep(plain_pause(time.monotonic() - began))


def print_picture(name: str, db: str, against: str | None, console: Console) -> int:
    """What the screen would show, as text; without its keys, which do nothing here."""
    with _poller(name, db, against) as poller:
        snapshot = poller.poll_whole(ARCHIVES_SECONDS)
    terminal = console.is_terminal
    width = console.width if terminal else ONCE_WIDTH
    height = max(24, console.height - 1) if terminal else ONCE_HEIGHT
    console.print(draw_text(snapshot, width, height, time.time(), console.encoding), end="", soft_wrap=True)
    return 0


def write_picture(name: str, db: str, against: str | None, file: Path) -> int:
    """The screen as an SVG. Raises BadInput where the file cannot be written."""
    with _poller(name, db, against) as poller:
        snapshot = poller.poll_whole(ARCHIVES_SECONDS)
    try:
        file.write_text(save_svg(snapshot, time.time()), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from None
    return 0


@contextlib.contextmanager
def _poller(name: str, db: str, against: str | None) -> Iterator[Poller]:
    with Store.open(db, read_only=True) as store:
        yield Poller(store, name, against)
