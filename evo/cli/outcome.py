"""What `run`, `resume`, `compare` and `demo` print at the end, and their exit codes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from evo.api.drive import ComparisonOutcome
from evo.cli.options import OutputOptions, format_arguments, print_json, print_table
from evo.errors import INTERRUPTED
from evo.process import is_stage
from evo.runs.finish import SearchOutcome
from evo.search.status import describe_errors, describe_work
from evo.values import rate, write_value, write_values
from islands.store import Store
from problems.objectives import Measure, Objective, Value
from problems.weights import SPREAD, describe_fitness

if TYPE_CHECKING:
    from evo.progress.answer_set import AnswerSet
    from evo.progress.model import Progress

SHOWN_PROBLEMS, SHOWN_SETS = 30, 3
ENDED = {"done": "Done", "interrupted": "Interrupted", "failed": "Failed"}


def print_outcome(
    outcome: SearchOutcome | ComparisonOutcome, output: OutputOptions, console: Console, *, against: str | None = None
) -> int:
    """Print how a search or a comparison ended; returns the exit code. Raises the failure that ended a search.

    against: the arm that a comparison's others are measured against"""
    if isinstance(outcome, ComparisonOutcome):
        _print_comparison(outcome, output, console, against)
        faults = (*(f"{run.run}: {run.reason}" for run in outcome.failed), *outcome.faults)
        failure, interrupted = None, outcome.interrupted
    else:
        if output.as_json:
            shown: dict[str, Any] = {"sets": [], "preferences": None}
            with _read_results(outcome, output.db) as (progress, sets):
                if progress is not None:
                    from evo.report.tables import preferences_dict

                    shown = {"sets": [found.as_dict() for found in sets], "preferences": preferences_dict(progress)}
            print_json({**outcome.summary, **shown})
        else:
            _print_search(outcome, output.db, console)
        faults, failure, interrupted = outcome.faults, outcome.failure, outcome.outcome == "interrupted"
    for fault in faults:
        print(f"evo: {fault}", file=sys.stderr)
    if failure is not None:
        raise failure
    unscored = outcome.summary.get("unscored") if isinstance(outcome, SearchOutcome) else None
    if unscored:
        print(f"evo: no answer was scored but those at the start: {unscored['remedy']}", file=sys.stderr)
    return INTERRUPTED if interrupted else 1 if faults or unscored else 0


def describe_metrics(metrics: Mapping[str, Any]) -> str:
    """Throughput and what went wrong, in one line. metrics: as SearchStatus.metrics gives them"""
    repeats = metrics["repeats"]
    parts = [f"{rate(metrics['answers_per_second'])} answers/s"]
    if metrics["policy_busy"] is not None:
        parts.append(f"{rate(metrics['tokens_per_second'])} tokens/s")
        parts.append(f"waiting for the model {metrics['policy_busy']:.0%} of the time")
    parts.append(f"{repeats:,} repeat{'s' * (repeats != 1)}")
    if metrics["training_seconds"]:
        training, syncing = metrics["training_seconds"], metrics["syncing_seconds"]
        seconds = max(metrics["seconds"], 1e-9)
        parts.append(f"training {training / seconds:.0%}, syncing {syncing / seconds:.1%}")
    if metrics["errors"]:
        parts.append(describe_errors(metrics["errors"]))
    return "; ".join(parts)


