"""What the viewer has chosen: which panel, which problem of which arm, and which problems of all in what order."""

from __future__ import annotations

from dataclasses import dataclass

from evo.monitor.snapshot import Snapshot

PANELS = ("problems", "curves", "population", "operators", "improvements", "training", "errors")
NAME, WON = -1, -2
"""Orders of the table of problems beside those of its arms, which are their numbers."""


@dataclass(frozen=True)
class Choice:
    """Which problems the table shows, and in what order.

    search: a part of the name, in any case; part: the set that names begin with, "" for all
    order: None as they came; NAME; WON by how often the arms are ahead of the reference; else by an arm's outcome
    """

    search: str = ""
    unsolved: bool = False
    differing: bool = False
    part: str = ""
    order: int | None = None
    reverse: bool = False

    @property
    def narrow(self) -> bool:
        """Whether some problems may be left out."""
        return bool(self.search or self.unsolved or self.differing or self.part)


@dataclass(frozen=True)
class View:
    """panel: the one shown where there is no room for all; problem, arm: chosen, by number; live: this screen can
    pause and stop the search, not only look on; paused: the search, or the picture where it is not live, is held;
    stopping: the search was asked to end."""

    panel: str = "problems"
    problem: int = 0
    arm: int = 0
    detail: bool = False
    live: bool = False
    paused: bool = False
    stopping: bool = False
    choice: Choice = Choice()


def panels(snapshot: Snapshot) -> list[str]:
    """Those that have something to show, in the order in which tab goes through them."""
    none = {"training"} if not any(arm.training for arm in snapshot.arms) else set()
    if not any(arm.operators for arm in snapshot.arms):
        none.add("operators")
    if not any(arm.telemetry.errors or arm.failed for arm in snapshot.arms):
        none.add("errors")
    return [panel for panel in PANELS if panel not in none]
