"""The viewer's choices, how each action changes them, and the pages that they make of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from evo.monitor.snapshot import Snapshot
from evo.tui.arrange import Arranged, arrange
from evo.tui.problem_table import StandingsCache
from evo.tui.view import NAME, WON, TableChoice, View, panels, parts_of, select


class Pages:
    """Every method that changes the view takes the snapshot that is shown. drawn: the last picture"""

    def __init__(self, live: bool = False, paused: bool = False) -> None:
        self.view = View(live=live, paused=paused)
        self._standings = StandingsCache()
        self.drawn: Arranged | None = None

    def draw(self, snapshot: Snapshot, width: int, height: int, now: float) -> Arranged:
        """The parts of a screen of that size."""
        self.drawn = arrange(snapshot, self.view, width, height, now, self._standings)
        return self.drawn

    def rows(self, snapshot: Snapshot) -> list[int]:
        """Numbers of the problems shown, in order."""
        return select(snapshot, self._standings.of(snapshot), self.view.choice)

    def place(self, snapshot: Snapshot) -> int | None:
        """The row of the chosen problem, None if it is not shown."""
        rows = self.rows(snapshot)
        return rows.index(self.view.problem) if self.view.problem in rows else None

    def move(self, snapshot: Snapshot, by: int) -> None:
        """Choose the problem that many rows further on; from one that is not shown, the first."""
        rows = self.rows(snapshot)
        if rows:
            at = rows.index(self.view.problem) + by if self.view.problem in rows else 0
            self._change(problem=rows[min(max(0, at), len(rows) - 1)])

    def step(self, snapshot: Snapshot, by: int) -> None:
        """The next problem's answer; only in the detail."""
        if self.view.detail:
            self.move(snapshot, by)

    def choose(self, snapshot: Snapshot, problem: int, arm: int | None = None) -> None:
        """Choose a problem; open the one that was chosen already."""
        again = problem == self.view.problem
        self._change(problem=problem, arm=self.view.arm if arm is None else arm, detail=again or self.view.detail)

    def open(self, snapshot: Snapshot) -> None:
        """The best answer to the chosen problem, or to the first one shown."""
        rows = self.rows(snapshot)
        if rows:
            problem = self.view.problem if self.view.problem in rows else rows[0]
            self._change(problem=problem, detail=True)

    def back(self, snapshot: Snapshot) -> None:
        """Leave the detail; else remove a filter of the table."""
        if self.view.detail:
            self._change(detail=False)
        else:
            choice = self.view.choice
            self._choose(snapshot, replace(TableChoice(), order=choice.order, reverse=choice.reverse))

    def show_arm(self, snapshot: Snapshot, arm: int) -> None:
        self._change(arm=arm)

    def turn(self, snapshot: Snapshot, by: int) -> None:
        """The next arm."""
        if self.view.detail:
            self._change(arm=(self.view.arm + by) % max(1, len(snapshot.arms)))

    def show_panel(self, snapshot: Snapshot, name: str) -> None:
        self._change(panel=name)

    def next_panel(self, snapshot: Snapshot, by: int) -> None:
        order = list(self.drawn.parts if self.drawn is not None else ()) or panels(snapshot)
        at = order.index(self.view.panel) if self.view.panel in order else 0
        if not self.view.detail:
            self._change(panel=order[(at + by) % len(order)])

    def find(self, snapshot: Snapshot, text: str) -> None:
        """Only problems with this in their names."""
        self._choose(snapshot, replace(self.view.choice, search=text.strip()))

    def toggle(self, snapshot: Snapshot, which: str) -> None:
        """Only unsolved problems, or only those that arms differ on; again: all."""
        choice = self.view.choice
        if which == "unsolved":
            self._choose(snapshot, replace(choice, unsolved=not choice.unsolved))
        elif len(snapshot.arms) > 1:
            self._choose(snapshot, replace(choice, differing=not choice.differing))

    def next_part(self, snapshot: Snapshot) -> None:
        """Only one set, the next one, all."""
        parts = ["", *parts_of([problem.name for problem in snapshot.problems])]
        at = parts.index(self.view.choice.part) if self.view.choice.part in parts else 0
        self._choose(snapshot, replace(self.view.choice, part=parts[(at + 1) % len(parts)]))

    def next_order(self, snapshot: Snapshot) -> None:
        orders: list[int | None] = [None, NAME]
        orders += [WON] if snapshot.reference is not None and len(snapshot.arms) > 1 else []
        orders += list(range(len(snapshot.arms)))
        at = orders.index(self.view.choice.order) if self.view.choice.order in orders else 0
        self._choose(snapshot, replace(self.view.choice, order=orders[(at + 1) % len(orders)], reverse=False))

    def sort(self, snapshot: Snapshot, order: int) -> None:
        """Sort by this; if the table is sorted by it already, reverse it."""
        choice = self.view.choice
        turned = choice.order == order and not choice.reverse
        self._choose(snapshot, replace(choice, order=order, reverse=turned))

    def reverse(self, snapshot: Snapshot) -> None:
        self._choose(snapshot, replace(self.view.choice, reverse=not self.view.choice.reverse))

    def hold(self, snapshot: Snapshot) -> None:
        self._change(paused=not self.view.paused)

    def stop(self, snapshot: Snapshot) -> None:
        self._change(stopping=True, paused=False)

    def change(self, snapshot: Snapshot, name: str, *arguments: Any) -> None:
        """The change that a key or a click names."""
        CHANGES[name](self, snapshot, *arguments)

    def _choose(self, snapshot: Snapshot, choice: TableChoice) -> None:
        """Another choice of problems; the chosen one stays if it is among them."""
        self._change(choice=choice)
        rows = self.rows(snapshot)
        if rows and self.view.problem not in rows:
            self._change(problem=rows[0])

    def _change(self, **values: object) -> None:
        self.view = replace(self.view, **values)  # type: ignore[arg-type]


CHANGES: Mapping[str, Callable[..., None]] = {
    change.__name__: change
    for change in (
        *(Pages.open, Pages.choose, Pages.show_arm, Pages.turn, Pages.step, Pages.show_panel, Pages.toggle),
        *(Pages.next_part, Pages.next_order, Pages.reverse, Pages.sort),
    )
}
"""The changes that a key or a click makes, by name."""
