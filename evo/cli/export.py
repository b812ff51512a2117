"""`evo export`: a run's prompt groups as training traces, or its programs as checkpoints of OpenEvolve."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, track

from evo.cli.flags import flag
from evo.cli.options import (
    db_option,
    format_arguments,
    json_option,
    open_console,
    plain_option,
    print_json,
    read_command,
)
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.openevolve.import_run import Scoring, import_run
from islands.db.comparisons import runs_named
from islands.db.store import Store
from islands.interop.exporting import CheckpointExport
from islands.interop.importing import Imported
from islands.queries.groups import export_groups
from islands.queries.progress import group_count
from islands.types import ProblemRecord

ROWS_PER_BATCH = 200
ROW_GROUP_BYTES = 32 << 20
"""Uncompressed size of a row group. A parquet footer, kept in memory until the end, grows with their number."""


@click.command()
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE.jsonl or FILE.parquet.")
@click.option("--no-tokens", is_flag=True, help="Leave out token ids and log-probabilities.")
@click.option("--openevolve", "folder", metavar="DIR", help="Write OpenEvolve's checkpoints instead, one per problem.")
@click.option("--problem", metavar="NAME", help="With --openevolve: write only this problem of the run.")
@db_option
@plain_option
def export(
    name: str, output: str | None, no_tokens: bool, folder: str | None, problem: str | None, db: str, plain: bool
) -> None:
    """Write one record per prompt group of RUN, a run or a comparison: prompt, rollouts, answers, rewards, fitness,
    errors, token ids and behaviour log-probabilities.

    With --openevolve write its programs as OpenEvolve does, in DIR/checkpoints/checkpoint_N, or in DIR if that is
    named checkpoint_N. openevolve-run --checkpoint and OpenEvolve's visualizer (visualizer.py --path DIR) read it.
    """
    if (output is None) == (folder is None):
        raise BadInput("name the output: -o FILE.jsonl for training traces, or --openevolve DIR for a checkpoint")
    if folder is not None:
        _write_checkpoints(name, folder, problem, db, plain)
    elif problem is not None:
        raise BadInput("--problem goes with --openevolve; traces hold the whole run")
    elif output is not None:
        _write_traces(name, output, no_tokens, db, plain)


def _write_checkpoints(name: str, folder: str, wanted: str | None, db: str, plain: bool) -> None:
    console = open_console(stderr=True)
    with Store.open(db, read_only=True) as store:
        run, *others = runs_named(store, name)
        if others:
            known = ", ".join(named.name for named in (run, *others[:3])) + (", ..." if len(others) > 3 else "")
            raise BadInput(f"--openevolve: {name} is a comparison; name one of its runs: {known}")
        chosen = _choose(store, run.id, name, wanted)
        into = Path(folder)
        several = wanted is None and len(chosen) > 1
        if several and into.name.startswith("checkpoint_"):
            raise BadInput(
                f"--openevolve {folder}: {name} has {len(chosen)} problems; name an output folder, or --problem"
            )
        for problem in chosen:
            with console.status(f"exporting {problem.name}") if console.is_terminal and not plain else nullcontext():
                export = CheckpointExport(store, run, problem)
                if not export.candidates:
                    click.echo(f"{problem.name}: no programs yet, so no checkpoint", err=True)
                    continue
                place = export.folder(into / make_folder_name(problem) if several else into)
                try:
                    count = export.write(place)
                except OSError as error:
                    raise BadInput(f"--openevolve {place}: {error.strerror or error}") from error
            copies = f", {export.copies:,} of them copies on further islands" if export.copies else ""
            click.echo(f"{place}: {count:,} programs of {problem.name}{copies}")


def _choose(store: Store, run_id: int, name: str, wanted: str | None) -> list[ProblemRecord]:
    """The problems of the run to write. Raises BadInput if there are none."""
    problems = store.problems(run_id)
    if not problems:
        raise BadInput(f"{name} has not begun: it holds no problems yet")
    if wanted is None:
        return problems
    chosen = [problem for problem in problems if wanted in (problem.name, problem.address)]
    if not chosen:
        known = ", ".join(problem.name for problem in problems[:5]) + (", ..." if len(problems) > 5 else "")
        raise BadInput(f"--problem {wanted}: no problem of {name}; it has {known}")
    return chosen


def make_folder_name(problem: ProblemRecord) -> str:
    """The name of a problem's folder. It begins with the problem's place in the run, because names may repeat."""
    return f"{problem.index}-" + re.sub(r"[^\w.-]+", "_", Path(problem.name).name).strip("_.")[:60]


def _write_traces(name: str, output: str, no_tokens: bool, db: str, plain: bool) -> None:
    path = Path(output)
    if path.suffix not in (".jsonl", ".parquet"):
        raise BadInput(f"-o {output}: name a FILE.jsonl or a FILE.parquet")
    if not path.parent.is_dir():
        raise BadInput(f"-o {output}: there is no directory {path.parent}")
    with Store.open(db, read_only=True) as store:
        runs = runs_named(store, name)
        total = sum(group_count(store, run.id)[0] for run in runs)
        console = open_console(stderr=True)
        rows: Iterable[dict[str, Any]] = (
            {**row, "run": run.name, "arm": run.arm}
            for run in runs
            for row in export_groups(store, run.id, tokens=not no_tokens)
        )
        if console.is_terminal and not plain:
            rows = track(rows, f"exporting {name}", total=total, console=console, transient=True)
        partial = path.with_name(path.name + ".partial")
        try:
            count = (_write_jsonl if path.suffix == ".jsonl" else _write_parquet)(rows, partial)
            partial.replace(path)  # a file of this name is always whole
        except OSError as error:
            raise BadInput(f"-o {output}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
    click.echo(f"{path}: {count:,} prompt groups of {name}")


def _write_jsonl(rows: Iterable[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


def _write_parquet(rows: Iterable[dict[str, Any]], path: Path) -> int:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise BadInput('a .parquet file needs pyarrow: pip install "evo-search[parquet]", or write a .jsonl') from error
    schema, count = _make_schema(arrow), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        waiting: list[Any] = []
        for batch in _batch(rows):
            waiting.append(arrow.Table.from_pylist(batch, schema=schema))
            count += len(batch)
            if sum(table.nbytes for table in waiting) >= ROW_GROUP_BYTES:
                writer.write_table(arrow.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(arrow.concat_tables(waiting))
    return count


def _batch(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _make_schema(arrow: Any) -> Any:
    """The columns of islands.queries.groups.export_groups, fixed so that a column whose
    values are all null in one batch has its type."""
    text, whole, real = arrow.string(), arrow.int64(), arrow.float64()
    many = arrow.list_
    rollout = arrow.struct(
        [
            ("text", text),
            ("answers", many(text)),
            ("candidates", many(whole)),
            ("rewards", many(many(real))),
            ("fitness", many(real)),
            ("errors", many(text)),
            ("format_error", text),
            ("finish", text),
            ("token_ids", many(arrow.int32())),
            ("logprobs", many(arrow.float32())),
        ]
    )
    prompt = arrow.struct([("system", text), ("user", text), ("prefill", text), ("token_ids", many(arrow.int32()))])
    return arrow.schema(
        [
            ("id", whole),
            ("problem", text),
            ("sequence", whole),
            ("iteration", whole),
            ("island", whole),
            ("parent", whole),
            ("inspirations", many(whole)),
            ("policy_version", text),
            ("prompt", prompt),
            ("answers", whole),
            ("operator", whole),
            ("seed", whole),
            ("stream", whole),
            ("temperature", real),
            ("sampling_seconds", real),
            ("scoring_seconds", real),
            ("rollouts", many(rollout)),
            ("run", text),
            ("arm", text),
        ]
    )


@click.command("import")
@click.argument("checkpoint", metavar="DIR")
@click.option(
    "--problem", required=True, metavar="ADDRESS", help="The problem of the checkpoint, by an address as for evo run."
)
@click.option("--name", help="The run's name; by default a readable one is made up.")
@click.option(
    "--score",
    "scoring",
    type=click.Choice(["none", "missing", "all"]),
    default="none",
    show_default=True,
    help="Score programs again in the sandbox: those whose metrics give no score (missing), or all.",
)
@flag(RunConfig, "sandbox", default="auto")
@db_option
@plain_option
@json_option
def import_(
    checkpoint: str, problem: str, name: str | None, scoring: Scoring, sandbox: str, db: str, plain: bool, as_json: bool
) -> None:
    """Make a run of the OpenEvolve checkpoint DIR, or of the newest one in the output folder DIR: its programs with
    their parents, islands, metrics, prompts and iterations. All of it is stored, or nothing.

    \b
    evo import openevolve_output --problem examples/valley --name valley
    evo resume valley --policy Qwen/Qwen2.5-Coder-0.5B-Instruct --iterations 200
    evo export valley --openevolve back_again
    """
    command = read_command()
    console = open_console(stderr=True)
    shown = console.is_terminal and not plain
    with Progress(console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(f"importing {checkpoint}", total=None)
        imported = asyncio.run(
            import_run(
                checkpoint, problem, db=db, name=name, command=command, scoring=scoring, sandbox=sandbox,
                progress=lambda done, total: bar.update(task, completed=done, total=total, description="scoring"),
            )
        )  # fmt: skip
    if as_json:
        counts = {key: value for key, value in vars(imported).items() if isinstance(value, int)}
        print_json({"run": imported.run.name, "problem": imported.problem.name, **counts})
    else:
        _print_imported(imported, format_arguments(imported.run.name, db))


def _print_imported(imported: Imported, named: str) -> None:
    name = imported.run.name
    details = [
        f"{count:,} {what}"
        for count, what in (
            (imported.failed, "failed"),
            (imported.repeats, "repeats"),
            (imported.copies, "copies on other islands"),
            (imported.orphans, "without their parents"),
        )
        if count
    ]
    shown = f" ({', '.join(details)})" if details else ""
    click.echo(f"{name}: {imported.programs:,} programs as {imported.candidates:,} candidates{shown}")
    click.echo(f"look at it: evo show {named}   continue with: evo resume {named} --policy POLICY")
