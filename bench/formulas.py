"""Formulas: problems solved by this engine and pyoperon, at equal evaluations or equal CPU seconds.

    python -m bench.formulas measure evo small --evaluations 1000 --seeds 5 -o out/
    python -m bench.formulas measure pyoperon feynman --seconds 60 --seeds 1 --limit 20 -o out/
    python -m bench.formulas report out/ > table.md

A problem is solved if the recommended formula has R2 > .999 on the test rows. Training rows, test rows and the search
have the seed. pyoperon is asked for the same longest formula (50 nodes) on one thread; it counts each residual and each
Jacobian of its Levenberg-Marquardt, as this engine does. Intervals are of 2,000 bootstrap draws of problems, 95%.
`--limit` takes the first problems of one random order (seed 0). A measurement that was stopped continues. Install the
peer with `pip install pyoperon`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.grammar import write_formula
from evo.plugins.formulas.laws import Law, feynman, generated, small

SETS = {"small": small, "feynman": feynman, "generated": partial(generated, "test")}
"""Nothing was tuned on `generated`."""
SOLVED = 0.999
MOST_SIZE = 50
OUTSIDE_ROWS = 1000
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Found:
    """The formula that a system recommends. text: in v0, v1, ..; evaluations: passes of the whole search"""

    predict: Predict
    evaluations: int
    size: int
    text: str


@dataclass(frozen=True)
class Budget:
    """Passes over the rows, or CPU seconds of this process.

    is_solved: by the test rows. A peer that runs for CPU seconds stops when a round has solved the problem, which is in
    its favour
    """

    evaluations: int | None
    seconds: float
    is_solved: Callable[[Predict], bool] = lambda _predict: False

    @property
    def population(self) -> int:
        """A tenth of the evaluations, 50 to 1,000."""
        return max(50, min(1000, (self.evaluations or 10**6) // 10))

    def clock(self) -> Callable[[], float]:
        """A function that returns the CPU seconds that are left."""
        end = time.process_time() + self.seconds
        return lambda: end - time.process_time()


def run_evo(x: Reals, y: Reals, budget: Budget, seed: int) -> Found:
    """This engine's recommended formula."""
    from evo.plugins.formulas import search_formulas

    left = budget.clock()
    front = search_formulas(
        x,
        y,
        seconds=1e9,
        evaluations=budget.evaluations,
        seed=seed,
        callback=None if budget.evaluations else lambda _front: left() <= 0,
    )
    assert front.best is not None
    names = [f"v{i}" for i in range(x.shape[1])]
    return Found(front.predict, front.evaluations, front.best.complexity, write_formula(front.best.formula, names))


def run_pyoperon(x: Reals, y: Reals, budget: Budget, seed: int) -> Found:
    """pyoperon with Levenberg-Marquardt, error and length as objectives.

    It stops by wall time only, so CPU seconds are spent in rounds that continue from the population of the last.
    """
    from pyoperon.sklearn import SymbolicRegressor

    left = budget.clock()
    model = SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,square,sqrt,exp,log,sin,cos,tanh,asin,acos,pow,constant,variable",
        population_size=budget.population,
        generations=10**6,
        max_evaluations=budget.evaluations or 100_000,
        max_length=MOST_SIZE,
        optimizer_iterations=5,
        objectives=["r2", "length"],
        model_selection_criterion="mean_squared_error",
        n_threads=1,
        random_state=seed + 1,
        warm_start=not budget.evaluations,
    ).fit(x, y)
    passes = _operon_passes(model)
    while not budget.evaluations and (rest := left()) > 0 and not budget.is_solved(model.predict):
        rate = passes / (budget.seconds - rest)
        model.max_evaluations = max(20_000, int(rate * min(rest, budget.seconds / 8)))
        model.random_state += 1000
        passes += _operon_passes(model.fit(x, y))
    text = model.get_model_string(model.model_, 15, [f"v{i}" for i in range(x.shape[1])])
    return Found(model.predict, passes, int(model.stats_["model_length"]), text)


def _operon_passes(model: Any) -> int:
    return int(model.stats_["residual_evaluations"]) + int(model.stats_["jacobian_evaluations"])


SYSTEMS = {"evo": run_evo, "pyoperon": run_pyoperon}


def r_squared(predicted: np.ndarray, y: np.ndarray) -> float:
    """1 - squared error / variance; -1 if that is not a number."""
    with np.errstate(all="ignore"):
        value = 1 - float(np.mean((np.asarray(predicted, dtype=float).ravel() - y) ** 2)) / float(np.var(y))
    return value if math.isfinite(value) else -1.0


