"""What the live screen and the export cost as a run grows long: CPU seconds and peak memory at 10^3 to 10^6 iterations.

    python bench/watch_length.py -o bench/results/watch_length.json

Makes a database of one finished run for each length (by SQL alone, 1.1 GB at 10^6) with one problem without a target,
whose best fitness rises 200 times, and reads the kernel's figures of `evo watch` on a pseudo-terminal, of `evo watch
--once` and of `evo export` in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.watch import Watched  # noqa: E402

NAME, RISES = "long", 200
_COUNT = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :iterations)"
_FILL = (
    f"""INSERT INTO prompt_groups (id, run_id, problem_id, sequence, iteration, island, parent_id, inspirations,
        stream, seed, temperature, policy_version_id, answers, operator, sampling_seconds, scoring_seconds, created,
        given, born, parent_bin, better, compared, kept, best, best_fitness, cells)
    {_COUNT} SELECT i + 1, :run, :problem, i, i, i % 5, NULL, '[]', i, 0, 1.0, :policy, 1, 0, 0.01, 0.001, :now,
        1, 1, i % 5, i % :step = 0, 1, 0.5, CASE WHEN i % :step = 0 THEN i + 1 END,
        CASE WHEN i % :step = 0 THEN (i / :step) * 1.0 / :rises END,
        CASE WHEN i < 50 THEN '[[' || (i % 5) || ', "' || (i + 1) || '", ' || (i + 1) || ']]' END FROM n""",
    f"""INSERT INTO prompts (group_id, texts, token_ids) {_COUNT} SELECT i + 1, :prompt, :none FROM n""",
    f"""INSERT INTO rollouts (id, group_id, position, text, token_ids, logprobs, finish, format_error)
    {_COUNT} SELECT i + 1, i + 1, 0, :text, x'', x'', 'stop', NULL FROM n""",
    f"""INSERT INTO candidates (id, problem_id, group_id, sequence, identity, text, rewards, fitness, features,
        measures, feedback, error, generation, island, parent_id, created)
    {_COUNT} SELECT i + 1, :problem, i + 1, i, CAST(i AS BLOB), :text, '[0.5, 0.5]', (i / :step) * 1.0 / :rises,
        '{{"length": 0.5}}', '[0.5]', 'feedback', NULL, i, i % 5, CASE WHEN i > 0 THEN i END, :now FROM n""",
    f"""INSERT INTO answers (rollout_id, position, candidate_id, repeat, seconds)
    {_COUNT} SELECT i + 1, 0, i + 1, 0, 0.001 FROM n""",
    """UPDATE problems SET best = :last, best_fitness = (SELECT fitness FROM candidates WHERE id = :last)
    WHERE id = :problem""",
)


def make(path: Path, iterations: int, planned: int | None = None) -> str:
    """The address of a database of one run of that length; it may have been planned longer."""
    from sqlalchemy import text

    from islands.blobs import pack_texts
    from islands.store import Store

    address = f"sqlite:///{path}"
    config = dict(
        problems=["maze:hard/0"], iterations=planned or iterations, rollouts=1, answers=1, policy="synthetic", seed=0
    )
    with Store.open(address) as store:
        run = store.create_run(NAME, config, command="bench", seed=0, commit="")
        problem = store.add_problem(run.id, 0, "maze:hard/0", "maze:hard/0", ("gold", "safety"), None, "route")
        step = max(1, iterations // RISES)
        with store.begin() as tx:
            bound = dict(
                run=run.id, problem=problem.id, policy=store.policy_version(run.id, "synthetic@1", tx), now=time.time(),
                iterations=iterations, step=step, rises=RISES, text="R" * 80,
                prompt=pack_texts(("", "x" * 600, "")), none=zlib.compress(b""),
                last=(iterations - 1) // step * step + 1,
            )  # fmt: skip
            for statement in _FILL:
                tx.connection.execute(text(statement), bound)
        store.finish_run(run.id, "done", summary={"answers": iterations, "seconds": 1.0})
    return address


def ended(arguments: list[str]) -> dict[str, float]:
    """An `evo` command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"evo {' '.join(arguments)}: {process.returncode}"
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


def watched(db: str, seconds: float) -> dict[str, float]:
    """`evo watch` on a pseudo-terminal for so long."""
    screen = Watched(db, NAME)
    try:
        began = time.monotonic()
        while b"iterations" not in screen.seen and time.monotonic() - began < 300:
            screen.drain(0.05)
        first = time.monotonic() - began
        screen.drain(seconds)
        used = screen.cpu()
        status = Path(f"/proc/{screen.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    finally:
        screen.end()
    return {
        "first_picture_seconds": round(first, 2),
        "cpu_seconds": round(used, 2),
        "watched_seconds": seconds,
        "peak_mb": round(peak / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("watch_length.json"))
    parser.add_argument("--lengths", type=int, nargs="+", default=[10**3, 10**5, 10**6])
    parser.add_argument("--export-upto", type=int, default=10**6, help="the longest that is exported, minutes of CPU")
    parser.add_argument("--seconds", type=float, default=15.0, help="of watching")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for iterations in options.lengths:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "long.db"
            db = make(path, iterations)
            traces = str(Path(folder) / "traces")
            found[str(iterations)] = {
                "database_mb": round(path.stat().st_size / 1e6),
                "watch": watched(db, options.seconds),
                "watch_once": ended(["watch", NAME, "--once", "--db", db]),
            } | {
                f"export_{kind}": ended(["export", NAME, "-o", f"{traces}.{kind}", "--db", db])
                for kind in ("jsonl", "parquet") if iterations <= options.export_upto
            }  # fmt: skip
        print(iterations, json.dumps(found[str(iterations)]), flush=True)
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
