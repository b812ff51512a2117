"""`evo train`: fine-tune a policy by reward on a problem set."""

from __future__ import annotations

from typing import Any

import click

from evo.api.drive import Driver
from evo.api.policy import run_training
from evo.cli.flags import GroupedCommand, collect_given, flags
from evo.cli.live import choose_display
from evo.cli.options import json_option, open_console, plain_option, print_json, read_command
from evo.config.train import TraceSettings, TrainRun
from evo.errors import INTERRUPTED
from evo.search.stop import StopReason
from evo.training.display import print_training, summarize_training
from vpo.training.config import EstimationSettings, TrainerSettings

_OPTIMISATION = [
    name for name in TrainerSettings.model_fields if name not in EstimationSettings.model_fields and name != "seed"
]
_KEYS = [key for key in TrainRun.model_fields if key not in ("method", "problems", "tracked_as")]


@click.command(
    "train",
    cls=GroupedCommand,
    sections={
        "Basic": (
            *("policy", "steps", "output", "folder", "evaluate", "prompts", "rollouts", "answers", "seed"),
            "config_file",
        ),
        "Budget": ("max_seconds", "max_answers", "limit"),
        "Sampling and parents": (
            *("temperature", "max_new_tokens", "parents", "parents_from", "visits"),
            *("reward", "weights"),
        ),
        "Stored traces": (*TraceSettings.model_fields, "children"),
        "Method": [name for name in EstimationSettings.model_fields if name not in ("method", "seed")],
        "Optimisation": _OPTIMISATION,
        "Evaluation and checkpoints": ("evaluate_every", "evaluate_limit", "evaluate_answers", "save_every", "keep"),
        "Execution and output": (
            *("sandbox", "device", "dtype"),
            *("report_to", "as_json", "plain"),
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
@flags(TrainRun, _KEYS)
@json_option
@plain_option
def train_command(
    method: str | None,
    problems: tuple[str, ...],
    output: str | None,
    folder: str | None,
    config_file: str | None,
    as_json: bool,
    plain: bool,
    **options: Any,
) -> int:
    """Train a policy with METHOD (vpo, grpo, max_at_k, pass_at_k, vpo_pass_at_k, random_weighting, multi_rlvr) on
    PROBLEMSET, or on stored searches (--from-traces), and write it to -o as a Hugging Face checkpoint with its card.
    improve learns from the examples of stored searches: answers that are better than their parents.

    \b
    evo train vpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/vpo
    evo train grpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/grpo
    evo train vpo --from-traces RUN --db sqlite:///evo.db --policy embedded:vpo -o runs/again
    evo train improve --from-traces RUN --policy embedded:edit-solve -o runs/improve
    evo train --resume runs/vpo --steps 600
    """
    console = open_console(stderr=as_json)
    again = "interrupted; evo train --resume {0} continues it"
    driver = Driver(choose_display(console, plain), command=True, after=again)
    training, stop = run_training(
        driver, read_command(), collect_given(options), method, problems, output or None, folder or None, config_file
    )  # fmt: skip
    print_training(console, training, stop)
    if as_json:
        print_json(summarize_training(training, stop))
    return INTERRUPTED if stop.reason is StopReason.INTERRUPTED else 0
