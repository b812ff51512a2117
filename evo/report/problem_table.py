"""The table of problems: which arms solved each one and when, and which won against the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from evo.comparison.load import Comparison
from evo.comparison.results import LEVEL, Results, Standings, standings
from evo.report.cells import NONE, Column, Table, TableCell, number, word

SOLVED = "✓"
RULE = (
    "An arm has won a problem that it solved under more seeds than {reference}; if both solved it under every seed, "
    "one that it solved sooner; else one with a best fitness that is higher by 0.0005 or more."
)


def problems_table(comparison: Comparison, results: Mapping[str, Results], linked: int = 0) -> Table:
    """One row for each problem: the iteration of each arm's solution or its best fitness, and won, lost or level
    against the reference.

    linked: the number of problems, the first ones, with details on the page (evo.report.details)
    """
    names = [arm.name for arm in comparison.arms]
    reference = comparison.reference
    standing = standings(
        [results[name] for name in names],
        None if reference is None else names.index(reference),
        len(comparison.problems),
    )
    seeds = len(comparison.arms[0].runs)
    sets = [problem.name.rpartition("/")[0] or NONE for problem in comparison.problems]
    several = len(set(sets)) > 1
    with_targets = any(problem.target is not None for problem in comparison.problems)
    others = [place for place, name in enumerate(names) if reference is not None and name != reference]
    rows = []
    for row, problem in enumerate(comparison.problems):
        link = detail_id(row) if row < linked else ""
        cells = [TableCell(problem.name, problem.name.lower(), "name", link=link)]
        cells += [word(sets[row])] * several + [number(problem.target, ".4g")] * with_targets
        cells += [_outcome(standing, place, row, seeds) for place in range(len(names))]
        cells += [_against(standing, place, row) for place in others]
        rows.append(tuple(cells))
    columns = [Column("problem", "a link to its statement and best answers", number=False)]
    columns += [Column("set", number=False)] * several
    columns += [Column("target", "the fitness that solves it")] * with_targets
    hint = f"{SOLVED} 12: solved at iteration 12, the median over seeds; else the best fitness so far, mean over seeds"
    columns += [Column(name, hint, arm=place) for place, name in enumerate(names)]
    columns += [Column(f"{names[place]} against {reference}", "won, lost or level", arm=place) for place in others]
    flags, flagged = _flags(standing, sets if several else [], with_targets, others, names)
    return Table(
        "problems", "Every problem", tuple(columns), tuple(rows), len(rows) > 1, flags, flagged,
        _totals(standing, len(names), others, several + with_targets, with_targets),
        RULE.format(reference=reference) if others else "",
    )  # fmt: skip


def detail_id(row: int) -> str:
    return f"problem-{row + 1}"


def _outcome(standing: Standings, arm: int, row: int, seeds: int) -> TableCell:
    """The iteration of the solution, or the best fitness. Sort keys: seeds that solved it, iteration, fitness."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    if share > 0:
        took = float(standing.took[arm, row])
        note = "" if share == 1.0 else f"{round(share * seeds)} of {seeds} seeds"
        return TableCell(f"{SOLVED} {took:.0f}", round((1 - share) * 1e6 + took, 6), "solved", note)
    if not math.isfinite(best):
        return TableCell(NONE)
    return TableCell(f"{best:.4g}", round(2e6 - best, 6))


def _against(standing: Standings, arm: int, row: int) -> TableCell:
    sign, gap = float(standing.sign[arm, row]), float(standing.gap[arm, row])
    if math.isnan(sign):
        return TableCell(NONE)
    if sign == 0:
        return TableCell("level", 0.0, "faint")
    size = ""
    if standing.timed[arm, row]:
        size = f"{abs(gap):.0f} {'sooner' if gap > 0 else 'later'}"
    elif abs(gap) >= LEVEL:
        size = f"{gap:+.4f}"
    word_, mark = ("won", "above") if sign > 0 else ("lost", "below")
    return TableCell(word_, round(sign * 1e6 + (gap if math.isfinite(gap) else 0.0), 6), mark, size)


def _flags(
    standing: Standings, sets: list[str], with_targets: bool, others: list[int], names: list[str]
) -> tuple[tuple[tuple[str, str, int], ...], tuple[frozenset[str], ...]]:
    """The filters for rows, and the flags of each row."""
    picks: list[tuple[str, str, np.ndarray]] = []
    if with_targets:
        picks.append(("unsolved", "not solved under every seed by any arm", standing.unsolved))
    if len(names) > 1:
        picks.append(("differing", "solved by some arms and not by others", standing.differing))
    for place in others:
        picks.append((f"won-{place}", f"won by {names[place]}", standing.sign[place] > 0))
        picks.append((f"lost-{place}", f"lost by {names[place]}", standing.sign[place] < 0))
    for at, name in enumerate(dict.fromkeys(sets)):
        picks.append((f"set-{at}", f"of {name}", np.array([part == name for part in sets])))
    flagged = tuple(frozenset(flag for flag, _, mask in picks if mask[row]) for row in range(standing.solved.shape[1]))
    return tuple((flag, text, int(mask.sum())) for flag, text, mask in picks), flagged


def _totals(
    standing: Standings, arms: int, others: list[int], between: int, with_targets: bool
) -> tuple[TableCell, ...]:
    judged = int((~np.isnan(standing.solved)).any(axis=0).sum())
    cells = [TableCell("all")] + [TableCell("")] * between
    for arm in range(arms):
        some = int((np.nan_to_num(standing.solved[arm]) > 0).sum())
        every = int((standing.solved[arm] == 1.0).sum())
        note = f"{every} under every seed" if every < some else ""
        cells.append(TableCell(f"{some} of {judged} solved", note=note) if with_targets else TableCell(""))
    for arm in others:
        won, lost, level = standing.counts(arm)
        cells.append(TableCell(f"{won} won, {lost} lost", note=f"{level} level"))
    return tuple(cells)
