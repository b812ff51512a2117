"""What the arms of a comparison wrote, iteration by iteration: does a policy that learns beside a search write better?

    python bench/learning.py DB NAME [--against ARM] [-o FILE.md]

Reads prompt groups alone, so it may be asked while the comparison goes on; iterations that some problem or arm has not
reached are left out of the tables, and of the differences, so that all arms are told of on the same problems.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.tables import markdown, signed  # noqa: E402
from evo.comparison.load import Arm, Comparison, gather  # noqa: E402
from evo.stats import difference  # noqa: E402
from islands.db.store import Store  # noqa: E402
from islands.queries.groups import read_groups  # noqa: E402
from islands.queries.training import training_steps  # noqa: E402
from problems.types import ScoredGroup  # noqa: E402

FIGURES = {
    "whole": "rollouts that hold all the answers asked of them",
    "given": "distinct answers of a rollout",
    "mean": "mean fitness of the answers asked for, those not given counted as 0",
    "set": "mean fitness of a rollout's best answer",
    "solving": "share of the answers asked for that reach the target",
    "tokens": "tokens of a rollout",
}
STEPS = ("fitness", "best_of_rollout", "diversity", "kl", "grad_norm", "spreadless", "stale", "probe")
SECONDS = ("train_seconds", "sync_seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db")
    parser.add_argument("name")
    parser.add_argument("--against", metavar="ARM", help="the reference  [default: the last arm]")
    parser.add_argument("-o", "--output", metavar="FILE")
    options = parser.parse_args()
    with Store.open(options.db, read_only=True) as store:
        comparison = gather(store, options.name)
        reference = options.against or comparison.arms[-1].name
        written = {arm.name: figures_of(store, comparison, arm) for arm in comparison.arms}
        parts = [told(written), differences(written, reference)]
        parts += [steps(store, arm) for arm in comparison.arms]
    text = "\n\n".join(part for part in parts if part) + "\n"
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


Written = dict[str, npt.NDArray[np.float64]]
"""Each figure as (problems, iterations), means over seeds, NaN where a search has not come so far."""


def figures_of(store: Store, comparison: Comparison, arm: Arm) -> Written:
    places = {problem.name: place for place, problem in enumerate(comparison.problems)}
    found: dict[str, dict[tuple[int, int], list[float]]] = {name: defaultdict(list) for name in FIGURES}
    for run in arm.runs:
        problems = {problem.id: problem for problem in store.problems(run.id)}
        for _, group in read_groups(store, run.id):
            problem = problems[group.problem]
            for name, value in of_group(group, problem.target).items():
                found[name][places[problem.name], group.iteration].append(value)
    shape = (len(places), comparison.iterations)
    return {name: _filled(values, shape) for name, values in found.items()}


def _filled(values: dict[tuple[int, int], list[float]], shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    array = np.full(shape, np.nan)
    for at, of_seeds in values.items():
        array[at] = np.mean(of_seeds)
    return array


def of_group(group: ScoredGroup, target: float | None) -> dict[str, float]:
    """The figures of one prompt group, by their names in FIGURES."""
    asked = group.answers * len(group.rollouts)
    fitness = [[answer.score.fitness for answer in rollout.answers] for rollout in group.rollouts]
    given = [value for rollout in fitness for value in rollout]
    return {
        "whole": float(np.mean([len(rollout) == group.answers for rollout in fitness])),
        "given": len(given) / len(group.rollouts),
        "mean": sum(given) / asked,
        "set": float(np.mean([max(rollout, default=0.0) for rollout in fitness])),
        "solving": sum(value >= target for value in given) / asked if target is not None else float("nan"),
        "tokens": float(np.mean([rollout.rollout.tokens for rollout in group.rollouts])),
    }


def reached(written: dict[str, Written]) -> list[int]:
    """Iterations that every problem has come to in every arm."""
    all_there = np.all([np.isfinite(figures["mean"]).all(axis=0) for figures in written.values()], axis=0)
    return np.flatnonzero(all_there).tolist()


def told(written: dict[str, Written]) -> str:
    parts = ["\n".join(f"- {name}: {meaning}" for name, meaning in FIGURES.items())]
    at = reached(written)
    for name in FIGURES:
        digits = 0 if name == "tokens" else 3
        rows = [[name, *(f"@{i + 1}" for i in at)]]
        rows += [[arm, *(f"{figures[name][:, i].mean():.{digits}f}" for i in at)] for arm, figures in written.items()]
        parts.append(markdown(rows))
    return "\n\n".join(parts)


def differences(written: dict[str, Written], reference: str) -> str:
    """Arm - reference in the first and in the second half of what was reached, paired over problems."""
    at = reached(written)
    halves = {"first half": at[: len(at) // 2], "second half": at[len(at) // 2 :]}
    rows = [["difference", *(f"{name}, {half}" for name in FIGURES for half in halves)]]
    for arm in written:
        if arm == reference or len(at) < 2:
            continue
        cells = [f"{arm} - {reference}"]
        for name in FIGURES:
            for which in halves.values():
                ours, theirs = (written[one][name][:, which].mean(axis=1) for one in (arm, reference))
                cells.append(signed(difference(ours, theirs).interval))
        rows.append(cells)
    return markdown([list(row) for row in zip(*rows, strict=True)]) if len(rows) > 1 else ""


def steps(store: Store, arm: Arm) -> str:
    """A trainer's own record."""
    parts = []
    for run in arm.runs:
        records = list(training_steps(store, run.id))
        if records:
            names = [name for name in (*STEPS, *SECONDS) if name in records[0].stats]
            rows = [["step", *names]]
            rows += [
                [str(one.step), *(f"{one.stats.get(name, float('nan')):.{_digits(name)}f}" for name in names)]
                for one in records
            ]
            parts.append(f"Steps of {arm.name}, search seed {run.seed}:\n\n{markdown(rows)}")
    return "\n\n".join(parts)


def _digits(name: str) -> int:
    return 0 if name in (*SECONDS, "spreadless", "stale") else 3


if __name__ == "__main__":
    main()
