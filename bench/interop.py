"""What importing and exporting OpenEvolve's checkpoints costs, beside OpenEvolve's own load and save of the same.

    python bench/interop.py [--sizes 100,1000,10000] [--repeats 3] [--db URL] [--markdown FILE] [--json FILE]

The checkpoint is written by OpenEvolve itself: programs of about 1,300 characters that all differ in syntax tree, five
islands, a prompt with its response and an artifact each, every twentieth a migrant's copy. Both sides work in turns,
each in the best of `--repeats`; every export is loaded by OpenEvolve and compared with what it had saved. Importing
does what loading does not: it checks every file, identifies programs by syntax tree, measures the grid's features, and
commits all to a database; its parts are told apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

OBJECTIVES = ("speed", "accuracy")
ISLANDS = 5
PROMPT = "Improve this program. " * 90


class Weighed:
    """The problem that the checkpoint is of."""

    name, objectives, target, answer_format, inline = "weighed", OBJECTIVES, None, "python", True

    def statement(self) -> str:
        return "Improve the program."

    def seed_answer(self) -> str:
        return code(0)

    def canonical(self, answer: str) -> str:
        return answer

    def score(self, answer: str) -> Any:
        raise RuntimeError("everything is scored already")


def code(i: int) -> str:
    steps = "\n".join(f"    total = (total * {i % 89 + k} + x // {k + 2}) % 1000003  # step {k}" for k in range(18))
    return f'"""Program {i}."""\n\n\ndef run(x):\n    total = {i}\n{steps}\n    return total\n'


def made_up(size: int) -> Any:
    """OpenEvolve's database with `size` programs. Put together by hand: adding them one by one takes it minutes."""
    from openevolve.config import DatabaseConfig
    from openevolve.database import Program, ProgramDatabase

    database = ProgramDatabase(DatabaseConfig(num_islands=ISLANDS, population_size=10**9, log_prompts=True))
    chance = random.Random(0)
    for i in range(size):
        parent = None if i == 0 else database.programs[f"p{chance.randrange(max(0, i - 200), i)}"]
        copy = parent is not None and i % 20 == 0 and not parent.metadata.get("migrant")
        island = (parent.metadata["island"] + 1) % ISLANDS if copy else i % ISLANDS
        metrics = {"speed": chance.random(), "accuracy": chance.random()}
        metrics["combined_score"] = sum(metrics.values()) / 2
        program = Program(
            id=f"p{i}",
            code=parent.code if copy else code(i),
            language="python",
            parent_id=parent.id if parent else None,
            generation=0 if parent is None else parent.generation + (not copy),
            timestamp=1.7e9 + i,
            iteration_found=0 if copy else i,
            metrics=dict(parent.metrics) if copy else metrics,
            metadata={"island": island, **({"migrant": True} if copy else {"changes": "full rewrite"})},
            artifacts_json=None if copy else json.dumps({"stdout": f"ran {i} steps " * 8}),
        )
        database.programs[program.id] = program
        database.islands[island].add(program.id)
        database.island_feature_maps[island][f"{i % 10}-{i // 10 % 10}"] = program.id
        if parent is not None and not copy:
            asked = {"system": "You improve programs.", "user": PROMPT + parent.code}
            database.log_prompt(program.id, "full_rewrite_user", asked, [f"```python\n{program.code}\n```"])
    database.best_program_id = max(database.programs, key=lambda id: database.programs[id].metrics["combined_score"])
    database.archive = set(random.Random(1).sample(sorted(database.programs), min(100, size)))
    database.last_iteration = size - 1
    return database


def loaded(path: Path) -> Any:
    from openevolve.config import DatabaseConfig
    from openevolve.database import ProgramDatabase

    database = ProgramDatabase(DatabaseConfig(num_islands=ISLANDS, population_size=10**9))
    database.load(str(path))
    return database


