"""Iterations a second of the search loop, ours beside OpenEvolve's, at several population sizes, in one process order.

    python -m bench.search_loop [--sizes 200,1000,10000,100000] [--json FILE]

Both sides: the same trivial problem directory (one EVOLVE-BLOCK, an evaluator that returns two numbers), an author that
answers at once with a rewrite of the parent, one answer an iteration, 5 islands, no population bound, 2 evaluators.
Each size is measured on a population filled to that size beforehand. Ours appears twice: `evaluator` runs evaluator.py
in the sandbox as a real search does, `inline` scores in process, so that the loop itself (selection, prompt, parsing,
one SQLite transaction a group) is what is timed. OpenEvolve keeps its population in memory between checkpoints; ours is
on disk after every iteration.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bench.instant_author import InstantAuthor

PROGRAM = '''"""A program to evolve."""


# EVOLVE-BLOCK-START
def value():
    x = {value}
    return x * 1.0
# EVOLVE-BLOCK-END


def run():
    return value()
'''
EVALUATOR = """def evaluate(path):
    source = open(path).read()
    return {"combined_score": (len(source) * 7919 % 1000) / 1000.0, "size": float(len(source))}
"""
CONFIG = """max_iterations: 100000
diff_based_evolution: false
database:
  population_size: 100000000
  num_islands: 5
evaluator:
  cascade_evaluation: false
  parallel_evaluations: 2
"""


def write_problem(folder: Path) -> None:
    folder.mkdir()
    (folder / "initial_program.py").write_text(PROGRAM.format(value=1))
    (folder / "evaluator.py").write_text(EVALUATOR)
    (folder / "config.yaml").write_text(CONFIG)


def variant(i: int) -> str:
    """The i-th program: all differ in syntax tree and, in steps, in length."""
    return PROGRAM.format(value=f"{i} + " + "1" * (1 + i % 97))


# ---- OpenEvolve -------------------------------------------------------------------------------------------------


class Variants(InstantAuthor):
    """Answers with a new variant."""

    def reply(self, prompt: str) -> str:
        return f"```python\n{variant(10_000_000 + random.randrange(10**9))}\n```"


def instant_author(_: Any) -> Variants:
    return Variants()


def openevolve_rate(folder: Path, size: int, iterations: int) -> float:
    """Iterations a second of OpenEvolve's process-parallel controller on a population of `size`."""
    from openevolve.config import LLMModelConfig, load_config
    from openevolve.database import Program, ProgramDatabase
    from openevolve.process_parallel import ProcessParallelController

    logging.disable(logging.WARNING)
    config = load_config(folder / "config.yaml")
    config.llm.models = [LLMModelConfig(name="instant", init_client=instant_author)]
    config.llm.evaluator_models = config.llm.models
    config.language = "python"
    database = ProgramDatabase(config.database)
    for i in range(size):
        code = variant(i)
        score = (len(code) * 7919 % 1000) / 1000.0
        program = Program(
            id=f"p{i}", code=code, language="python", metrics={"combined_score": score, "size": float(len(code))}
        )
        database.add(program, iteration=0, target_island=i % 5)

    async def measured() -> float:
        controller = ProcessParallelController(config, str(folder / "evaluator.py"), database)
        controller.start()
        try:
            await controller.run_evolution(1, 4)  # the workers' imports are not the loop's cost
            started = time.perf_counter()
            await controller.run_evolution(5, iterations)
            return iterations / (time.perf_counter() - started)
        finally:
            controller.stop()

    return asyncio.run(measured())


# ---- ours -------------------------------------------------------------------------------------------------------


class InlineProblem:
    """The same problem scored in process."""

    name, objectives, target, answer_format, inline = "inline", ("size",), None, "python", True

    def statement(self) -> str:
        return "Improve the program."

    def seed_answer(self) -> str:
        return variant(0)

    def score(self, answer: str):  # noqa: ANN201
        from problems.contract import Score

        value = (len(answer) * 7919 % 1000) / 1000.0
        return Score((float(len(answer)),), value)


def our_rate(folder: Path, size: int, iterations: int, inline: bool) -> tuple[float, dict[str, float]]:
    """Iterations a second of evo's search on a population of `size`, and where the time went."""
    from evo.config.run import RunConfig
    from evo.runs import start as launching
    from evo.search import resources as shared
    from problems.contract import complete_problem
    from problems.registry import resolve

    problem: Any = complete_problem(InlineProblem()) if inline else resolve(str(folder))[0]
    shared.resolve_problems = lambda config: [problem]
    config = RunConfig.model_validate(
        {
            "problems": [str(folder)],
            "policy": "scripted:vary",
            "iterations": iterations,
            "answers": 1,
            "parallel": 8,
            "prompt": {"style": "evo"},
            "population": {"population_size": None},
        }
    )

    async def measured() -> tuple[float, dict[str, float]]:
        db = f"sqlite:///{folder.parent}/ours-{size}-{inline}.db"
        launched = await launching.launch(config, db=db, name="bench", command="bench")
        fill(launched, size)
        started = time.perf_counter()
        await launched.search.run()
        seconds = time.perf_counter() - started
        status = launched.status
        shares = {"commit": status.commit_seconds / seconds, "scoring": status.scoring_seconds / seconds}
        done = status.groups
        await launched.close()
        return done / seconds, shares

    return asyncio.run(measured())


def fill(launched: Any, size: int) -> None:
    """Add candidates as groups, a thousand to a transaction, until the population holds `size`."""
    from evo.search.schedule import Schedule
    from problems.identity import identity
    from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

    problem_run = launched.problem_runs[0]
    problem = InlineProblem()
    ids = np.zeros(8, np.int32)
    logprobs = np.zeros(8, np.float32)
    i = 0
    while problem_run.population.size < size:
        with launched.store.begin() as transaction:
            for _ in range(1000):
                i += 1
                text = variant(i)
                answer = ScoredAnswer(text, identity(text, "python"), problem.score(text))
                rollout = ScoredRollout(Rollout("", ids, logprobs, ids), (answer,))
                place = (problem_run.record.id, i - 1, i - 1, i % 5)
                group = ScoredGroup(*place, None, (), Prompt("filled"), "filled", 1, 0, 1.0, (rollout,))
                problem_run.population.add(group, transaction)
                if problem_run.population.size >= size:
                    break
    problem_run.built = problem_run.committed = i
    launched.core.schedule = Schedule(launched.problem_runs, i)
    problem_run.iterations += i


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200,1000,10000,100000")
    parser.add_argument("--rival-to", type=int, default=10_000, help="largest size the rival is measured at")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "problem"
        write_problem(folder)
        for size in map(int, arguments.sizes.split(",")):
            row: dict[str, Any] = {"candidates": size}
            if size <= arguments.rival_to:
                row["openevolve"] = openevolve_rate(folder, size, 200 if size <= 1000 else 6)
            row["evo_evaluator"], _ = our_rate(folder, size, 400, inline=False)
            row["evo_inline"], row["shares"] = our_rate(folder, size, 1000, inline=True)
            rows.append(row)
            print(json.dumps(row), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
