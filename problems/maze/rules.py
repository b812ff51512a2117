"""The tiles of a board and the scoring of a walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EMPTY, WALL, START, END, GOLD, DIAMOND, LAVA, BONUS, JADE, PEARL = ".#SEGDLBJP"
TILES = EMPTY + WALL + START + END + GOLD + DIAMOND + LAVA + BONUS + JADE + PEARL
NAMES: Mapping[str, str] = {GOLD: "gold", DIAMOND: "diamond", JADE: "jade", PEARL: "pearl"}
"""The tiles to collect; each kind is a component of the reward."""
PLURALS: Mapping[str, str] = {**NAMES, DIAMOND: "diamonds", PEARL: "pearls"}


@dataclass(frozen=True)
class Rules:
    """Which components the reward vector has.

    treasures: the kinds of tiles that are collected, a component each
    thrift: whether steps saved are one more
    """

    treasures: tuple[str, ...]
    thrift: bool = False

    @property
    def objectives(self) -> tuple[str, ...]:
        kinds = [NAMES[tile] for tile in self.treasures]
        return ("completion", *kinds, "safety", *(["thrift"] if self.thrift else []))


PAPER = Rules((GOLD, DIAMOND))
"""The VPO paper's four components."""
ZONES = Rules((GOLD, DIAMOND, JADE, PEARL), thrift=True)
"""The seven of the large mazes."""
