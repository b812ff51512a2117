"""What crosses the wall: frames of tagged JSON, read by a side that trusts nothing in them.

Shared by the parent (imported) and the confined child (its source is sent in), so it imports nothing but the standard
library, and little of that: every fork of a worker pays for the size of it. JSON carries None, bool, float, str and
ints below 2**63 as they are and lists as arrays; every other type is an object of one tag: {"i": hex int},
{"t": tuple}, {"s": set}, {"f": frozenset}, {"d": [[key, value], ...]}, {"b": bytes as latin-1},
{"c": [real, imaginary]}, {"q": [numerator, denominator]}, {"n": Decimal as text}. Never pickle, never eval.
"""

from __future__ import annotations

import json.encoder
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MAX_DEPTH = 100
_MOST_BITS = 1 << 16  # of a fraction's terms, whose common divisor takes quadratic time
FRAME = struct.Struct("<cI")
REQUEST = struct.Struct("<cQ")  # an operation, the sequence number of its run
EXIT = struct.Struct("<cQid")  # b"X", sequence, wait status, CPU seconds

from_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""(text that we wrote, where it begins) -> (its value, where it ends)."""
_make_encoder = json.encoder.c_make_encoder  # type: ignore[attr-defined]
_encoder: Callable[[Any, int], Iterable[str]] = _make_encoder(
    *(None, None, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True)
)
# Both are what json.loads and json.dumps call in the end. In a fork the way there costs the copies of dozens of pages.

RUN, KILL = b"R", b"K"  # operations
RUN_FOLDER = "run"
"""In a worker's scratch folder that of each of its runs, one after the other, where they have no mounts."""
LOADED, FAILED, RESULT, HOST_CALL = b"L", b"F", b"R", b"O"  # kinds of frames from a child


class Malformed(Exception):
    """Bytes that are no frame, or a frame that holds no value: the process that wrote them is at fault."""


class Unplain(TypeError):
    """A value of a type that does not cross."""


class TooLarge(ValueError):
    """A value whose encoding passes the bound on output."""


def frame(kind: bytes, body: bytes) -> bytes:
    return FRAME.pack(kind, len(body)) + body


class Frames:
    """Cuts a stream of bytes into (kind, body) frames; Malformed where one claims more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        self._held += data

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        held, head = self._held, FRAME.size
        while len(held) >= head:
            kind, length = FRAME.unpack_from(held)
            if length > self.limit:
                raise Malformed(f"a message of {length} bytes")
            if len(held) < head + length:
                return
            body = bytes(held[head : head + length])
            del held[: head + length]
            yield kind, body


def encode(value: Any, limit: int | None = None, objects: bool = True) -> str:
    """JSON of a plain value. Raises Unplain or TooLarge (more than `limit` characters).

    objects: also dataclass instances, as the dict of their fields, and numpy arrays, as their nested lists; not of a
        program, whose array is equal to no list
    """
    text = to_json(pack_value(value, objects))
    if limit is not None and len(text) > limit:
        raise TooLarge(f"a value of {len(text)} bytes, more than the {limit} allowed")
    return text


def to_json(value: Any) -> str:
    """What json.dumps makes of a packed value."""
    return "".join(_encoder(value, 0))


def pack_value(value: Any, objects: bool = True, depth: int = 0) -> Any:
    """A plain value in the types that JSON has, as `encode`."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is str:
        return value
    if kind is int:
        return value if -(1 << 63) < value < 1 << 63 else {"i": hex(value)}
    if depth > MAX_DEPTH:
        raise Unplain(f"a value nested deeper than {MAX_DEPTH}")
    depth += 1
    # isinstance rather than the exact type from here on: a Counter, a namedtuple or an IntEnum is its plain base
    if isinstance(value, list):
        return [pack_value(item, objects, depth) for item in value]
    if isinstance(value, dict):
        return {"d": [[pack_value(k, objects, depth), pack_value(v, objects, depth)] for k, v in value.items()]}
    for tag, plain in (("t", tuple), ("s", set), ("f", frozenset)):
        if isinstance(value, plain):
            return {tag: [pack_value(item, objects, depth) for item in value]}
    if isinstance(value, (bytes, bytearray)):
        return {"b": value.decode("latin-1")}
    if isinstance(value, int):
        return pack_value(int(value), objects, depth)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        return {"c": [value.real, value.imag]}
    loaded = sys.modules  # a value of a module's type has had it imported
    if "fractions" in loaded and isinstance(value, loaded["fractions"].Fraction):
        terms = value.numerator, value.denominator
        if max(map(int.bit_length, terms)) <= _MOST_BITS:
            return {"q": [pack_value(term, objects, depth) for term in terms]}
    if "decimal" in loaded and isinstance(value, loaded["decimal"].Decimal) and not value.is_snan():
        return {"n": loaded["decimal"].Decimal.__str__(value)}
    if isinstance(value, Mapping):  # a ChainMap, a proxy of a dict: they equal it
        return pack_value(dict(value), objects, depth)
    numpy = loaded.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        plain = value.tolist()
        if not isinstance(plain, (numpy.ndarray, numpy.generic)) and (objects or not isinstance(plain, list)):
            return pack_value(plain, objects, depth)
    declared = getattr(kind, "__dataclass_fields__", None)
    if objects and declared is not None:
        return {"d": [[name, pack_value(getattr(value, name), objects, depth)] for name in declared]}
    raise Unplain(f"a value of type {kind.__name__}, which is not plain data")


def decode(text: bytes | str) -> Any:
    """The plain value; Malformed for anything that `encode` would not have written."""
    try:
        return unpack_value(json.loads(text))
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Malformed(f"no value: {type(error).__name__}") from None


def unpack_value(value: Any, depth: int = 0) -> Any:
    """The plain value of a packed one. Raises what a text has that `encode` did not write."""
    if isinstance(value, list):
        if depth > MAX_DEPTH:
            raise ValueError("too deep")
        return [unpack_value(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or depth > MAX_DEPTH:
        raise ValueError("not one tag")
    ((tag, inner),) = value.items()
    if tag == "i":
        return int(inner, 16)
    if tag == "b":
        return inner.encode("latin-1")
    if tag == "c":
        return complex(float(inner[0]), float(inner[1]))
    if tag == "n":
        from decimal import Decimal

        number = Decimal(inner)
        if number.is_snan():
            raise ValueError("a signalling nan")
        return number
    if not isinstance(inner, list):
        raise ValueError("not a list")
    if tag == "q":
        terms = [unpack_value(term, depth + 1) for term in inner]
        if not all(type(term) is int and term.bit_length() <= _MOST_BITS for term in terms):
            raise ValueError("no fraction")
        from fractions import Fraction

        return Fraction(*terms)
    if tag == "t":
        return tuple([unpack_value(item, depth + 1) for item in inner])
    if tag == "d":
        pairs = [(unpack_value(k, depth + 1), unpack_value(v, depth + 1)) for k, v in inner]
        _hashable([k for k, _ in pairs])
        return dict(pairs)
    if tag in ("s", "f"):
        items = [unpack_value(item, depth + 1) for item in inner]
        _hashable(items)
        return set(items) if tag == "s" else frozenset(items)
    raise ValueError("no such tag")


def _hashable(keys: list[Any]) -> None:
    """Refuse keys chosen to collide: numbers hash without a secret, and a dict of them takes quadratic time."""
    if len(keys) > 1000 and len({hash(key) for key in keys}) < len(keys) // 2:
        raise ValueError("colliding keys")
