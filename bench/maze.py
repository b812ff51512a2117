"""The paper's table on the 9x9 maze: GRPO, Max@K, Multi-RLVR and VPO from one start at equal budgets, and the base.

    python bench/maze.py -o DIR [--jobs 2] [--seeds 5] [--arms grpo,vpo] [--stages sweep,train,clock,evaluate,report]

sweep     learning rate x KL for every arm, the same grid and budget, judged by best@30 on maze:train/900-999
train     every arm with its own best setting and several seeds, at equal answers
clock     GRPO and VPO again at equal wall-clock seconds, run side by side
evaluate  every policy on maze:test, and on maze:train/900-999 at several temperatures, which chooses its temperature
report    bench/results/maze.md and maze.json.gz

Training sees maze:train/0-899 alone. maze:test is used for the table and for nothing else: settings, temperatures and
checkpoints are chosen on maze:train/900-999. What has run is not run again, so a stopped benchmark goes on. `--jobs 2`
keeps two runs going, one thread each, those of the arms that are compared side by side.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ARMS: dict[str, dict[str, Any]] = {  # 288 answers a step each; seeds: None = as many as --seeds says
    "grpo": {"prompts": 18, "answers": 1, "seeds": None},
    "max_at_k": {"prompts": 18, "answers": 1, "seeds": None},
    "multi_rlvr": {"prompts": 6, "answers": 3, "seeds": 3},
    "vpo": {"prompts": 6, "answers": 3, "seeds": None},
}
COMMON = "--policy embedded:base --rollouts 16 --betas 0.9 0.95 --warm-up 10 --token-budget 4096"
TRAINED_ON, VALIDATION, TEST = "maze:train/0-899", "maze:train/900-999", "maze:test"
SETTINGS = ((1.25e-4, 0.0), (1.25e-4, 0.01), (2.5e-4, 0.0), (2.5e-4, 0.01), (5e-4, 0.0))  # learning rate, KL
TEMPERATURES = (0.7, 1.0, 1.3)
EVALUATE_EVERY = 40
SWEEP_STEPS, STEPS, CLOCK_SECONDS, CLOCK_SEEDS = 80, 120, 150, 3
CHOSEN_BY = "best@30"
TABLE = ("best@1", "best@3", "best@10", "best@30", "solve@1", "solve@30", "diversity", "diversity_valid", "valid")


def evo(*words: str, log: Path) -> None:
    """One evo command on one thread; its output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with log.open("w") as file:
        code = subprocess.call(
            [sys.executable, "-m", "evo", *words], env=settings, stdout=file, stderr=subprocess.STDOUT
        )
    if code:
        raise SystemExit(f"evo {' '.join(words)} ended with {code}: see {log}")


