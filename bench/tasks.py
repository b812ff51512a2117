"""The VPO paper's comparison on a text task: GRPO and VPO from one small base at equal answers, on musique:synthetic.

    python bench/tasks.py -o DIR [--seeds 3] [--steps 25] [--level full]

Trains both arms from embedded:musique with every seed on the training set, evaluates them and the base on the test set
(30 answers a question, temperature 1) and writes bench/results/tasks.md and tasks.json. What has run is not run again,
and a training that was stopped goes on. All in one process, one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ARMS: dict[str, dict[str, int]] = {"grpo": {"prompts": 18, "answers": 1}, "vpo": {"prompts": 6, "answers": 3}}
"""288 answers a step each."""
RL: dict[str, Any] = {"rollouts": 16, "betas": (0.9, 0.95), "warm_up": 5, "token_budget": 8192, "lr": 5e-4, "kl": 0.0}
BASE = "embedded:musique"
BY_HAND = "<!-- the rest is written by hand -->"
"""In tasks.md; what stands behind it is kept."""
PAPER = (
    ("MuSiQue (Qwen3-1.7B)", "grpo", ".728", ".054"),
    ("MuSiQue (Qwen3-1.7B)", "vpo", ".832", ".59"),
    ("EUREQA (Qwen3-8B)", "grpo", ".236", ".119"),
    ("EUREQA (Qwen3-8B)", "vpo", ".279", ".51"),
    ("ToolRL (Qwen3-1.7B)", "grpo", ".925", ".044"),
    ("ToolRL (Qwen3-1.7B)", "vpo", ".952", "1.30"),
)
"""Task, arm, best@30 and diversity, as reported in arXiv 2605.22817."""


def questions(level: str) -> str:
    return "musique:synthetic" + ("" if level == "full" else f"-{level}")


def train(out: Path, arm: str, seed: int, steps: int, level: str) -> None:
    import evo

    folder = out / f"{arm}-seed{seed}"
    if (folder / "config.json").exists():
        return
    if (folder / "train.json").exists():
        evo.train(resume=str(folder), progress=False)
    else:
        evo.train(
            *(arm, f"{questions(level)}-train"), policy=BASE, steps=steps, output=str(folder),
            seed=seed, save_every=25, keep=1, progress=False, **ARMS[arm], **RL,
        )  # fmt: skip
    print(f"{time.strftime('%H:%M:%S')}  trained {folder.name}", flush=True)


def evaluate(out: Path, name: str, answers: int, level: str) -> None:
    import evo

    file = out / f"{name}-{level}-m{answers}.json"
    if file.exists():
        return
    policy = BASE if name == "base" else str(out / name)
    found = evo.evaluate(
        questions(level), policy=policy, answers=answers, answers_total=30, temperature=1.0,
        output=str(file), progress=False,
    )  # fmt: skip
    told = "  ".join(f"{key} {found[key]:.3f}" for key in ("best@1", "best@3", "best@10", "best@30", "diversity"))
    print(f"{time.strftime('%H:%M:%S')}  {file.stem}: {told}", flush=True)


def write_report(out: Path, results: Path, seeds: int, steps: int, level: str) -> None:
    from bench.maze_report import COMPARED, described, difference_table, gap, results_table, values_of
    from bench.maze_report import TABLE as figures
    from bench.tables import markdown
    from evo.evaluation.metrics import is_rate

    def files(arm: str, answers: int) -> list[Path]:
        return [out / f"{arm}-seed{seed}-{level}-m{answers}.json" for seed in range(seeds)]

    values = {
        "base, single answers": values_of([out / f"base-{level}-m1.json"]),
        "base, chains of 3": values_of([out / f"base-{level}-m3.json"]),
        **{arm: values_of(files(arm, shape["answers"])) for arm, shape in ARMS.items()},
        "vpo, single answers": values_of(files("vpo", 1)),
    }
    pairs = (
        ("vpo", "grpo"),
        ("vpo, single answers", "grpo"),
        ("vpo", "base, chains of 3"),
        ("grpo", "base, single answers"),
    )
    about = json.loads((out / "vpo-seed0" / "train.json").read_text())
    record = {
        "commit": about["commit"],
        "start": about["start"],
        "tables": {arm: {name: described(v[name], is_rate(name)) for name in figures} for arm, v in values.items()},
        "differences": {
            f"{a} - {b}": {name: gap(values[a][name], values[b][name], is_rate(name)) for name in COMPARED}
            for a, b in pairs
        },
    }
    settings = ", ".join(f"{name} {value}" for name, value in RL.items())
    parts = [
        "# Text tasks: GRPO and VPO from one small base",
        f"`python bench/tasks.py -o DIR --seeds {seeds} --steps {steps} --level {level}`, from `{BASE}` (commit "
        f"{record['commit']}).\nBoth arms: {steps} steps of 288 answers on {questions(level)}-train ({settings}; "
        f"single answers or chains of 3).\nTest: {questions(level)}, 100 questions with other names, 30 answers each, "
        f"temperature 1, {seeds} training seeds.\nBrackets: 95% intervals over questions and training seeds; bold: the "
        "interval excludes 0.",
        results_table(record["tables"]),
        difference_table(record["differences"]),
        "## Next to the paper",
        "This is another model of another size, with made-up facts instead of Wikipedia: only the order of the arms "
        "can be compared.",
        markdown([["task", "arm", "best@30", "diversity"], *paper_rows(record["tables"], level)]),
    ]
    page = results / "tasks.md"
    by_hand = page.read_text().partition(BY_HAND)[2] if page.exists() else "\n"
    (results / "tasks.json").write_text(json.dumps(record, indent=1) + "\n")
    page.write_text("\n\n".join([*parts, BY_HAND]) + by_hand)
    print(f"wrote {page}")


def paper_rows(tables: dict[str, Any], level: str) -> list[Sequence[str]]:
    ours = [
        (f"{questions(level)} (0.4M)", arm, f"{row['best@30']['mean']:.3f}", f"{row['diversity']['mean']:.3f}")
        for arm, row in tables.items()
    ]
    return [*ours, *PAPER]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--level", default="full", choices=("easy", "medium", "full"))
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    given = parser.parse_args()
    for answers in (1, 3):
        evaluate(given.output, "base", answers, given.level)
    for seed in range(given.seeds):
        for arm, shape in ARMS.items():
            train(given.output, arm, seed, given.steps, given.level)
            for answers in sorted({shape["answers"], 1}):
                evaluate(given.output, f"{arm}-seed{seed}", answers, given.level)
    write_report(given.output, given.results, given.seeds, given.steps, given.level)


if __name__ == "__main__":
    main()
