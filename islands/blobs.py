"""Token ids and log-probabilities as compact little-endian bytes, the first byte naming the form; texts compressed.
Exact both ways."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_IDS: dict[bytes, np.dtype] = {b"H": np.dtype("<u2"), b"i": np.dtype("<i4")}
_FLOATS: dict[bytes, np.dtype] = {b"e": np.dtype("<f2"), b"f": np.dtype("<f4")}


def pack_ids(ids: npt.ArrayLike) -> bytes:
    """(T,) integers -> 2 bytes each if all are in [0, 65536), else 4. Raises ValueError beyond int32."""
    array = np.asarray(ids, dtype=np.int64).ravel()
    if not len(array):
        return b""
    low, high = array.min(), array.max()
    if low >= 0 and high < 1 << 16:
        return b"H" + array.astype("<u2").tobytes()
    if low < -(1 << 31) or high >= 1 << 31:
        raise ValueError(f"token ids from {low} to {high} do not fit 32 bits")
    return b"i" + array.astype("<i4").tobytes()


def unpack_ids(blob: bytes) -> npt.NDArray[np.int32]:
    """The (T,) int32 array that was packed. Raises ValueError for bytes that pack_ids never wrote."""
    return _unpack(blob, _IDS).astype(np.int32)


def pack_floats(values: npt.ArrayLike) -> bytes:
    """(T,) float32 -> 2 bytes each if half precision holds every value exactly, else 4. NaN and infinity survive."""
    array = np.asarray(values, dtype=np.float32).ravel()
    if not len(array):
        return b""
    with np.errstate(over="ignore"):
        half = array.astype("<f2")
    if np.array_equal(half.astype(np.float32).view(np.uint32), array.view(np.uint32)):  # bits, so that -0.0 stays
        return b"e" + half.tobytes()
    return b"f" + array.astype("<f4").tobytes()


def unpack_floats(blob: bytes) -> npt.NDArray[np.float32]:
    """The (T,) float32 array that was packed. Raises ValueError for bytes that pack_floats never wrote."""
    return _unpack(blob, _FLOATS).astype(np.float32)


def _unpack(blob: bytes, forms: dict[bytes, np.dtype]) -> np.ndarray:
    if not blob:
        return np.zeros(0, dtype=next(iter(forms.values())))
    form = forms.get(bytes(blob[:1]))
    if form is None or (len(blob) - 1) % form.itemsize:
        raise ValueError(f"{len(blob)} bytes that begin with {bytes(blob[:1])!r} are not a packed array")
    return np.frombuffer(blob, dtype=form, offset=1)


WINDOW = 1 << 15
"""Bytes that zlib looks back. Of longer data, the beginning and the end that equal the base's are left out first."""
_LEFT_OUT = struct.Struct("<cQQ")
"""`d`, which no zlib stream begins with, and the bytes left out at both ends."""


def pack(data: bytes, base: bytes | None = None) -> bytes:
    """Compressed. base: data that it shares much with, which is needed to read it"""
    head, packer = b"", zlib.compressobj() if not base else zlib.compressobj(zdict=base)
    if base and len(data) > WINDOW:
        start = _shared(np.frombuffer(data, np.uint8), np.frombuffer(base, np.uint8))
        end = _shared(np.frombuffer(data, np.uint8)[start:][::-1], np.frombuffer(base, np.uint8)[start:][::-1])
        head, data = _LEFT_OUT.pack(b"d", start, end), data[start : len(data) - end]
    return head + packer.compress(data) + packer.flush()


def _shared(data: np.ndarray, base: np.ndarray) -> int:
    """How many bytes are alike at the beginning."""
    length = min(len(data), len(base))
    other = np.flatnonzero(data[:length] != base[:length])
    return int(other[0]) if len(other) else length


def unpack(blob: bytes, base: bytes | None = None) -> bytes:
    """The data that was packed on this base."""
    unpacker = zlib.decompressobj(zdict=base) if base else zlib.decompressobj()
    if not base or blob[:1] != b"d":
        return unpacker.decompress(blob)
    _, start, end = _LEFT_OUT.unpack_from(blob)
    return base[:start] + unpacker.decompress(blob[_LEFT_OUT.size :]) + base[len(base) - end :]


def plain(texts: Sequence[str]) -> bytes:
    """Texts as a JSON list."""
    return json.dumps(list(texts)).encode()
