"""Programs of OpenEvolve become a finished run: those of a checkpoint, or of a trace that `evolution_trace` wrote.

Kept are each program with its parent, island, metrics, artifacts, prompt and reply: a seed, or an iteration of one
answer. The search cannot be continued as OpenEvolve would have: copies on other islands and its archive are not kept.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from islands.errors import BadCheckpoint
from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.store import Store
from islands.types import RunRecord
from problems.address import shorten_names
from problems.contract import Problem, Score
from problems.identity import identity
from problems.objectives import score_values
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

POLICY = "openevolve"
"""Policy and policy version of OpenEvolve's answers; it is not an address that can be sampled."""
FITNESS = "combined_score"
NO_TEMPERATURE = 0.0
"""The temperature of an imported iteration: it is unknown; training by reward leaves out samples of temperature 0."""
MOST_ISLANDS = 1000
_NUMBERED = re.compile(r"checkpoint_(\d+)")
_LONGEST_FEEDBACK = 20_000


@dataclass(frozen=True, eq=False)
class OpenEvolveProgram:
    """A program as it was read.

    parent: an id, None for one that the search began with
    created: seconds since 1970, UTC
    feedback: its artifacts as text; system, user, reply: the model's prompt and response; "" where they are not known
    """

    id: str
    code: str
    parent: str | None
    island: int
    created: float
    metrics: Mapping[str, Any]
    feedback: str
    system: str = ""
    user: str = ""
    reply: str = ""


@dataclass(frozen=True)
class ImportPlan:
    """The run that is to hold the programs. name: None for one that is made up; config: as a search would store it"""

    name: str | None
    command: str
    commit: str
    seed: int
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Imported:
    """The result of an import. groups: iterations; failed: candidates with an error; repeats: programs that are equal
    to an earlier one"""

    run: RunRecord
    programs: int
    candidates: int
    failed: int
    groups: int
    repeats: int


def read_programs(path: Path) -> list[OpenEvolveProgram]:
    """The programs of a checkpoint folder, of the newest one in an output folder, or of a trace (.jsonl, .jsonl.gz),
    every program after its parent. Raises BadCheckpoint, naming the file, for one that is missing or unreadable."""
    try:
        programs = list(_of_trace(path) if path.is_file() else _of_checkpoint(find_newest(path)))
    except OSError as error:
        raise BadCheckpoint(f"{error.filename or path}: {error.strerror or error}") from None
    if not programs:
        raise BadCheckpoint(f"{path}: it holds no programs")
    return _parents_first(programs, path)


def find_newest(path: Path) -> Path:
    """The checkpoint that a folder is, or the one of the highest number in an output folder. Raises BadCheckpoint."""
    if not path.is_dir():
        raise BadCheckpoint(f"{path}: there is no such folder or file; name a checkpoint, an output folder or a trace")
    if (path / "metadata.json").is_file():
        return path
    folders = [f for folder in (path / "checkpoints", path) if folder.is_dir() for f in folder.iterdir() if f.is_dir()]
    numbered = [(int(matched[1]), f) for f in folders if (matched := _NUMBERED.fullmatch(f.name))]
    if not numbered:
        raise BadCheckpoint(f"{path} is no checkpoint of OpenEvolve, and holds none (checkpoints/checkpoint_N)")
    return max(numbered)[1]


def _of_checkpoint(folder: Path) -> Iterator[OpenEvolveProgram]:
    """Stricter than OpenEvolve, which skips unreadable files: a program left out in silence would be another search."""
    record = _object(folder / "metadata.json", (folder / "metadata.json").read_bytes())
    islands = record.get("islands", [])
    if not isinstance(islands, list) or not all(isinstance(ids, list) for ids in islands):
        raise BadCheckpoint(f"{folder / 'metadata.json'}: its islands are no lists of program ids")
    home = {str(id): number for number, ids in reversed(list(enumerate(islands))) for id in ids}
    files = {file: _object(file, file.read_bytes()) for file in sorted((folder / "programs").glob("*.json"))}
    raws = {str(raw.get("id")): raw for raw in files.values()}
    if missing := [id for id in home if id not in raws]:
        raise BadCheckpoint(f"{folder} is no whole checkpoint: metadata.json names a missing program, {missing[0]}")
    copies = {
        id: str(raw["parent_id"])
        for id, raw in sorted(raws.items(), key=lambda each: _created(each[1]))
        if (raw.get("metadata") or {}).get("migrant") and isinstance(raw.get("parent_id"), str)
    }  # of a program on another island: its children are the program's
    standing = {original: id for id, original in reversed(copies.items()) if original not in raws}
    for file, raw in files.items():
        id, named, parent = str(raw.get("id")), raw.get("id"), raw.get("parent_id")
        if id in copies and standing.get(copies[id]) != id:
            continue
        if id in copies:  # its first copy stands for a program that was removed, whose own parent is not known
            named, parent = copies[id], id
        else:
            for _ in copies:  # a copy of a copy; no further, since a damaged checkpoint may have a circle
                if str(parent) not in copies:
                    break
                parent = copies[str(parent)]
        yield _program(
            file, raw, named, raw.get("code"), parent,
            home.get(id, (raw.get("metadata") or {}).get("island", 0)), raw.get("metrics"), _artifacts(raw),
            *_exchange(raw.get("prompts")),
        )  # fmt: skip


