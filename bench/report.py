"""What `evo report` costs on a comparison of 200 problems x 4 arms x 200 iterations: time, memory, size, load time.

    python -m bench.report [--problems 200] [--iterations 200] [--arms 4] [--seeds 1] [--json FILE]

The database is made up, through the real schema, by bulk inserts: routes of about the right length, reward vectors on a
grid as a maze's are, parents among the best so far, elites, prompts and token ids of the usual size. The report itself
is the command as users run it, in a process of its own. The page is opened in headless Chromium (playwright) where that
is installed: the time until everything is decoded and drawn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select, update

from islands.blobs import pack_floats, pack_ids, pack_texts
from islands.comparisons import PlannedRun, plan
from islands.population.sums import fitness_bin, is_better
from islands.schema import Answer, Candidate, Problem, PromptGroup, PromptText, Rollout
from islands.store import Store
from islands.types import RunRecord
from problems.contract import Score
from problems.likeness import share_kept

OBJECTIVES = ("completion", "gold", "diamond", "safety")
DIMENSIONS = ("diamond", "gold", "length")
ANSWERS = 3
TOKENS = 25
PROMPT = "Find a route from S to E.\n" + "#..g.#..d\n" * 60
REPEATS = 0.2
ARMS = ("base", "best-of-n", "grpo", "vpo", "max-at-k", "maxrl", "gdpo", "multi-rlvr")


def made_up(address: str, *, problems: int, iterations: int, arms: int, seeds: int, name: str = "made-up") -> int:
    """Fill a database with a finished comparison; returns how many answers it holds."""
    total = 0
    with Store.open(address) as store:
        runs = [
            PlannedRun(
                arm, seed, {"policy": f"made:{arm}", "iterations": iterations, "rollouts": 1, "answers": ANSWERS}
            )
            for seed in range(seeds)
            for arm in ARMS[:arms]
        ]
        plan(store, name, runs, command=f"evo compare made-up --iterations {iterations}", commit="0" * 12)
        for number, run in enumerate(store.runs(name)):
            with store.begin() as tx:
                version = store.policy_version(run.id, f"made:{run.arm}@0", tx)
                total += _searched(store, tx.connection, run, version, problems, iterations, number)
            store.finish_run(run.id, "done", summary={"seconds": 100.0, "commit_seconds": 10.0})
    return total


def _searched(
    store: Store, connection: Connection, run: RunRecord, version: int, problems: int, iterations: int, number: int
) -> int:
    """One run's rows. `number` decides every draw."""
    rng = np.random.default_rng([7, number])
    skill = 0.3 + 0.1 * (number % len(ARMS))
    first = {kind: (connection.execute(select(kind.c.id).order_by(kind.c.id.desc()).limit(1)).scalar() or 0) + 1
             for kind in (Problem, PromptGroup, Rollout, Candidate)}  # fmt: skip
    connection.execute(
        insert(Problem),
        [
            dict(
                id=first[Problem] + index, run_id=run.id, index=index, address=f"made-up/{index}",
                name=f"made-up/{index}", objectives=list(OBJECTIVES), target=0.74, answer_format="route",
                status="active", message="", dimensions=list(DIMENSIONS),
            )
            for index in range(problems)
        ],
    )  # fmt: skip
    group_id, candidate_id, answers = first[PromptGroup], first[Candidate], 0
    for index in range(problems):
        problem, rows = first[Problem] + index, _Rows()
        hardness = rng.random()
        best, best_id, solved, stored = -1.0, None, None, []
        known: dict[int, tuple[str, float]] = {}
        for iteration in range(iterations):
            sequence = iteration * problems + index
            rows.groups.append(
                dict(
                    id=group_id, run_id=run.id, problem_id=problem, sequence=sequence, iteration=iteration,
                    island=iteration % 5, operator=0, parent_id=best_id, inspirations=[], seed=run.seed,
                    stream=sequence, temperature=1.0, policy_version_id=version, answers=ANSWERS,
                    sampling_seconds=0.02, scoring_seconds=0.001, created=0.0, given=ANSWERS, born=0, repeats=0,
                    missing=0, tokens=TOKENS, prompt_tokens=0, cost=0.0, scored_seconds=ANSWERS * 1e-4, errors=None,
                    best=None, best_fitness=None, parent_bin=-1, better=0, copies=0, compared=0, kept=0.0, cells=None,
                )
            )  # fmt: skip
            texts = pack_texts(("", PROMPT, ""))
            rows.prompts.append(
                dict(group_id=group_id, base=None, texts=texts, token_ids=zlib.compress(pack_ids(np.arange(300))))
            )
            row, shown = rows.groups[-1], best_id
            parent = None if shown is None else Score((best,), best)
            row["parent_bin"] = fitness_bin(parent, 0.74)
            ids = rng.integers(0, 300, TOKENS)
            rows.rollouts.append(
                dict(
                    id=group_id, group_id=group_id, position=0, text="R" * 60, token_ids=pack_ids(ids),
                    logprobs=pack_floats(rng.normal(size=TOKENS)), finish="stop", format_error=None,
                )
            )  # fmt: skip
            for position in range(ANSWERS):
                answers += 1
                if stored and rng.random() < REPEATS:
                    id, repeat = stored[int(rng.integers(len(stored)))], True
                else:
                    id, repeat = candidate_id, False
                    candidate_id += 1
                    progress = min(1.0, iteration / iterations + 0.1)
                    vector = (rng.random(4) ** (1.2 + hardness - skill * progress) * 4).round() / 4
                    fitness = float(vector.mean())
                    route = "".join(rng.choice(list("UDLR"), 22))
                    rows.candidates.append(
                        dict(
                            id=id, problem_id=problem, group_id=group_id, sequence=sequence, text=f"{route}{id}",
                            identity=hashlib.sha256(f"{problem}/{id}".encode()).digest(), rewards=vector.tolist(),
                            fitness=fitness, features={}, measures=[vector[2], vector[1], 22.0], feedback="",
                            error=None, generation=0, island=iteration % 5, parent_id=best_id, created=0.0,
                        )
                    )  # fmt: skip
                    stored.append(id)
                    if fitness > best:
                        best, best_id = fitness, id
                        row["best"], row["best_fitness"] = id, fitness
                        solved = sequence if solved is None and fitness >= 0.74 else solved
                    known[id] = (f"{route}{id}", fitness)
                row["repeats" if repeat else "born"] += 1
                text, reached = known[id]
                if parent is not None:
                    row["better"] += is_better(Score((reached,), reached), parent)
                    row["copies"] += id == shown
                    share = share_kept(known[shown][0], text, "route")
                    row["compared"], row["kept"] = row["compared"] + (share is not None), row["kept"] + (share or 0.0)
                rows.answers.append(
                    dict(rollout_id=group_id, position=position, candidate_id=id, repeat=repeat, seconds=1e-4)
                )
            group_id += 1
        archive: list[list[Any]] = []
        for island in range(5):
            cells = {f"{rng.integers(10)}-{rng.integers(10)}-{rng.integers(10)}" for _ in range(12)}
            archive += [[island, cell, stored[int(rng.integers(len(stored)))]] for cell in sorted(cells)]
        rows.groups[-1]["cells"] = archive
        rows.write(connection)
        connection.execute(
            update(Problem).where(Problem.c.id == problem).values(
                best=best_id, best_fitness=best, solved_sequence=solved, status="active" if solved is None else "solved"
            )
        )  # fmt: skip
    return answers


