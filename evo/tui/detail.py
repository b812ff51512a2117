"""An arm's best answer to the chosen problem: its lineage, reward vector, text, and difference to its parent."""

from __future__ import annotations

import difflib
from io import StringIO

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

from evo.monitor.answer import WalkView, describe_best_known
from evo.monitor.snapshot import Detail, ProblemLine, Snapshot
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, wrap
from evo.tui.numbers import fitness, signed
from evo.tui.palette import BAD, DIM, GOOD, LEGEND, STRONG, WARN, link, look
from evo.tui.view import View
from islands.types import Candidate

MOST_LINES = 2_000
MOST_COMPARED = 4_000
"""Lines, or words, of which two texts are compared; comparing takes time that grows with their product."""


def draw_detail_head(snapshot: Snapshot, view: View, width: int) -> Line:
    """The problem's name, and the arms side by side as tabs."""
    line = Line(width).add(shorten(snapshot.problems[view.problem].name, 30), STRONG).gap(2)
    for number, arm in enumerate(snapshot.arms):
        its = look(number)
        chosen = number == min(view.arm, len(snapshot.arms) - 1)
        style = its.style + Style(reverse=True) if chosen else its.style
        line.add(f" {its.mark} {shorten(arm.name, 14)} ", link(style, f"view('show_arm', {number})"))
    return line


def draw_detail(snapshot: Snapshot, view: View, width: int) -> Lines:
    """Everything about the chosen arm's best answer, as many lines as it takes."""
    arm = snapshot.arms[min(view.arm, len(snapshot.arms) - 1)].name
    detail = snapshot.details.get((view.problem, arm))
    if detail is None:
        return [Line(width).add("reading …", DIM)]
    # the same answer is drawn for every new snapshot
    return _drawn(detail, snapshot.problems[detail.problem], width)


_kept: list[tuple[Detail, int, Lines]] = []
"""The answer drawn last, as its lines at one width."""


def _drawn(detail: Detail, problem: ProblemLine, width: int) -> Lines:
    if not (_kept and _kept[0][0] is detail and _kept[0][1] == width):
        _kept[:] = [(detail, width, _body(problem, detail, width))]
    return _kept[0][2]


def _body(problem: ProblemLine, detail: Detail, width: int) -> Lines:
    stored, answer = detail.stored, detail.answer
    if stored is None or answer is None:
        lines = [Line(width).add("no valid answer yet", DIM)]
        lines += [Line(width), *draw_walk(detail.walk, width)] if detail.walk is not None else []
        return lines + _prompt(detail, width)
    lines, candidate, parent = [], answer.candidate, answer.parent
    born = "the seed answer"
    if stored.iteration is not None:
        born = f"iteration {stored.iteration + 1}, seed {detail.seed}"
    line = Line(width).add("fitness ", DIM).add(f"{candidate.fitness:.6g}", STRONG)
    if problem.target is not None:
        line.add(f" of {problem.target:.6g}", DIM)
    lines.append(
        line.add(f"   candidate {candidate.id}, {born}, island {candidate.island}, found {stored.found}×", DIM)
    )
    if detail.best_known is not None:
        lines += _labelled("known   ", describe_best_known(candidate.fitness, detail.best_known), width, 3)
    version = stored.policy_version or "the seed answer"
    lines.append(Line(width).add("policy  ", DIM).add(shorten(version, width - 8)))
    lines += _vector(problem.objectives, candidate, parent, width)
    if candidate.features:
        features = "  ".join(f"{clean(name)} {value:.4g}" for name, value in candidate.features.items())
        lines.append(Line(width).add("cell by ", DIM).add(features))
    steps = [f"{ancestor.candidate} ({fitness(ancestor.fitness)})" for ancestor in detail.lineage]
    if len(steps) > 1 and candidate.generation >= len(steps):
        steps.append(f"{candidate.generation + 1 - len(steps)} more")
    lines += _labelled("lineage ", " ← ".join(steps), width, 3)
    for label, text in (("scorer  ", candidate.feedback or candidate.error or ""),):
        lines += _labelled(label, text, width, 6) if text.strip() else []
    lines.append(Line(width))
    if detail.walk is not None:
        lines += [*draw_walk(detail.walk, width), Line(width)]
    if parent is not None and parent.text.strip():
        lines.append(_title(f"changes to its parent {parent.id}", width))
        lines += [*difference(parent.text, candidate.text, width), Line(width)]
    lines.append(_title("answer", width))
    python = stored.problem.answer_format == "python"
    lines += draw_program(candidate.text, width) if python else _text(candidate.text, width)
    return lines + _prompt(detail, width)


def _labelled(label: str, text: str, width: int, most: int) -> Lines:
    """The text behind its label, in at most `most` lines."""
    pieces = wrap(text, max(10, width - len(label)), most, words=True)
    return [Line(width).add(" " * len(label) if at else label, DIM).add(piece) for at, piece in enumerate(pieces)]


def _prompt(detail: Detail, width: int) -> Lines:
    """The prompt, and the model's full text."""
    origin, given = detail.origin, detail.stored is not None and detail.stored.iteration is not None
    lines: Lines = []
    for title, text, words in (
        ("the problem's statement", detail.statement, True),
        ("system prompt", origin.system, True),
        ("prompt" if given else "a prompt of this problem", origin.user, True),
        (f"the model's full text, in which this is answer {origin.place + 1}", origin.chain, False),
    ):
        if text.strip():
            lines += [Line(width), _title(title, width), *_text(text, width, words)]
    return lines


def _title(text: str, width: int) -> Line:
    line = Line(width).add(text, STRONG).gap()
    return line.add("─" * line.room, DIM)


