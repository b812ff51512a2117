"""Formulas: problems solved by this engine, pyoperon and gplearn, at equal evaluations or equal seconds.

    python -m bench.formulas measure evo small --evaluations 1000 --seeds 5 -o out/
    python -m bench.formulas measure pyoperon feynman --seconds 60 --seeds 1 --limit 20 -o out/
    python -m bench.formulas report out/ > table.md

A problem is solved if the recommended formula has R2 > .999 on the test rows. Training rows, test rows and the search
have the seed. pyoperon and gplearn are asked for the same longest formula (50 nodes) on one thread; pyoperon counts
each residual and each Jacobian of its Levenberg-Marquardt, as this engine does. Intervals are of 2,000 bootstrap draws
of problems, 95%. Install the peers with `pip install pyoperon gplearn`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from problems.plugins.formulas.generated import generate
from problems.plugins.formulas.published import Law, feynman, small


def generated() -> tuple[Law, ...]:
    """The generated test set, on which nothing was tuned."""
    return tuple(generate("test", index) for index in range(100))


SETS = {"small": small, "feynman": feynman, "generated": generated}
SOLVED = 0.999
MOST_SIZE = 50
Predict = Callable[[np.ndarray], np.ndarray]


def run_evo(law: Law, x: np.ndarray, y: np.ndarray, evaluations: int | None, seconds: float, seed: int) -> Any:
    """(predict, evaluations, size, text) of this engine's recommended formula."""
    from problems.plugins.formulas import search

    front = search(x, y, names=law.names, seconds=seconds, evaluations=evaluations, max_size=MOST_SIZE, seed=seed)
    assert front.best is not None
    return front.predict, front.evaluations, front.best.complexity, front.best.equation


def run_pyoperon(law: Law, x: np.ndarray, y: np.ndarray, evaluations: int | None, seconds: float, seed: int) -> Any:
    """The same of pyoperon: Levenberg-Marquardt, error and length as objectives."""
    from pyoperon.sklearn import SymbolicRegressor

    most = evaluations or 10**9
    model = SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,square,sqrt,exp,log,sin,cos,tanh,asin,acos,pow,constant,variable",
        population_size=max(50, min(1000, most // 10)),
        generations=10**6,
        max_evaluations=most,
        max_time=int(max(1, seconds)),
        max_length=MOST_SIZE,
        optimizer_iterations=5,
        objectives=["r2", "length"],
        model_selection_criterion="mean_squared_error",
        n_threads=1,
        random_state=seed + 1,
    ).fit(x, y)
    passes = int(model.stats_["residual_evaluations"]) + int(model.stats_["jacobian_evaluations"])
    return model.predict, passes, int(model.stats_["model_length"]), ""


def run_gplearn(law: Law, x: np.ndarray, y: np.ndarray, evaluations: int | None, seconds: float, seed: int) -> Any:
    """The same of gplearn."""
    from gplearn.genetic import SymbolicRegressor

    most = evaluations or 10**6
    population = max(50, min(1000, most // 10))
    model = SymbolicRegressor(
        population_size=population,
        generations=max(1, most // population),
        function_set=("add", "sub", "mul", "div", "sqrt", "log", "sin", "cos", "neg", "inv"),
        metric="mse",
        parsimony_coefficient=1e-4,
        random_state=seed,
        n_jobs=1,
    ).fit(x, y)
    return model.predict, most, len(model._program.program), str(model._program)


SYSTEMS = {"evo": run_evo, "pyoperon": run_pyoperon, "gplearn": run_gplearn}


def measure(
    system: str, set_name: str, evaluations: int | None, seconds: float, seeds: int, limit: int | None, noise: float
) -> Iterator[dict[str, Any]]:
    """One row a problem and seed. A system that fails on a problem has not solved it."""
    for law in SETS[set_name]()[:limit]:
        for seed in range(seeds):
            (x, y), (test_x, test_y) = law.rows("train", seed), law.rows("test", seed)
            if noise:
                y = y + np.random.default_rng([seed, 7]).normal(0, noise * float(y.std()), len(y))
            begun, cpu = time.perf_counter(), time.process_time()
            row = {"system": system, "set": set_name, "name": law.name, "seed": seed, "noise": noise, "r2": -1.0}
            try:
                predict, count, size, text = SYSTEMS[system](law, x.T, y, evaluations, seconds, seed)
                predicted = np.asarray(predict(test_x.T), dtype=float).ravel()
                r2 = 1 - float(np.mean((predicted - test_y) ** 2)) / float(np.var(test_y))
                row |= {"r2": r2 if np.isfinite(r2) else -1.0, "evaluations": count, "size": size, "text": text[:300]}
            except Exception as error:
                row |= {"error": f"{type(error).__name__}: {error}"[:200], "evaluations": 0, "size": 0}
            row |= {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
            yield row


def report(folder: Path) -> Iterator[str]:
    """A Markdown table of every file in the folder."""
    yield "| set | noise | budget | system | problems x seeds | solved | median size | median CPU s | median passes |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for file in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        if not rows:
            continue
        by_problem: dict[str, list[bool]] = {}
        for row in rows:
            by_problem.setdefault(row["name"], []).append(row["r2"] > SOLVED)
        means = np.array([np.mean(each) for each in by_problem.values()])
        drawn = np.random.default_rng(0).choice(means, (2000, len(means))).mean(1)
        low, high = np.percentile(drawn, [2.5, 97.5])
        budget = file.stem.split("_")[2]
        cells = [
            rows[0]["set"],
            f"{rows[0]['noise']:g}",
            budget,
            rows[0]["system"],
            f"{len(means)} x {len(rows) // len(means)}",
        ]
        cells += [f"{means.mean():.3f} [{low:.3f}, {high:.3f}]", f"{np.median([r['size'] for r in rows]):.0f}"]
        cells += [f"{np.median([r['cpu'] for r in rows]):.2f}", f"{np.median([r['evaluations'] for r in rows]):.0f}"]
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("system", choices=SYSTEMS)
    one.add_argument("set", choices=SETS)
    one.add_argument("--evaluations", type=int)
    one.add_argument("--seconds", type=float, default=600.0)
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--limit", type=int)
    one.add_argument("--noise", type=float, default=0.0)
    one.add_argument("-o", "--output", type=Path, required=True)
    commands.add_parser("report").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "report":
        print("\n".join(report(given.folder)))
        return
    warnings.filterwarnings("ignore")
    budget = f"{given.evaluations}" if given.evaluations else f"{given.seconds:g}s"
    noise = f"_noise{given.noise:g}" if given.noise else ""
    given.output.mkdir(parents=True, exist_ok=True)
    with (given.output / f"{given.set}_{given.system}_{budget}{noise}.jsonl").open("w") as file:
        for row in measure(
            given.system, given.set, given.evaluations, given.seconds, given.seeds, given.limit, given.noise
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
