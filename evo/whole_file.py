"""Files that are whole under their own name: a reader sees the old content or the new, a crash leaves the old. Folders
in which one process works at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.errors import BadInput, at_file


def write_whole(path: Path, *content: str | bytes, lines: Iterable[str] = ()) -> int:
    """Replace a file in one step; text is written as UTF-8. Returns the number of lines, each of which gets its end.
    Raises OSError."""
    partial, count = path.with_name(path.name + ".partial"), 0
    try:
        with partial.open("wb") as file:
            file.writelines(part.encode() if isinstance(part, str) else part for part in content)
            for line in lines:
                file.write(line.encode() + b"\n")
                count += 1
        partial.replace(path)
        return count
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path, name: str, busy: str) -> Iterator[None]:
    """Lock the folder of -o, which is made if need be, by its file `name`; the lock ends with this process. Raises
    BadInput with the reason `busy` if another process has it."""
    with at_file(f"-o {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / name).open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"-o {folder}: {busy}") from None
        yield
