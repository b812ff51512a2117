"""`evo show`, `evo best` and `evo report`: a run or a comparison, its answers, its page. They only read, and may do so
while a run writes."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from evo.cli.flags import flag
from evo.cli.options import (
    db_option,
    json_option,
    named_weights_option,
    open_console,
    open_wide_console,
    paint_table,
    print_json,
    weights_option,
)
from evo.comparison.summary import describe_verdict, verdicts_of
from evo.config.run import RunConfig
from evo.errors import BadInput, at_file
from evo.progress.answer import (
    Statement,
    best_known_of,
    choose_held_out,
    describe_best_known,
    describe_score,
    describe_verified,
    read_candidate,
    score_held_out,
    verification_of,
    verified_score,
)
from evo.progress.answer_set import AnswerSet, choose_sets
from evo.progress.model import JudgedWeights, Progress, open_runs
from evo.progress.rows import (
    WEIGHTINGS,
    WORTH,
    TableCell,
    TableRow,
    answer_row,
    make_table,
    number_cell,
    preference_search_rows,
    value_cell,
    word_cell,
)
from evo.progress.training import TrainingProgress, is_training
from evo.report.tables import (
    arms_table,
    comparison_dict,
    describe_faults,
    describe_state,
    differences_table,
    preferences_dict,
    preferences_table,
    set_table,
)
from evo.runs.preflight import ASK_TELL
from evo.search.status import describe_work, format_time
from evo.tui.detail import draw_answer
from evo.tui.line import visible
from evo.tui.palette import TERMINAL
from evo.values import as_dict, write_scored
from islands.browse import failed_candidates
from islands.comparisons import runs_named
from islands.runs import best as best_of
from islands.runs import current_summary, format_errors, scorer_changes
from islands.store import Store
from islands.training import VersionUse, checkpoints, versions_used
from islands.types import Candidate, ProblemRecord, RunRecord
from problems.address import name_few
from problems.objectives import REWARD, Value, describe_directions, measure_of, value_of
from problems.weights import SPREAD, describe_fitness

_LINEAGE_SHOWN, _LINEAGE_READ = 20, 1 << 31
_VERSIONS_SHOWN, _FAILED_SHOWN, _ONLY_SHOWN = 10, 10, 8


@click.command("show")
@click.argument("name", metavar="RUN")
@click.argument("candidate_id", metavar="[ID]", required=False)
@db_option
@click.option("--against", metavar="ARM", help="The arm that others are measured against.  [default: the first]")
@click.option("--details", is_flag=True, help="Print also every difference of two arms, for a comparison.")
@weights_option
@json_option
def show_command(
    name: str,
    candidate_id: str | None,
    db: str,
    against: str | None,
    details: bool,
    weights: JudgedWeights,
    as_json: bool,
) -> None:
    """Show RUN, a run, a comparison or the folder of a training, or a run's candidate ID: reward vector, feedback,
    lineage, and the difference to its parent."""
    if is_training(name) and candidate_id is None:
        _check_unweighted(name, weights)
        return _show_training(name, as_json)
    with open_runs(db, [name], weights) as store:
        runs = runs_named(store, name)
        if candidate_id is not None:
            if not candidate_id.isdecimal():
                hint = f"evo show {name} lists them; two runs are shown one after the other"
                raise BadInput(f"{candidate_id!r} is no number of a candidate: {hint}")
            _show_candidate(store, name, int(candidate_id), as_json)
        else:
            with store.read():
                progress = Progress.open(store, name, against, spread=weights == SPREAD)
                if runs[0].comparison == name:
                    _show_comparison(progress, as_json, details)
                elif as_json:
                    print_json(_run_dict(progress))
                else:
                    _print_run(progress)
    return None


def _check_unweighted(folder: str, weights: JudgedWeights) -> None:
    if weights is not None:
        raise BadInput(f"--weights judge the stored answers of a run; {folder} is the folder of a training")


def _show_training(folder: str, as_json: bool) -> None:
    training, console = TrainingProgress.open(folder), open_console(markup=False)
    if as_json:
        return print_json(training.as_dict())
    console.print(training.about["command"], style="dim", soft_wrap=True)
    for line in filter(None, (training.title, training.standing, training.gain)):
        console.print(line, soft_wrap=True)
    rows = []
    for name, meaning in training.metrics.items():
        first, last = (value_cell(Value(float(value))) for value in training.curve(name).mean[[0, -1]])
        rows.append({"metric": word_cell(name), "first": first, "last": last, "meaning": word_cell(meaning)})
    return paint_table(console, make_table("training", "", rows))


def _run_dict(progress: Progress) -> dict[str, Any]:
    """A run for JSON (docs/guides/runs.md)."""
    store, (run,) = progress.store, progress.comparison.runs
    searches = {search.problem_id: search for search in progress.searches(failed=True)}
    summary = current_summary(store, run)
    return {
        **{name: vars(run)[name] for name in ("name", "status", "reason", "command", "seed", "commit")},
        "config": dict(run.config),
        **({"weights": dict(store.reweighed.weights)} if store.reweighed else {}),
        "summary": {key: value for key, value in summary.items() if key != "verification"},
        "verification": verification_of(run),
        **progress.totals.as_dict(),
        "format_errors": format_errors(store, run.id),
        "versions": [asdict(version) for version in versions_used(store, run.id)],
        "checkpoints": _saved(store, run),
        "scorer_changes": [asdict(change) for change in scorer_changes(store, run.id)],
        "policy_changes": list(run.config.get("policy_changes") or ()),
        "failed_candidates": [asdict(candidate) for candidate in failed_candidates(store, run.id, _FAILED_SHOWN)],
        "problems": [
            {
                **best_as_dict(problem, candidate),
                "verified": None if candidate is None else verified_score(run, candidate.id),
                "best_known": best_known_of(problem),
                "iterations": searches[problem.id].iterations,
                "solved_at": searches[problem.id].solved_at,
                "status": problem.status,
                "message": problem.message,
            }
            for problem, candidate in best_of(store, run.id)
        ],
        "sets": [found.as_dict() for found in progress.sets],
        "preferences": preferences_dict(progress),
    }


def _saved(store: Store, run: RunRecord) -> list[str]:
    """Its checkpoints that are there."""
    return [path for path in checkpoints(store, run.id) if Path(path).is_dir()]


def _print_run(progress: Progress) -> None:
    console, store, (run,) = open_wide_console(), progress.store, progress.comparison.runs
    best = best_of(store, run.id)

    def say(*lines: str) -> None:
        for line in lines:
            console.print(line, soft_wrap=True)

    why = f" ({run.reason})" if run.reason else ""
    say(f"{run.name}: {run.status}{why}, started {format_time(run.created)}, seed {run.seed}, commit {run.commit}")
    console.print(run.command, style="dim", soft_wrap=True)
    say(*_describe_search(progress, run), "")
    searches = {search.problem_id: search for search in progress.searches(failed=True)}
    rows = []
    for problem, candidate in best:
        answer, search = answer_row(problem, candidate), searches[problem.id]
        counts = {"done": number_cell(search.iterations, "d"), "solved": number_cell(search.solved_at, "d")}
        failed = {"values": word_cell(problem.message)} if problem.status == "failed" else {}
        cells = {**answer, **counts, **failed}
        rows.append({title: cells[title] for title in ("problem", "done", "best", "target", "solved", "id", "values")})
    paint_table(console, make_table("problems", "", rows))
    if len(best) == 1 and (directions := describe_directions(best[0][0].metrics)):
        say(directions)
    for problem, candidate in best:
        if (known := best_known_of(problem)) is not None:
            say(f"{problem.name}: {describe_best_known(None if candidate is None else candidate.fitness, known)}")
    for problem, candidate in best:
        if candidate is not None and (told := describe_verified(run, candidate.id, problem.metrics)):
            say(f"{problem.name}: {told}")
    say(*(verification_of(run) or {}).get("sentences", ()))
    print_preferences(console, progress)
    for found in progress.sets:
        print_set(console, found)
    if len(versions := versions_used(store, run.id)) > 1:
        _print_versions(console, versions, any(measure_of(problem.metrics).lower for problem, _ in best))
    if saved := _saved(store, run):
        say("\ncheckpoints: " + ", ".join(saved))
    if faulty := failed_candidates(store, run.id, _FAILED_SHOWN):
        say(f"\nfailed candidates (evo show {run.name} ID):")
        for one in faulty:
            times = f"{one.count:,} x " if one.count > 1 else ""
            say(f"  {one.id}  {one.problem}  {times}{' '.join(one.error.split())[:200]}")
    if misread := format_errors(store, run.id):
        ranked = sorted(misread.items(), key=lambda item: -item[1])[:3]
        say("\nreplies that are unreadable or lack answers:", *(f"  {count:,} x {reason}" for reason, count in ranked))


def _describe_search(progress: Progress, run: RunRecord) -> Iterator[str]:
    """What was searched under which weights, how far it is, and what `evo resume` changed."""
    if progress.store.reweighed is not None:
        yield from progress.store.reweighed.lines
    elif weights := describe_fitness(run.config.get("weights")):
        yield weights
    if run.config.get("policy") == ASK_TELL:
        yield "its answers come from a Python program, so the seed does not reproduce this run"
    elif lag := run.config.get("lag"):
        yield f"--lag {lag}: iterations were committed as they finished, so the seed does not reproduce this run"
    judged = [search for search in progress.searches() if search.problem.target is not None]
    solved, left_out = sum(search.solved_at is not None for search in judged), len(progress.comparison.failed)
    others = f"{left_out} left out" if left_out else ""
    yield describe_work(progress.totals.as_dict(), run.summary.get("seconds"), solved, len(judged), others)
    for policy in run.config.get("policy_changes") or ():
        before, after = policy["before"], policy["after"]
        yield f"{format_time(policy['created'])}  the policy changed: {before} -> {after}"
    for change in scorer_changes(progress.store, run.id):
        changed = f"{change.before or 'unknown'} -> {change.after}; accepted, older scores were kept"
        yield f"{format_time(change.created)}  the scorer of {change.problem} changed: {changed}"


def print_preferences(console: Console, progress: Progress) -> None:
    """Print what a run is worth under many weightings, if it is judged so: each problem at the end, and the curve of
    the means."""
    table = preferences_table(progress)
    if table is None:
        return
    if len(progress.comparison.problems) > 1:
        paint_table(console, make_table("searches", "Each problem, at the end", preference_search_rows(progress)))
    paint_table(console, table)
    console.print(Text(visible(table.below), "dim"), soft_wrap=True)


def print_set(console: Console, found: AnswerSet, *, whole: bool = False) -> None:
    """Print a set's value, its table and its answers. whole: also the further lines of an answer"""
    if (table := set_table(found)) is None:
        console.print(Text(visible(f"\n{found.describe()}")), soft_wrap=True)
    else:
        paint_table(console, table)
        console.print(Text(table.below, "dim"), soft_wrap=True)
    for member in found.members:
        first, *more = visible(member.text).strip().splitlines() or [""]
        console.print(Text(f"{member.id}: {first}{' ...' * bool(more and not whole)}"), soft_wrap=True)
        if whole and more:
            console.print(Text("\n".join(more)), soft_wrap=True)