def rows_outside(law: Law, seed: int) -> tuple[Reals, Reals] | None:
    """x (d, n) and y (n,) above the training range: uniform from its low end to its width above the high end, rows with
    at least one variable above. None if the law has fewer than 100 such values."""
    if law.text.startswith("harmonic"):
        return None
    rng = np.random.default_rng([seed, 11])
    x = np.array([rng.uniform(low, 2 * high - low, 4 * OUTSIDE_ROWS) for _kind, low, high, _count in law.train])
    above = (x > np.array([[high] for _kind, _low, high, _count in law.train])).any(0)
    y = law.value(x)
    kept = np.flatnonzero(above & np.isfinite(y))[:OUTSIDE_ROWS]
    return (x[:, kept], y[kept]) if len(kept) >= 100 and float(np.var(y[kept])) > 0 else None


def measure_one(system: str, set_name: str, law: Law, budget: Budget, seed: int, noise: float) -> dict[str, Any]:
    """One row. A system that fails on a problem has not solved it."""
    (x, y), (test_x, test_y) = law.rows("train", seed), law.rows("test", seed)
    if noise:
        y = y + np.random.default_rng([seed, 7]).normal(0, noise * float(y.std()), len(y))
    row = {"system": system, "set": set_name, "name": law.name, "seed": seed, "noise": noise, "r2": -1.0}
    budget = replace(budget, is_solved=lambda predict: r_squared(predict(test_x.T), test_y) > SOLVED)
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        found = SYSTEMS[system](x.T, y, budget, seed)
    except ImportError:
        raise
    except Exception as error:
        row |= {"error": f"{type(error).__name__}: {error}"[:200], "evaluations": 0, "size": 0, "text": ""}
    else:
        row |= {"r2": r_squared(found.predict(test_x.T), test_y), "evaluations": found.evaluations}
        row |= {"size": found.size, "text": found.text}
        outside = rows_outside(law, seed)
        if outside is not None:
            row["r2_outside"] = r_squared(found.predict(outside[0].T), outside[1])
    return row | {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu}


def measure(given: argparse.Namespace) -> None:
    """Append the rows that are missing to the measurement's file."""
    warnings.filterwarnings("ignore")
    budget = Budget(given.evaluations, given.seconds)
    stem = f"{given.set}_{given.system}_" + (f"{given.evaluations}" if given.evaluations else f"{given.seconds:g}s")
    path = given.output / (stem + (f"_noise{given.noise:g}" if given.noise else "") + ".jsonl")
    given.output.mkdir(parents=True, exist_ok=True)
    done = {(row["name"], row["seed"]) for row in read_rows(path)}
    earlier = {
        (row["name"], row["seed"]): row
        for file in given.keep_solved
        for row in read_rows(file)
        if row["r2"] > SOLVED and row["noise"] == given.noise
    }
    laws = list(SETS[given.set]())
    random.Random(0).shuffle(laws)
    with path.open("a") as file:
        for law in laws[: given.limit]:
            for seed in range(given.seeds):
                key = (law.name, seed)
                if key not in done:
                    row = earlier.get(key)
                    row = row or measure_one(given.system, given.set, law, budget, seed, given.noise)
                    file.write(json.dumps(row) + "\n")
                    file.flush()


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rate(rows: Sequence[dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> str:
    """The share of rows, each problem weighted equally, and its interval."""
    by_problem: dict[str, list[bool]] = {}
    for row in rows:
        by_problem.setdefault(row["name"], []).append(holds(row))
    means = np.array([np.mean(each) for each in by_problem.values()])
    drawn = np.random.default_rng(0).choice(means, (2000, len(means))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{means.mean():.3f} [{low:.3f}, {high:.3f}]"


def report(folder: Path) -> Iterator[str]:
    """A Markdown table of every file in the folder."""
    yield "| set | noise | budget | system | problems x seeds | solved | outside | size | CPU s | passes |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for file in sorted(folder.glob("*.jsonl")):
        rows = read_rows(file)
        if not rows:
            continue
        outside = [row for row in rows if "r2_outside" in row or "error" in row]
        names = {row["name"] for row in rows}
        cells = [rows[0]["set"], f"{rows[0]['noise']:g}", file.stem.split("_")[2], rows[0]["system"]]
        cells += [f"{len(names)} x {len(rows) / len(names):g}", rate(rows, lambda row: row["r2"] > SOLVED)]
        cells.append(rate(outside, lambda row: row.get("r2_outside", -1) > SOLVED) if outside else "")
        cells += [f"{np.median([r['size'] for r in rows]):.0f}", f"{np.median([r['cpu'] for r in rows]):.2f}"]
        cells.append(f"{np.median([r['evaluations'] for r in rows]):.0f}")
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("system", choices=SYSTEMS)
    one.add_argument("set", choices=SETS)
    one.add_argument("--evaluations", type=int)
    one.add_argument("--seconds", type=float, default=60.0, help="CPU seconds, without --evaluations")
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--limit", type=int)
    one.add_argument("--noise", type=float, default=0.0)
    one.add_argument("--keep-solved", type=Path, nargs="*", default=[], help="files whose solved rows are taken over")
    one.add_argument("-o", "--output", type=Path, required=True)
    commands.add_parser("report").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given)
    else:
        print("\n".join(report(given.folder)))


if __name__ == "__main__":
    main()
