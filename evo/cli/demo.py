"""`evo demo`: one command from nothing to a finished comparison, its verdict and its report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evo.api.drive import run_comparison
from evo.cli.live import foreground, name_configs
from evo.cli.options import OutputOptions, db_option, plain_option
from evo.cli.outcome import report_comparison
from evo.cli.train import drive_training
from evo.comparison.plan import begin, planned_runs
from evo.config.compare import load_comparison
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.report.files import write_report
from evo.training.display import TrainingDisplay
from evo.training.run_directory import SETTINGS
from islands.db.address import format_db_option
from islands.db.store import Store

DEMO_PROBLEMS = "maze:hard"
LESSONS = "maze:train/0-899"
ARMS: Mapping[str, str] = {
    "edit": "embedded:edit-improve",
    "grpo": "embedded:grpo",
    "vpo": "embedded:vpo",
    "edit-classic": "embedded:edit-improve,scripted:classic",
}
BASELINES = ["best-of-n", "classic"]
TRAINING: Mapping[str, Mapping[str, Any]] = {
    "grpo": {"prompts": 18, "answers": 1, "lr": 1.25e-4},
    "vpo": {"prompts": 6, "answers": 3, "lr": 2.5e-4},
}
"""The settings of the shipped policies (see their cards), for fewer steps; both give 288 answers a step."""
COMMON = {"rollouts": 16, "betas": (0.9, 0.95), "warm_up": 10, "token_budget": 4096, "kl": 0.01}


@click.command()
@click.option("--limit", type=click.IntRange(1, 200), default=24, show_default=True, help="Mazes to search.")
@click.option("--iterations", type=click.IntRange(1), default=200, show_default=True, help="Iterations per maze.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of every random choice.")
@click.option("--train", "trains", is_flag=True, help="Train GRPO and VPO from the base first, some minutes each.")
@click.option("--steps", type=click.IntRange(1), default=40, show_default=True, help="Steps of each training.")
@click.option(
    "-o",
    "--output",
    default="evo-demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="The directory of the report and of the policies that --train trains.",
)
@db_option
@plain_option
def demo(limit: int, iterations: int, seed: int, trains: bool, steps: int, output: str, db: str, plain: bool) -> int:
    """Six ways to search the same hard mazes, live, for 200 iterations of three answers each.

    Each maze hides gold and diamonds in opposite corners and allows steps for only one of them, so the objectives
    conflict. The policies, small transformers in the package, propose routes; island populations keep the best route
    of each kind and show them as parents. grpo and vpo plan routes; edit changes its parent. best-of-n is edit without
    parents, classic re-routes parents at random without a model, and edit-classic searches with both. A maze is solved
    by its exact optimum.
    """
    folder = Path(output)
    policies = dict(ARMS)
    if trains:
        console = Console(highlight=False)
        for method in TRAINING:
            place = folder / f"{method}-{steps}-s{seed}"
            console.print(f"\nTraining {method} from embedded:base on {LESSONS}, {steps} steps:", soft_wrap=True)
            code = _train(method, place, steps, seed, console, plain)
            if code:
                return code
            policies[method] = str(place)
    config = load_comparison(
        None,
        {"problems": (DEMO_PROBLEMS,), "limit": limit, "iterations": iterations, "seed": seed, "until_solved": True},
        arms={name: {"policy": policy} for name, policy in policies.items()},
        baselines=BASELINES,
        seeds=1,
    )
    runs = planned_runs(config)
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]
    command = f"evo demo --limit {limit} --iterations {iterations} --seed {seed}" + (
        f" --train --steps {steps}" if trains else ""
    )

    def ending(console: Console, name: str) -> None:
        _write_page(name, folder, db, console)
        _print_next(name, iterations, db, console)

    shown = OutputOptions(db, plain)
    console, driver = foreground(shown, name_configs(configs))
    outcome = run_comparison(lambda: begin(db, None, runs, configs, command), configs, driver, db)
    return report_comparison(outcome, shown, console, ending=ending)


def _train(method: str, place: Path, steps: int, seed: int, console: Console, plain: bool) -> int:
    """Train in `place`, or continue the training there unless it is finished. Returns the exit code."""
    from evo.training.setup import begin, resume

    if (place / "config.json").is_file():
        console.print(f"  trained before: {place}", style="dim", soft_wrap=True)
        return 0
    display = TrainingDisplay(console, plain)
    with display.loading():
        if (place / SETTINGS).is_file():
            training = resume(str(place), {}, display.log)
        else:
            values = {"method": method, "problems": [LESSONS], "steps": steps, "seed": seed, **COMMON}
            run = parse(TrainRun, {**values, **TRAINING[method]}, "demo")
            training = begin(run, str(place), f"evo demo --train --steps {steps} --seed {seed}", display.log)
    return asyncio.run(drive_training(training, display, as_json=False))


def _write_page(name: str, folder: Path, db: str, console: Console) -> None:
    """Write the page, if its libraries are installed."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with console.status("writing the report"), Store.open(db, read_only=True) as store:
            written = write_report(store, name, str(folder / f"{name}.html"))
    except BadInput as error:
        console.print(f"no report: {error}", style="yellow", soft_wrap=True, markup=False)
        return
    console.print(f"report: {written.page}", soft_wrap=True, markup=False)


def _print_next(name: str, iterations: int, db: str, console: Console) -> None:
    suffix = format_db_option(db)
    console.print("\nNext:", style="bold")
    for command, what in (
        (f"evo show {name}/vpo/s0{suffix}", "best routes and their vectors"),
        (f"evo resume {name} --iterations {iterations * 2}{suffix}", "continue the search"),
        (f"evo export {name}/vpo/s0 -o traces.jsonl{suffix}", "export everything as training traces"),
        ("evo run programs:easy --policy MODEL", "evolve programs with any model"),
        ("evo problems", "list the problems that can be searched"),
    ):
        console.print(f"  {command}   [dim]{what}[/dim]", soft_wrap=True)  # a command that is wrapped cannot be pasted
