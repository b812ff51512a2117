"""Search by base, GRPO and VPO policies: figures of finished comparisons, as a table that says what was measured.

    evo compare maze:hard --limit 60 --iterations 200 --seeds 3 --arm base=embedded:base --arm grpo=embedded:grpo \
        --arm vpo=embedded:vpo --best-of-n base --best-of-n grpo --best-of-n vpo --db sqlite:///search.db --name search
    python bench/search.py sqlite:///search.db search -o bench/results/search.md

--training names a second comparison whose arms are grpo-0, vpo-0, grpo-1, ...: policies of several training seeds. Its
intervals are over mazes and training seeds, since a policy acts on all mazes at once.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.tables import markdown, signed  # noqa: E402
from evo.comparison.load import Comparison, gather, load_results  # noqa: E402
from evo.comparison.results import Results  # noqa: E402
from evo.comparison.survival import metric_difference  # noqa: E402
from evo.comparison.table import Costs, as_dict, costs_of  # noqa: E402
from evo.comparison.verdict import Summary, summarise, verdicts_of  # noqa: E402
from evo.stats import verdict  # noqa: E402
from islands.db.store import Store  # noqa: E402
from vpo.metrics import Interval  # noqa: E402

AT = (1, 3, 10, 30, 60, 100, 200, 500, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db")
    parser.add_argument("name")
    parser.add_argument("--against", metavar="ARM", help="the reference  [default: grpo]")
    parser.add_argument("--training", metavar="NAME", help="a comparison of several training seeds")
    parser.add_argument("-o", "--output", default="bench/results/search.md")
    options = parser.parse_args()
    with Store.open(options.db, read_only=True) as store:
        comparison = gather(store, options.name, options.against)
        found = load_results(store, comparison)
        summary = summarise(found, comparison.reference, crossed_seeds=comparison.crossed_seeds)
        costs = {arm.name: costs_of(store, arm) for arm in comparison.arms}
        parts = [head(comparison), arms_table(comparison, found, summary, costs)]
        parts += [by_set(comparison, found, summary.horizon), differences(summary), evolution(found)]
        parts = [part for part in parts if part]
        record = as_dict(comparison, summary, costs)
        if options.training:
            trained = gather(store, options.training)
            of_seeds = by_method(load_results(store, trained))
            parts.append(training_section(trained, of_seeds))
    output = Path(options.output)
    output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    folders = re.compile(r"(?<=:)[^\"\s]*/(?=[^/\"\s]+\.jsonl\b)")  # that a file of problems lay in
    output.with_suffix(".json").write_text(folders.sub("", json.dumps(record, indent=1)) + "\n", encoding="utf-8")


def head(comparison: Comparison) -> str:
    run = comparison.runs[0]
    seeds = sorted({run.seed for run in comparison.runs})
    kept = (
        "and seeds, which act on all problems at once"
        if comparison.crossed_seeds
        else "a problem's seeds kept together"
    )
    sets = [
        f"{count} of {name}" for name, count in Counter(set_of(problem.name) for problem in comparison.problems).items()
    ]
    return "\n".join(
        [
            f"# Search on {' and '.join(sets)}, {comparison.iterations} iterations of "
            f"{comparison.arms[0].answers} answers, {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}",
            "",
            f"    {command_of(comparison)}",
            "",
            f"Commit {run.commit}, search seeds {seeds[0]} to {seeds[-1]}, arms side by side. "
            f"Intervals: 95% over problems ({kept}); p of several arms against one by Holm.",
        ]
    )


def set_of(problem: str) -> str:
    """The address of the set that a problem is of, without the folders that its file lay in."""
    kind, colon, rest = problem.rpartition("/")[0].partition(":")
    return f"{kind}:{Path(rest).name}" if colon else Path(problem).name  # a directory is a set of one


def by_set(comparison: Comparison, found: Mapping[str, Results], t: int) -> str:
    """Solve rates after t iterations set by set, where there are several."""
    sets = np.array([set_of(problem.name) for problem in comparison.problems])
    names = list(dict.fromkeys(sets.tolist()))
    if len(names) == 1:
        return ""
    rows = [["solved at the end", *names]]
    for name, outcome in found.items():
        judged = sets[outcome.judged]
        rows.append([name, *(f"{outcome.solved_by(t)[judged == one].mean():.3f}" for one in names)])
    return markdown(rows)


def command_of(comparison: Comparison) -> str:
    """The command that was given, without where its database lay."""
    return re.sub(r"--db \S+", "--db sqlite:///search.db", comparison.runs[0].command).replace(
        "--config ", "--config bench/"
    )


def arms_table(
    comparison: Comparison, found: Mapping[str, Results], summary: Summary, costs: Mapping[str, Costs]
) -> str:
    shown = sorted({*(t for t in AT if t <= summary.horizon), summary.horizon})
    rows = [
        ["arm", *(f"solved @{t}" for t in shown), "[interval]", "area", "mean best", "L1", "only", "answers", "tokens"],
    ]
    for arm in comparison.arms:
        one, cost = summary.arms[arm.name], costs[arm.name]
        solved = found[arm.name].solved_by if one.solved is not None else None  # None where no problem has a target
        rates = ["-" if solved is None else f"{solved(t).mean():.3f}" for t in shown]
        rows.append(
            [
                arm.name, *rates, _brackets(one.solved), _mean(one.area), _mean(one.best),
                _mean(cost.archive_diversity, 2), str(len(one.only)),
                f"{cost.totals.answers:,}", f"{cost.totals.tokens:,}",
            ]
        )  # fmt: skip
    return (
        markdown(rows)
        + "\n\n`[interval]`: of the solve rate at the end. `area`: under the solve curve. `L1`: mean distance of "
        "two elites' reward vectors.\n`only`: problems that only this arm solved, under any seed. All arms solved "
        f"{len(summary.by_all)} of the problems, none solved {len(summary.by_none)}."
    )


def differences(summary: Summary) -> str:
    rows = [["difference", "solve rate at the end", "p", "area", "p", "mean best", "p"]]
    for arm, figures in summary.against.items():
        cells = [f"{arm} - {summary.reference}"]
        for figure in ("solved", "area", "best"):
            one = figures.get(figure)  # no solve rate without a target
            cells += ["-", "-"] if one is None else [signed(one.interval), f"{one.p:.3g}"]
        rows.append(cells)
    return (
        f"## Against {summary.reference}\n\n"
        + markdown(rows)
        + "\n\nVerdicts:\n\n"
        + _lines([str(line) for line in verdicts_of(summary)])
    )


def evolution(found: Mapping[str, Results]) -> str:
    """What showing a parent adds to asking alone, policy by policy."""
    if not any(name.startswith("best-of-n-") for name in found):
        return ""
    rows = [["evolution - best-of-n", "solve rate at the end", "area", "mean best"]]
    for name in found:
        alone = found.get(f"best-of-n-{name}")
        if alone is not None:
            made = [metric_difference(metric, found[name], alone) for metric in ("solved", "area", "best")]
            rows.append([name, *(f"{signed(one.interval)} p {one.p:.2g}" for one in made)])
    pairs = [["difference", "solve rate at the end", "area", "mean best"]]
    for a, b in (("grpo", "base"), ("vpo", "base")):
        made = [metric_difference(metric, found[a], found[b]) for metric in ("solved", "area", "best")]
        pairs.append([f"{a} - {b}", *(f"{signed(one.interval)} p {one.p:.2g}" for one in made)])
    return "## What evolution adds, and training\n\n" + markdown(rows) + "\n\n" + markdown(pairs)


def by_method(arms: Mapping[str, Results]) -> dict[str, Results]:
    """grpo-0, grpo-1, ... as the seeds of one arm, grpo."""
    methods: dict[str, list[Results]] = {}
    for name, arm in arms.items():
        methods.setdefault(name.rsplit("-", 1)[0], []).append(arm)
    return {method: _side_by_side(seeds) for method, seeds in methods.items()}


def _side_by_side(seeds: Sequence[Results]) -> Results:
    first = seeds[0]
    best = None if first.best is None else np.concatenate([arm.best for arm in seeds if arm.best is not None], axis=1)
    return Results(
        np.concatenate([arm.solved_at for arm in seeds], axis=1),
        np.concatenate([arm.done for arm in seeds], axis=1),
        first.iterations,
        first.answers,
        best,
        first.until_solved,
    )


def training_section(comparison: Comparison, methods: Mapping[str, Results]) -> str:
    summary = summarise(methods, "grpo" if "grpo" in methods else None, crossed_seeds=True)
    shown = sorted({*(t for t in AT if t <= summary.horizon), summary.horizon})
    seeds = next(iter(methods.values())).solved_at.shape[1]
    rows = [["arm", *(f"solved @{t}" for t in shown), "[interval]", "area", "mean best"]]
    for name, arm in methods.items():
        one = summary.arms[name]
        rates = [f"{arm.solved_by(t).mean():.3f}" for t in shown]
        rows.append([name, *rates, _brackets(one.solved), _mean(one.area), _mean(one.best)])
    made = {
        t: metric_difference("solved", methods["vpo"], methods["grpo"], t, crossed_seeds=True)
        for t in shown
        if {"vpo", "grpo"} <= set(methods)
    }
    lines = [f"after {t} iterations: {verdict('vpo', 'grpo', one)}" for t, one in made.items()]
    lines += [f"at the end: {line}" for line in verdicts_of(summary)]
    return "\n\n".join(
        [
            f"## {seeds} training seeds each",
            f"    {command_of(comparison)}",
            f"Commit {comparison.runs[0].commit}; search seed {comparison.runs[0].seed}, {len(comparison.problems)} "
            "problems; intervals over problems and training seeds.",
            markdown(rows),
            _lines(lines),
        ]
    )


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _mean(found: Interval | None, digits: int = 3) -> str:
    return "-" if found is None else f"{found.mean:.{digits}f}"


def _brackets(found: Interval | None) -> str:
    return "-" if found is None else f"[{found.low:.2f}, {found.high:.2f}]"


if __name__ == "__main__":
    main()
