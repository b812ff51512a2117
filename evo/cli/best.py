"""`evo best`: the best answers of a run, printed or written to files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evo.cli.inspect import best_as_dict, format_vector, open_store
from evo.cli.options import db_option, json_option, print_json
from evo.errors import BadInput
from evo.progress.answer import best_known_of, choose_held_out, score_held_out, verify_best
from islands.comparisons import runs_named
from islands.runs import best as best_of
from islands.store import Store
from islands.types import Candidate, ProblemRecord, RunRecord
from problems.contract import Score

SUFFIXES = {"python": ".py", "route": ".txt", "text": ".txt", "tagged": ".txt"}


@click.command()
@click.argument("name", metavar="RUN")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to FILE.jsonl, a directory (one file per problem), or one answer's file.",
)
@click.option(
    "--held-out",
    is_flag=True,
    help="Choose among the answers that were the best at some time, by their held-out score (the scorer's held_out).",
)
@db_option
@json_option
def best(name: str, output: str | None, held_out: bool, db: str, as_json: bool) -> None:
    """Print the best answer of each problem of RUN, or write it with -o. A comparison counts as one
    run: the best answer of any of its runs."""
    with open_store(db) as store:
        runs = runs_named(store, name)
        best_answers = find_best(store, runs)
        if held_out:
            best_answers = [choose_held_out(store, run, problem) for run, problem, _ in best_answers]
    if not best_answers:
        raise BadInput(f"run {name} holds no problems")
    tested = {candidate.id: score_held_out(problem, candidate) for _, problem, candidate in best_answers if candidate}
    rows = [
        {
            **best_as_dict(problem, candidate),
            "best_known": best_known_of(problem),
            **_held_out_dict(problem, None if candidate is None else tested[candidate.id]),
            **({} if len(runs) == 1 else {"run": run.name}),
        }
        for run, problem, candidate in best_answers
    ]
    if output is not None:
        click.echo(_write(rows, [problem.answer_format for _, problem, _ in best_answers], output))
    elif as_json:
        print_json(rows)
    else:
        for run, problem, candidate in best_answers:
            if candidate is None:
                click.echo(f"# {problem.name}: no valid answer yet")
                continue
            where = "" if len(runs) == 1 else f", by {run.name}"
            click.echo(
                f"# {problem.name}: fitness {candidate.fitness:.6g} ({format_vector(problem, candidate)}){where}"
            )
            if known := verify_best(problem, candidate.fitness, candidate.text):
                click.echo(f"# {known}")
            if (test := tested[candidate.id]) is not None:
                click.echo(f"# held out: {_describe_test(problem, test)}")
            click.echo(candidate.text.rstrip("\n"))


def _held_out_dict(problem: ProblemRecord, test: Score | None) -> dict[str, Any]:
    if test is None:
        return {}
    rewards = dict(zip(problem.objectives, test.rewards, strict=True))
    return {"held_out": {"fitness": test.fitness, "rewards": rewards, "error": test.error}}


def _describe_test(problem: ProblemRecord, test: Score) -> str:
    vector = ", ".join(f"{name} {value:.4g}" for name, value in zip(problem.objectives, test.rewards, strict=True))
    return f"fitness {test.fitness:.6g} ({vector})" + (f", {test.error}" if test.error else "")


def find_best(store: Store, runs: Sequence[RunRecord]) -> list[tuple[RunRecord, ProblemRecord, Candidate | None]]:
    """Each problem with its fittest valid answer in any of the runs; of equal answers, that of the first run."""
    best_by_index: dict[int, tuple[RunRecord, ProblemRecord, Candidate | None]] = {}
    for run in runs:
        for problem, candidate in best_of(store, run.id):
            held = best_by_index.setdefault(problem.index, (run, problem, candidate))[2]
            if candidate is not None and (held is None or candidate.fitness > held.fitness):
                best_by_index[problem.index] = (run, problem, candidate)
    return [best_by_index[index] for index in sorted(best_by_index)]


def _write(rows: list[dict[str, Any]], formats: list[str], output: str) -> str:
    answered = [row for row in rows if row["answer"] is not None]
    if not answered:
        raise BadInput("this run has no valid answer yet")
    path = Path(output)
    try:
        if path.suffix in (".jsonl", ".json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "".join(json.dumps(row) + "\n" for row in rows) if path.suffix == ".jsonl" else json.dumps(rows),
                encoding="utf-8",
            )
            return f"{path}: {len(answered)} answers"
        if len(rows) == 1 and not path.is_dir() and not output.endswith("/"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(answered[0]["answer"].rstrip("\n") + "\n", encoding="utf-8")
            return f"{path}: fitness {answered[0]['fitness']:.6g}"
        if path.suffix and not path.is_dir():
            raise BadInput(f"-o {output}: the run has {len(rows)} problems; name a directory or a FILE.jsonl")
        path.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for row, answer_format in zip(rows, formats, strict=True):
            if row["answer"] is not None:
                file = _free_name(row["problem"], SUFFIXES[answer_format], taken)
                (path / file).write_text(row["answer"].rstrip("\n") + "\n", encoding="utf-8")
        return f"{path}: {len(answered)} answers, one file each"
    except OSError as error:
        raise BadInput(f"-o {output}: {error.strerror or error}") from error


def _free_name(problem: str, suffix: str, taken: set[str]) -> str:
    """A file's name of a problem's, which no other problem of this call has: names may differ only in characters that a
    file's name cannot hold, or in case."""
    stem = re.sub(r"[^\w.-]+", "_", problem).strip("_") or "problem"
    file, number = f"{stem}{suffix}", 1
    while file.lower() in taken:
        number += 1
        file = f"{stem}-{number}{suffix}"
    taken.add(file.lower())
    return file
