"""Packed arrays come back exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from islands.blobs import compress, decompress, fold, ids_of, ids_to_bytes, pack_floats, unfold, unpack_floats


@settings(deadline=None)
@given(arrays.arrays(np.int32, st.integers(0, 50)))
def test_ids_come_back(ids):
    found = ids_of(decompress(compress(ids_to_bytes(ids))))
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
    packed = compress(data, base)
    assert decompress(packed, base) == data and decompress(compress(data)) == data
    assert length > 20_000 or len(packed) < len(own) + length / 50 + 100


_MARKS = st.text("a:@0,\ue001", max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(_MARKS, st.text("ab", min_size=60, max_size=80), st.booleans()), max_size=4), _MARKS)
def test_a_text_comes_back_without_and_with_its_answers(parts, end):
    answers = [answer for _, answer, _ in parts]
    new = {place: answers[place] for place, (_, _, is_new) in enumerate(parts) if is_new}
    text = "".join(before + answer for before, answer, _ in parts) + end
    folded = fold(text, new)
    assert unfold(folded, answers) == text
    assert len(folded) <= len(text) + 2 - sum(len(answer) - 8 for answer in new.values() if len(answer) >= 64)


@pytest.mark.parametrize("blob", [b"x12", b"i123"])
def test_other_bytes_are_refused(blob):
    with pytest.raises(ValueError, match="no packed data"):
        unpack_floats(blob)


def test_ids_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="do not fit 32 bits"):
        ids_to_bytes([1 << 31])