def best_as_dict(problem: ProblemRecord, candidate: Candidate | None) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "target": value_of(problem.metrics, problem.target).number,
        "candidate": None if candidate is None else candidate.id,
        **as_dict(problem.metrics, candidate),
        "answer": None if candidate is None else candidate.text,
    }


def _print_versions(console: Console, versions: Sequence[VersionUse], lower: bool) -> None:
    """The policy versions that answered in the run; if there are many, only the first and the last. lower: whether a
    fitness is a value to be lowered: a mean over all answers is one of their rewards"""
    title, rows = "mean reward" if lower else "mean fitness", list[TableRow]()
    for use in versions:
        row = {"version": word_cell(use.version.removeprefix(versions[0].version) or use.version)}
        counts = {"iterations": use.groups, "from": use.first, "to": use.last}
        row |= {name: number_cell(count, "d") for name, count in counts.items()}
        row |= {title: value_cell(Value(use.fitness, REWARD)), "checkpoint": word_cell(Path(use.checkpoint or "").name)}
        rows.append(row)
    if len(rows) > _VERSIONS_SHOWN:
        more = {
            **dict.fromkeys(rows[0], TableCell("")),
            "version": word_cell(f"... {len(rows) - _VERSIONS_SHOWN} more"),
        }
        rows = [*rows[: _VERSIONS_SHOWN // 2], more, *rows[-_VERSIONS_SHOWN // 2 :]]
    paint_table(console, make_table("versions", "policy versions", rows))


def _show_candidate(store: Store, name: str, candidate_id: int, as_json: bool) -> None:
    run, detail, answer = read_candidate(store, name, candidate_id, lineage=_LINEAGE_READ)
    candidate, problem = detail.candidate, detail.problem
    if as_json:
        shown = {
            **best_as_dict(problem, candidate),
            "features": dict(candidate.features),
            "feedback": candidate.feedback,
            "error": candidate.error,
            "verified": verified_score(run, candidate.id),
            "best_known": best_known_of(problem),
            "generation": candidate.generation,
            "island": candidate.island,
            "iteration": detail.iteration,
            "policy_version": detail.policy_version,
            "times_found": detail.found,
            "cells": [{"island": island, "cell": cell} for island, cell in detail.cells],
            "lineage": [
                {"candidate": id, "fitness": value.number, "generation": step.generation}
                for (id, value), step in zip(answer.line, answer.lineage, strict=True)
            ],
        }
        print_json(shown)
        return
    console = open_console(markup=False)
    console.print(f"{problem.name}, {run.name}", soft_wrap=True)
    for line in store.reweighed.lines if store.reweighed else ():
        console.print(line, soft_wrap=True)
    if candidate.error:
        console.print(f"error: {candidate.error}", soft_wrap=True)
    if (known := best_known_of(problem)) is not None:
        console.print(describe_best_known(candidate.fitness, known), soft_wrap=True)
    if told := describe_verified(run, candidate_id, problem.metrics):
        console.print(told, soft_wrap=True)
    shortened = replace(answer, lineage=answer.lineage[:_LINEAGE_SHOWN])
    console.print(draw_answer(detail, shortened, run.seed, Statement(), TERMINAL))


def _show_comparison(progress: Progress, as_json: bool, details: bool) -> None:
    comparison = progress.comparison
    saved = {run.name: checkpoints(progress.store, run.id) for run in comparison.runs}
    if as_json:
        shown = comparison_dict(progress)
        print_json({**shown, "runs": [{**run, "checkpoints": saved[run["name"]]} for run in shown["runs"]]})
        return
    console = open_wide_console()
    first = comparison.runs[0]
    console.print(first.command, style="dim", soft_wrap=True)
    print_comparison(console, progress, details=details)
    for run in comparison.runs:
        if saved[run.name]:
            console.print(f"{run.name}: checkpoint {saved[run.name][-1]}", soft_wrap=True)
    console.print(f"one run: evo show {shlex.quote(first.name)}", soft_wrap=True)


_LEGEND = {
    "area": "area: under the solve curve, up to 1",
    "median time": "median time: when half were solved",
    "archive L1": "archive L1: diversity",
    "wall s": "wall: time searched",
}
"""What a column of the arms is, where its title does not say it."""


def print_comparison(console: Console, progress: Progress, *, details: bool = False) -> None:
    """Print a table of the arms, the problems that only one arm solved, and the verdict.

    details: also every difference"""
    comparison, summary = progress.comparison, progress.summary
    snapshot = progress.snapshot()

    def say(line: str, style: str = "") -> None:
        console.print(Text(visible(line), style), soft_wrap=True)

    say(f"{comparison.name}: {describe_state(comparison)}", "bold")
    for remark in describe_faults(progress, snapshot):
        say(remark, "yellow")
    if summary is None:
        return
    noted = (WEIGHTINGS, WORTH) if progress.spread else ("solve rate",)
    if arms := arms_table(progress, snapshot, "terminal"):
        paint_table(console, arms, noted)
        say("; ".join(_LEGEND[column.title] for column in arms.columns if column.title in _LEGEND), "dim")
    for name, arm in summary.arms.items():
        if arm.only and len(comparison.arms) > 1:
            say(f"only {name} solved: {name_few([comparison.problems[i].name for i in arm.only], _ONLY_SHOWN)}", "dim")
    if table := preferences_table(progress):
        paint_table(console, table)
        say(table.below, "dim")
    if verdicts := verdicts_of(summary):
        say(f"\n{describe_verdict(summary, comparison.ended_by_budget)}:")
        for verdict in verdicts:
            say(f"  {verdict.text}", "bold")
    if details and summary.reference:
        paint_table(console, differences_table(summary))


@click.command("report")
@click.argument("name", metavar="RUN")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE", help="The page to write.")
@click.option("--against", metavar="ARM", help="The arm that others are measured against.  [default: the first]")
@weights_option
@db_option
@json_option
def report_command(name: str, output: str, against: str | None, weights: JudgedWeights, db: str, as_json: bool) -> None:
    """Write RUN, a run, a comparison or the folder of a training, finished or running, as one HTML page that needs no
    network."""
    from evo.report.page import write_report, write_training_report  # slow to import

    started = time.perf_counter()
    if is_training(name):
        _check_unweighted(name, weights)
        size = write_training_report(name, output)
    else:
        with open_runs(db, [name], weights) as store:
            size = write_report(store, name, output, against, spread=weights == SPREAD)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"run": name, "page": output, "bytes": size, "seconds": round(seconds, 3)})
    else:
        click.echo(f"{output}: {size / 1e6:.1f} MB, made in {seconds:.1f} s")


