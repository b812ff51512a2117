"""Private tests as LiveCodeBench packs them: base64 of zlib of a pickled JSON text.

A pickle can run code. So it is never unpickled: its instructions are read, and any but those that make one text are
refused before anything comes of them.
"""

from __future__ import annotations

import base64
import binascii
import pickletools
import zlib

_LARGEST = 512 << 20  # what the tests may unpack to, against a decompression bomb
_TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")
_AROUND = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP")
"""What a pickler writes around a text: the version, sizes, and a note to itself for repeats."""


def unpack_tests(packed: str, key: str) -> str:
    """The JSON text. Raises ValueError, one line that names the key."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(packed, validate=True), _LARGEST)
        if not stream.eof:
            raise ValueError("truncated, or larger than any test set")
        return text_of_pickle(data) if data[:1] == b"\x80" else data.decode()
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"`{key}` is neither JSON nor packed tests: {' '.join(str(error).split())[:200]}") from None


def text_of_pickle(data: bytes) -> str:
    """The text that a pickle holds. Raises ValueError for one that holds anything else."""
    found: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _TEXT:
            found.append(str(argument))
        elif opcode.name not in _AROUND:
            raise ValueError(f"refused: the pickle holds more than one text (its instruction {opcode.name})")
    if len(found) != 1:
        raise ValueError(f"refused: the pickle holds {len(found)} texts, not one")
    return found[0]
