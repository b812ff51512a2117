"""What the screen shows of a snapshot: the head, the arms, the verdict, curves, the table of problems and what became
better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import rich.table
from rich.console import Group, RenderableType
from rich.text import Text

from evo.progress.rows import (
    NONE,
    Table,
    TableCell,
    arm_name,
    arm_rows,
    arm_weights,
    common_prefix,
    curve_title,
    improvement_rows,
    problems_table,
)
from evo.progress.snapshot import Snapshot
from evo.tui.detail import draw_best
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import STRONG, Palette
from evo.tui.plot import draw_plot
from problems.objectives import fitness_objective

_MOST_IMPROVEMENTS = 12


def head(snapshot: Snapshot, width: int, now: float, palette: Palette, doing: str = "") -> Text:
    """Two lines: names and state, progress. doing: what the viewer has done to the search, as `stopping`"""
    state, mood = snapshot.state(now)
    state = f"{doing}, {state}" if doing else state
    first = Text(shorten(snapshot.name, max(8, width // 3)), STRONG, no_wrap=True, overflow="ellipsis")
    for part in _about(snapshot, max(30, (width - first.cell_len - width_of(state)) // 3)):
        if first.cell_len + width_of(part) + 3 + width_of(state) < width:
            first.append(" · ", palette.muted).append(part)
    first.append(" " * max(1, width - first.cell_len - width_of(state)))
    first.append(state, palette.warn if doing else palette.mood(mood))
    return Text("\n").join([first, _progress(snapshot, width, palette)])


def stopping(snapshot: Snapshot) -> str:
    """What a search waits for after Ctrl-C. Its own warning comes when the screen has ended."""
    flying = _in_flight(snapshot)
    return f"stopping: waits for {flying:,} in flight" if flying else "stopping"


def _in_flight(snapshot: Snapshot) -> int:
    return sum(arm.waiting("in_flight") or 0 for arm in snapshot.arms)


def _about(snapshot: Snapshot, room: int) -> list[str]:
    names = [problem.name for problem in snapshot.problems]
    parts = [shorten(names[0], room)] if len(names) == 1 else []
    if len(names) > 1:
        shared = clean(common_prefix(names)).rstrip("/:_-")
        parts.append((f"{shared} · " if shared else "") + f"{len(names):,} problems")
    if snapshot.failed:
        parts.append(f"{len(snapshot.failed)} left out")
    if len(snapshot.arms) == 1:
        parts.append(shorten(snapshot.arms[0].policy, room))
    seeds = max(arm.seeds for arm in snapshot.arms)
    counts = [f"{len(snapshot.arms)} arms"] if len(snapshot.arms) > 1 else []
    counts += [f"{seeds} seeds"] if seeds > 1 else []
    return [*parts, " × ".join(counts)] if counts else parts


def _progress(snapshot: Snapshot, width: int, palette: Palette) -> Text:
    groups, planned = snapshot.groups, max(1, snapshot.planned)
    words = f" {groups:,}/{snapshot.planned:,} iterations"
    if groups < snapshot.planned:
        # iterations left times their mean cost, but no more than a budget of answers leaves
        words += f", {sum(arm.answers_left for arm in snapshot.arms):,} answers left"
        if flying := _in_flight(snapshot):
            sampled = sum(arm.waiting("sampled_ahead") or 0 for arm in snapshot.arms)
            words += f", {sampled:,} of {flying:,} in flight sampled"
    if cost := sum(arm.totals.cost for arm in snapshot.arms):
        words += f", cost {cost:.4g}"
    bar = max(10, width - width_of(words))
    full = int(bar * min(1.0, groups / planned))
    text = Text("━" * full, palette.good, no_wrap=True, overflow="crop")
    return text.append("─" * (bar - full), palette.muted).append(words)


def arms(snapshot: Snapshot, width: int, palette: Palette) -> rich.table.Table:
    """A line for each arm below a line of titles; what has no room is left out."""
    rows = arm_rows(snapshot, "screen")
    weights = dict(zip(rows[0], arm_weights(), strict=True))
    kept = [title for title in rows[0] if any(row[title].text != NONE for row in rows)]
    wide = {title: max(width_of(title), *(width_of(f"{row[title].text} {row[title].note}") for row in rows)) + 2
            for title in kept}  # fmt: skip
    names = max(width_of(shorten(arm.name, 24)) for arm in snapshot.arms) + 4
    while len(kept) > 1 and names + sum(map(wide.__getitem__, kept)) > width:
        kept.remove(min(reversed(kept), key=weights.__getitem__))
    title = "  arm" if len(rows) > 1 else "  run"
    return palette.table(
        [
            {title: arm_name(arm.name, place), **{title: row[title] for title in kept}}
            for place, (arm, row) in enumerate(zip(snapshot.arms, rows, strict=True))
        ]
    )


def verdict_lines(snapshot: Snapshot, palette: Palette, most: int | None = None) -> Text:
    """A line for each pair of arms, the shown differences first; empty for a single arm. most: lines at most"""
    if snapshot.reference is None:
        return Text()
    if not snapshot.verdict:
        return Text("verdict: waits until every search has begun", palette.muted)
    ranked = sorted(snapshot.verdict, key=lambda one: not one.shown)
    kept = ranked if most is None or len(ranked) <= most else ranked[: most - 1]
    lines = []
    for one in kept:
        line = Text("→ " if one.shown else "  ", palette.good)
        lines.append(line.append(clean(one.text), STRONG if one.shown else palette.muted))
    if left := len(ranked) - len(kept):
        lines.append(Text(f"  … {left} more pairs: evo show {clean(snapshot.name)}", palette.muted))
    return Text("\n").join(lines)


def curves(snapshot: Snapshot, width: int, height: int, palette: Palette) -> Text:
    """The solve rate, or the mean best value, of every arm."""
    shown = [(number, arm.name, arm.curve) for number, arm in enumerate(snapshot.arms) if arm.curve is not None]
    if not shown or height < 4:
        return Text("no curve yet", palette.muted)
    return draw_plot(shown, snapshot.has_targets, width, min(height, 24), palette)


def curves_title(snapshot: Snapshot) -> str:
    return "solve rate" if snapshot.has_targets else curve_title(snapshot)


@dataclass(frozen=True)
class TableChoice:
    """Which problems the table shows, and in what order.

    search: a part of the name, in any case
    worst_first: by the mean over arms of what their column on the page is sorted by; else in the given order
    """

    search: str = ""
    unsolved: bool = False
    differing: bool = False
    worst_first: bool = False

    def describe(self, snapshot: Snapshot, shown: int) -> str:
        """The filters and the order in a few words; "" for neither."""
        parts = [f"/{self.search}"] * bool(self.search) + ["unsolved"] * self.unsolved + ["differing"] * self.differing
        parts = [f"{shown:,} of {len(snapshot.problems):,}", *parts] if parts else []
        parts += ["worst first"] * self.worst_first
        return clean(" · ".join(parts))


def chosen_problems(table: Table, snapshot: Snapshot, choice: TableChoice) -> list[int]:
    """Numbers of the problems shown, in order. table: of all problems"""
    names, part, standing = [one.name for one in snapshot.problems], choice.search.casefold(), snapshot.standing
    hidden = choice.unsolved & ~standing.unsolved | choice.differing & ~standing.differing
    rows = [row for row, name in enumerate(names) if part in name.casefold() and not hidden[row]]
    if choice.worst_first:
        outcomes = [at for at, column in enumerate(table.columns) if column.kind == "outcome"]
        rows.sort(key=lambda row: sum(_rank(table.rows[row][at]) for at in outcomes), reverse=True)
    return rows


def _rank(outcome: TableCell) -> float:
    """The larger the worse; a problem without an answer comes first."""
    return math.inf if outcome.sort is None else float(outcome.sort)


def problem_titles(table: Table, snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Of the columns; the first names what the problems' names have in common."""
    prefix = clean(common_prefix([problem.name for problem in snapshot.problems])).rstrip("/:_-")
    alone, titles = len(snapshot.arms) == 1, []
    for column in table.columns:
        title = prefix or "problem" if column.kind == "problem" else column.kind or column.title
        if alone or column.arm is None:
            titles.append(Text(title, palette.muted))
        else:
            name = title if column.kind == "against" else shorten(column.title, 18)
            titles.append(Text(f"{palette.mark(column.arm)} {name}", palette.arm(column.arm)))
    return titles


