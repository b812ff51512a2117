"""The text tasks by the kind of their addresses."""

from __future__ import annotations

from collections.abc import Mapping

from problems.musique.sets import MUSIQUE
from problems.text.sets import Kind
from problems.toolrl.sets import TOOLRL

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (MUSIQUE, TOOLRL)}