_SUFFIXES = {"python": ".py", "route": ".txt", "text": ".txt", "tagged": ".txt"}


@click.command("best")
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
@flag(RunConfig, "set_size", "--set", metavar="K", help="Print the best set of K answers too, or write it with -o.")
@named_weights_option
@db_option
@json_option
def best_command(
    name: str, output: str | None, held_out: bool, set_size: int | None, weights: JudgedWeights, db: str, as_json: bool
) -> None:
    """Print the best answer of each problem of RUN, or write it with -o. A comparison counts as one
    run: the best answer of any of its runs."""
    with open_runs(db, [name], weights) as store:
        runs, reweighed = runs_named(store, name), store.reweighed
        best_answers = find_best(store, runs)
        if held_out:
            best_answers = [choose_held_out(store, run, problem) for run, problem, _ in best_answers]
        sets = choose_sets(store, runs, set_size, held_out=True)
    if not best_answers:
        raise BadInput(f"run {name} holds no problems")
    rows, lines = [], [f"# {line}" for line in (reweighed.lines if reweighed else ())]
    for run, problem, candidate in best_answers:
        known, metrics = best_known_of(problem), problem.metrics
        row = {**best_as_dict(problem, candidate), "best_known": known}
        row |= {"weights": dict(reweighed.weights)} if reweighed else {}
        row |= {"run": run.name} if len(runs) > 1 else {}
        its = [found.as_dict() for found in sets if found.problem.index == problem.index]
        row |= {"set": its[0]} if its else {}
        if candidate is None:
            lines.append(f"# {problem.name}: no valid answer yet")
        else:
            by = f", by {run.name}" if len(runs) > 1 else ""
            lines.append(f"# {problem.name}: {write_scored(metrics, candidate)}{by}")
            lines += [f"# {describe_best_known(candidate.fitness, known)}"] if known is not None else []
            for test in score_held_out(problem, [candidate]):
                tested_as = as_dict(metrics, test)
                row["held_out"] = {key: tested_as[key] for key in ("fitness", "values", "rewards")}
                row["held_out"]["error"] = test.error
                lines.append(f"# {describe_score(test, metrics)}")
            lines.append(candidate.text.rstrip("\n"))
        rows.append(row)
    if output is not None:
        formats = [problem.answer_format for _, problem, _ in best_answers]
        if set_size is not None:
            members = [(found.problem, member) for found in sets for member in found.members]
            rows, formats = [best_as_dict(*each) for each in members], [each.answer_format for each, _ in members]
        click.echo(_write(rows, formats, output))
    elif as_json:
        print_json(rows)
    else:
        click.echo("\n".join(lines))
        for found in sets:
            print_set(open_console(), found, whole=True)


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
    path, files = Path(output), dict[Path, str]()
    if path.suffix in (".jsonl", ".json"):
        files[path] = "".join(json.dumps(row) + "\n" for row in rows) if path.suffix == ".jsonl" else json.dumps(rows)
        told = f"{len(answered)} answers"
    elif len(rows) == 1 and not path.is_dir() and not output.endswith("/"):
        files[path] = answered[0]["answer"].rstrip("\n") + "\n"
        told = f"fitness {answered[0]['fitness']:.6g}"
    elif path.suffix and not path.is_dir():
        raise BadInput(f"-o {output}: there are {len(rows)} answers; name a directory or a FILE.jsonl")
    else:
        taken: set[str] = set()
        for row, answer_format in zip(rows, formats, strict=True):
            if row["answer"] is not None:
                file = path / _free_name(row["problem"], _SUFFIXES[answer_format], taken)
                files[file] = row["answer"].rstrip("\n") + "\n"
        told = f"{len(answered)} answers, one file each"
    with at_file(f"-o {output}"):
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return f"{path}: {told}"


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
