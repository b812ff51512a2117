"""Diff mode: SEARCH/REPLACE blocks in OpenEvolve's form, applied to the parent, all of them or none."""

from __future__ import annotations

import re

_MARKERS = {
    "<<<<<<< SEARCH": re.compile(r"(?m)^[ \t]*<{5,9}[ \t]*SEARCH[ \t]*:?[ \t]*$"),
    "=======": re.compile(r"(?m)^[ \t]*={7}[ \t]*$"),
    ">>>>>>> REPLACE": re.compile(r"(?m)^[ \t]*>{5,9}[ \t]*REPLACE[ \t]*:?[ \t]*$"),
}


class EditFault(ValueError):
    """The edits cannot be applied; one line that names the block."""


def has_edits(text: str) -> bool:
    """Whether the text tries to edit at all."""
    return any(_MARKERS[name].search(text) for name in ("<<<<<<< SEARCH", ">>>>>>> REPLACE"))


def edited(parent: str, text: str) -> str:
    """`parent` with every edit block of `text` applied in order.

    Raises EditFault where a block is malformed, its SEARCH part is empty or not in the program (a silent no-op in
    OpenEvolve itself, which would store a copy of the parent), or where nothing changes.
    """
    from openevolve.utils.code_utils import apply_diff, extract_diffs  # here because it takes a second to import

    for marker, pattern in _MARKERS.items():
        text = pattern.sub(marker, text)
    try:
        blocks = extract_diffs(text)
    except ValueError as error:
        raise EditFault(f"malformed edit block: {str(error).rstrip('.')}") from None
    if not blocks:
        raise EditFault("malformed edit block: a SEARCH, =======, REPLACE line is missing")
    program = parent
    for number, (search, replacement) in enumerate(blocks, 1):
        name = f"edit block {number} of {len(blocks)}"
        if not search.strip():
            raise EditFault(f"{name}: the SEARCH part is empty")
        if search == replacement:
            continue
        after = apply_diff(program, f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE")
        if after == program:
            raise EditFault(f"{name}: its SEARCH part is not in the program: {_first_line(search)!r}")
        program = after
    if program == parent:
        raise EditFault("the edits change nothing")
    return program


def _first_line(search: str) -> str:
    line = next(line.strip() for line in search.split("\n") if line.strip())
    return line if len(line) <= 60 else line[:57] + "..."
