"""The summary of a comparison's arms, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evo.comparison.arms import Comparison
from evo.comparison.operators import operator_dict, print_operators, refinement_differences
from evo.comparison.summary import METRICS, ArmSummary, Summary, interval_unit, verdicts_of
from evo.progress.model import Progress
from evo.progress.snapshot import ArmSnapshot
from evo.search.status import clock
from evo.stats import Difference
from problems.address import name_few
from vpo.metrics import Interval

ONLY_SHOWN = 8


LEGEND = (
    "area: under the solve curve, up to 1; half: iteration when half were solved",
    "best: mean best fitness; L1: archive diversity; wall: time searched",
)


def print_summary(console: Console, progress: Progress, *, details: bool = False) -> None:
    """Print a table of the arms, the problems that only one arm solved, and the verdict. details: also how operators
    use the parents in their prompts

    area: under the solve curve; half: the iteration at which half were solved; best: mean best fitness; archive L1:
    diversity of the elites; wall: time of the arm's searches, which share the machine with those of the others
    """
    comparison, summary, operators = progress.comparison, progress.summary, progress.operators
    if summary is None:
        every = "every problem's scorer failed" if comparison.failed else "no search has begun yet"
        console.print(f"{escape(comparison.name)}: {every}")
        _print_failed(console, comparison)
        return
    arms = progress.snapshot(statistics=False).arms
    known = summary.horizon or summary.best_horizon
    running = "" if known >= summary.iterations else f" of {summary.iterations}, in progress"
    held = len(comparison.problems)
    budgets = "at the end of each run's budget" if comparison.ended_by_budget else ""
    console.print(
        f"[bold]{escape(comparison.name)}[/bold]: {held} problem{'s' * (held != 1)}, "
        f"{summary.seeds} seed{'s' * (summary.seeds != 1)}, {budgets or f'at iteration {known}{running}'}, "
        f"{summary.answers} answers an iteration"
    )
    table = Table(box=None, pad_edge=False)
    priced = any(arm.totals.cost for arm in arms)
    columns = ("arm", "solved", "area", "half", "best", "L1", "answers", "tokens", *["cost"][:priced], "wall")
    for title in columns:
        table.add_column(title, justify="left" if title == "arm" else "right", no_wrap=True)
    for arm in arms:
        one, totals = summary.arms[arm.name], arm.totals
        table.add_row(
            escape(arm.name), _interval(one.solved), _mean(one.area), _median(one), _mean(one.best, 3),
            _mean(progress.diversity[arm.name]), short(totals.answers), short(totals.tokens),
            *[f"{totals.cost:.4g}"][:priced], clock(arm.seconds),
        )  # fmt: skip
    console.print(table)
    for line in LEGEND:
        console.print(line, style="dim", soft_wrap=True)
    for arm in arms:
        only = summary.arms[arm.name].only
        if only and len(comparison.arms) > 1:
            names = name_few([comparison.problems[i].name for i in only], ONLY_SHOWN)
            console.print(f"only {escape(arm.name)} solved: {escape(names)}", style="dim", soft_wrap=True)
    _print_failed(console, comparison)
    if progress.incomparable:
        console.print(f"the arms are not comparable: {escape(progress.incomparable)}", style="yellow", soft_wrap=True)
    verdicts = verdicts_of(summary)
    if verdicts:
        metric = "solve rate" if summary.horizon else "mean best fitness"
        several = f"; intervals and p allow for {len(verdicts)} arms (Bonferroni)" if len(verdicts) > 1 else ""
        over = f"95% intervals over {interval_unit(summary)}{several}"
        console.print(f"\n{metric} {budgets or f'after {known} iterations'}, {over}:", soft_wrap=True)
        for verdict in verdicts:
            console.print(f"  [bold]{escape(verdict.text)}[/bold]", soft_wrap=True)
        lines = other_lines(summary)
        if details:
            gaps = refinement_differences(operators, summary.reference, crossed_seeds=comparison.crossed_seeds)
            lines += refinement_lines(gaps, summary.reference)
        for line in lines:
            console.print(f"  {escape(line)}", style="dim", soft_wrap=True)
    if not details:
        return
    print_operators(console, [operator for of_arm in operators.values() for operator in of_arm])


def _print_failed(console: Console, comparison: Comparison) -> None:
    for problem in comparison.failed:
        console.print(f"left out, its scorer failed: {escape(problem.name)}", style="yellow", soft_wrap=True)


def other_lines(summary: Summary) -> list[str]:
    """The shown differences in metrics other than the verdict's."""
    return [
        _difference_line(METRICS[metric].title, arm, summary.reference, one, 1 if metric == "time" else 3)
        for arm, metrics in summary.against.items()
        for metric, one in metrics.items()
        if metric in ("area", "time", "best") and one.shown
    ]


