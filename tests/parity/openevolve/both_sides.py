"""Each area of the parity suite as two functions: OpenEvolve's result for an input, and ours in the same form.

A result is plain data; "refused" stands for an error of any wording, "fault" for one of ours that stops a problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import logging
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from openevolve.config import Config, DatabaseConfig, EvaluatorConfig, LLMModelConfig
from openevolve.database import Program, ProgramDatabase
from openevolve.evaluator import Evaluator
from openevolve.llm.ensemble import LLMEnsemble
from openevolve.utils.code_utils import apply_diff_blocks, extract_diffs
from openevolve.utils.metrics_utils import get_fitness_score

from islands.population.archipelago import Archipelago, plan_moves
from islands.population.config import PopulationConfig
from problems import BadAddress, Problem, ScorerFault, resolve
from problems.contract import Score
from problems.openevolve.config import read_config
from problems.types import ScoredAnswer
from vpo.chain import parse_chain
from vpo.policies.address import parse_addresses
from vpo.servers.address import endpoint

logging.getLogger("openevolve").setLevel(logging.CRITICAL)
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
DIGITS = 9
Case = Mapping[str, Any]


def rounded(value: Any) -> Any:
    """Numbers to DIGITS, tuples as lists, flags as flags."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number):
        return round(float(value), DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """OpenEvolve prints tracebacks."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


# -- configuration: {yaml, key}: the models, or the value of one key ---------------------------------------------------


def their_configuration(case: Case, folder: Path) -> Any:
    (folder / "config.yaml").write_text(case["yaml"])
    try:
        config = Config.from_yaml(folder / "config.yaml")
        if "key" in case:
            return rounded(functools.reduce(getattr, case["key"].split("."), config))
        for model in config.llm.models:
            model.init_client = lambda given: given
        weights = LLMEnsemble(config.llm.models).weights
    except Exception:
        return "refused"
    models: list[LLMModelConfig] = config.llm.models
    return [
        [model.name, rounded(weight), model.temperature, model.top_p or 1.0, model.api_base.rstrip("/")]
        for model, weight in zip(models, weights, strict=True)
        if weight
    ]


_NAMES = {"random_seed": "seed", "num_islands": "islands"}


def our_configuration(case: Case, folder: Path) -> Any:
    (folder / "config.yaml").write_text(case["yaml"])
    try:
        settings = read_config(folder / "config.yaml").settings
    except BadAddress:
        return "refused"
    if "key" in case:
        name = case["key"].rpartition(".")[2]
        defaults = {**{key: field.default for key, field in PopulationConfig.model_fields.items()}, "islands": 5}
        name = _NAMES.get(name, name)
        return rounded(settings.get(name, defaults.get(name)))
    addresses = parse_addresses(settings["policy"]) if "policy" in settings else []
    weights = [1.0 if one.common.weight is None else one.common.weight for one in addresses]
    models = []
    for one, weight in zip(addresses, weights, strict=True):
        own = one.common.model_dump(include={"temperature", "top_p"}, exclude_unset=True)
        used: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, **settings, **own}
        share = rounded(weight / sum(weights))
        url = endpoint(one).url.rstrip("/")
        models.append([one.model.partition("@")[0], share, used["temperature"], used["top_p"], url])
    return models


# -- fitness: {metrics: an expression of Python, dimensions} -----------------------------------------------------------

_EXPRESSION = """
import decimal, fractions
import numpy as np


def evaluate(path):
    return eval(open(path).read())
"""


def their_fitness(case: Case, folder: Path) -> Any:
    import decimal
    import fractions

    metrics = eval(case["metrics"], {"np": np, "decimal": decimal, "fractions": fractions})
    return rounded(get_fitness_score(metrics, case.get("dimensions", ["complexity", "diversity"])))


@functools.cache
def _expressions(folder: Path, dimensions: tuple[str, ...]) -> Problem:
    folder = folder / "-".join(("fitness", *dimensions))
    folder.mkdir()
    (folder / "evaluator.py").write_text(_EXPRESSION)
    (folder / "initial_program.txt").write_text(repr({"a": 1.0, **dict.fromkeys(dimensions, 1.0)}))
    if dimensions:
        (folder / "config.yaml").write_text(yaml.safe_dump({"database": {"feature_dimensions": list(dimensions)}}))
    (problem,) = resolve(str(folder))
    return problem


def our_fitness(case: Case, folder: Path) -> Any:
    problem = _expressions(folder.parent, tuple(case.get("dimensions", ())))
    try:
        score = problem.score(case["metrics"])
    except ScorerFault:
        return "fault"
    if case.get("error"):  # also whether the answer has failed
        return [rounded(score.fitness), score.error is not None]
    return rounded(score.fitness)


# -- edits: {parent, reply}: the child ---------------------------------------------------------------------------------


def their_edits(case: Case, folder: Path) -> str:
    """As openevolve.process_parallel makes a child."""
    try:
        blocks = extract_diffs(case["reply"])
    except ValueError:
        return "refused"
    child, applied = apply_diff_blocks(case["parent"], blocks)
    return "refused" if applied == 0 or child == case["parent"] else child


def our_edits(case: Case, folder: Path) -> str:
    chain = parse_chain(case["reply"], "python", 1, diff_parent=case["parent"])
    return chain.answers[0] if chain.answers else "refused"


# -- cascade: {evaluator settings, stages: bodies of functions in the program}: metrics and fitness --------------------

_LOAD = """
import importlib.util
import math
import time
import numpy as np


def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program
"""
_PROGRAM = "import math\nimport time\nimport numpy as np\n"


def _bodies(stages: Mapping[str, str]) -> str:
    return "".join(f"def {name}():\n{textwrap.indent(body, '    ')}\n" for name, body in stages.items())


def _evaluator(case: Case) -> str:
    names = ["evaluate", *(name for name in case["stages"] if name != "evaluate")]
    lines = [f"\n\ndef {name}(path):\n    return load(path).{name}()\n" for name in names]
    return _LOAD + "".join(lines) + case.get("more", "")


def their_cascade(case: Case, folder: Path) -> Any:
    (folder / "evaluator.py").write_text(_evaluator(case))
    config = EvaluatorConfig(**{"timeout": 60, **case.get("evaluator", {}), "max_retries": 0})
    program = _PROGRAM + _bodies({"evaluate": "return {}", **case["stages"]})
    with quiet():
        evaluator = Evaluator(config, str(folder / "evaluator.py"))
        metrics = asyncio.run(evaluator.evaluate_program(program, "p"))
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float | np.bool_)}
    fitness = rounded(get_fitness_score(metrics, ["complexity", "diversity"]))
    failed = not numbers.keys() - {"error", "timeout", "stage1_passed"}
    return {"fitness": fitness, **({} if failed else {"metrics": rounded(numbers)})}


def our_cascade(case: Case, folder: Path) -> Any:
    (folder / "evaluator.py").write_text(_evaluator(case))
    (folder / "initial_program.py").write_text(_bodies(dict.fromkeys(["evaluate", *case["stages"]], "return {'s': 1}")))
    (folder / "config.yaml").write_text(yaml.safe_dump({"evaluator": {"timeout": 60, **case.get("evaluator", {})}}))
    (problem,) = resolve(str(folder))
    program = _PROGRAM + _bodies({"evaluate": "return {}", **case["stages"]})
    try:
        score = problem.score(program)
    except ScorerFault:
        return "fault"
    evaluation: Any = problem._evaluate(program)[0]  # type: ignore[attr-defined]
    numbers = {**evaluation.metrics, **evaluation.flags}
    failed = not numbers.keys() - {"error", "timeout"}
    return {"fitness": rounded(score.fitness), **({} if failed else {"metrics": rounded(numbers)})}


# -- population: {database, range of the feature, programs: [feature, score]}: who is there when all are added


def _database(case: Case) -> ProgramDatabase:
    database = ProgramDatabase(DatabaseConfig(**{"num_islands": 1, "feature_dimensions": ["m"], **case["database"]}))
    if "range" in case:
        low, high = case["range"]
        database.feature_stats["m"] = {"min": low, "max": high, "values": []}
    return database


def their_population(case: Case, folder: Path) -> Any:
    database = _database(case)
    for number, (feature, score) in enumerate(case["programs"]):
        metrics = {"m": feature} | ({"error": 0.0} if score is None else {"combined_score": score})
        database.add(Program(id=str(number), code=f"c{number}", metrics=metrics))
    top = database.get_top_programs(1000, island_idx=0)
    best = database.get_best_program()
    cells = {key: int(id) for key, id in database.island_feature_maps[0].items()}
    return {
        "members": sorted(int(program.id) for program in top),
        "ranked": [rounded(get_fitness_score(program.metrics, ["m"])) for program in top],  # equal ones in any order
        "best": best and int(best.id),
        "archive": sorted(map(int, database.archive)),
        "cells": cells,
    }


def _memory(case: Case) -> Archipelago:
    names = {"num_islands": "islands"}
    given = {names.get(key, key): value for key, value in case["database"].items()}
    memory = Archipelago(PopulationConfig(**{"islands": 1, "feature_dimensions": ("m",), **given}), ("a",))
    if "range" in case:
        memory.space.low, memory.space.high = [[end] for end in case["range"]]
    return memory


def _add(memory: Archipelago, id: int, feature: float, score: float | None, island: int = 0) -> None:
    text = f"c{id}"
    failed = Score.failure(1, "failed") if score is None else None
    answer = ScoredAnswer(text, text.encode(), failed or Score((0.0,), score or 0.0, {"m": feature}))
    (measures,) = memory.measure([answer])
    memory.columns.append(id, answer.identity, answer.score.fitness, (0.0,), measures, 0, failed is None)
    memory.add_group(island, None, [id], {id})


def our_population(case: Case, folder: Path) -> Any:
    memory = _memory(case)
    for number, (feature, score) in enumerate(case["programs"]):
        _add(memory, number, feature, score)
    islands = memory
    (island,) = islands.islands
    return {
        "members": sorted(island.members),
        "ranked": [rounded(memory.columns.fitness[number]) for number in island.falling()],
        "best": islands.best,
        "archive": [number for number in range(len(case["programs"])) if (number, 0) in islands.hall._all],
        "cells": {"-".join(map(str, cell)): number for cell, number in sorted(island.archive.cells.items())},
    }


# -- bins: {database, values: one metrics mapping per program}: the cell of each when it is added ----------------------


def their_bins(case: Case, folder: Path) -> Any:
    database, cells = _database(case), []
    for number, metrics in enumerate(case["values"]):
        given = dict(metrics)
        program = Program(id=str(number), code=given.pop("code", f"c{number}"), metrics=given)
        cells.append(database._calculate_feature_coords(program))
        database.programs[program.id] = program
    return cells


def our_bins(case: Case, folder: Path) -> Any:
    memory, cells = _memory(case), []
    space = memory.space
    for number, metrics in enumerate(case["values"]):
        given = dict(metrics)
        text = given.pop("code", f"c{number}")
        measured = space.measure(text, Score((0.0,), get_fitness_score(given), given))
        space.observe(measured)
        cells.append(list(space.cell(measured)))
    return cells


# -- migration: {database, islands: scores of each, then: more of each before the next call}: scores after each call


def _rounds(case: Case) -> list[list[list[float]]]:
    return [case["islands"], *case.get("then", [])]


_WIDE = {"feature_dimensions": ["m"], "feature_bins": 1000, "migration_interval": 1}


def their_migration(case: Case, folder: Path) -> Any:
    count = len(case["islands"])
    given = {"database": {**_WIDE, "num_islands": count, **case.get("database", {})}, "range": [0.0, 1000.0]}
    database = _database(given)
    number, seen = 0, []
    for added in _rounds(case):
        for island, scores in enumerate(added):
            for score in scores:
                metrics = {"m": score, "combined_score": score} if score is not None else {"m": 500.0, "error": 0.0}
                database.add(Program(id=str(number), code=f"c{number}", metrics=metrics), target_island=island)
                number += 1
        database.migrate_programs()
        members = [[database.programs[id].metrics for id in island] for island in database.islands]
        seen.append([sorted(metrics.get("combined_score", 0.0) for metrics in island) for island in members])
    return rounded(seen)


def our_migration(case: Case, folder: Path) -> Any:
    count = len(case["islands"])
    given = {"database": {**_WIDE, "num_islands": count, **case.get("database", {})}, "range": [0.0, 1000.0]}
    memory = _memory(given)
    number, seen = 0, []
    for added in _rounds(case):
        for island, scores in enumerate(added):
            for score in scores:
                _add(memory, number, 500.0 if score is None else score, score, island)
                number += 1
        moves = plan_moves(memory.islands, memory.config.migration_rate)
        memory.migrate([(source, target, memory.columns.ids[ordinal]) for source, target, ordinal in moves])
        seen.append([sorted(memory.columns.fitness[one] for one in island.falling()) for island in memory.islands])
    return rounded(seen)


SIDES: dict[str, tuple[Callable[[Case, Path], Any], Callable[[Case, Path], Any]]] = {
    name.removeprefix("their_"): (theirs, globals()["our_" + name.removeprefix("their_")])
    for name, theirs in list(globals().items())
    if name.startswith("their_")
}
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \|", re.MULTILINE)


def documented(guide: Path) -> Sequence[str]:
    """The ids of the guide's table of differences."""
    (table,) = re.findall(r"\n## Where results differ\n(.*?)\n## ", guide.read_text(encoding="utf-8"), re.DOTALL)
    return _ROW.findall(table)