def train(folder: Path, arm: str, seed: int, rate: float, kl: float, budget: str) -> None:
    """One training run, unless it is there; what a kill left is begun anew."""
    if (folder / "config.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    shape = f"--prompts {ARMS[arm]['prompts']} --answers {ARMS[arm]['answers']}"
    words = f"train {arm} {TRAINED_ON} {COMMON} {shape} --lr {rate} --kl {kl} --seed {seed} {budget}"
    held_out = f"--evaluate {VALIDATION} --evaluate-every {EVALUATE_EVERY} --save-every 1000 --keep 1 --plain"
    evo(*words.split(), *held_out.split(), "-o", str(folder), log=folder.with_suffix(".log"))
    print(f"{time.strftime('%H:%M:%S')}  {folder.name}: {shown(curve(folder)[-1])}", flush=True)


def evaluate(file: Path, policy: str, problems: str, answers: int, temperature: float, seeds: int = 3) -> None:
    if file.exists():
        return
    words = f"evaluate {problems} --policy {policy} --answers {answers} --answers-total 30 --seeds {seeds} --plain"
    evo(*words.split(), "--temperature", str(temperature), "-o", str(file), log=file.with_suffix(".log"))
    record = json.loads(file.read_text())
    print(f"{time.strftime('%H:%M:%S')}  {file.stem}: {shown(record)}", flush=True)


def shown(record: dict[str, Any]) -> str:
    return "  ".join(f"{name} {record[name]:.3f}" for name in ("best@1", "best@30", "solve@30", "diversity"))


def curve(folder: Path, kind: str = "evaluation") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def all_of(jobs: int, tasks: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()


def sweep_folder(out: Path, arm: str, rate: float, kl: float) -> Path:
    return out / "sweep" / f"{arm}-lr{rate:g}-kl{kl:g}"


def sweep(out: Path, jobs: int) -> None:
    grid = itertools.product(SETTINGS, ARMS)  # arms innermost: what is compared runs side by side
    all_of(
        jobs,
        [
            lambda a=arm, r=rate, k=kl: train(sweep_folder(out, a, r, k), a, 1000, r, k, f"--steps {SWEEP_STEPS}")
            for (rate, kl), arm in grid
        ],
    )


def chosen(out: Path) -> dict[str, dict[str, float]]:
    """Each arm's setting with the highest validation figure at the end of the sweep."""
    best = {}
    for arm in ARMS:
        ends = {(r, k): curve(sweep_folder(out, arm, r, k))[-1][CHOSEN_BY] for r, k in SETTINGS}
        rate, kl = max(ends, key=lambda key: ends[key])
        best[arm] = {"lr": rate, "kl": kl}
    return best


def runs(out: Path, seeds: int) -> dict[str, list[Path]]:
    return {
        arm: [out / "train" / f"{arm}-seed{seed}" for seed in range(min(seeds, shape["seeds"] or seeds))]
        for arm, shape in ARMS.items()
    }


def clock_runs(out: Path) -> dict[str, list[Path]]:
    return {arm: [out / "clock" / f"{arm}-seed{seed}" for seed in range(CLOCK_SEEDS)] for arm in ("grpo", "vpo")}


def temperature_file(out: Path, folder: Path, temperature: float) -> Path:
    return out / "evaluate" / f"{folder.parent.name}-{folder.name}-validation-T{temperature:g}.json"


def test_file(out: Path, name: str, temperature: float) -> Path:
    return out / "evaluate" / f"{name}-test-T{temperature:g}.json"


def own_temperature(out: Path, folders: Sequence[Path]) -> float:
    """The temperature at which an arm's seeds do best on validation, on average."""

    def mean(temperature: float) -> float:
        records = [json.loads(temperature_file(out, folder, temperature).read_text()) for folder in folders]
        return sum(record[CHOSEN_BY] for record in records) / len(records)

    return max(TEMPERATURES, key=mean)


def evaluate_all(out: Path, jobs: int, seeds: int, base_too: bool) -> None:
    policies = {arm: (folders, ARMS[arm]["answers"]) for arm, folders in runs(out, seeds).items()}
    base = out / "train" / "base"
    tasks: list[Callable[[], None]] = []
    for temperature in TEMPERATURES:
        file = temperature_file(out, base, temperature)
        if base_too:
            tasks.append(lambda f=file, t=temperature: evaluate(f, "embedded:base", VALIDATION, 3, t))
        for folders, answers in policies.values():
            for folder in folders:
                file = temperature_file(out, folder, temperature)
                tasks.append(
                    lambda f=file, p=folder, m=answers, t=temperature: evaluate(f, str(p), VALIDATION, m, t, 1)
                )
    all_of(jobs, tasks)
    tasks = []
    for temperature in sorted({1.0, own_temperature(out, [base])}) if base_too else ():
        for m in (1, 3):
            file = test_file(out, f"base-m{m}", temperature)
            tasks.append(lambda f=file, t=temperature, m=m: evaluate(f, "embedded:base", TEST, m, t, 5))
    for folders, answers in policies.values():
        for temperature in sorted({1.0, own_temperature(out, folders)}):
            for folder in folders:
                file = test_file(out, folder.name, temperature)
                tasks.append(lambda f=file, p=folder, m=answers, t=temperature: evaluate(f, str(p), TEST, m, t))
    for arm, folders in clock_runs(out).items():
        for folder in folders:
            if folder.exists():
                file = test_file(out, f"clock-{folder.name}", 1.0)
                tasks.append(lambda f=file, p=folder, m=ARMS[arm]["answers"]: evaluate(f, str(p), TEST, m, 1.0))
    all_of(jobs, tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="where runs and evaluations are kept")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--seeds", type=int, default=5, help="training seeds of each arm")
    parser.add_argument("--stages", default="sweep,train,clock,evaluate,report")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="where the report is written")
    parser.add_argument(
        "--arms",
        default=",".join(["base", *ARMS]),
        help="only these; without base, their rows are put into the report that is there",
    )
    from bench import maze

    given = parser.parse_args()
    arms = given.arms.split(",")
    for arm in set(ARMS) - set(arms):
        del ARMS[arm], maze.ARMS[arm]  # this file's as it runs, and as the report imports it
    out, stages = given.output, given.stages.split(",")
    if "sweep" in stages:
        sweep(out, given.jobs)
    if "train" in stages:
        best = chosen(out)
        print("chosen on validation:", best, flush=True)
        tasks = [
            lambda a=arm, f=folders[seed], s=seed: train(f, a, s, best[a]["lr"], best[a]["kl"], f"--steps {STEPS}")
            for seed in range(given.seeds)
            for arm, folders in runs(out, given.seeds).items()
            if seed < len(folders)
        ]
        all_of(given.jobs, tasks)
    if "clock" in stages:
        best = chosen(out)
        budget = f"--steps 100000 --max-seconds {CLOCK_SECONDS}"
        tasks = [
            lambda a=arm, f=folders[seed], s=seed: train(f, a, s, best[a]["lr"], best[a]["kl"], budget)
            for seed in range(CLOCK_SEEDS)
            for arm, folders in clock_runs(out).items()
        ]
        all_of(given.jobs, tasks)
    if "evaluate" in stages:
        evaluate_all(out, given.jobs, given.seeds, "base" in arms)
    if "report" in stages:
        from bench.maze_report import replace_rows, write_report

        (write_report if "base" in arms else replace_rows)(out, given.results, given.seeds)


if __name__ == "__main__":
    main()
