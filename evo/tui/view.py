"""What the viewer has chosen, and what a key does to it: pure, so that every key can be tested without a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from evo.monitor.snapshot import Snapshot

Action = Literal["quit", "pause", "repaint"]
PANELS = ("problems", "curves", "population", "operators", "improvements", "training", "errors")


@dataclass(frozen=True)
class View:
    """panel: the one shown where there is no room for all; problem, arm: chosen, by number; scroll: lines of the
    detail that are above its top; live: this screen can pause and stop the search, not only look on; paused: the
    search, or the picture where it is not live, is held; stopping: the search was asked to end."""

    panel: str = "problems"
    problem: int = 0
    arm: int = 0
    detail: bool = False
    scroll: int = 0
    help: bool = False
    live: bool = False
    paused: bool = False
    stopping: bool = False


def panels(snapshot: Snapshot) -> list[str]:
    """Those that have something to show, in the order in which tab goes through them."""
    none = {"training"} if not any(arm.training for arm in snapshot.arms) else set()
    if not any(arm.operators for arm in snapshot.arms):
        none.add("operators")
    if not any(arm.telemetry.errors or arm.failed for arm in snapshot.arms):
        none.add("errors")
    return [panel for panel in PANELS if panel not in none]


def press_key(view: View, key: str, snapshot: Snapshot, page: int = 10) -> tuple[View, Action | None]:
    """The view after a key, and what else is to be done. page: rows that page up and down move by."""
    if view.help and key not in ("q", "ctrl+l"):
        return replace(view, help=False), None
    match key:
        case "q":
            return view, "quit"
        case "p":
            return view, "pause"
        case "ctrl+l":
            return view, "repaint"
        case "?" | "h":
            return replace(view, help=True), None
        case "enter":
            return (replace(view, detail=True, scroll=0) if snapshot.problems and not view.detail else view), None
        case "escape" | "backspace":
            return replace(view, detail=False, scroll=0), None
        case "tab" | "shift+tab":
            if view.detail:
                return view, None
            order = panels(snapshot)
            at = order.index(view.panel) if view.panel in order else 0
            return replace(view, panel=order[(at + (1 if key == "tab" else -1)) % len(order)]), None
        case "left" | "right":
            arms = max(1, len(snapshot.arms))
            return replace(view, arm=(view.arm + (1 if key == "right" else -1)) % arms, scroll=0), None
        case "n" | "b" if view.detail:
            return _moved(view, snapshot, 1 if key == "n" else -1), None
    step = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, " ": page}.get(key)
    if key in ("home", "g"):
        step = -(10**9)
    if key in ("end", "G"):
        step = 10**9
    if step is None:
        return view, None
    if view.detail:
        return replace(view, scroll=max(0, view.scroll + step)), None
    return _moved(view, snapshot, step), None


def _moved(view: View, snapshot: Snapshot, step: int) -> View:
    return replace(view, problem=min(max(0, view.problem + step), max(0, len(snapshot.problems) - 1)), scroll=0)
