"""Rules and portfolios: what searches found, chosen on one set of instances and measured on another.

    python -m bench.rules textbook                                  # the textbook's rules, and the best K of them
    python -m bench.rules measure sqlite:///r.db NAME -o r.jsonl    # every search of a comparison; continues a file
    python -m bench.rules table r.jsonl --against ARM               # means, and paired differences with intervals
    python -m bench.rules plot r.jsonl -o docs/rules.svg --arms gp grpo vpo     # the cost of a set by rules simulated

Of the first N rules of a search, the POOL best by mean and by family are simulated on validation instances, which
steered nothing. These choose the best rule and the best K. Both are measured on the test: six families of other seeds
and larger sizes for rules:jobshop, Taillard's 80 instances for rules:makespan, other seeds for rules:binpacking.

- rule: the cost of the best rule
- set: each family has the member that is best there on validation
- best of set: all K are simulated on each instance, and the best result is taken

Taillard's costs are percent above the best known makespan, those of bins percent above the bound. Others are
100 c / (s + c), where s is the cost of the shortest processing time in the family: 50 is as good as that rule. Lower is
better. Arms NAME-0, NAME-1, .. are training seeds of one arm NAME. Intervals are over instances and training seeds, or
over the searches of an arm without any.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import evo
from evo.plugins.rules.rule import parse_rule
from evo.plugins.rules.simulated import SimulatedProblem
from evo.stats.differences import paired_difference
from problems.answer_sets import best_set
from problems.registry import resolve

Floats = npt.NDArray[np.float64]
POOL = 20
TESTS = {"jobshop": "rules:jobshop-test/0", "makespan": "rules:taillard", "binpacking": "rules:binpacking-test/0"}
VALIDATION = 9
"""The index of the problem whose held-out instances choose."""
PER_ITERATION = 4
"""Answers of an iteration, in every comparison that is measured."""
TEXTBOOK = "textbook"
MEASURES = ("rule", "set", "best of set")


class Judge:
    """Costs of rules on the validation and the test instances of a set."""

    def __init__(self, kind: str) -> None:
        self.validation, self.test = _problem(f"rules:{kind}/{VALIDATION}"), _problem(TESTS[kind])
        self._shares = kind == "jobshop"
        self.costs = lru_cache(None)(self._simulate)

    def _simulate(self, text: str, test: bool) -> Floats:
        """(families, instances)"""
        problem = self.test if test else self.validation
        costs = problem.instance_costs(parse_rule(text, problem.names), held_out=not test)
        if not self._shares:
            return costs
        scale = np.array([one.scale for one in problem.metrics])[:, None]
        return 100 * costs / (scale + costs)

    def measure(self, texts: Sequence[str], members: int) -> dict[str, Any]:
        """The best rule and the best sets of these rules, chosen on validation, and their costs (test instances,)."""
        held = np.array([self.costs(text, False) for text in texts])
        best = int(held.mean(axis=(1, 2)).argmin())
        by_family, _ = best_set(-held.mean(axis=2), members)
        place = [by_family[int(column.argmin())] for column in held.mean(axis=2)[by_family].T]
        by_instance, _ = best_set(-held.reshape(len(held), -1), members)
        tested = {at: self.costs(texts[at], True) for at in {best, *place, *by_instance}}
        values = {
            "rule": tested[best],
            "best of set": np.min([tested[at] for at in by_instance], axis=0),
            "set": np.array([tested[at][family] for family, at in enumerate(place)]) if self._shares else None,
        }
        named = {
            "rule": [texts[best]],
            "set": [texts[at] for at in by_family],
            "best of set": [texts[at] for at in by_instance],
        }
        known = {name: value.ravel().round(4).tolist() for name, value in values.items() if value is not None}
        return {**known, "texts": named}


def _problem(address: str) -> SimulatedProblem:
    problem = resolve(address)[0]
    assert isinstance(problem, SimulatedProblem)
    return problem


@lru_cache(None)
def judge(kind: str) -> Judge:
    return Judge(kind)


def measure(db: str, name: str, out: Path, counts: Sequence[int], members: int) -> None:
    """Append a line for every search of the comparison and every count of answers."""
    done = {_key(row) for row in _rows(out)}
    frame = evo.load_comparison(name, db=db).frame(candidates=True)
    with out.open("a", encoding="utf-8") as file:
        for (arm, seed, problem), searched in frame.groupby(["arm", "seed", "problem"]):
            kind = problem.partition(":")[2].partition("/")[0]
            searched = searched[searched.error.isna()].sort_values("candidate")
            rewards = searched[[name for name in searched if name.startswith("reward.")]].dropna(axis=1, how="all")
            for count in counts:
                row = {"arm": arm, "seed": int(seed), "problem": problem, "at": count, "members": members}
                if _key(row) in done:
                    continue
                first = (searched.iteration.fillna(0) <= count / PER_ITERATION).to_numpy(bool)
                texts = [str(searched.answer.iloc[at]) for at in _pool(rewards.to_numpy(float)[first])]
                print(json.dumps({**row, **judge(kind).measure(texts, members)}), file=file, flush=True)


def _pool(rewards: Floats) -> list[int]:
    columns = [rewards.mean(axis=1), *rewards.T]
    return sorted({int(at) for column in columns for at in np.argsort(-column, kind="stable")[:POOL]})


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("arm", "seed", "problem", "at", "members"))


def table(paths: Sequence[Path], against: str | None, only: Sequence[str], members: int) -> None:
    """Means of each arm by the number of rules, and its paired differences from the arm `against`; lower is better.
    Intervals allow for all arms that are shown. only: show these arms; all if empty. against: TEXTBOOK is not an arm"""
    measured = {
        key: {arm: costs for arm, costs in means.items() if not only or arm in only}
        for key, means in _by_arm(paths).items()
    }
    if against == TEXTBOOK:
        for (kind, _, name), means in measured.items():
            means[TEXTBOOK] = np.repeat(_measure_textbook(kind, members)[name].reshape(-1, 1), 2, axis=1)
    for kind, name in sorted({(kind, name) for kind, _, name in measured}):
        counts = sorted(at for one, at, measure in measured if (one, measure) == (kind, name))
        arms = {arm: None for at in counts for arm in measured[kind, at, name]}
        print(f"\n{kind}, {name}\n\n| arm | {' | '.join(map(str, counts))} |\n|---|{'---|' * len(counts)}")
        for arm in arms:
            values = [measured[kind, at, name].get(arm) for at in counts]
            print(f"| {arm} | {' | '.join('-' if one is None else f'{one.mean():.2f}' for one in values)} |")
        for arm in arms if against in arms else ():
            if arm != against:
                pairs = [(found.get(arm), found.get(against)) for found in (measured[kind, at, name] for at in counts)]
                cells = [
                    "-" if one is None or other is None else _difference(one, other, len(arms) - 1)
                    for one, other in pairs
                ]
                print(f"| {arm} - {against} | {' | '.join(cells)} |")


def _difference(costs: Floats, others: Floats, comparisons: int) -> str:
    found = paired_difference(costs, others, crossed_seeds=True, comparisons=comparisons)
    text = f"{found.interval.mean:+.2f}{found.interval.ends('.2f')}"
    return f"**{text}**" if found.shown else text


def _by_arm(paths: Sequence[Path]) -> dict[tuple[str, int, str], dict[str, Floats]]:
    """(test instances, seeds) by set, count and measure, and by arm; a mean over the searches of a training seed."""
    values: dict[tuple[str, int, str], dict[str, dict[str, list[list[float]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in (row for path in paths for row in _rows(path)):
        trained = re.fullmatch(r"(.+?)-(\d+)", row["arm"])
        arm, seed = trained.groups() if trained else (row["arm"], f"{row['problem']} {row['seed']}")
        kind = row["problem"].partition(":")[2].partition("/")[0]
        for name in MEASURES:
            if name in row:
                values[kind, row["at"], name][arm][seed].append(row[name])
    return {
        key: {arm: np.array([np.mean(rows, axis=0) for rows in seeds.values()]).T for arm, seeds in arms.items()}
        for key, arms in values.items()
    }


@lru_cache(None)
@lru_cache(None)
def _measure_textbook(kind: str, members: int) -> dict[str, Floats]:
    """Costs of the best textbook rule and of the best sets of them, chosen on validation, by instance."""
    found = judge(kind).measure(list(judge(kind).test.textbook.values()), members)
    return {name: np.array(found[name]) for name in MEASURES if name in found}


def plot(paths: Sequence[Path], out: Path, arms: Sequence[str], members: int) -> None:
    """The mean cost of the best set by the number of rules simulated, with the range of seeds."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rules", "font.size": 9})
    from matplotlib import pyplot

    means = _by_arm(paths)
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4))
    panels = {
        "jobshop": ("set", "six kinds of job shops, 50 = SPT"),
        "makespan": ("best of set", "ta01-80, % over best known"),
    }
    for axis, (kind, (name, title)) in zip(axes, panels.items(), strict=True):
        counts = sorted(at for one, at, measured in means if (one, measured) == (kind, name))
        for arm in arms:
            seeds = np.array([means[kind, at, name][arm].mean(axis=0) for at in counts])
            (line,) = axis.plot(counts, seeds.mean(axis=1), marker="o", label=arm)
            axis.fill_between(counts, seeds.min(axis=1), seeds.max(axis=1), color=line.get_color(), alpha=0.15, lw=0)
        axis.axhline(
            float(_measure_textbook(kind, members)[name].mean()),
            color="gray",
            ls="--",
            label=f"best {members} textbook rules",
        )
        axis.set(xscale="log", xlabel="rules simulated", title=f"Portfolio of {members}: {title}")
    axes[0].set_ylabel("mean cost of the best member")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def show_textbook(members: int) -> None:
    """Each textbook rule's mean cost on the test of each set, and the best set of all, chosen on validation."""
    for kind in TESTS:
        scored = judge(kind)
        print(f"\n{kind}: {', '.join(scored.test.objectives)}\n")
        for name, text in scored.test.textbook.items():
            costs = scored.costs(text, True)
            print(f"| {name} | {costs.mean():.2f} | {' | '.join(f'{cost:.2f}' for cost in costs.mean(axis=1))} |")
        found = scored.measure(list(scored.test.textbook.values()), members)
        print(json.dumps({name: round(float(np.mean(found[name])), 2) for name in MEASURES if name in found}))
        print(found["texts"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("textbook")
    measured = commands.add_parser("measure")
    measured.add_argument("db")
    measured.add_argument("name")
    measured.add_argument("-o", "--out", type=Path, required=True)
    measured.add_argument("--at", type=int, nargs="+", default=[1000])
    shown = commands.add_parser("table")
    shown.add_argument("paths", type=Path, nargs="+")
    shown.add_argument("--against")
    shown.add_argument("--arms", nargs="+", default=[])
    drawn = commands.add_parser("plot")
    drawn.add_argument("paths", type=Path, nargs="+")
    drawn.add_argument("-o", "--out", type=Path, required=True)
    drawn.add_argument("--arms", nargs="+", required=True)
    parser.add_argument("--members", type=int, default=4)
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.db, args.name, args.out, args.at, args.members)
    elif args.command == "table":
        table(args.paths, args.against, args.arms, args.members)
    elif args.command == "plot":
        plot(args.paths, args.out, args.arms, args.members)
    else:
        show_textbook(args.members)


if __name__ == "__main__":
    main()