def timed(parts: dict[str, float], part: str, work: Callable[[], Any]) -> Any:
    """The result; the seconds are kept under `part` if they are the fewest so far."""
    gc.collect()
    started = time.perf_counter()
    result = work()
    parts[part] = min(parts.get(part, float("inf")), time.perf_counter() - started)
    return result


def measure(size: int, repeats: int, db: str | None) -> dict[str, Any]:
    """Seconds by part for one size."""
    from islands.db.store import Store
    from islands.interop.checkpoint import read_checkpoint
    from islands.interop.exporting import CheckpointExport
    from islands.interop.importing import RunPlan, import_checkpoint
    from islands.interop.metrics import score_of
    from islands.interop.timeline import timeline
    from islands.population.config import PopulationConfig
    from problems.contract import complete_problem

    logging.disable(logging.WARNING)
    problem, parts = complete_problem(Weighed()), dict[str, float]()
    assert problem is not None
    database = made_up(size)
    folder = Path(tempfile.mkdtemp(prefix="interop-"))
    try:
        for turn in range(repeats):
            theirs, ours = folder / f"theirs-{turn}", folder / f"ours-{turn}"
            timed(parts, "OpenEvolve save", lambda path=theirs: database.save(str(path), size - 1))
            before = timed(parts, "OpenEvolve load", lambda path=theirs: loaded(path))
            checkpoint = timed(parts, "read", lambda path=theirs: read_checkpoint(path))
            line = timed(parts, "identify and order", lambda read=checkpoint: timeline(read, "python"))
            scores = [score_of(program, problem) for program in line.first]
            with Store.open(db or f"sqlite:///{folder}/{turn}.db") as store:
                plan = RunPlan(None, "bench", "", 0, {"policy": "openevolve"})
                config = PopulationConfig(strategy="openevolve", islands=ISLANDS, population_size=size + ISLANDS)
                imported = timed(
                    parts,
                    "store",
                    lambda store=store, plan=plan, config=config, read=checkpoint, line=line, told=scores: (
                        import_checkpoint(store, plan, read, line, problem, "weighed", told, config)
                    ),
                )
                record = store.problems(imported.run.id)[0]
                timed(
                    parts,
                    "export",
                    lambda store=store, run=imported.run, record=record, path=ours: CheckpointExport(
                        store, run, record
                    ).write(path),
                )
            after = loaded(ours)
            same = before.programs == after.programs and before.islands == after.islands
            if not same or before.archive != after.archive or before.best_program_id != after.best_program_id:
                raise SystemExit(f"{size} programs: OpenEvolve does not load what it had saved")
            shutil.rmtree(theirs)
            shutil.rmtree(ours)
    finally:
        shutil.rmtree(folder)
    parts["import"] = parts["read"] + parts["identify and order"] + parts["store"]
    return {"programs": size, "seconds": {part: round(seconds, 3) for part, seconds in parts.items()}}


def row(result: dict[str, Any]) -> str:
    s = result["seconds"]
    cells = [
        f"{result['programs']:,}",
        *(f"{s[part]:.2f}" for part in ("OpenEvolve load", "import")),
        f"{s['import'] / s['OpenEvolve load']:.1f}",
        *(f"{s[part]:.2f}" for part in ("read", "identify and order", "store", "OpenEvolve save", "export")),
        f"{s['export'] / s['OpenEvolve save']:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--db", help="an empty database to import into; default: a new SQLite file each time")
    parser.add_argument("--markdown", help="write the table there")
    parser.add_argument("--json", help="write the figures there")
    given = parser.parse_args()
    results = [measure(int(size), given.repeats, given.db) for size in given.sizes.split(",")]
    titles = (
        "programs", "OpenEvolve load", "import", "times", "of it: read", "identify, order", "store",
        "OpenEvolve save", "export", "times",
    )  # fmt: skip
    table = "\n".join([f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *map(row, results)])
    print(table)
    if given.markdown:
        Path(given.markdown).write_text(table + "\n")
    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
