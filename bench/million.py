"""What a run of a million candidates costs beside one of ten thousand, on SQLite or PostgreSQL.

    python bench/million.py [--database sqlite|postgresql] [--sizes 10000,1000000] [--folder DIR] [--json FILE]

`evo run` begins each run with bench/soak_scorer.py; then groups of 10 rollouts of 3 answers (some 150 characters each)
are added through Population.add, 500 to a transaction, because a real loop would take hours for no other rows. What is
measured afterwards: selections and groups of 3 a second in a population that has been restored; and as commands of
their own, with processor seconds and the most memory they took: resume (one iteration more), watch, report, export,
show, best, and the upgrade of a database that was put back to the first schema. Seconds are the processor's: those of
the wall say little on a machine that others use. A command's own start is taken off by `evo runs --help`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

import numpy as np  # noqa: E402
from postgres import PostgresServer  # noqa: E402
from sqlalchemy import text  # noqa: E402

from evo.config.run import RunConfig  # noqa: E402
from evo.search.defaults import population_config  # noqa: E402
from islands.db.store import Store  # noqa: E402
from islands.population.population import Population  # noqa: E402
from problems.contract import Score  # noqa: E402
from problems.identity import identity  # noqa: E402
from problems.registry import resolve  # noqa: E402
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout  # noqa: E402

SCORER = ROOT / "bench" / "soak_scorer.py"
ROLLOUTS, ANSWERS, GROUPS_PER_TRANSACTION = 10, 3, 500
SELECTIONS, GROUPS, ROUNDS = 2000, 60, 5
METER = """import os, sys
pid = os.fork()
if not pid:
    os.dup2(2, 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)"""
IDS, LOGPROBS = np.arange(60, dtype=np.int32), np.linspace(-3, -0.1, 60, dtype=np.float32)


def answer(rng: np.random.Generator, number: int) -> ScoredAnswer:
    words = f"{number} " + " ".join(map(str, rng.integers(0, 10**9, 14)))
    rewards = (float(rng.random()), float(rng.random()))
    return ScoredAnswer(words, identity(words, "text"), Score(rewards, sum(rewards) / 2), 0.001)


def group(population: Population, sequence: int, answers: list[ScoredAnswer], parent: int | None) -> ScoredGroup:
    rollouts = tuple(
        ScoredRollout(Rollout("text " * 30, IDS, LOGPROBS, IDS), tuple(answers[at : at + ANSWERS]))
        for at in range(0, len(answers), ANSWERS)
    )
    island = sequence % population.config.islands
    shown = Prompt("prompt " * 60)
    return ScoredGroup(
        population.problem.id, sequence, sequence, island, parent, (), shown, "filled", 3, ANSWERS, 1.0, rollouts
    )


def opened(store: Store) -> Population:
    (record,) = store.problems(store.run("run").id)
    (problem,) = resolve(str(SCORER))
    config = RunConfig.model_validate({"problems": [str(SCORER)], "policy": "scripted:mutate"})
    population = Population(store, record, population_config(config, problem))
    population.advance(None)
    return population


def fill(db: str, size: int) -> None:
    """A run of `size` candidates, going on from what is there."""
    begin = ["run", str(SCORER), "--policy", "scripted:mutate", "--iterations", "1", "--name", "run", "--plain"]
    if command(begin, db)["code"] not in (0, 2):
        raise RuntimeError("the run could not begin")
    with Store.open(db) as store:
        population, rng, started = opened(store), np.random.default_rng(size), time.process_time()
        while population.size < size:
            with store.begin() as tx:
                for _ in range(GROUPS_PER_TRANSACTION):
                    made = [answer(rng, int(rng.integers(10**15))) for _ in range(ROLLOUTS * ANSWERS)]
                    chosen = population_parent(population, rng)
                    population.add(group(population, population.sequence + 1, made, chosen), tx)
                    population.migrate_if_due(tx)
                    if population.size >= size:
                        break
            if population.size % 60_000 < 15_000:
                print(f"{db[:6]} {population.size:,} in {time.process_time() - started:.0f} s", flush=True)


def population_parent(population: Population, rng: np.random.Generator) -> int | None:
    if (population.sequence + 1) % 10:
        return None
    chosen = population.select(int(rng.integers(population.config.islands)), rng).parent
    return None if chosen is None else chosen.id


def measure_population(db: str) -> dict[str, float]:
    """Processor seconds a selection and a group of 3, least of the rounds, in a restored population."""
    with Store.open(db) as store:
        started = time.process_time()
        population = opened(store)
        found = {"restore_seconds": time.process_time() - started}
        rng = np.random.default_rng(1)
        for n in range(20_000):
            population.select(n % population.config.islands, rng)
        selecting, adding = [], []
        for _ in range(ROUNDS):
            started = time.process_time()
            for n in range(SELECTIONS):
                population.select(n % population.config.islands, rng)
            selecting.append((time.process_time() - started) / SELECTIONS)
            groups = [[answer(rng, int(rng.integers(10**15))) for _ in range(3)] for _ in range(GROUPS)]
            started = time.process_time()
            for made in groups:
                with store.begin() as tx:
                    population.add(group(population, population.sequence + 1, made, None), tx)
                    population.migrate_if_due(tx)
            adding.append((time.process_time() - started) / GROUPS)
        return {**found, "selection": min(selecting), "group": min(adding), "candidates": float(population.size)}


def command(words: list[str], db: str | None) -> dict[str, float]:
    """`evo WORDS` in a process of its own: processor seconds, MiB at most, exit code."""
    given = [sys.executable, "-m", "evo", *words, *(["--db", db] if db else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    # begun by a small process: what is largest in one's life counts the parent's size at the fork
    ended = subprocess.run([sys.executable, "-S", "-c", METER, *given], env=environment, capture_output=True, text=True)
    code, seconds, kib = map(float, ended.stdout.split())
    if code:
        print(f"{words}: {ended.stderr[-500:]}", flush=True)
    return {"seconds": seconds, "mib": kib / 1024, "code": code}


def measure_commands(db: str, folder: Path) -> dict[str, dict[str, float]]:
    with Store.open(db, read_only=True) as store:
        groups = store.scalar(text("SELECT count(*) FROM prompt_groups"))  # type: ignore[arg-type]
    words = {
        "resume": ["resume", "run", "--iterations", str(groups + 1), "--plain"],
        "watch": ["watch", "run", "--once"],
        "report": ["report", "run", "-o", str(folder / "report.html")],
        "export": ["export", "run", "-o", str(folder / "traces.jsonl")],
        "show": ["show", "run"],
        "best": ["best", "run"],
        "runs": ["runs"],
    }
    found = {}
    for name, given in words.items():
        found[name] = command(given, db)
        print(f"  {name}: {found[name]}", flush=True)
    (folder / "traces.jsonl").unlink(missing_ok=True)
    return found


def measure_upgrade(db: str) -> dict[str, float]:
    """Put back to the first schema, as far as that can be, then brought up by `evo runs upgrade`."""
    from alembic import command as alembic
    from alembic.config import Config

    with Store.open(db) as store, store._writer.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(ROOT / "islands" / "db" / "alembic"))
        config.attributes["connection"] = connection
        alembic.downgrade(config, "0001")
    return command(["runs", "upgrade"], db)


@contextlib.contextmanager
def databases(kind: str, folder: Path) -> Iterator[list[str]]:
    if kind == "sqlite":
        yield [f"sqlite:///{folder / f'{number}.db'}" for number in range(9)]
        return
    server = PostgresServer.start()
    try:
        for number in range(9):
            server._run("postgres", f"CREATE DATABASE million_{number}")
        yield [server.url(f"million_{number}") for number in range(9)]
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--sizes", default="10000,1000000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evo-million")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder: Path = options.folder / options.database
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"start": command(["runs", "--help"], None)}
    with databases(options.database, folder) as addresses:
        for size, db in zip(map(int, options.sizes.split(",")), addresses, strict=False):
            fill(db, size)
            own = found[f"{size}"] = {}
            for name, part in (
                ("commands", lambda db=db: measure_commands(db, folder)),
                ("population", lambda db=db: measure_population(db)),
                ("upgrade", lambda db=db: measure_upgrade(db)),
            ):
                try:
                    own[name] = part()
                except Exception as error:  # noqa: BLE001 - the other figures are wanted all the same
                    own[name] = f"{type(error).__name__}: {error}"[:500]
                print(size, name, json.dumps(own[name]), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1) + "\n")
    shutil.rmtree(folder / "report_plots", ignore_errors=True)


if __name__ == "__main__":
    main()
