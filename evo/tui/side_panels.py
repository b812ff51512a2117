"""The smaller panels: population, operators, training, last improvements, errors."""

from __future__ import annotations

from collections.abc import Sequence

from evo.comparison.operators import SHOWN_RATES, share_text, title_of
from evo.monitor.snapshot import ArmSnapshot, ImprovementLine, PopulationView, Snapshot
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, width_of
from evo.tui.numbers import BARS, ago, common_prefix, count, fitness, signed, sparkline
from evo.tui.palette import BAD, DIM, STRONG, WARN, look
from evo.tui.view import View
from islands.types import QUARTERS

MOST_ISLANDS = 12


def draw_population(snapshot: Snapshot, view: View, width: int, height: int) -> Lines:
    """Two tables: the mean over all problems, and the chosen one."""
    searches = sum(arm.seeds * len(snapshot.problems) for arm in snapshot.arms)
    read = sum(arm.read for arm in snapshot.arms)
    whole = "all problems" if read >= searches else f"{read:,} of {searches:,} archives read"
    lines = _archives(snapshot, [arm.population for arm in snapshot.arms], whole, width, migrations=True)
    if len(snapshot.problems) > 1:
        lines.append(Line(width))
        name = snapshot.problems[view.problem].name
        lines += _archives(snapshot, [arm.populations.get(view.problem) for arm in snapshot.arms], name, width)
    return lines[:height]


def _archives(
    snapshot: Snapshot, populations: Sequence[PopulationView | None], title: str, width: int, migrations: bool = False
) -> Lines:
    names = _name_width(snapshot, width)
    bars = max(8, min(24, width - 22) - names)
    moved = any(arm.telemetry.totals.migrations for arm in snapshot.arms)
    migrations = migrations and moved and width >= names + bars + 34
    head = Line(width).add(shorten(title, names + bars + 3), DIM, names + bars + 4).add("cells", DIM, 7, right=True)
    head.add("archive L1", DIM, 11, right=True)
    lines = [head.add("migrations", DIM, 12, right=True) if migrations else head]
    most = max(
        (max(population.cells) for population in populations if population is not None and population.cells),
        default=1.0,
    )
    for number, (arm, population) in enumerate(zip(snapshot.arms, populations, strict=True)):
        its = look(number)
        line = Line(width).add(its.mark, its.style).gap().add(shorten(arm.name, names), its.style, names).gap(2)
        _cells(line, population, most, bars)
        if migrations:
            line.add(count(arm.telemetry.totals.migrations), PLAIN, 12, right=True)
        lines.append(line)
    return lines


def _cells(line: Line, population: PopulationView | None, most: float, width: int) -> None:
    """A bar for each island, their sum, diversity."""
    if population is None:
        line.gap(width).add("-", DIM, 7, right=True).add("-", DIM, 11, right=True)
        return
    bars = "".join(BARS[min(7, int(7.99 * cells / max(most, 1e-9)))] for cells in population.cells[:MOST_ISLANDS])
    line.add(bars, DIM, width)
    line.add(f"{sum(population.cells):.1f}".removesuffix(".0"), PLAIN, 7, right=True)
    line.add(f"{population.diversity:.2f}", STRONG, 11, right=True)


def draw_training(snapshot: Snapshot, view: View, width: int, height: int) -> Lines:
    """Each trained arm: its step and newest version, and a curve of every metric."""
    lines: Lines = []
    for number, arm in enumerate(snapshot.arms):
        if arm.training is None:
            continue
        its, curve = look(number), arm.training
        line = Line(width).add(its.mark, its.style).gap().add(shorten(arm.name, 16), its.style)
        lines.append(line.add(f"  step {curve.steps[-1]:,}  ").add(shorten(curve.version, 40), DIM))
        for name, values in curve.metrics.items():
            known = [value for value in values if value == value]
            spark = sparkline(values, min(40, max(8, width - 34)), min(known), max(known))
            lines.append(
                Line(width)
                .gap(2)
                .add(name, DIM, 16)
                .add(spark, its.style)
                .add(f"{known[-1]:.4g}", STRONG, 12, right=True)
            )  # noqa: E501
    return lines[:height]


def draw_improvements(snapshot: Snapshot, view: View, width: int, height: int, now: float) -> Lines:
    """The last rises of a best fitness: the problem, both values, and the components that improved over the parent."""
    if not snapshot.improvements:
        return [Line(width).add("none yet", DIM)]
    arms = {arm.name: number for number, arm in enumerate(snapshot.arms)}
    names = _name_width(snapshot, width) if len(snapshot.arms) > 1 and width >= 70 else 0
    prefix = common_prefix([problem.name for problem in snapshot.problems])
    problem_width = min(18 if width >= 70 else 10, max(len(p.name) - len(prefix) for p in snapshot.problems))
    problem_width = max(7, problem_width)
    several = any(arm.seeds > 1 for arm in snapshot.arms)
    head = Line(width).add("ago", DIM, 4, right=True).gap(3 if len(snapshot.arms) > 1 else 1)
    if names:
        head.add("arm", DIM, names).gap()
    head.add("problem", DIM, problem_width).gap(4 if several else 0)
    head.gap().add("iter.", DIM, 5).gap().add("fitness", DIM, 10).gap().add("change of vector", DIM)
    lines: Lines = [head] if height > 1 else []
    for improvement in snapshot.improvements[: max(1, height - 1)]:
        its = look(arms.get(improvement.arm, 0))
        line = Line(width).add(ago(now - improvement.created), DIM, 4, right=True).gap()
        if len(snapshot.arms) > 1:
            line.add(its.mark, its.style).gap()
        if names:
            line.add(shorten(improvement.arm, names), its.style, names).gap()
        line.add(
            shorten(snapshot.problems[improvement.problem].name[len(prefix) :], problem_width), PLAIN, problem_width
        )
        if several:
            line.gap().add(f"s{improvement.seed}", DIM, 3)
        line.gap().add(f"#{improvement.iteration}", DIM, 5).gap()
        line.add("" if improvement.before is None else fitness(improvement.before), DIM, 4, right=True)
        line.add("→", DIM).add(fitness(improvement.fitness), STRONG, 5).gap()
        line.add(vector_change(snapshot.problems[improvement.problem].objectives, improvement, line.room))
        lines.append(line)
    return lines


