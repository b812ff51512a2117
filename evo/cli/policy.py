"""`evo evaluate` and `evo train`: measure a policy without search, fine-tune it by reward on a problem set."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

from evo.api.drive import Driver
from evo.api.policy import drive_evaluation, run_training
from evo.cli.flags import GroupedCommand, collect_given, flag, flags, sampling_flags
from evo.cli.live import choose_display
from evo.cli.options import (
    json_option,
    open_console,
    plain_option,
    print_json,
    print_table,
    read_command,
)
from evo.config.parse import OPTIONS, parse
from evo.config.run import EvaluateConfig
from evo.config.train import TraceSettings, TrainRun
from evo.errors import INTERRUPTED
from evo.progress.training import print_training, summarize_training
from evo.search.status import clock, describe_usage
from evo.search.stop import StopReason
from problems.weights import describe_fitness
from vpo.training.config import EstimationSettings, TrainerSettings

SEEDS_SHOWN = 5


@click.command("evaluate")
@click.argument("problems", nargs=-1, metavar="SET...")
@flags(EvaluateConfig, ("answers_total", "seeds"))
@sampling_flags
@click.option("-o", "--output", metavar="FILE.json", help="Write everything to this file, with each problem's figures.")
@flag(EvaluateConfig, "against", metavar="FILE.json")
@json_option
@plain_option
def evaluate_command(
    problems: tuple[str, ...],
    output: str | None,
    as_json: bool,
    plain: bool,
    **options: Any,
) -> int:
    """Sample a policy's answers to each problem of SET, without search and without parents: best@k, solve@k, diversity
    and more, with 95% intervals over problems.

    Compare policies at equal numbers of answers: each samples --answers-total of them, in chains of --answers.

    \b
    evo evaluate maze:test --policy embedded:base --answers 3 --seeds 3 -o base.json
    evo evaluate maze:test --policy DIR --answers 1 --against base.json
    """
    settings = parse(EvaluateConfig, {**collect_given(options), "problems": problems}, OPTIONS)
    console = open_console(stderr=as_json, markup=False)
    driver = Driver(choose_display(console, plain), command=True, before="interrupted; nothing was written")
    record = drive_evaluation(driver, settings, output, read_command())
    if as_json:
        print_json({key: value for key, value in record.items() if key != "per_problem"})
    else:
        _print_evaluation(console, record)
        for line in ["", *record["against"]["verdicts"]] if "against" in record else []:
            console.print(line, soft_wrap=True)
    for name, reason in record["faults"].items():
        print(f"evo: {name} is left out: {' '.join(reason.split())}", file=sys.stderr)
    return 1 if record["faults"] else 0


def _print_evaluation(console: Console, record: dict[str, Any]) -> None:
    seeds, per_seed = record["seeds"], record["per_seed"]
    listed = per_seed if 1 < len(seeds) <= SEEDS_SHOWN else []
    rows = []
    for name in [name for name in per_seed[0] if name != "seed"]:
        low_high = record["intervals"].get(name)
        interval = f"[{low_high[0]:.3f}, {low_high[1]:.3f}]" if low_high else "-"
        shown = ["-" if means[name] is None else f"{means[name]:.3f}" for means in (record, *listed)]
        rows.append((name, shown[0], interval, *shown[1:]))
    titles = ("", "mean", "95% interval", *(f"seed {means['seed']}" for means in listed))
    print_table(console, titles, rows, right=titles[1:])
    named = ", ".join(map(str, seeds)) if len(seeds) <= SEEDS_SHOWN else f"{seeds[0]} to {seeds[-1]}"
    count = record["problems"]
    console.print(
        f"\n{record['policy_version']}: {count} problem{'s' * (count != 1)} x {record['answers_total']} answers in "
        f"chains of {record['answers']}, temperature {record['temperature']:g}, seed{'s' * (len(seeds) > 1)} {named}",
        soft_wrap=True,
    )
    rate = record["tokens"] / max(record["seconds"], 1e-9)
    if told := describe_fitness(record.get("weights")):
        console.print(told, soft_wrap=True)
    used = describe_usage(record["tokens"], record["prompt_tokens"], record["cost"])
    console.print(f"{used} in {clock(record['seconds'])} ({rate:,.0f}/s)")
    for title, errors in (("missing", record["format_errors"]), ("failed", record["answer_errors"])):
        if errors:
            worst = ", ".join(f"{kind} {number:,}" for kind, number in list(errors.items())[:4])
            console.print(f"{title}: {worst}", soft_wrap=True)
    if record["sandbox"] == "none":
        console.print("warning: --sandbox none: code written by the policy ran without isolation", style="yellow")


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
