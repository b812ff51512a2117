"""Databases of OpenEvolve, grown by OpenEvolve itself, and the way from there into a store and back."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from pathlib import Path
from typing import Any

from openevolve.config import DatabaseConfig
from openevolve.database import Program, ProgramDatabase

from islands.db.store import Store
from islands.interop.checkpoint import read_checkpoint
from islands.interop.exporting import CheckpointExport
from islands.interop.importing import Imported, RunPlan, import_checkpoint
from islands.interop.metrics import score_of
from islands.interop.timeline import timeline
from islands.population.config import PopulationConfig
from islands.population.population import Population
from problems.contract import Problem, Score

logging.getLogger("openevolve").setLevel(logging.ERROR)


class Weighed(Problem):
    """A problem with two objectives; scoring is not what is tested here."""

    name, objectives, target, answer_format, inline = "weighed", ("speed", "accuracy"), 0.99, "python", True

    def statement(self) -> str:
        return "Improve the program."

    def seed_answer(self) -> str:
        return "def run(x):\n    return x\n"

    def score(self, answer: str) -> Score:
        return Score((0.25, 0.75), 0.5, {}, "scored here")


def code(i: int) -> str:
    return f'"""Größe {i} \u2603 \U0001f600"""\n\n\ndef run(x):\n    return x + {i}  # größer\n' + "#" * (i * 7 % 90)


def metrics_of(i: int, chance: random.Random) -> dict[str, Any]:
    if i % 10 == 7:
        return {"error": 0.0, "timeout": True} if i % 20 == 7 else {"error": 0.0}
    speed, accuracy = round(chance.random(), 3), round(chance.random(), 3)
    return {"speed": speed, "accuracy": accuracy, "combined_score": 0.3 * speed + 0.7 * accuracy, "note": "text"}


def grown(programs: int = 60, islands: int = 4, seed: int = 0) -> ProgramDatabase:
    """A search as OpenEvolve's controller makes it: children of sampled parents, failures, repeats, artifacts, logged
    prompts, migrations, and programs that were pushed out."""
    random.seed(seed)  # OpenEvolve draws from the module's own generator
    chance = random.Random(seed)
    database = ProgramDatabase(
        DatabaseConfig(num_islands=islands, population_size=45, archive_size=12, migration_interval=4, log_prompts=True)
    )
    first = Program(id=f"start-{seed}", code=code(0), metrics=metrics_of(0, chance), iteration_found=0)
    database.add(first)
    for i in range(1, programs):
        island = i % islands
        parent, _ = database.sample_from_island(island)
        number = i if i % 9 else max(1, i - 5)  # some say what was said before
        child = Program(
            id=f"{seed}-{i:04x}-ö",
            code=code(number),
            changes_description=f"change {i}",
            parent_id=parent.id,
            generation=parent.generation + 1,
            metrics=metrics_of(i, chance),
            metadata={"changes": f"change {i}", "parent_metrics": parent.metrics},
        )
        database.add(child, iteration=i, target_island=island)
        if i % 3 == 0:
            database.store_artifacts(child.id, {"stderr": f"Zeile {i}\n\u2603", "plot": bytes([i % 256, 255])})
        if i % 4:
            asked = {"system": "You improve programs.", "user": f"Improve this:\n{parent.code}"}
            database.log_prompt(
                child.id, "full_rewrite_user", asked, [f"```python\n{child.code}\n```"], {"total_tokens": i}
            )
        database.increment_island_generation(island)
        if database.should_migrate():
            database.migrate_programs()
    return database


def loaded(path: Path, islands: int = 4) -> ProgramDatabase:
    database = ProgramDatabase(DatabaseConfig(num_islands=islands, archive_size=12, random_seed=None))
    database.load(str(path))
    return database


def content(database: ProgramDatabase) -> dict[str, Any]:
    """Everything that OpenEvolve knows, in a form that compares."""
    programs = {id: json.dumps(dataclasses.asdict(p), sort_keys=True) for id, p in database.programs.items()}
    return {
        "programs": programs,
        "islands": database.islands,
        "cells": database.island_feature_maps,
        "archive": database.archive,
        "best": database.best_program_id,
        "island bests": database.island_best_programs,
        "iteration": (database.last_iteration, database.current_island),
        "generations": (database.island_generations, database.last_migration_generation),
        "ranges": json.dumps(database.feature_stats, sort_keys=True),
    }


def bring_in(store: Store, path: Path, problem: Any = None, name: str | None = None) -> Imported:
    """Import a checkpoint whose metrics tell all scores."""
    problem = problem or Weighed()
    checkpoint = read_checkpoint(path)
    line = timeline(checkpoint, problem.answer_format)
    scores = [score_of(program, problem) for program in line.first]
    assert all(score is not None for score in scores)
    plan = RunPlan(name, "evo import", "c0ffee", 0, {"policy": "openevolve"})
    config = population(checkpoint.islands)
    return import_checkpoint(store, plan, checkpoint, line, problem, problem.name, scores, config)  # type: ignore[arg-type]


def population(islands: int) -> PopulationConfig:
    own = {"islands": islands, "feature_bins": 5, "archive_size": 8, "migration_interval": 5}
    return PopulationConfig(strategy="openevolve", **own)


def replayed(store: Store, imported: Imported, islands: int) -> Population:
    """The population that a search going on with the run begins with."""
    problem = store.problems(imported.run.id)[0]
    made = Population(store, problem, population(islands))
    made.advance(None)
    return made


def send_out(store: Store, imported_or_run: Any, folder: Path) -> Path:
    """Export a run's only problem; the checkpoint's folder."""
    run = getattr(imported_or_run, "run", imported_or_run)
    export = CheckpointExport(store, store.run(run.name), store.problems(run.id)[0])
    place = export.folder(folder)
    export.write(place)
    return place
