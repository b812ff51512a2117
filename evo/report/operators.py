"""The page's tables of what operators make of the parents that they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.comparison.operators import BELOW, BINS, OperatorCounts, intervals, labels
from evo.comparison.operators_table import short_label
from evo.report.cells import NONE, Cell, Column, Table, arm_name, difference_cells, interval, number, word
from evo.stats import Difference
from islands.types import QUARTERS

RATES = (*(f"refined {name}" for name in (BELOW, *BINS.values())), "kept", "copies", "repeats", "alone")


def operators_table(operators: Mapping[str, Sequence[OperatorCounts]], *, crossed_seeds: bool) -> Table | None:
    """One row an operator; None where no answer was counted. operators: by arm, in the comparison's order"""
    rows = []
    for place, (arm, found) in enumerate(operators.items()):
        for name, one in zip(labels(arm, found), found, strict=True):
            known = intervals(one, crossed_seeds=crossed_seeds)
            rates: list[Cell] = [interval(known[rate], ".3f") if rate in known else Cell(NONE) for rate in RATES]
            rows.append((arm_name(short_label(name), place), number(float(one.of["answers"].sum()), ",.0f"), *rates))
    columns = (
        Column("operator", number=False),
        Column("answers"),
        Column("better", "share of answers that are better than the parent shown, of parents below the target"),
        *(Column(f"at {BINS[quarter]}", "of parents at this share of the target") for quarter in range(QUARTERS)),
        Column("at the target", "of parents that solve the problem"),
        Column("kept", "share of the parent: a route's beginning and end, the lines of code and text"),
        Column("copies", "answers equal to anything that their prompt showed"),
        Column("repeats", "answers that the search had before"),
        Column("alone", "answers whose prompt showed no parent"),
    )
    caption = "Answers against the parent that their prompt showed, with 95% intervals over problems"
    return Table("operators", caption, columns, tuple(rows)) if rows else None


def refinement_table(reference: str | None, gaps: Mapping[str, Mapping[str, Difference]]) -> Table | None:
    """One row for each arm and bin against the reference; None where nothing compares."""
    rows = [
        (
            word(f"{arm} − {reference}", "arm"),
            word("all below the target" if rate == f"refined {BELOW}" else rate.removeprefix("refined ")),
            *difference_cells(one),
        )
        for arm, rates in gaps.items()
        for rate, one in rates.items()
    ]
    columns = (
        Column("pair", number=False),
        Column("parents", "by their share of the target", number=False),
        Column("difference", "in the share of better answers, paired over problems, with its 95% interval"),
        Column("p", "two-sided, corrected for the number of arms (Bonferroni)"),
        Column("problems", "pairs"),
        Column("result", number=False),
    )
    return Table("refinement", f"Refinement against {reference}", columns, tuple(rows)) if rows else None