def problem_rows(
    table: Table, snapshot: Snapshot, chosen: Sequence[int], width: int, palette: Palette
) -> list[list[Text]]:
    """The cells of the chosen problems. width: of the screen"""
    prefix, most = len(common_prefix([problem.name for problem in snapshot.problems])), 30 if width >= 110 else 16
    rows = (table.rows[row] for row in chosen)
    return [[Text(shorten(name.text[prefix:], most)), *map(palette.paint, cells)] for name, *cells in rows]


def describe_wins(snapshot: Snapshot, palette: Palette) -> Text:
    """The problems won, lost and level of each arm against the reference; empty without one."""
    text = Text()
    for number, arm in enumerate(snapshot.arms):
        if snapshot.reference not in (None, arm.name):
            won, lost, level = snapshot.standing.counts(number)
            text.append(f"{palette.mark(number)} {shorten(arm.name, 16)} ", palette.arm(number))
            text.append(f"{won} won", palette.good).append(" ").append(f"{lost} lost", palette.bad)
            text.append(f" {level} level   ", palette.muted)
    return text


def legend(snapshot: Snapshot) -> str:
    """What the cells mean."""
    solved = "@N solved after N iterations, else " if snapshot.has_targets else ""
    against = f" · against {shorten(snapshot.reference, 16)}" if snapshot.reference else ""
    lower = any(fitness_objective(problem.metrics).lower for problem in snapshot.problems)
    return f"{solved}the best value so far{', ↓ lower is better' * lower}{against}"


def improvements(snapshot: Snapshot, width: int, now: float, palette: Palette) -> RenderableType:
    """The last rises of a best value."""
    rows = improvement_rows(snapshot, now)[:_MOST_IMPROVEMENTS]
    line = Text("last improvements ", STRONG)
    line.append("─" * max(0, width - line.cell_len), palette.muted)
    return Group(line, palette.table(rows) if rows else Text("none yet", palette.muted))


def picture(snapshot: Snapshot, width: int, height: int, now: float, palette: Palette) -> RenderableType:
    """The whole screen as one picture, for a pipe or a page."""
    parts: list[RenderableType] = [head(snapshot, width, now, palette), arms(snapshot, width, palette)]
    parts += [verdict_lines(snapshot, palette)] * (snapshot.reference is not None)
    parts += [
        Text(curves_title(snapshot) + " ", STRONG),
        curves(snapshot, width, max(8, min(16, height // 3)), palette),
    ]
    if snapshot.problems:
        table = problems_table(snapshot)
        drawn = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in problem_titles(table, snapshot, palette):
            drawn.add_column(title, no_wrap=True)
        for texts in problem_rows(table, snapshot, range(len(table.rows)), width, palette):
            drawn.add_row(*texts)
        parts += [Text("problems", STRONG), drawn]
        parts.append(Text(legend(snapshot), palette.muted, overflow="ellipsis", no_wrap=True))
    parts += [draw_best(snapshot, palette)] * (snapshot.detail is not None)
    return Group(*parts, Text(""), improvements(snapshot, width, now, palette))