def _text(text: str, width: int, words: bool = False) -> Lines:
    return [Line(width).gap(2).add(piece) for piece in wrap(text, max(10, width - 2), MOST_LINES, words)]


def _vector(objectives: tuple[str, ...], answer: Candidate, parent: Candidate | None, width: int) -> Lines:
    lines = [Line(width).add("vector  ", DIM)]
    before = answer.rewards if parent is None else parent.rewards
    for name, value, old in zip(objectives, answer.rewards, before, strict=False):
        text = f"{shorten(name, 20)} {fitness(value)}"
        change = value - old
        if len(text) + 12 > lines[-1].room:
            lines.append(Line(width).gap(8))
        lines[-1].add(text)
        if abs(change) > 5e-4:
            lines[-1].add(f" ({signed(change)})", GOOD if change > 0 else BAD)
        lines[-1].gap(2)
    return lines


def difference(parent: str, answer: str, width: int) -> Lines:
    """Parent to answer: by words if both are one line, as routes are, else by lines."""
    before, after = parent.splitlines(), answer.splitlines()
    if len(before) <= 1 and len(after) <= 1:
        return _by_pieces(parent, answer, width)
    if max(len(before), len(after)) > MOST_COMPARED:
        return [Line(width).gap(2).add("too long to compare", DIM)]
    lines: Lines = []
    for text in list(difflib.unified_diff(before, after, "", "", n=2, lineterm=""))[2:]:
        style = GOOD if text.startswith("+") else BAD if text.startswith("-") else DIM if text[:1] == "@" else PLAIN
        lines += [Line(width).gap(2).add(piece, style) for piece in wrap(text, max(10, width - 2), MOST_LINES)]
    return lines


def _by_pieces(before: str, after: str, width: int) -> Lines:
    """Both texts, one above the other, aligned; differences are marked by - and + too, not only by colour."""
    spaced = " " in before.strip() or " " in after.strip()
    old, new = (before.split(), after.split()) if spaced else (list(before), list(after))
    if max(len(old), len(new)) > MOST_COMPARED:
        return [Line(width).gap(2).add("too long to compare", DIM)]
    above: list[tuple[str, Style]] = []
    below: list[tuple[str, Style]] = []
    joint = " " if spaced else ""
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        first, second = joint.join(map(clean, old[a:b])), joint.join(map(clean, new[c:d]))
        size = max(len(first), len(second))
        fill = " " if spaced else "·"
        above.append((first + (fill * (size - len(first))) + joint, PLAIN if kind == "equal" else BAD))
        below.append((second + (fill * (size - len(second))) + joint, PLAIN if kind == "equal" else GOOD))
    lines: Lines = []
    for start in range(0, max(sum(len(text) for text, _ in above), 1), max(10, width - 4)):
        end = start + max(10, width - 4)
        for sign, parts in (("- ", above), ("+ ", below)):
            line = Line(width).gap(2).add(sign, BAD if sign == "- " else GOOD)
            at = 0
            for text, style in parts:
                line.add(text[max(0, start - at) : max(0, end - at)], style)
                at += len(text)
            lines.append(line)
    return lines


FLOOR, WALL, LAVA, ENDS = ".", "#", "L", "SE"
MOST_COLOURED = 2_000
"""Lines of a program; a longer one is shown plain, since colouring takes a millisecond for some ten lines."""
WALKED = (
    "→ the way out of a cell, when it was left last; letters in bold: collected,",
    "dim: missed; a reversed L: lava stepped on",
)


def draw_walk(walk: WalkView, width: int) -> Lines:
    """The board, two cells wide a tile; below it a legend."""
    size = len(walk.rows)
    left = {
        cell: arrow
        for cell, to in zip(walk.cells, walk.cells[1:], strict=False)
        if (arrow := {1: "→", -1: "←", size: "↓", -size: "↑"}.get(to - cell, ""))
    }
    walked = set(walk.cells)
    lines: Lines = []
    for number, row in enumerate(walk.rows):
        line = Line(width).gap(2)
        for column, tile in enumerate(row):
            cell = number * size + column
            sign, style = _tile(tile, cell in walked, left.get(cell, "·"))
            line.add(sign, style)
            joined = cell in walked and cell + 1 in walked and (left.get(cell) == "→" or left.get(cell + 1) == "←")
            line.add("█" if tile == WALL and row[column + 1 : column + 2] == WALL else "─" if joined else " ", DIM)
        lines.append(line)
    return [*lines, *(Line(width).gap(2).add(text, LEGEND) for text in WALKED)]


def _tile(tile: str, walked: bool, arrow: str) -> tuple[str, Style]:
    if tile == WALL:
        return "█", DIM
    if tile == FLOOR:
        return (arrow, STRONG) if walked else (".", DIM)
    if tile in ENDS:
        return tile, STRONG
    if tile == LAVA:
        return tile, BAD + Style(reverse=True) if walked else BAD
    return tile, GOOD if walked else WARN + Style(bold=False, dim=True)


def draw_program(text: str, width: int) -> Lines:
    """Python with its syntax coloured in the terminal's colours, cut at the width; every line of it is clean."""
    source = "\n".join(clean(line) for line in text.splitlines())
    room = max(10, width - 2)
    if source.count("\n") > MOST_COLOURED:
        return [Line(width).gap(2).add(line) for line in source.split("\n")]
    console = Console(file=StringIO(), width=room, color_system="truecolor", force_terminal=True)
    coloured = Syntax(source, "python", theme="ansi_dark", background_color="default").highlight(source)
    lines: Lines = []
    for row in coloured.split("\n", allow_blank=False):
        for piece in row.divide(range(room, len(row), room)):
            segments = [Segment(part.text, part.style or PLAIN) for part in piece.render(console) if part.text != "\n"]
            lines.append(Line(width).gap(2).extend(segments))
    return lines
