"""Token ids, log-probabilities and texts as compressed bytes, and a rollout's text without the answers that are stored
elsewhere. Exact both ways."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

_WINDOW = 1 << 15
"""Bytes that zlib looks back. Of longer data, the beginning and the end that equal the base's are left out first."""
_LEFT_OUT = struct.Struct("<cQQ")
"""`d`, which no zlib stream begins with, and the bytes left out at both ends."""


def compress(data: bytes, base: bytes | None = None) -> bytes:
    """Compressed; nothing stays nothing. base: data that it shares much with, which is needed to read it"""
    if not data:
        return b""
    head, packer = b"", zlib.compressobj(zdict=base) if base else zlib.compressobj()
    if base and len(data) > _WINDOW:
        start = _count_equal(np.frombuffer(data, np.uint8), np.frombuffer(base, np.uint8))
        end = _count_equal(np.frombuffer(data, np.uint8)[start:][::-1], np.frombuffer(base, np.uint8)[start:][::-1])
        head, data = _LEFT_OUT.pack(b"d", start, end), data[start : len(data) - end]
    return head + packer.compress(data) + packer.flush()


def _count_equal(data: npt.NDArray[np.uint8], base: npt.NDArray[np.uint8]) -> int:
    """How many bytes are equal at the beginning."""
    length = min(len(data), len(base))
    different = np.flatnonzero(data[:length] != base[:length])
    return int(different[0]) if len(different) else length


def decompress(blob: bytes, base: bytes | None = None) -> bytes:
    """The data that was packed on this base. Raises ValueError for bytes that `compress` never wrote."""
    unpacker = zlib.decompressobj(zdict=base) if base else zlib.decompressobj()
    try:
        if not base or blob[:1] != b"d":
            return unpacker.decompress(blob)
        _, start, end = _LEFT_OUT.unpack_from(blob)
        return base[:start] + unpacker.decompress(blob[_LEFT_OUT.size :]) + base[len(base) - end :]
    except zlib.error as error:
        raise ValueError(f"{len(blob)} bytes are no packed data: {error}") from None


_FOLDED = "\ue001"
"""First character (private use) of a text that was folded; then `place@offset` of each answer, a colon, the rest."""
_LEAST_FOLDED = 64
"""Characters of an answer from which on it is left out of its text."""


def fold(text: str, answers: Mapping[int, str]) -> str:
    """The text without these answers where it holds them. answers: by their places among all of the text, in order"""
    cuts, rest, start = [], "", 0
    for place, answer in answers.items():
        at = text.find(answer, start) if len(answer) >= _LEAST_FOLDED else -1
        if at >= 0:
            rest += text[start:at]
            cuts.append(f"{place}@{len(rest)}")
            start = at + len(answer)
    folded = cuts or text.startswith(_FOLDED)
    return f"{_FOLDED}{','.join(cuts)}:{rest}{text[start:]}" if folded else text


def unfold(text: str, answers: Sequence[str]) -> str:
    """The text that was folded. answers: all of it, in order"""
    if not text.startswith(_FOLDED):
        return text
    cuts, _, rest = text[1:].partition(":")
    whole, start = "", 0
    for cut in filter(None, cuts.split(",")):
        place, at = map(int, cut.split("@"))
        whole += rest[start:at] + answers[place]
        start = at
    return whole + rest[start:]


def ids_to_bytes(ids: npt.ArrayLike) -> bytes:
    """(T,) integers as int32. Raises ValueError beyond it."""
    array = np.asarray(ids).ravel()
    if array.dtype == "<i4":
        return _to_planes(array)
    array = array.astype(np.int64)
    if len(array) and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
        raise ValueError(f"token ids from {array.min()} to {array.max()} do not fit 32 bits")
    return _to_planes(array.astype("<i4"))


def base_of_ids(prompt_ids: npt.NDArray[np.int32]) -> bytes:
    """On which a rollout's token ids are packed: its prompt's last ones, which it often repeats."""
    return ids_to_bytes(prompt_ids[-_WINDOW // 4 :])


def ids_of(data: bytes) -> npt.NDArray[np.int32]:
    """(T,) integers from their bytes."""
    return _of_planes(data).view("<i4").astype(np.int32)


def pack_floats(values: npt.ArrayLike) -> bytes:
    """(T,) float32; NaN and infinity survive."""
    return compress(_to_planes(np.asarray(values).ravel().astype("<f4")))


def unpack_floats(blob: bytes) -> npt.NDArray[np.float32]:
    """The (T,) float32 array that was packed. Raises ValueError as `decompress` does."""
    return _of_planes(decompress(blob)).view("<f4").astype(np.float32)


def _to_planes(array: npt.NDArray[np.generic]) -> bytes:
    """The first bytes of all numbers, then the second ones, ...: high bytes are alike, and compress well."""
    return array.view(np.uint8).reshape(-1, 4).T.tobytes()


def _of_planes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).reshape(4, -1).T.ravel()
