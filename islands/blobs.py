"""Token ids, log-probabilities and texts as compressed bytes. Exact both ways."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt


def pack(data: bytes, base: bytes | None = None) -> bytes:
    """Compressed; nothing stays nothing. base: data that it shares much with, which is needed to read it"""
    if not data:
        return b""
    packer = zlib.compressobj(zdict=base) if base else zlib.compressobj()
    return packer.compress(data) + packer.flush()


def unpack(blob: bytes, base: bytes | None = None) -> bytes:
    """The data that was packed on this base. Raises ValueError for bytes that `pack` never wrote."""
    unpacker = zlib.decompressobj(zdict=base) if base else zlib.decompressobj()
    try:
        return unpacker.decompress(blob)
    except zlib.error as error:
        raise ValueError(f"{len(blob)} bytes are no packed data: {error}") from None


def ids_to_bytes(ids: npt.ArrayLike) -> bytes:
    """(T,) integers as int32. Raises ValueError beyond it."""
    array = np.asarray(ids, dtype=np.int64).ravel()
    if len(array) and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
        raise ValueError(f"token ids from {array.min()} to {array.max()} do not fit 32 bits")
    return _to_planes(array.astype("<i4"))


def ids_of(data: bytes) -> npt.NDArray[np.int32]:
    """(T,) integers from their bytes."""
    return _of_planes(data).view("<i4").astype(np.int32)


def pack_floats(values: npt.ArrayLike) -> bytes:
    """(T,) float32; NaN and infinity survive."""
    return pack(_to_planes(np.asarray(values).ravel().astype("<f4")))


def unpack_floats(blob: bytes) -> npt.NDArray[np.float32]:
    """The (T,) float32 array that was packed. Raises ValueError as `unpack` does."""
    return _of_planes(unpack(blob)).view("<f4").astype(np.float32)


def _to_planes(array: npt.NDArray[np.generic]) -> bytes:
    """The first bytes of all numbers, then the second ones, ...: high bytes are alike, and pack well."""
    return array.view(np.uint8).reshape(-1, 4).T.tobytes()


def _of_planes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).reshape(4, -1).T.ravel()