def _print_search(outcome: SearchOutcome, db: str, console: Console) -> None:
    summary, config, named = outcome.summary, outcome.config, format_arguments(outcome.run, db)
    problems = summary.get("problems", [])

    def say(line: str, style: str = "") -> None:
        console.print(line, style=style, soft_wrap=True, markup=False)

    rows = [_make_row(problem, outcome) for problem in problems[:SHOWN_PROBLEMS]]
    print_table(console, ("problem", "iterations", "best", "target", ""), rows, right=("iterations", "best", "target"))
    if len(problems) == 1 and (values := problems[0].get("values")):
        told = problems[0]
        metrics = [Objective(name, told["directions"][name] == "min", seed=told["seed"][name]) for name in values]
        say(write_values(metrics, list(values.values())))
    if len(problems) > SHOWN_PROBLEMS:
        say(f"... and {len(problems) - SHOWN_PROBLEMS} more (evo show {named})")
    if config is not None and (told := describe_fitness(config.weights)):
        say(told)
    why = f" ({escape(outcome.reason)})" if outcome.reason and outcome.outcome != "interrupted" else ""
    # a problem whose scorer failed counts nowhere
    known = sum(problem["target"] is not None and not problem["stopped"].startswith("failed") for problem in problems)
    work = describe_work(summary, summary["seconds"], summary["solved"], known)
    console.print(f"\n[bold]{ENDED[outcome.outcome]}[/bold]{why}: run [bold]{escape(outcome.run)}[/bold], {work}")
    say(describe_metrics(summary), "dim")
    with _read_results(outcome, db, SHOWN_SETS) as (progress, sets):
        if unscored := summary.get("unscored"):
            say("nothing was scored:", "yellow")
            for reason, count in unscored["reasons"].items():
                say(f"  {count:,} x {' '.join(reason.split())[:200]}")
            if reply := " ".join(unscored["reply"].split()):
                say(f"  a reply: {reply[:200]}")
        elif summary["groups"] and progress is None and not any(each["improved"] for each in problems):
            say("nothing was earned: no answer is better than what the search began with", "yellow")
        if summary.get("sandbox") == "none":
            say("warning: --sandbox none: the policy's code ran without isolation", "yellow")
        _print_training(outcome, console)
        if progress is not None:
            from evo.cli.show import print_preferences, print_set

            print_preferences(console, progress)
            for found in sets:
                print_set(console, found)
            if len(problems) > SHOWN_SETS:
                command = "best" if config and config.set_size else "show"
                say(f"Sets of all {len(problems)} problems: evo {command} {named}")
    if outcome.outcome != "done" and not is_stage():
        say(f"Resume with: evo resume {named}")
    say(f"Next: evo show {named}   evo best {named}")


@contextmanager
def _read_results(
    outcome: SearchOutcome, db: str, most: int | None = None
) -> Iterator[tuple[Progress | None, list[AnswerSet]]]:
    """The run, and the best sets of its first `most` problems, with held-out scores unless it was interrupted; None of
    a plain search, which does without."""
    config = outcome.config
    if config is None or not (config.set_size or config.weights == SPREAD):
        yield None, []
        return
    from evo.progress.answer_set import choose_sets
    from evo.progress.model import Progress

    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, outcome.run)
        runs, done = progress.comparison.runs, outcome.outcome == "done"
        yield progress, choose_sets(store, runs, held_out=done, most=most, spread=True)


def _print_training(outcome: SearchOutcome, console: Console) -> None:
    """The policy that was trained during the search, or why none was."""
    config = outcome.config
    if config is None or config.train is None:
        return
    if outcome.checkpoints:
        saved = outcome.checkpoints[-1]
        again = shlex.join(["evo", "run", *config.problems[:1], "--policy", saved])
        console.print(f"the trained policy: {saved}   try: {again}", soft_wrap=True, markup=False)
    elif not outcome.summary["training_seconds"]:
        hint = f"nothing was trained: a step takes {config.train.every} iterations (--train-every)"
        console.print(hint, style="yellow", soft_wrap=True, markup=False)


def _make_row(problem: dict[str, Any], outcome: SearchOutcome) -> tuple[str, str, str, str, str]:
    planned = {shown.record.name: shown.iterations for shown in outcome.status.problem_runs} if outcome.status else {}
    of = f"/{planned[problem['name']]}" if problem["name"] in planned else ""
    state = problem["stopped"]
    if problem["solved_at"] is not None:
        state = f"solved at {problem['solved_at']}"
    elif state.startswith("failed"):
        state = "its scorer failed"  # the fault is printed at the end
    measure = Measure("", problem["direction"] == "min")
    best, target = Value(problem["best"], measure), Value(problem["target"], measure)
    both = write_value(best, [target]), write_value(target, [best], arrow=False)
    return problem["name"], f"{problem['iterations']}{of}", *both, state


def _print_comparison(outcome: ComparisonOutcome, output: OutputOptions, console: Console, against: str | None) -> None:
    from evo.cli.show import print_comparison
    from evo.progress.model import Progress
    from evo.report.tables import comparison_dict  # verdicts: scipy

    with Store.open(output.db, read_only=True) as store:
        progress = Progress.open(store, outcome.name, against)
        if output.as_json:
            print_json(comparison_dict(progress))
            return
        print_comparison(console, progress)
    named = format_arguments(outcome.name, output.db)
    if (outcome.interrupted or outcome.failed) and not is_stage():
        console.print(f"Resume with: evo resume {named}", soft_wrap=True, markup=False)
    console.print(f"Next: evo watch {named}   evo report {named}", soft_wrap=True, markup=False)
