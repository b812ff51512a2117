"""The top of the screen: what runs, how far it is, the arms side by side, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.style import Style

from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.search.status import clock
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, width_of, wrap
from evo.tui.numbers import common_prefix, count, fitness, rate
from evo.tui.palette import BAD, DIM, GOOD, STRONG, WARN, look
from evo.tui.view import View
from islands.lock import LOST


def header(snapshot: Snapshot, view: View, width: int, now: float) -> Lines:
    """Two lines: names and state, progress."""
    state, style = _state(snapshot, view, now)
    first = Line(width)
    about = _about(snapshot)
    room = width - width_of(state) - 2
    first.add(shorten(snapshot.name, max(8, room // 2)), STRONG)
    for part in about:
        if width_of(part) + 3 <= first.room - width_of(state) - 1:
            first.add(" · ", DIM).add(part)
    first.flush(state, style)
    return [first, _progress(snapshot, width)]


def _about(snapshot: Snapshot) -> list[str]:
    names = [problem.name for problem in snapshot.problems]
    parts = []
    if len(names) == 1:
        parts.append(shorten(names[0], 30))
    elif names:
        shared = common_prefix(names).rstrip("/:_-")
        parts.append((f"{shared} · " if shared else "") + f"{len(names):,} problems")
    if len(snapshot.arms) == 1:
        parts.append(shorten(snapshot.arms[0].policy, 30))
    seeds = max(arm.seeds for arm in snapshot.arms)
    counts = [f"{len(snapshot.arms)} arms"] if len(snapshot.arms) > 1 else []
    counts += [f"{seeds} seeds"] if seeds > 1 else []
    if counts:
        parts.append(" × ".join(counts))
    return parts


def _state(snapshot: Snapshot, view: View, now: float) -> tuple[str, Style]:
    elapsed = clock(snapshot.elapsed(now))
    statuses = snapshot.statuses
    if snapshot.fault:
        return "the database does not answer", BAD
    if snapshot.loaded < snapshot.runs and not snapshot.ended:
        return f"reading run {snapshot.loaded + 1} of {snapshot.runs}", WARN
    if snapshot.loaded < snapshot.runs:
        return f"all runs have ended; reading {snapshot.loaded + 1} of {snapshot.runs}", WARN
    if snapshot.ended:
        failed, interrupted = statuses.get("failed", 0), statuses.get("interrupted", 0)
        whose = "all runs have ended" if snapshot.runs > 1 else "the run has ended"
        if failed:
            return f"{whose}, {failed} failed, {elapsed}", BAD
        if interrupted:
            lost = LOST in snapshot.reasons
            return f"stopped after {elapsed}: its process died" if lost else f"interrupted after {elapsed}", WARN
        return f"{whose}, {elapsed}", GOOD
    silent = snapshot.silent(now)
    if silent is not None:
        return f"nothing heard for {clock(silent)}", BAD
    if view.stopping:
        return f"stopping, {elapsed}", WARN
    if view.paused:
        return f"{'paused' if view.live else 'picture held'}, {elapsed}", WARN
    eta = snapshot.eta()
    return f"{elapsed}, {'…' if eta is None else clock(eta)} left", STRONG


def _progress(snapshot: Snapshot, width: int) -> Line:
    groups, planned = snapshot.groups, max(1, snapshot.planned)
    left = snapshot.planned - groups
    words = f" {groups:,}/{snapshot.planned:,} iterations"
    if left > 0:
        # iterations left times their mean cost, but no more than a budget of answers leaves
        costs = sum(
            max(0, min(arm.answers_planned - arm.groups * arm.answers_per_iteration,
                       (arm.planned - arm.groups) * arm.answers_per_iteration))
            for arm in snapshot.arms
        )  # fmt: skip
        words += f", {costs:,} answers left"
    flying = sum(arm.telemetry.in_flight or 0 for arm in snapshot.arms)
    if flying and left > 0:
        words += f", {sum(arm.telemetry.sampled_ahead or 0 for arm in snapshot.arms):,} of {flying:,} in flight sampled"
    if cost := sum(arm.telemetry.totals.cost for arm in snapshot.arms):
        words += f", cost {cost:.4g}"
    line = Line(width)
    bar = max(10, width - width_of(words))
    full = int(bar * min(1.0, groups / planned))
    return line.add("━" * full, GOOD).add("─" * (bar - full), DIM).add(words)


def arms(snapshot: Snapshot, width: int, room: int) -> Lines:
    """A line for each arm below a line of titles, as many as there is room for."""
    names = 12 if width < 100 else 24
    name_width = max(6, min(max((width_of(clean(arm.name)) for arm in snapshot.arms), default=6), names))
    titles = Line(width).gap(2).add("arm" if len(snapshot.arms) > 1 else "run", DIM, name_width)
    columns = _columns(snapshot, width - 2 - name_width)
    for column in columns:
        titles.gap().add(column.title, DIM, column.cells, right=True)
    lines = [titles]
    shown = snapshot.arms[: max(1, room - 1)]
    for number, arm in enumerate(shown):
        its = look(number)
        line = Line(width).add(its.mark, its.style).gap().add(shorten(arm.name, name_width), its.style, name_width)
        for column in columns:
            line.gap().add(column.text(snapshot, arm), column.style, column.cells, right=True)
        lines.append(line)
    if len(shown) < len(snapshot.arms):
        lines[-1] = Line(width).gap(2).add(f"… {len(snapshot.arms) - len(shown) + 1} more arms", DIM)
    return lines


@dataclass(frozen=True)
class _Column:
    title: str
    cells: int
    text: Callable[[Snapshot, ArmSnapshot], str]
    weight: int  # the lightest are left out first if there is no room
    style: Style = PLAIN


def _columns(snapshot: Snapshot, room: int) -> list[_Column]:
    """The columns that fit, in order."""
    targets = snapshot.has_targets
    columns = [
        _Column("solved", 9, lambda snapshot, arm: solved_text(arm), 9, STRONG) if targets else None,
        _Column("rate [95%]", 14, _rate, 8) if targets else None,
        _Column("mean best", 9, lambda snapshot, arm: fitness(mean_best(arm)), 7, PLAIN if targets else STRONG),
        _Column("iterations", 13, lambda snapshot, arm: f"{arm.groups:,}/{arm.planned:,}", 2)
        if len(snapshot.arms) > 1
        else None,
        _Column("ans/s", 6, lambda snapshot, arm: rate(arm.telemetry.answers_per_second), 6),
        _Column("tok/s", 6, lambda snapshot, arm: rate(arm.telemetry.tokens_per_second), 5),
        _Column("busy", 4, lambda snapshot, arm: _percent(arm.telemetry.policy_busy), 5),
        _Column("queue", 5, lambda snapshot, arm: count(arm.telemetry.scoring_queue), 4),
        _Column("errors", 6, lambda snapshot, arm: _errors(arm), 4),
        _Column("answers", 7, lambda snapshot, arm: count(arm.telemetry.totals.answers), 1),
        _Column("tokens", 6, lambda snapshot, arm: count(arm.telemetry.totals.tokens), 1),
        _Column("runs", 18, _runs, 3) if snapshot.runs > 1 else None,
    ]
    kept = [
        column
        for column in columns
        if column is not None and any(column.text(snapshot, arm) not in ("-", "") for arm in snapshot.arms)
    ]
    while len(kept) > 1 and sum(column.cells + 1 for column in kept) > room:
        lightest = min(column.weight for column in kept)
        last = max(i for i, column in enumerate(kept) if column.weight == lightest)
        del kept[last]
    return kept


def mean_best(arm: ArmSnapshot) -> float | None:
    """Mean best fitness over the searches that have any."""
    if arm.results is None or arm.results.best is None:
        return None
    last = arm.results.best[:, :, -1]
    known = last[~np.isnan(last)]
    return float(known.mean()) if len(known) else None


def solved_text(arm: ArmSnapshot) -> str:
    """12/24 searches; "-" before the first."""
    solved = solved_searches(arm)
    return "-" if solved is None else f"{solved[0]}/{solved[1]}"


def solved_searches(arm: ArmSnapshot) -> tuple[int, int] | None:
    """Solved searches, and those with a target; None before the problems are known."""
    if arm.results is None:
        return None
    known = arm.results.solved_at[arm.results.judged]
    return int(np.isfinite(known).sum()), known.size


def _rate(snapshot: Snapshot, arm: ArmSnapshot) -> str:
    """The curve's last known value, with its band."""
    if arm.curve is None:
        return "-"
    at = np.flatnonzero(np.isfinite(arm.curve.mean))
    if not len(at):
        return "-"
    mean, low, high = (float(values[at[-1]]) for values in (arm.curve.mean, arm.curve.low, arm.curve.high))
    band = f" [{100 * low:.0f}, {100 * high:.0f}]" if np.isfinite([low, high]).all() else ""
    return f"{mean:.0%}{band}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{min(1.0, value):.0%}"


