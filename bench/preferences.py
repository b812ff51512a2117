"""Weights chosen after training: which policies have answers for weightings that no one named before
(bench/results/preferences.md).

    python -m bench.preferences train DIR        # the policies, one directory each; a finished one is skipped
    python -m bench.preferences search DIR       # a search for each, in DIR/search.db
    python -m bench.preferences sample DIR       # 30 answers a maze without evolution
    python -m bench.preferences tables DIR
    python -m bench.preferences plot DIR -o docs/preferences.svg

Every step continues where it was stopped. --set large does the same for the 13x13 mazes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evo.evaluation.evaluate import sample_answers
from evo.evaluation.metrics import SampledAnswers
from evo.search.resources import problems_at
from evo.stats.differences import paired_difference, write_difference
from evo.stats.intervals import mean_interval
from islands.browse import candidates_table
from islands.store import Store
from problems.contract import Problem
from problems.maze.problem import TOLERANCE
from problems.scoring import Scorer
from vpo.policies.contract import Policy
from vpo.policies.registry import policy_at
from vpo.scalarize import dirichlet_weights

Floats = npt.NDArray[np.float64]
SINGLE, CHAINS = ("--prompts", "18", "--answers", "1"), ("--prompts", "6", "--answers", "3")
COMMON = (
    "--rollouts 16 --betas 0.9 0.95 --warm-up 10 --token-budget 4096 --steps 120 --plain --keep 1 --save-every 1000"
)
GOLD = {"completion": 0.1, "gold": 0.7, "diamond": 0.1, "safety": 0.1}


@dataclass(frozen=True)
class Method:
    """How a method's policies are trained: learning rate and KL were swept on maze:train/900-999
    (bench/results/maze.md). seeds: of its trainings"""

    name: str
    lr: str
    kl: str = "0.01"
    size: tuple[str, ...] = SINGLE
    weights: str = ""
    seeds: int = 5

    @property
    def key(self) -> str:
        return self.name + "-gold" * bool(self.weights)

    @property
    def answers(self) -> int:
        return int(self.size[-1])


ONE_USER = ",".join(f"{name}={weight}" for name, weight in GOLD.items())
METHODS = (
    Method("vpo", "2.5e-4", size=CHAINS),
    Method("grpo", "1.25e-4"),
    Method("max_at_k", "2.5e-4"),
    Method("random_weighting", "1.25e-4", seeds=3),
    Method("multi_rlvr", "2.5e-4", kl="0", size=CHAINS, seeds=3),
    Method("grpo", "1.25e-4", weights=ONE_USER, seeds=3),
    Method("max_at_k", "2.5e-4", weights=ONE_USER, seeds=3),
)


@dataclass(frozen=True)
class Plan:
    """start: the policy from which training starts; learn, judge: mazes; horizons: iterations of 3 answers"""

    start: str
    learn: str
    judge: str
    methods: tuple[Method, ...]
    horizons: tuple[int, ...] = (10, 30, 100)
    samples: int = 30


MAIN = METHODS[:3]
PLANS = {
    "test": Plan("embedded:base", "maze:train/0-899", "maze:test/0-49", METHODS),
    "large": Plan("DIR/large-start", "maze:large-train/0-899", "maze:large/0-29", MAIN, (10, 30, 60)),
}


def policies(plan: Plan, folder: Path) -> Iterator[tuple[Method, int, Path]]:
    """Every training of the plan: its method, seed and directory."""
    for method in plan.methods:
        for seed in range(method.seeds):
            yield method, seed, folder / f"{method.key}-{seed}"


def trainings(plan: Plan, folder: Path) -> Iterator[tuple[Method, int, Path]]:
    """Those that are there, and the start of all, which writes chains of three."""
    yield Method("base", "", size=CHAINS), 0, Path(plan.start.replace("DIR", str(folder)))
    yield from ((method, seed, path) for method, seed, path in policies(plan, folder) if path.exists())


def train(plan: Plan, folder: Path) -> None:
    for method, seed, path in policies(plan, folder):
        if (path / "config.json").exists():
            continue
        start = plan.start.replace("DIR", str(folder))
        new = [method.name, plan.learn, "--policy", start, *COMMON.split(), *method.size, "--lr", method.lr]
        new += ["--kl", method.kl, "--seed", str(seed), "-o", str(path)]
        new += ["--weights", method.weights] if method.weights else []
        run("train", *(["--resume", str(path)] if path.exists() else new))


def search(plan: Plan, folder: Path) -> None:
    """A search for each training, with its seed; of the start too."""
    database = f"sqlite:///{folder}/search.db"
    for method, seed, path in trainings(plan, folder):
        name = f"{method.key}-{seed}"
        with Store.open(database) as store:
            known = {run.name: run.status for run in store.runs()}
        if known.get(name) == "done":
            continue
        arguments = ["resume", name] if name in known else [
            *("run", plan.judge, "--policy", str(path), "--answers", str(method.answers)),
            *("--rollouts", str(3 // method.answers), "--iterations", str(plan.horizons[-1])),
            *("--seed", str(seed), "--name", name),
        ]  # fmt: skip
        run(*arguments, "--db", database, "--plain")


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "evo", *arguments], check=True)


def sample(plan: Plan, folder: Path) -> None:
    """Rewards (P, samples, d) of every policy in FOLDER/NAME.npy."""
    problems = problems_at([plan.judge])
    for method, seed, path in trainings(plan, folder):
        stored = folder / f"sample-{method.key}-{seed}.npy"
        if stored.exists():
            continue
        scorer, policy = Scorer(1), policy_at(str(path))
        drawn = asyncio.run(_sample(policy, problems, method.answers, plan.samples, seed, scorer))
        np.save(stored, np.stack([answers.rewards for answers in drawn.problems]))


async def _sample(
    policy: Policy, problems: Sequence[Problem], answers: int, total: int, seed: int, scorer: Scorer
) -> SampledAnswers:
    try:
        return await sample_answers(policy, problems, answers=answers, total=total, seed=seed, scorer=scorer)
    finally:
        await policy.close()
        scorer.close()


def weightings(dimensions: int) -> Floats:
    """(W, d): with four objectives all quarters but the mean, which is what most policies were trained on; else
    Dirichlet(1)."""
    if dimensions != 4:
        return dirichlet_weights(64, dimensions, sampler="sobol", seed=0)
    quarters = (parts for parts in itertools.product(range(5), repeat=4) if sum(parts) == 4)
    return np.array([parts for parts in quarters if set(parts) != {1}]) / 4


def optima(plan: Plan, folder: Path) -> Floats:
    """(P, W) the exact optimum of every maze under every weighting, kept in FOLDER/optima.npy."""
    stored = folder / "optima.npy"
    if not stored.exists():
        problems = problems_at([plan.judge])
        w = weightings(len(problems[0].objectives))
        found = [[problem.target_under(each) for each in w.tolist()] for problem in problems]
        np.save(stored, np.array(found, dtype=np.float64) + TOLERANCE)
    return np.asarray(np.load(stored))


def best_values(plan: Plan, folder: Path, times: Sequence[int]) -> dict[tuple[str, str, int], Floats]:
    """(method, budget, seed) -> (P, W) the best value of a stored answer under each weighting. budget: "sample" or the
    iterations, of which `times` are read"""
    w = weightings(len(problems_at([plan.judge])[0].objectives))
    found: dict[tuple[str, str, int], Floats] = {}
    for path in folder.glob("sample-*.npy"):
        key, _, seed = path.stem.removeprefix("sample-").rpartition("-")
        found[key, "sample", int(seed)] = (np.load(path) @ w.T).max(axis=1)
    names = [problem.name for problem in problems_at([plan.judge])]
    with Store.open(f"sqlite:///{folder}/search.db", read_only=True) as store:
        for searched in store.runs():
            key, _, seed = searched.name.rpartition("-")
            best = {t: np.zeros((len(names), len(w))) for t in times}
            for line in candidates_table(store, searched.id):
                values, row = w @ np.array(list(line["rewards"].values())), names.index(line["problem"])
                for t in times:
                    if (line["iteration"] or 0) < t:
                        best[t][row] = np.maximum(best[t][row], values)
            found |= {(key, str(t), int(seed)): best[t] for t in times}
    return found


def tables(plan: Plan, folder: Path) -> None:
    found, best = best_values(plan, folder, plan.horizons), optima(plan, folder)
    w = weightings(len(problems_at([plan.judge])[0].objectives))
    methods = ["base", *dict.fromkeys(method.key for method in plan.methods)]
    budgets = ["sample", *map(str, plan.horizons)]
    groups = {"all": np.ones(len(w), dtype=bool), "near": w.max(axis=1) <= 0.5, "far": w.max(axis=1) >= 0.75}
    groups = {name: chosen for name, chosen in groups.items() if chosen.any()}
    if len(w[0]) == 4:
        groups |= {"gold >= .5": w[:, 1] >= 0.5, "diamond >= .5": w[:, 2] >= 0.5}
    measures = {
        "pairs solved": lambda values: values >= best - TOLERANCE,
        "share of the optimum": lambda values: values / best,
    }
    for title, measure in measures.items():
        for group, chosen in groups.items():
            per = {
                (method, budget): np.stack(
                    [measure(values)[:, chosen].mean(axis=1) for (m, b, _), values in sorted(found.items())
                     if (m, b) == (method, budget)], axis=1)
                for method in methods for budget in budgets
                if any((m, b) == (method, budget) for m, b, _ in found)
            }  # fmt: skip
            print(f"\n## {title}, {group} ({int(chosen.sum())} weightings)\n")
            print_table(per, methods, budgets)
            print_differences(per, methods, budgets)
    print_never(found, best, methods, str(plan.horizons[-1]))
    print_price(plan, folder, methods)


def print_price(plan: Plan, folder: Path, methods: Sequence[str]) -> None:
    """What an answer is worth, and how often one of all is the best, at the mean, without a search."""
    targets = np.array([problem.target for problem in problems_at([plan.judge])])
    print(f"\n## at the mean of the objectives, {plan.samples} answers\n\n| method | best@1 | solve@{plan.samples} |")
    print("|---|---|---|")
    for method in methods:
        drawn = [np.load(path).mean(axis=2) for path in sorted(folder.glob(f"sample-{method}-[0-9].npy"))]
        if drawn:
            solved = np.mean([(values.max(axis=1) >= targets).mean() for values in drawn])
            print(f"| {method} | {np.mean(drawn):.3f} | {solved:.3f} |")


def print_table(per: dict[tuple[str, str], Floats], methods: Sequence[str], budgets: Sequence[str]) -> None:
    """per: (P, S) of each method and budget"""
    print("| method | " + " | ".join(budgets) + " |\n|" + "---|" * (len(budgets) + 1))
    for method in methods:
        cells = []
        if all((method, budget) not in per for budget in budgets):
            continue
        for budget in budgets:
            if (method, budget) not in per:
                cells.append("")
                continue
            values = per[method, budget]
            interval = mean_interval(values, rate=True, crossed_seeds=values.shape[1] > 1)
            cells.append(f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]")
        print(f"| {method} | " + " | ".join(cells) + " |")


def print_differences(per: dict[tuple[str, str], Floats], methods: Sequence[str], budgets: Sequence[str]) -> None:
    """vpo minus each other trained method, corrected for all pairs of methods that are compared."""
    measured = {method for method, _ in per}
    others = [method for method in methods if method not in ("vpo", "base") and method in measured]
    print("\n| difference | " + " | ".join(budgets) + " |\n|" + "---|" * (len(budgets) + 1))
    for other in others:
        cells = []
        for budget in budgets:
            if not {("vpo", budget), (other, budget)} <= set(per):
                cells.append("")
                continue
            first, second = per["vpo", budget], per[other, budget]
            crossed = min(first.shape[1], second.shape[1]) > 1
            found = paired_difference(first, second, rate=True, crossed_seeds=crossed, comparisons=len(others))
            text = write_difference(found, digits=3)
            cells.append(f"**{text}**" if found.shown else text)
        print(f"| vpo - {other} | " + " | ".join(cells) + " |")


def print_never(found: dict[tuple[str, str, int], Floats], best: Floats, methods: Sequence[str], budget: str) -> None:
    """The pairs of maze and weighting that a method solves in no training."""
    print(f"\n## pairs that no training of a method solves after {budget} iterations, of {best.size}\n")
    for method in methods:
        solved = [values >= best - TOLERANCE for (m, b, _), values in found.items() if (m, b) == (method, budget)]
        if solved:
            print(f"- {method}: {int((~np.any(solved, axis=0)).sum())} ({len(solved)} trainings)")


DRAWN = {"vpo": "VPO", "max_at_k": "Max@K", "grpo": "GRPO", "base": "untrained"}


def plot(plan: Plan, folder: Path, output: Path) -> None:
    """Pairs solved by iterations, a line a method, with the interval of bench.preferences tables as a band."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "preferences", "font.size": 9})
    from matplotlib import pyplot as plt

    times = sorted({*np.geomspace(1, plan.horizons[-1], 24).round().astype(int).tolist(), *plan.horizons})
    found, best = best_values(plan, folder, times), optima(plan, folder)
    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    for color, (method, label) in zip(("C0", "C2", "C1", "C7"), DRAWN.items(), strict=True):
        curve = []
        for t in times:
            solved = [(found[key] >= best - TOLERANCE).mean(axis=1) for key in found if key[:2] == (method, str(t))]
            values = np.stack(solved, axis=1)
            curve.append(mean_interval(values, rate=True, crossed_seeds=values.shape[1] > 1))
        axes.plot(times, [point.mean for point in curve], color=color)
        axes.fill_between(times, [p.low for p in curve], [p.high for p in curve], color=color, alpha=0.15, linewidth=0)
        apart = {"vpo": 4, "max_at_k": -3}.get(method, 0)  # two lines end side by side
        axes.annotate(
            label, (times[-1], curve[-1].mean), (4, apart), textcoords="offset points", color=color, va="center"
        )
    axes.set(xscale="log", xlabel="iterations of three answers", ylabel="trade-offs solved", ylim=(0, 1))
    axes.set_xticks(shown := [1, 3, 10, 30, 100], [str(t) for t in shown])
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.preferences")
    parser.add_argument("step", choices=["train", "search", "sample", "tables", "plot"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", choices=sorted(PLANS), default="test")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/preferences.svg"))
    given = parser.parse_args()
    steps = {"train": train, "search": search, "sample": sample, "tables": tables}
    steps["plot"] = partial(plot, output=given.output)
    steps[given.step](PLANS[given.set], given.folder.resolve())
