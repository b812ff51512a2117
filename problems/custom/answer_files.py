"""A candidate of several files as one text: each begins with a line that names it.

    # === file: src/model.py ===

The line is a comment in the file's language, so Python files together are still one Python text. A file without
EVOLVE-BLOCKs may change whole; of one that has them, their contents alone (problems.openevolve.evolve_block).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from problems.openevolve.evolve_block import NotSpliceable, splice
from problems.python_syntax import strip_fence

_HEADER = re.compile(r"(?m)^[^\w\n=]*=== file: (\S+) ===[^\w\n]*$")
_MARK = "=== file: "
_HASH = (".py", ".sh", ".r", ".rb", ".pl", ".jl", ".yaml", ".yml", ".toml", ".mk", "")


def header_of(path: str) -> str:
    """The line that begins a file."""
    comment = "#" if PurePosixPath(path).suffix.lower() in _HASH else "//"
    return f"{comment} {_MARK}{path} ==="


def join_files(files: Mapping[str, str]) -> str:
    """One text; a single file is its text alone."""
    if len(files) == 1:
        return next(iter(files.values()))
    return "\n".join(f"{header_of(path)}\n{text.rstrip()}\n" for path, text in files.items())


def split_files(answer: str, originals: Mapping[str, str], language: str) -> dict[str, str]:
    """Every file of `originals` with what the answer puts into it; those it does not name stay as they are.

    language: of code fences. Raises NotSpliceable, with what would do, for an answer that cannot be put into them.
    """
    if len(originals) == 1:
        ((path, original),) = originals.items()
        return {path: _put(path, original, strip_fence(answer, language))}
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    fenced = strip_fence(text, language, wanted=_MARK)
    text = fenced if _HEADER.search(fenced) else text  # else each file may stand in a fence of its own
    headers = list(_HEADER.finditer(text))
    if not headers:
        raise NotSpliceable(
            f"the answer names no file; begin each with a line such as {header_of(next(iter(originals)))}"
        )
    found = dict(originals)
    for at, header in enumerate(headers):
        path = header[1]
        if path not in originals:
            raise NotSpliceable(f"the answer names {path}, which is no file of the program; {', '.join(originals)} are")
        end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
        found[path] = _put(path, originals[path], strip_fence(text[header.end() : end], language))
    return found


def _put(path: str, original: str, given: str) -> str:
    try:
        return splice(original, given)
    except NotSpliceable as reason:
        raise NotSpliceable(f"{path}: {reason}") from None