class _Rows:
    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []
        self.rollouts: list[dict[str, Any]] = []
        self.candidates: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.prompts: list[dict[str, Any]] = []

    def write(self, connection: Connection) -> None:
        kinds = ((PromptGroup, self.groups), (Candidate, self.candidates), (Rollout, self.rollouts),
                 (Answer, self.answers), (PromptText, self.prompts))  # fmt: skip
        for kind, rows in kinds:
            connection.execute(insert(kind), rows)


def reported(address: str, page: Path, name: str = "made-up") -> dict[str, Any]:
    """Run the command, this process's first child; its seconds, also on a core, its most memory, what it wrote."""
    command = [sys.executable, "-m", "evo", "report", name, "--db", address, "-o", str(page), "--json"]
    started = time.perf_counter()
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    seconds = time.perf_counter() - started
    written, used = json.loads(ran.stdout), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "load": round(os.getloadavg()[0], 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "page_mb": round(written["bytes"] / 1e6, 2),
        "plots": len(written["plots"]),
        "plots_mb": round(sum(Path(path).stat().st_size for path in written["plots"]) / 1e6, 2),
    }


def loaded(page: Path, times: int = 5) -> dict[str, Any] | None:
    """Seconds until the page is loaded and every picture decoded, and elements in it; None without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            seconds = []
            for _ in range(times):
                tab = browser.new_page(viewport={"width": 1280, "height": 900})
                started = time.perf_counter()
                tab.goto(page.resolve().as_uri())
                tab.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
                seconds.append(time.perf_counter() - started)
                elements = tab.evaluate("document.querySelectorAll('*').length")
                tab.close()
        finally:
            browser.close()
    return {"seconds": [round(one, 3) for one in seconds], "elements": elements}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--arms", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="leave the database and the page there")
    parser.add_argument("--json", metavar="FILE", help="add the figures to FILE, by size")
    options = parser.parse_args()
    size = {key: getattr(options, key) for key in ("problems", "iterations", "arms", "seeds")}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / "made-up.db"
        started = time.perf_counter()
        answers = made_up(f"sqlite:///{database}", **size)
        made = time.perf_counter() - started
        found = {
            **size,
            "answers": answers,
            "database_mb": round(database.stat().st_size / 1e6),
            "database_seconds": round(made, 1),
            "report": reported(f"sqlite:///{database}", folder / "report.html"),
            "load": loaded(folder / "report.html"),
            "cpus": len(os.sched_getaffinity(0)),
        }
    print(json.dumps(found, indent=1))
    if options.json:
        path = Path(options.json)
        every = json.loads(path.read_text()) if path.exists() else {}
        every["x".join(map(str, size.values()))] = found
        path.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
