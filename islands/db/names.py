"""Names for runs and comparisons that were given none."""

from __future__ import annotations

import secrets

_FIRST = "amber brisk calm clear coral deep early fair fleet gold green keen late lively mild quiet red swift tall warm"
_SECOND = "brook cedar cove dune elm fern field fjord grove heron isle lake marsh oak pine reef ridge river stone wave"


def readable_name(attempt: int) -> str:
    """Two words, such as fair-elm; after five attempts with a number too, since the words may have run out."""
    words = f"{secrets.choice(_FIRST.split())}-{secrets.choice(_SECOND.split())}"
    return words if attempt < 5 else f"{words}-{secrets.randbelow(10**6)}"
