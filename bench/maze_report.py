"""bench/results/maze.md and maze.json.gz from the runs of bench/maze.py. No figure is typed in here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.maze import (
    ARMS,
    CHOSEN_BY,
    CLOCK_SECONDS,
    COMMON,
    SETTINGS,
    STEPS,
    SWEEP_STEPS,
    TABLE,
    TEMPERATURES,
    TEST,
    TRAINED_ON,
    VALIDATION,
    chosen,
    clock_runs,
    curve,
    own_temperature,
    runs,
    sweep_folder,
    test_file,
)
from bench.tables import markdown
from evo.evaluation.metrics import is_rate
from evo.stats import mean_interval, paired_difference

FIGURES = "maze.json.gz"

KS = ("best@1", "best@3", "best@10", "best@30")
COMPARED = (*KS, "solve@30", "diversity_valid")
CURVE = ("answers", "seconds", "total_tokens", *KS, "solve@30", "diversity", "valid")
PAIRS = (
    ("vpo", "grpo"),
    ("vpo", "base, chains of 3"),
    ("vpo", "max_at_k"),
    ("vpo", "multi_rlvr"),
    ("grpo", "base, chains of 3"),
)

OWN = "equal answers, each arm at its own temperature"

Values = dict[str, np.ndarray]
"""figure -> (seeds, problems)"""


def write_report(out: Path, results: Path, seeds: int) -> None:
    """Read the evaluations under `out`, write the table, the comparisons and the curves."""
    folders = runs(out, seeds)
    own = {arm: own_temperature(out, some) for arm, some in folders.items()}
    own_base = own_temperature(out, [out / "train" / "base"])
    at_one = {
        f"base, {'chains of 3' if m == 3 else 'single answers'}": [test_file(out, f"base-m{m}", 1.0)] for m in (1, 3)
    }
    at_one |= {arm: [test_file(out, f.name, 1.0) for f in some] for arm, some in folders.items()}
    at_own = {"base, chains of 3": [test_file(out, "base-m3", own_base)]}
    at_own |= {arm: [test_file(out, f.name, own[arm]) for f in some] for arm, some in folders.items()}
    clock = {
        arm: [test_file(out, f"clock-{f.name}", 1.0) for f in some]
        for arm, some in clock_runs(out).items()
        if all(test_file(out, f"clock-{f.name}", 1.0).exists() for f in some)
    }
    tables = {"equal answers, temperature 1": at_one, OWN: at_own}
    if clock:
        tables["equal seconds, temperature 1"] = {"base, chains of 3": at_one["base, chains of 3"], **clock}
    values = {title: {arm: values_of(files) for arm, files in table.items()} for title, table in tables.items()}
    settings = chosen(out)
    about = json.loads((folders["vpo"][0] / "train.json").read_text())
    record = {
        "commit": about["commit"],
        "start": about["start"],
        "command": "python bench/maze.py -o DIR",
        "chosen": settings,
        "own_temperature": {**own, "base": own_base},
        "tables": {
            title: {arm: {name: described(v[name], is_rate(name)) for name in TABLE} for arm, v in table.items()}
            for title, table in values.items()
        },
        "differences": {
            title: {
                f"{a} - {b}": {name: gap(table[a][name], table[b][name], is_rate(name)) for name in COMPARED}
                for a, b in PAIRS
                if a in table and b in table
            }
            for title, table in values.items()
        },
        "curves": {arm: curves(some) for arm, some in folders.items()},
        "clock_curves": {arm: curves(some) for arm, some in clock_runs(out).items() if arm in clock},
        "sweep": {
            arm: {f"lr {r:g}, kl {k:g}": curve(sweep_folder(out, arm, r, k))[-1] for r, k in SETTINGS} for arm in ARMS
        },
        "optimum": optimum(),
    }
    save(record, results)
    (results / "maze.md").write_text(page(record, {arm: len(some) for arm, some in folders.items()}))
    print(f"wrote {results / 'maze.md'} and {FIGURES}")


def save(record: dict[str, Any], results: Path) -> None:
    """Write the figures, compressed."""
    (results / FIGURES).write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0))


def replace_rows(out: Path, results: Path, seeds: int) -> None:
    """Put the rows of arms that were run again into the report that is there. Their differences from the others are not
    paired over mazes any more, because only means and intervals of those were kept."""
    record = json.loads(gzip.decompress((results / FIGURES).read_bytes()))
    settings = chosen(out)
    for arm, folders in runs(out, seeds).items():
        own = own_temperature(out, folders)
        about = json.loads((folders[0] / "train.json").read_text())
        record["chosen"][arm], record["own_temperature"][arm] = settings[arm], own
        record["curves"][arm] = curves(folders)
        record["sweep"][arm] = {f"lr {r:g}, kl {k:g}": curve(sweep_folder(out, arm, r, k))[-1] for r, k in SETTINGS}
        again = {"commit": about["commit"], "scale": about["config"].get("scale", "plain"), "command": about["command"]}
        record.setdefault("again", {})[arm] = again
        for title, temperature in (("equal answers, temperature 1", 1.0), (OWN, own)):
            table, v = record["tables"][title], values_of([test_file(out, f.name, temperature) for f in folders])
            table[arm] = {name: described(v[name], is_rate(name)) for name in TABLE}
            for pair, row in record["differences"][title].items():
                first, second = pair.split(" - ", 1)
                if arm in (first, second):
                    row.update({name: unpaired(table[first][name], table[second][name]) for name in COMPARED})
    save(record, results)
    trained = record["tables"][OWN]
    (results / "maze.md").write_text(
        page(record, {arm: len(trained[arm][TABLE[0]]["seeds"]) for arm in record["curves"]})
    )
    print(f"wrote {results / 'maze.md'} and {FIGURES}")


def unpaired(a: dict[str, Any], b: dict[str, Any]) -> dict[str, float]:
    """a - b of two independent estimates, from their intervals."""
    mean = a["mean"] - b["mean"]
    half = float(np.hypot(a["high"] - a["low"], b["high"] - b["low"])) / 2
    return {"mean": mean, "low": mean - half, "high": mean + half}


def values_of(files: Sequence[Path]) -> Values:
    """Per-problem figures of each training seed's policy (sampling seeds averaged already)."""
    records = [json.loads(file.read_text())["per_problem"] for file in files]
    return {name: np.array([[problem[name] for problem in record] for record in records]) for name in TABLE}


