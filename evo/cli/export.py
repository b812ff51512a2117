"""`evo export`: a run's prompt groups as training traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from evo.cli.options import db_option, plain_option

ROWS_PER_BATCH = 200


@click.command()
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", required=True, metavar="FILE", help="FILE.jsonl or FILE.parquet")
@click.option("--no-tokens", is_flag=True, help="leave out token ids and log-probabilities")
@db_option
@plain_option
def export(name: str, output: str, no_tokens: bool, db: str, plain: bool) -> None:
    """Write one record per prompt group of RUN: prompt, rollouts, answers, rewards, fitness, errors, token ids and
    behaviour log-probabilities."""
    from rich.console import Console
    from rich.progress import track

    from evo.errors import BadInput
    from islands.progress import run_progress
    from islands.store import Store
    from islands.traces import export_groups

    path = Path(output)
    if path.suffix not in (".jsonl", ".parquet"):
        raise BadInput(f"-o {output}: name a FILE.jsonl or a FILE.parquet")
    if not path.parent.is_dir():
        raise BadInput(f"-o {output}: there is no directory {path.parent}")
    with Store.open(db, read_only=True) as store:
        run = store.run(name)
        total = run_progress(store, run.id).groups
        console = Console(stderr=True)
        rows: Iterable[dict[str, Any]] = export_groups(store, run.id, tokens=not no_tokens)
        if console.is_terminal and not plain:
            rows = track(rows, f"exporting {name}", total=total, console=console, transient=True)
        partial = path.with_name(path.name + ".partial")
        try:
            count = (_jsonl if path.suffix == ".jsonl" else _parquet)(rows, partial)
            partial.replace(path)  # a file under its own name is always whole
        except OSError as error:
            raise BadInput(f"-o {output}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
    click.echo(f"{path}: {count:,} prompt groups of {name}")


def _jsonl(rows: Iterable[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


def _parquet(rows: Iterable[dict[str, Any]], path: Path) -> int:
    from evo.errors import BadInput

    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise BadInput('a .parquet file needs pyarrow: pip install "evo[parquet]", or write a .jsonl') from error
    schema, count = _schema(arrow), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(rows):
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    return count


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _schema(arrow: Any) -> Any:
    """The columns of islands.traces.export_groups, fixed so that a batch of all-null values has its type."""
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
    prompt = arrow.struct([("system", text), ("user", text), ("token_ids", many(arrow.int32()))])
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
            ("seed", whole),
            ("stream", whole),
            ("temperature", real),
            ("sampling_seconds", real),
            ("scoring_seconds", real),
            ("rollouts", many(rollout)),
        ]
    )
