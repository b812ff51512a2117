"""Drawing with matplotlib: each function takes what is worked out and gives a Plot, a PNG in memory."""

from __future__ import annotations
