"""What the screen shows of a snapshot: the head, the arms, the verdict, curves and panels."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from evo.progress.rows import NONE, arm_rows, arm_weights, change_of, common_prefix, curve_title
from evo.progress.snapshot import ImprovementLine, Snapshot, error_name
from evo.tui.detail import draw_best
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import STRONG, Palette
from evo.tui.plot import draw_plot
from evo.tui.problems import ProblemTable, legend
from evo.values import ago, count, write_signed, write_value

_MOST_IMPROVEMENTS, _MOST_ERRORS = 12, 12


def _grid(width: int | None = None) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), width=width, show_edge=False, header_style="")


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


def arms(snapshot: Snapshot, width: int, palette: Palette) -> Table:
    """A line for each arm below a line of titles."""
    rows = arm_rows(snapshot, "screen")
    texts = {title: [f"{row[title].text} {row[title].note}".rstrip() for row in rows] for title in rows[0]}
    weights = dict(zip(texts, arm_weights(), strict=True))
    kept = [title for title, cells in texts.items() if any(text != NONE for text in cells)]
    names = max(6, min(max(width_of(clean(arm.name)) for arm in snapshot.arms), 12 if width < 100 else 24)) + 2
    while len(kept) > 1 and names + sum(max(map(width_of, (title, *texts[title]))) + 2 for title in kept) > width:
        kept.remove(min(reversed(kept), key=weights.__getitem__))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=palette.muted)
    table.add_column("  arm" if len(snapshot.arms) > 1 else "  run", no_wrap=True)
    for at, title in enumerate(kept):
        table.add_column(title, justify="right", no_wrap=True, style=Style() if at else STRONG)
    for number, arm in enumerate(snapshot.arms):
        name = Text(f"{palette.mark(number)} {shorten(arm.name, names - 2)}", palette.arm(number))
        table.add_row(name, *(Text(texts[title][number]) for title in kept))
    return table


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


def panels(snapshot: Snapshot, width: int, now: float, palette: Palette) -> RenderableType:
    """The smaller panels, one below the other: those that have something to show."""
    made: list[tuple[str, RenderableType]] = []
    if snapshot.errors or snapshot.faults:
        made.append(("errors", errors(snapshot, palette)))
    made.append(("last improvements", improvements(snapshot, width, now, palette)))
    parts: list[RenderableType] = []
    for title, body in made:
        line = Text(title + " ", STRONG)
        parts += [line.append("─" * max(0, width - line.cell_len), palette.muted), body, Text("")]
    return Group(*parts[:-1])


def _name(snapshot: Snapshot, number: int, palette: Palette, width: int = 16) -> Text:
    return Text(f"{palette.mark(number)} {shorten(snapshot.arms[number].name, width)}", palette.arm(number))


def improvements(snapshot: Snapshot, width: int, now: float, palette: Palette) -> RenderableType:
    """The last rises of a best fitness: the problem, both values, and the components that improved over the parent."""
    if not snapshot.improvements:
        return Text("none yet", palette.muted)
    numbers = {arm.name: number for number, arm in enumerate(snapshot.arms)}
    prefix = len(common_prefix([problem.name for problem in snapshot.problems]))
    rows: list[dict[str, Text]] = []
    for line in snapshot.improvements[:_MOST_IMPROVEMENTS]:
        problem, number = snapshot.problems[line.problem], numbers[line.arm]
        row = {"ago": Text(ago(now - line.created), palette.muted)}
        if len(numbers) > 1:
            mark = Text(palette.mark(number), palette.arm(number))
            row["arm"] = mark if width < 60 else _name(snapshot, number, palette, 12)
        if len(snapshot.problems) > 1:
            row["problem"] = Text(shorten(problem.name[prefix:], 16))
        if any(arm.seeds > 1 for arm in snapshot.arms):
            row["seed"] = Text(f"s{line.seed}", palette.muted)
        row["iter."] = Text(f"#{line.iteration}", palette.muted)
        row["best"] = Text(write_value(line.value, [line.before] if line.before else ()), STRONG)
        if width >= 60 or len(snapshot.problems) == 1:
            row["change"] = Text("" if line.before is None else change_of(line.value, line.before).text, palette.muted)
        if any(len(one.objectives) > 1 for one in snapshot.problems):
            row["change of vector"] = Text(vector_change(problem.objectives, line))
        rows.append(row)
    table = _grid(width if "change of vector" in rows[0] else None)
    for title in rows[0]:
        ratio = 1 if title == "change of vector" else None
        table.add_column(Text(title, palette.muted), no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        table.add_row(*row.values())
    return table


def vector_change(objectives: tuple[str, ...], line: ImprovementLine) -> str:
    """gold +.20 diamond -.10: the components that changed most first."""
    if line.change is None:
        return "no parent"
    changed = [(abs(by), name, by) for name, by in zip(objectives, line.change, strict=False) if abs(by) > 0]
    ranked = sorted(changed, key=lambda part: -part[0])
    return "  ".join(f"{shorten(name, 12)} {write_signed(by)}" for _, name, by in ranked) or "same vector as its parent"


def errors(snapshot: Snapshot, palette: Palette) -> RenderableType:
    """Kinds of faults by arm, the most frequent first; then the problems whose scorer failed."""
    table = _grid()
    table.add_column(Text("kind", palette.muted), no_wrap=True, overflow="ellipsis")
    for number in range(len(snapshot.arms)):
        table.add_column(Text(palette.mark(number), palette.arm(number)), justify="right")
    for kind, _ in snapshot.errors.most_common(_MOST_ERRORS):
        counts = [arm.totals.errors.get(kind, 0) for arm in snapshot.arms]
        name = shorten(error_name(kind), 34)
        table.add_row(name, *(Text(count(n) if n else "·", palette.warn if n else palette.muted) for n in counts))
    faults = []
    for problem in snapshot.faults:
        line = Text("scorer failed ", palette.bad).append(f"{shorten(problem.name, 24)} ({shorten(problem.arm, 12)}) ")
        faults.append(line.append(clean(" ".join(problem.message.split())), palette.muted))
    return Group(*[table] * bool(snapshot.errors), *faults)


def picture(snapshot: Snapshot, width: int, height: int, now: float, palette: Palette) -> RenderableType:
    """The whole screen as one picture, for a pipe or a page."""
    table = ProblemTable()
    parts: list[RenderableType] = [head(snapshot, width, now, palette), arms(snapshot, width, palette)]
    parts += [verdict_lines(snapshot, palette)] * (snapshot.reference is not None)
    parts += [
        Text(curves_title(snapshot) + " ", STRONG),
        curves(snapshot, width, max(8, min(16, height // 3)), palette),
    ]
    if snapshot.problems:
        rows = table.rows(snapshot)
        drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in table.columns(snapshot, width, palette):
            drawn.add_column(title, no_wrap=True)
        for row in rows:
            drawn.add_row(*table.row(snapshot, row, width, palette))
        parts += [Text("problems", STRONG), drawn]
        parts.append(Text(legend(snapshot), palette.muted, overflow="ellipsis", no_wrap=True))
    parts += [draw_best(snapshot, palette)] * (snapshot.detail is not None)
    return Group(*parts, Text(""), panels(snapshot, width, now, palette))