def described(values: np.ndarray, rate: bool) -> dict[str, Any]:
    """Mean, 95% interval over problems and training seeds, and each seed's mean."""
    of = mean_interval(values.T, rate=rate, crossed_seeds=True)
    return {**asdict(of), "seeds": [round(float(v), 4) for v in values.mean(axis=1)]}


def gap(a: np.ndarray, b: np.ndarray, rate: bool) -> dict[str, float]:
    """a - b with its 95% interval: problems in pairs, each arm's training seeds by themselves."""
    return asdict(paired_difference(a.T, b.T, rate=rate, crossed_seeds=True).interval)


def curves(folders: Sequence[Path]) -> list[dict[str, float]]:
    """Validation figures over training, means over seeds, at the steps that all seeds have."""
    every = [{line["step"]: line for line in curve(folder)} for folder in folders]
    shared = sorted(set.intersection(*(set(lines) for lines in every)))
    return [
        {"step": step, **{name: round(float(np.mean([lines[step][name] for lines in every])), 5) for name in CURVE}}
        for step in shared
    ]


def optimum() -> float:
    from problems.maze import problem_set

    return float(np.mean([problem.target for problem in problem_set(TEST)]))


def page(record: dict[str, Any], seeds: dict[str, int]) -> str:
    """maze.md."""
    counted = ", ".join(f"{arm} {n}" for arm, n in seeds.items())
    parts = [
        "# Training on mazes: GRPO, Max@K, Multi-RLVR and VPO from one start",
        f"`{record['command']}` (commit {record['commit']}, start {record['start']}, training seeds: {counted}).\n"
        f"Trained on {TRAINED_ON} for {STEPS} steps of 288 answers (16 rollouts a prompt; 18 prompts of single "
        f"answers\nor 6 of chains of 3; `{COMMON}`).\nSettings and temperatures were chosen on {VALIDATION}; {TEST} "
        f"(100 mazes, mean optimum {record['optimum']:.3f}) was used only for these tables:\n30 answers a maze, three "
        "sampling seeds (five for the base). Brackets: 95% intervals over mazes and training seeds\n(Student's "
        "and Wilson's, evo.stats); bold: the interval excludes 0.",
    ]
    for arm, again in record.get("again", {}).items():
        parts.append(
            f"{arm} was trained again at the {again['scale']} scale (commit {again['commit']}); the other rows are at "
            "the plain scale of their first run, with intervals of a two-level percentile bootstrap. "
            f"Differences of {arm} are not paired over mazes."
        )
    for title, table in record["tables"].items():
        parts += [f"## {title[0].upper()}{title[1:]}", results_table(table)]
        if "own" in title:
            chosen_at = ", ".join(f"{arm} {t:g}" for arm, t in record["own_temperature"].items())
            parts.append(f"Temperatures (of {', '.join(map(str, TEMPERATURES))}, by {CHOSEN_BY}): {chosen_at}.")
        if "seconds" in title:
            parts.append(
                f"{CLOCK_SECONDS} seconds of training each on one core, without evaluation, arms side by side."
            )
        parts.append(difference_table(record["differences"][title]))
    parts += ["## Over training (validation, means over seeds)", curve_table(record["curves"])]
    parts += [f"## The sweep ({SWEEP_STEPS} steps, one seed, validation {CHOSEN_BY})", sweep_table(record)]
    return "\n\n".join(parts) + "\n"


def results_table(table: dict[str, Any]) -> str:
    rows = [[arm, *(interval(figures[name]) for name in TABLE)] for arm, figures in table.items()]
    return markdown([["arm", *TABLE], *rows])


def difference_table(differences: dict[str, Any]) -> str:
    rows = []
    for pair, figures in differences.items():
        rows.append([pair, *(verdict(figures[name]) for name in COMPARED)])
    return markdown([["difference", *COMPARED], *rows])


def curve_table(every: dict[str, Any]) -> str:
    rows = []
    for arm, lines in every.items():
        for line in lines:
            rows.append([arm, str(line["step"]), *(whole_or_three(line[name]) for name in CURVE)])
    return markdown([["arm", "step", *CURVE], *rows])


def sweep_table(record: dict[str, Any]) -> str:
    settings = [f"lr {r:g}, kl {k:g}" for r, k in SETTINGS]
    rows = []
    for arm, ends in record["sweep"].items():
        best = f"lr {record['chosen'][arm]['lr']:g}, kl {record['chosen'][arm]['kl']:g}"
        cells = [f"{ends[s][CHOSEN_BY]:.3f}" for s in settings]
        rows.append([arm, *(f"**{cell}**" if s == best else cell for s, cell in zip(settings, cells, strict=True))])
    return markdown([["arm", *settings], *rows])


def interval(figure: dict[str, Any]) -> str:
    return f"{figure['mean']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def verdict(figure: dict[str, float]) -> str:
    shown = f"{figure['mean']:+.3f} [{figure['low']:+.3f}, {figure['high']:+.3f}]"
    return f"**{shown}**" if figure["low"] > 0 or figure["high"] < 0 else shown


def whole_or_three(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 or value == 0 else f"{value:.3f}"
