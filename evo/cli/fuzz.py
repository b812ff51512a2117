"""`evo problems fuzz`: add tests to programming tasks, of inputs on which a faulty program fails."""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from evo.cli.options import json_option, print_json
from evo.evaluation.file import check_writable
from evo.whole_file import write_whole
from problems.programs.further_tests import KEY
from problems.programs.fuzz import Fuzzed, fuzz_task
from problems.programs.reader import SHAPES, DateWindow, rows_of, tasks_of
from problems.python_syntax import parse_source
from problems.registry import shared_sandbox
from problems.sandbox.pool import Sandbox
from vpo.policies.mutation.program import mutate_program


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Write the same rows with further_tests to this file, as JSON Lines.",
)
@click.option("--limit", type=click.IntRange(1), help="Use only the first K rows.")
@click.option("--tries", type=click.IntRange(1), default=100, show_default=True, help="Inputs to make for each task.")
@click.option(
    "--mutants", type=click.IntRange(1), default=20, show_default=True, help="Faulty references to make for each task."
)
@click.option(
    "--most", type=click.IntRange(1), default=10, show_default=True, help="Tests to add to each task at most."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of every random choice.")
@json_option
def fuzz(
    file: Path, output: str, limit: int | None, tries: int, mutants: int, most: int, seed: int, as_json: bool
) -> None:
    """Write the tasks of FILE with more tests. Inputs are made from those of its tests and run by its reference
    solutions, in the sandbox. An input becomes a test if its result is stable and in time, and if a mutant of the
    reference fails it that passed all tests before."""
    check_writable(output)
    rows = list(rows_of(file))[:limit]
    done: list[tuple[dict[str, Any], Fuzzed]] = []
    with (
        Sandbox.open(workers=1) as other,
        Progress(console=Console(stderr=True), transient=True, disable=as_json) as bar,
    ):
        for index, (where, row) in bar.track(list(enumerate(rows)), description="fuzzing"):
            given = {key: value for key, value in row.items() if key != KEY}
            task = next((task for _, task in tasks_of([(where, given)], DateWindow(), SHAPES)), None)
            if task is None:
                done.append((given, Fuzzed(skipped="cannot be posed")))
                continue
            chance = f"{seed} {index}"
            made = fuzz_task(
                *(task, shared_sandbox(), other, partial(_make_mutants, count=mutants, chance=chance)),
                seed=chance,
                tries=tries,
                most=most,
            )
            done.append((given | {KEY: made.tests} if made.tests else given, made))
    write_whole(Path(output), "".join(json.dumps(row) + "\n" for row, _ in done))
    record = _summarize([made for _, made in done])
    if as_json:
        print_json({"output": output, **record})
    else:
        click.echo(_describe(output, record))


def _make_mutants(code: str, count: int, chance: str) -> Sequence[str]:
    """Distinct programs that differ from `code` by one or a few edits."""
    rng = random.Random(chance)
    mutants: dict[str, str] = {}
    original = ast.dump(parse_source(code))
    for _ in range(5 * count):
        mutant = mutate_program(code, [], rng)
        tree = ast.dump(parse_source(mutant))
        if tree != original:
            mutants.setdefault(tree, mutant)
        if len(mutants) == count:
            break
    return list(mutants.values())


def _summarize(made: Sequence[Fuzzed]) -> dict[str, Any]:
    refused, skipped = sum((task.refused for task in made), Counter()), Counter(task.skipped for task in made)
    del skipped[""]
    return {
        "tasks": len(made),
        "tasks_with_more": sum(bool(task.tests) for task in made),
        "skipped": dict(skipped.most_common()),
        "tried": sum(task.tried for task in made),
        "kept": sum(len(task.tests) for task in made),
        "refused": dict((+refused).most_common()),
        "mutants": sum(task.mutants for task in made),
        "told_before": sum(task.told_before for task in made),
        "told_after": sum(task.told_after for task in made),
    }


def _describe(output: str, record: dict[str, Any]) -> str:
    lines = [
        f"{output}: {record['kept']:,} tests added to {record['tasks_with_more']:,} of {record['tasks']:,} tasks",
        f"{record['tried']:,} inputs were tried; not kept: "
        + (", ".join(f"{count:,} {why}" for why, count in record["refused"].items()) or "none"),
        f"of {record['mutants']:,} mutants the tests failed {record['told_before']:,} before, "
        f"{record['told_after']:,} now",
    ]
    if record["skipped"]:
        lines.append("left as they are: " + ", ".join(f"{n:,} tasks ({why})" for why, n in record["skipped"].items()))
    return "\n".join(lines)
