"""Token ids and log-probabilities as compact little-endian bytes, the first byte naming the form; texts compressed.
Exact both ways."""

from __future__ import annotations

import zlib

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


def pack(data: bytes, base: bytes | None = None) -> bytes:
    """Compressed. base: data that it shares much with, which is needed to read it"""
    packer = zlib.compressobj(zdict=base) if base else zlib.compressobj()
    return packer.compress(data) + packer.flush()


def unpack(blob: bytes, base: bytes | None = None) -> bytes:
    """The data that was packed on this base."""
    return (zlib.decompressobj(zdict=base) if base else zlib.decompressobj()).decompress(blob)
