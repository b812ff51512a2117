"""Packed arrays come back exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from islands.blobs import pack, pack_floats, pack_ids, unpack, unpack_floats, unpack_ids


@settings(deadline=None)
@given(arrays.arrays(np.int32, st.integers(0, 50)))
def test_ids_come_back(ids):
    found = unpack_ids(pack_ids(ids))
    assert found.dtype == np.int32 and np.array_equal(found, ids)


@settings(deadline=None)
@given(arrays.arrays(np.float32, st.integers(0, 50), elements=st.floats(width=32)))
def test_floats_come_back_bit_by_bit(values):
    found = unpack_floats(pack_floats(values))
    assert found.dtype == np.float32
    same = (found.view(np.uint32) == values.view(np.uint32)) | (np.isnan(found) & np.isnan(values))
    assert same.all()


@settings(deadline=None, max_examples=50)
@given(st.binary(), st.binary(), st.integers(0, 50_000))
def test_what_a_base_holds_is_stored_once(own, other, length):
    shared = np.random.default_rng(0).bytes(length)
    data, base = shared + own, other + shared
    packed = pack(data, base)
    assert unpack(packed, base) == data and unpack(pack(data)) == data
    assert length > 20_000 or len(packed) < len(own) + length / 50 + 100


def test_they_are_compact():
    assert len(pack_ids(range(1000))) == 2001 and len(pack_ids([70_000] * 1000)) == 4001
    assert len(pack_floats([-0.5] * 1000)) == 2001 and len(pack_floats([-0.1] * 1000)) == 4001
    assert pack_ids([]) == pack_floats([]) == b""


@pytest.mark.parametrize("blob", [b"x12", b"H1", b"i123", b"e1"])
def test_other_bytes_are_refused(blob):
    with pytest.raises(ValueError, match="not a packed array"):
        (unpack_floats if blob[:1] == b"e" else unpack_ids)(blob)


def test_ids_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="do not fit 32 bits"):
        pack_ids([1 << 31])
