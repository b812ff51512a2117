"""From the bytes that a terminal sends to the names of keys."""

from __future__ import annotations

import re

_SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[C": "right", b"\x1bOC": "right", b"\x1b[D": "left", b"\x1bOD": "left",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home", b"\x1b[7~": "home",
    b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end", b"\x1b[8~": "end",
    b"\x1b[Z": "shift+tab",
}  # fmt: skip
_PLAIN = {b"\t": "tab", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace", b"\x0c": "ctrl+l"}
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")


def decode(read: bytes, final: bool = True) -> tuple[list[str], bytes]:
    """(keys in order, what may be the beginning of one more). Unknown sequences are left out.

    final: nothing follows; a lone escape is then the escape key, and a sequence cut off is dropped.
    """
    keys: list[str] = []
    at = 0
    while at < len(read):
        rest = read[at:]
        if rest[:1] != b"\x1b":
            char = rest[:1]
            name = _PLAIN.get(char) or (chr(char[0]) if 32 <= char[0] < 127 else "")
            if name:
                keys.append(name)
            at += 1
            continue
        found = _SEQUENCE.match(rest)
        if found:
            name = _SEQUENCES.get(found.group(), "")
            if name:
                keys.append(name)
            at += found.end()
        elif _UNFINISHED.match(rest):
            if not final:
                return keys, rest
            if rest == b"\x1b":
                keys.append("escape")
            at = len(read)
        else:
            keys.append("escape")
            at += 1
    return keys, b""
