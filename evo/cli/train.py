"""`evo train`: fine-tune a policy by reward on a problem set."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from evo.cli.flags import GroupedCommand, collect_given, flag, together
from evo.cli.live import handling_interrupts
from evo.cli.options import json_option, open_console, plain_option, print_json, read_command, show_progress
from evo.config.train import TraceSettings, TrainRun, check_resumable, plan_training
from evo.errors import INTERRUPTED, BadInput
from evo.runs.preflight import check_new_training
from evo.search.stop import StopReason
from evo.training.directory import TrainingDirectory
from evo.training.display import format_metrics, print_summary, summarize
from vpo.training.config import EstimationSettings, TrainerSettings

if TYPE_CHECKING:
    from evo.training.loop import Training


_OPTIMISATION = [
    name for name in TrainerSettings.model_fields if name not in EstimationSettings.model_fields and name != "seed"
]
_FLAGS = [
    flag(TrainRun, key, **({"envvar": "EVO_DB"} if key == "db" else {}))
    for key in TrainRun.model_fields
    if key not in ("method", "problems")
]


@click.command(
    cls=GroupedCommand,
    sections={
        "Basic": (
            *("policy", "steps", "output", "folder", "evaluate", "prompts", "rollouts", "answers", "seed"),
            "config_file",
        ),
        "Budget": ("max_seconds", "max_answers", "limit"),
        "Sampling and parents": (
            *("temperature", "max_new_tokens", "parents", "parents_from", "parent_level", "under_way", "visits"),
            *("reward", "shaping"),
        ),
        "Stored traces": (*TraceSettings.model_fields, "children"),
        "Method": [name for name in EstimationSettings.model_fields if name not in ("method", "seed")],
        "Optimisation": _OPTIMISATION,
        "Evaluation and checkpoints": ("evaluate_every", "evaluate_limit", "evaluate_answers", "save_every", "keep"),
        "Execution and output": (
            *("sandbox", "device", "dtype"),
            *("as_json", "plain"),
        ),
    },
)
@click.argument("method", required=False)
@click.argument("problems", nargs=-1, metavar="PROBLEMSET...")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), help="The directory of the run and of the trained policy."
)
@click.option("--resume", "folder", type=click.Path(file_okay=False), help="Continue the run in this directory.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    help="Read settings from a YAML file; flags override it.",
)
@together(_FLAGS)
@json_option
@plain_option
def train(
    method: str | None,
    problems: tuple[str, ...],
    output: str | None,
    folder: str | None,
    config_file: str | None,
    as_json: bool,
    plain: bool,
    **options: Any,
) -> int:
    """Train a policy with METHOD (vpo, grpo, max_at_k, pass_at_k, vpo_pass_at_k, maxrl, gdpo, random_weighting,
    multi_rlvr) on PROBLEMSET, or on stored searches (--from-traces), and write it to -o as a Hugging Face checkpoint
    with its card. improve learns from the examples of stored searches: answers that are better than their parents.

    \b
    evo train vpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/vpo
    evo train grpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/grpo
    evo train vpo --from-traces RUN --db sqlite:///evo.db --policy embedded:vpo -o runs/again
    evo train improve --from-traces RUN --policy embedded:edit-solve -o runs/improve
    evo train --resume runs/vpo --steps 600
    """

    named = collect_given(options)
    console = open_console(stderr=as_json)
    live = console.is_terminal and not plain
    loading = console.status("loading") if live else nullcontext()
    if folder:
        check_resumable(named, "METHOD, PROBLEMSET, -o and --config", bool(method or problems or output or config_file))
        TrainingDirectory(folder).settings()
        with loading:
            from evo.training.setup import resume

            training = resume(folder, named)
    else:
        if not output:
            raise BadInput("Missing output directory: pass -o DIR")
        run = plan_training(config_file, named, method, problems)
        check_new_training(run, output)
        with loading:
            from evo.training.setup import begin  # torch

            training = begin(run, output, read_command())
    return asyncio.run(_drive(training, console, live, as_json))


async def _drive(training: Training, console: Console, live: bool, as_json: bool) -> int:
    """Train to the end or until an interrupt; returns the exit code."""
    status, source = training.status, training.source
    title = f"{training.run.method} from {training.about['start']} on {source.words}"

    def log(line: dict[str, Any]) -> None:
        if line["kind"] == "evaluation":
            console.print(f"step {line['step']}  held out: {format_metrics(line)}", soft_wrap=True)
        else:
            stopping = f"  {status.stopping}" if status.stopping else ""
            report(line["step"], status.steps, format_metrics(line, source.shown) + stopping)

    training.on_log = log
    try:
        with show_progress(console, live, title, "steps") as report:
            stop = await training.run_to_end(handling_interrupts)
    except asyncio.CancelledError:
        return INTERRUPTED
    print_summary(console, training, stop)
    if as_json:
        print_json(summarize(training, stop))
    return INTERRUPTED if stop.reason is StopReason.INTERRUPTED else 0