def vector_change(objectives: tuple[str, ...], improvement: ImprovementLine, room: int) -> str:
    """gold +.20 diamond -.10: the components that changed most first, as many as fit."""
    if improvement.change is None:
        return "no parent"
    changed = [(abs(by), name, by) for name, by in zip(objectives, improvement.change, strict=False) if abs(by) > 5e-4]
    parts: list[str] = []
    for _, name, by in sorted(changed, key=lambda part: -part[0]):
        part = f"{shorten(name, 12)} {signed(by)}"
        if sum(width_of(p) + 2 for p in parts) + width_of(part) > room:
            return "  ".join([*parts, "…"])
        parts.append(part)
    return "  ".join(parts) or "same vector as its parent"


def draw_errors(snapshot: Snapshot, view: View, width: int, height: int) -> Lines:
    """Kinds of faults by arm, the most frequent first; then the problems whose scorer failed."""
    totals: dict[str, int] = {}
    for arm in snapshot.arms:
        for kind, n in arm.telemetry.totals.errors.items():
            totals[kind] = totals.get(kind, 0) + n
    lines: Lines = []
    if not totals and not any(arm.failed for arm in snapshot.arms):
        return [Line(width).add("none", DIM)]
    cells = max(4, min(8, (width - 10) // max(1, len(snapshot.arms))))
    kinds = max(10, min(34, width - len(snapshot.arms) * cells))
    if totals:
        head = Line(width).add("kind", DIM, kinds)
        for number, _ in enumerate(snapshot.arms):
            head.gap(cells - 1).add(look(number).mark, look(number).style)
        lines.append(head)
    for kind in sorted(totals, key=lambda kind: (-totals[kind], kind)):
        line = Line(width).add(shorten(kind, kinds - 1), PLAIN, kinds)
        for arm in snapshot.arms:
            n = arm.telemetry.totals.errors.get(kind, 0)
            line.add(count(n) if n else "·", WARN if n else DIM, cells, right=True)
        lines.append(line)
    for arm in snapshot.arms:
        lines += [_fault(snapshot, arm, problem, message, width) for problem, message in arm.failed.items()]
    if len(lines) > height:
        left = len(lines) - height + 1
        lines[height - 1 :] = [Line(width).add(f"… {left} more", DIM)]
    return lines


def _fault(snapshot: Snapshot, arm: ArmSnapshot, problem: int, message: str, width: int) -> Line:
    line = Line(width).add("scorer failed ", BAD).add(shorten(snapshot.problems[problem].name, 20))
    return line.add(f" ({shorten(arm.name, 12)}) ", DIM).add(" ".join(message.split()))


def _name_width(snapshot: Snapshot, width: int) -> int:
    longest = max((width_of(clean(arm.name)) for arm in snapshot.arms), default=6)
    return max(3, min(longest, 12 if width < 90 else 16))


NARROWEST = 9
"""Cells of an operator's name; if there is less room, the last columns are left out."""


def draw_operators(snapshot: Snapshot, width: int, height: int) -> Lines:
    """A line for each operator below one of titles, without empty columns; pooled over problems and seeds."""
    rows = [(number, operator) for number, arm in enumerate(snapshot.arms) for operator in arm.operators]
    if not rows:
        return [Line(width).add("no answer to a parent yet", DIM)][:height]
    rates = [rate for rate in SHOWN_RATES if any(rate in operator.shares for _, operator in rows)]
    cells = [max(width_of(title_of(rate)) + 1, 5) for rate in rates]
    while len(cells) > 1 and sum(cells) + NARROWEST + 2 > width:
        cells.pop()
    longest = max(width_of(_name(operator.name)) for _, operator in rows)
    names = min(longest, width - 2 - sum(cells))
    head = Line(width).gap(2).add("arm", DIM, names)
    for rate, room in zip(rates, cells, strict=False):
        head.add(title_of(rate), DIM, room, right=True)
    lines = [head]
    for number, operator in rows:
        its = look(number)
        line = Line(width).add(its.mark, its.style).gap().add(shorten(_name(operator.name), names), its.style, names)
        for rate, room in zip(rates, cells, strict=False):
            value = operator.shares.get(rate)
            style = DIM if value is None else STRONG if rate in SHOWN_RATES[:QUARTERS] else PLAIN
            line.add(share_text(value), style, room, right=True)
        lines.append(line)
    return lines[:height]


def _name(name: str) -> str:
    """An operator's name without its arm's, whose mark is before it, and without the kind of its address."""
    arm, _, policy = name.partition(": ")
    return clean(policy.partition(":")[2] or policy or arm)