def _created(raw: Mapping[str, Any]) -> float:
    created = raw.get("timestamp")
    return float(created) if isinstance(created, int | float) and _finite(created) else 0.0


def _of_trace(file: Path) -> Iterator[OpenEvolveProgram]:
    """A parent without a row is the first program, or a copy on another island, which is known by its code."""
    opened = gzip.open if file.suffix == ".gz" else open
    known: dict[str, str] = {}  # an id in the trace -> of the program
    by_code: dict[str, str] = {}
    with opened(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            where = file.with_name(f"{file.name}:{number}")
            raw = _object(where, line)
            if "child_id" not in raw:
                raise BadCheckpoint(f"{where}: no row of an evolution_trace: it has no child_id")
            if raw.get("child_code") is None:
                raise BadCheckpoint(f"{where}: it has no code; set include_code: true under evolution_trace")
            prompt: dict[str, Any] = raw["prompt"] if isinstance(raw.get("prompt"), dict) else {}
            parent, code = raw.get("parent_id"), raw.get("parent_code")
            if str(parent) not in known and isinstance(code, str):
                if code not in by_code:
                    by_code[code] = str(parent)
                    yield _program(
                        where, raw, parent, code, None, raw.get("island_id"), raw.get("parent_metrics"), ""
                    )  # fmt: skip
                known[str(parent)] = by_code[code]
            child = _program(
                where, raw, raw["child_id"], raw["child_code"], known.get(str(parent), parent), raw.get("island_id"),
                raw.get("child_metrics"), _as_text(raw.get("artifacts")), str(prompt.get("system", "")),
                str(prompt.get("user", "")), str(raw.get("llm_response") or ""),
            )  # fmt: skip
            known[child.id] = child.id
            by_code.setdefault(child.code, child.id)
            yield child


def _object(where: Path, text: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise BadCheckpoint(f"{where}: not whole, or no JSON: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(loaded, dict):
        raise BadCheckpoint(f"{where}: expected keys and values, found a {type(loaded).__name__}")
    return loaded


def _program(
    where: Path, raw: Mapping[str, Any], id: Any, code: Any, parent: Any, island: Any, metrics: Any, feedback: str,
    system: str = "", user: str = "", reply: str = "",
) -> OpenEvolveProgram:  # fmt: skip
    island, created = island or 0, raw.get("timestamp") or 0.0
    wrong = (
        "id" if not isinstance(id, str) or not id
        else "code" if not isinstance(code, str)
        else "parent_id" if not isinstance(parent, str | None)
        else "metrics" if not isinstance(metrics, dict | None)
        else "island" if not isinstance(island, int) or not 0 <= island < MOST_ISLANDS
        else "timestamp" if not _finite(created)
        else ""
    )  # fmt: skip
    if wrong:
        raise BadCheckpoint(f"{where}: its {wrong} is missing or of a wrong kind")
    return OpenEvolveProgram(
        id, code, parent or None, island, float(created), metrics or {}, feedback, system, user, reply
    )


def _exchange(prompts: Any) -> tuple[str, str, str]:
    """OpenEvolve logs {template: {system, user, responses}}: (system, user, reply) of the first, as far as known."""
    asked = next(iter(prompts.values()), None) if isinstance(prompts, dict) else None
    if not isinstance(asked, dict):
        return "", "", ""
    responses = asked.get("responses") or [""]
    return str(asked.get("system", "")), str(asked.get("user", "")), str(responses[0])


def _artifacts(raw: Mapping[str, Any]) -> str:
    try:
        return _as_text(json.loads(raw.get("artifacts_json") or "{}"))
    except (TypeError, ValueError, RecursionError):
        return ""


def _as_text(artifacts: Any) -> str:
    """Artifacts as a prompt would show them; bytes are a dict."""
    if not isinstance(artifacts, dict):
        return ""
    texts = {key: value for key, value in artifacts.items() if not isinstance(value, dict | list)}
    return "\n".join(f"{key}: {value}" for key, value in texts.items())[:_LONGEST_FEEDBACK]


def _parents_first(programs: Sequence[OpenEvolveProgram], path: Path) -> list[OpenEvolveProgram]:
    """Seeds first, then by time, every program after its parent."""
    by_id = {program.id: program for program in programs}
    if len(by_id) < len(programs):
        raise BadCheckpoint(f"{path}: a program is there twice")
    waiting = sorted(programs, key=lambda each: (each.parent is not None, each.created), reverse=True)
    placed: dict[str, OpenEvolveProgram] = {}
    line: set[str] = set()
    while waiting:
        program = waiting[-1]
        parent = by_id.get(program.parent or "")
        if program.id in placed or parent is None or parent.id in placed:
            placed.setdefault(program.id, waiting.pop())
            line.discard(program.id)
        elif program.id in line:
            raise BadCheckpoint(f"{path}: the program {program.id} is among its own ancestors")
        else:
            line.add(program.id)
            waiting.append(parent)
    return list(placed.values())


def score_of(program: OpenEvolveProgram, problem: Problem) -> Score | None:
    """The Score that the stored metrics give; None if they do not tell it.

    Metrics are what OpenEvolve's evaluator returned. Its marks of failure (`error`, `timeout`) make a failed candidate;
    so does a metric that is not a finite number."""
    numbers = {name: float(value) for name, value in program.metrics.items() if _finite(value)}
    if isinstance(combined := program.metrics.get(FITNESS), str | bool):  # which OpenEvolve takes for a number
        with suppress(ValueError):
            numbers |= {FITNESS: float(combined)} if math.isfinite(float(combined)) else {}
    count, given = len(problem.objectives), [name for name in problem.objectives if name in numbers]
    for name in (*problem.objectives, FITNESS):
        value = program.metrics.get(name)
        if name not in numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return Score.failure(count, f"{name} is no finite number", program.feedback)
    measured = numbers.keys() - {"error", "stage1_passed"} if FITNESS in problem.objectives else set(given)
    if not measured and (mark := _failure(program)) is not None:
        return Score.failure(count, mark, program.feedback)
    if measured or FITNESS in numbers:
        known = problem.score_of_metrics(numbers, program.feedback, None)
        if known is not None:
            failed = known.fitness <= 0 and isinstance(program.metrics.get("error"), str)
            return replace(known, error=_failure(program)) if failed else known
    if len(given) < count or FITNESS not in numbers:
        return None
    rewards, own = score_values(problem.objectives, problem.metrics, numbers)
    return Score(rewards, numbers[FITNESS], {}, program.feedback, values=own)


def _failure(program: OpenEvolveProgram) -> str | None:
    mark = program.metrics.get("error")
    if program.metrics.get("timeout") is True:
        return "timeout: OpenEvolve's evaluation took too long"
    if isinstance(mark, str):
        return " ".join(mark.split())[:300] or None
    return None if mark is None else "OpenEvolve's evaluation failed"


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def import_programs(
    store: Store, plan: ImportPlan, source: Path, programs: Sequence[OpenEvolveProgram], scores: Sequence[Score],
    problem: Problem, config: PopulationConfig,
) -> Imported:  # fmt: skip
    """Store the programs with these scores as a finished run, all or nothing. Raises RunExists, DatabaseUnavailable,
    and ScorerFault if a feature of the grid is missing."""
    (name,) = shorten_names([problem.name])
    nothing = np.zeros(0, np.int32)
    stored: dict[str, int] = {}  # program -> candidate
    sequence, solved, failed, repeats = -1, None, 0, 0
    with store.begin() as tx:
        run = store.create_run(
            plan.name, plan.config, command=plan.command, seed=plan.seed, commit=plan.commit, tx=tx
        )  # fmt: skip
        record = store.add_problem(
            run.id, 0, problem.name, name, problem.objectives, problem.target, problem.answer_format, tx
        )
        population = Population(store, record, config)
        for program, score in zip(programs, scores, strict=True):
            answer = ScoredAnswer(program.code, identity(program.code, problem.answer_format), score)
            if program.parent is None and sequence < 0:
                placement = population.seed(answer, tx)
                store.set_metrics(record.id, problem, score, tx)
            else:
                sequence += 1
                reply = Rollout(program.reply or program.code, nothing, nothing.astype(np.float32), nothing)
                group = ScoredGroup(
                    record.id, sequence, sequence, program.island, stored.get(program.parent or ""), (),
                    Prompt(program.user, program.system), POLICY, 1, 0, NO_TEMPERATURE,
                    (ScoredRollout(reply, (answer,)),),
                )  # fmt: skip
                (placement,) = population.add(group, tx)
            stored[program.id] = placement.candidate
            failed += placement.new and score.error is not None
            repeats += not placement.new
            if (
                solved is None
                and problem.target is not None
                and score.error is None
                and score.fitness >= problem.target
            ):
                solved = sequence
        store.set_problem_status(record.id, "done" if solved is None else "solved", solved_sequence=solved, tx=tx)
        counts = dict(
            programs=len(programs), candidates=population.size, failed=failed, groups=sequence + 1, repeats=repeats
        )
        summary = {"run": run.name, "outcome": "done", "imported": {"from": str(source), **counts}}
        store.finish_run(run.id, "done", "imported from OpenEvolve", summary=summary, tx=tx)
    return Imported(run, **counts)