def _errors(arm: ArmSnapshot) -> str:
    totals = arm.telemetry.totals
    return count(totals.errors.total()) if totals.errors or totals.answers else "-"


def _runs(snapshot: Snapshot, arm: ArmSnapshot) -> str:
    """1 running, 2 done."""
    order = ("failed", "interrupted", "running", "waiting", "done")
    return ", ".join(f"{arm.statuses[status]} {status}" for status in order if arm.statuses.get(status))


def verdict(snapshot: Snapshot, width: int, room: int) -> Lines:
    """The verdicts against the reference, in at most `room` lines; none is cut, those that do not fit are counted."""
    if snapshot.reference is None or room < 1:
        return []
    if not snapshot.verdict:
        return [Line(width).add("verdict: waits until every search has begun", DIM)]
    wrapped = [(judged.shown, wrap(judged.text, max(10, width - 2), 4, words=True)) for judged in snapshot.verdict]
    if sum(len(pieces) for _, pieces in wrapped) > room:
        wrapped.sort(key=lambda verdict: not verdict[0])  # shown differences are not left out
    lines: Lines = []
    for at, (shown, pieces) in enumerate(wrapped):
        if lines and len(lines) + len(pieces) > room:
            left = len(wrapped) - at
            more = f"… {left} more in evo show"
            lines[-1].flush(more if width_of(more) + 1 <= lines[-1].room else f"+{left} more", DIM)
            break
        for number, piece in enumerate(pieces[:room]):
            line = Line(width).add("→ " if shown and not number else "  ", GOOD)
            lines.append(line.add(piece, STRONG if shown else DIM))
    return lines