def refinement_lines(gaps: Mapping[str, Mapping[str, Difference]], reference: str | None) -> list[str]:
    """The shown differences in the refinement rate."""
    return [
        _difference_line(name.replace("refined", "refined, parents"), arm, reference, one)
        for arm, rates in gaps.items()
        for name, one in rates.items()
        if one.shown
    ]


def _difference_line(title: str, arm: str, reference: str | None, one: Difference, digits: int = 3) -> str:
    return f"{title}: {arm} - {reference} = {one.interval.mean:+.{digits}f}{one.interval.ends(f'.{digits}f')}"


def as_dict(progress: Progress) -> dict[str, Any]:
    """All printed values, with their intervals and p-values, for JSON."""
    comparison, summary, operators = progress.comparison, progress.summary, progress.operators
    crossed = comparison.crossed_seeds
    shown: dict[str, Any] = {
        "comparison": comparison.name,
        "reference": comparison.reference,
        "problems": [problem.name for problem in comparison.problems],
        "failed": [problem.name for problem in comparison.failed],
        "runs": [{"name": run.name, "arm": run.arm, "seed": run.seed, "status": run.status} for run in comparison.runs],
    }
    if summary is None:
        return {**shown, "arms": {}, "against": {}, "verdicts": []}
    return {
        **shown,
        "iterations": summary.iterations,
        "answers_per_iteration": summary.answers,
        "seeds": summary.seeds,
        "horizon": summary.horizon,
        "best_horizon": summary.best_horizon,
        "arms": {
            arm.name: {
                "policy": arm.policy,
                "answers_per_rollout": arm.runs[0].config["answers"],
                "rollouts": arm.runs[0].config["rollouts"],
                **_arm_dict(summary.arms[arm.name], comparison),
                **_costs_dict(arm, progress.diversity[arm.name]),
                "operators": [operator_dict(one, crossed_seeds=crossed) for one in operators.get(arm.name, ())],
            }
            for arm in progress.snapshot(statistics=False).arms
        },
        "against": {arm: _differences_dict(metrics) for arm, metrics in summary.against.items()},
        "refinement_against": {
            arm: _differences_dict(rates)
            for arm, rates in refinement_differences(operators, summary.reference, crossed_seeds=crossed).items()
        },
        "solved_by_all": [comparison.problems[i].name for i in summary.by_all],
        "solved_by_none": [comparison.problems[i].name for i in summary.by_none],
        "verdicts": [verdict.text for verdict in verdicts_of(summary)],
    }


def _differences_dict(metrics: Mapping[str, Difference]) -> dict[str, Any]:
    return {
        metric: {
            **one.interval.as_dict(),
            "p": one.p,
            "comparisons": one.comparisons,
            "pairs": one.pairs,
            "shown": one.shown,
        }
        for metric, one in metrics.items()
    }


def _arm_dict(one: ArmSummary, comparison: Comparison) -> dict[str, Any]:
    return {
        "solved": None if one.solved is None else one.solved.as_dict(),
        "area": None if one.area is None else one.area.as_dict(),
        "half_solved_at": one.median,
        "best": None if one.best is None else one.best.as_dict(),
        "only": [comparison.problems[i].name for i in one.only],
    }


def _costs_dict(arm: ArmSnapshot, diversity: Interval | None) -> dict[str, Any]:
    return {
        **arm.totals.as_dict(),
        "sampling_seconds": round(arm.totals.sampling_seconds, 3),
        "seconds": arm.seconds,
        "archive_diversity": None if diversity is None else diversity.as_dict(),
    }


def short(count: float) -> str:
    """950, 14.4k, 2.31M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:g}"


def _interval(found: Interval | None) -> str:
    return "-" if found is None else f"{found.mean:.2f}[dim]{escape(found.ends('.2f'))}[/dim]"


def _mean(found: Interval | None, digits: int = 2) -> str:
    return "-" if found is None else f"{found.mean:.{digits}f}"


def _median(one: ArmSummary) -> str:
    return "-" if one.median is None else str(one.median)
