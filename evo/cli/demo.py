"""`evo demo`: from nothing to two measured comparisons and a fitted formula, in one to two minutes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evo.api.drive import run_comparison
from evo.cli import COMMAND_ENTRY_POINTS
from evo.cli import evo as commands
from evo.cli.live import foreground
from evo.cli.options import (
    OutputOptions,
    db_option,
    json_option,
    open_console,
    plain_option,
    print_json,
)
from evo.cli.outcome import report_comparison
from evo.cli.tables import print_table
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
from problems.entry_points import find_entry_points

LESSONS = "maze:train/0-899"
TRAINING: Mapping[str, Mapping[str, Any]] = {
    "grpo": {"prompts": 18, "answers": 1, "lr": 1.25e-4},
    "vpo": {"prompts": 6, "answers": 3, "lr": 2.5e-4},
}
"""The settings of the shipped policies (see their cards), for fewer steps; both give 288 answers a step."""
COMMON = {"rollouts": 16, "betas": (0.9, 0.95), "warm_up": 10, "token_budget": 4096, "kl": 0.01}


@dataclass(frozen=True)
class Part:
    """A comparison of the demo. policies: by arm, the first one being the reference, which has no model and is the
    `rival` of the model; meaning: of each arm, in words; baselines: as `evo compare` names them"""

    title: str
    problems: str
    noun: str
    rival: str
    policies: Mapping[str, str]
    meaning: Mapping[str, str]
    baselines: Sequence[str] = ()

    @property
    def reference(self) -> str:
        return next(iter(self.policies))


MAZES = Part(
    "Mazes with gold and diamonds in opposite corners, and steps for only one of them",
    "maze:hard",
    "mazes",
    "random edits",
    {"random": "scripted:mutate", "model": "embedded:edit-solve"},
    {
        "random": "random edits of good routes, no model",
        "model": "a small model that was trained to improve routes",
        "best-of-n": "the same model, which never sees a good route",
    },
    ["best-of-n=model"],
)
FORMULAS = Part(
    "Formulas behind tables of numbers",
    "formula:small",
    "formulas",
    "rules without a model",
    {"rules": "scripted:marks", "model": "embedded:formula"},
    {"rules": "adds a term that lowers the error, no model", "model": "a small model that was trained to do the same"},
)
MOST_FORMULAS, FORMULA_ITERATIONS = 12, 30
FIT_SECONDS = 3
INTRODUCTION = (
    "The demo takes one to two minutes on two cores. It shows",
    "  1. whether a small model helps a search of mazes, against random edits,",
    "  2. whether a small model helps a search of formulas, against rules without a model,",
    "  3. a table in, a formula out: evo fit, which needs no model.",
)


@dataclass(frozen=True)
class Standing:
    """A comparison's end: the share of problems that each arm solved, all verdicts, and whether `model` is ahead of the
    reference, or behind it; None if no difference is shown."""

    name: str
    problems: int
    solved: Mapping[str, float]
    verdicts: Sequence[str]
    model_ahead: bool | None


@click.command()
@click.option("--limit", type=click.IntRange(1, 200), default=16, show_default=True, help="Mazes to search.")
@click.option("--iterations", type=click.IntRange(1), default=60, show_default=True, help="Iterations per maze.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of every random choice.")
@click.option("--train", "trains", is_flag=True, help="Train GRPO and VPO from the base first, some minutes each.")
@click.option("--steps", type=click.IntRange(1), default=40, show_default=True, help="Steps of each training.")
@click.option(
    "-o",
    "--output",
    default="evo-demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="The directory of the report, of the table, and of the policies that --train trains.",
)
@db_option
@plain_option
@json_option
def demo(
    limit: int, iterations: int, seed: int, trains: bool, steps: int, output: str, db: str, plain: bool, as_json: bool
) -> int:
    """A model that helps a search, one that does not, and a formula of a table.

    Three parts, one to two minutes on two cores. On mazes a small transformer, which was trained to improve routes,
    searches against random edits, and against itself without evolution. On formulas a small model searches against
    rules without a model. Then `evo fit` finds the formula of a table. With --train, the mazes are also searched by
    policies that GRPO and VPO train first.
    """
    folder, console = Path(output), open_console(stderr=as_json)
    for line in INTRODUCTION:
        console.print(line, soft_wrap=True, markup=False)
    trained: dict[str, str] = {}
    for method in TRAINING if trains else ():
        place = folder / f"{method}-{steps}-s{seed}"
        console.print(f"\nTraining {method} from embedded:base on {LESSONS}, {steps} steps:", soft_wrap=True)
        if code := _train(method, place, steps, seed, console, plain):
            return code
        trained[method] = str(place)
    given = f"--limit {limit} --iterations {iterations} --seed {seed}" + (f" --train --steps {steps}" if trains else "")
    has_formulas = "fit" in find_entry_points(COMMAND_ENTRY_POINTS)
    searched = [(MAZES, limit, iterations, trained)]
    if has_formulas:
        searched.append((FORMULAS, min(limit, MOST_FORMULAS), FORMULA_ITERATIONS, {}))
    shown, standings = OutputOptions(db, plain, as_json), list[Standing]()
    for number, (part, most, length, more) in enumerate(searched, 1):
        console.print(f"\n[bold]{number}. {part.title}[/bold]", soft_wrap=True)
        code = _compare(part, most, length, seed, more, f"evo demo {given}", shown, standings)
        if code:
            return code
    fitted: dict[str, Any] | None = None
    if has_formulas:
        console.print(f"\n[bold]{len(searched) + 1}. A table in, a formula out[/bold]", soft_wrap=True)
        code, fitted = _fit(folder, seed, console, plain)
        if code:
            return code
    page = _write_page(standings[0].name, folder, db, console)
    _print_next(standings[0].name, page, None if fitted is None else fitted["name"], db, console)
    outcome = summarize(standings, fitted)
    console.print(f"\n[bold]Outcome:[/bold] {outcome}", soft_wrap=True)
    if as_json:
        parts = {part.noun: asdict(standing) for (part, *_), standing in zip(searched, standings, strict=True)}
        print_json({**parts, "fit": fitted, "outcome": outcome})
    return 0


def _compare(
    part: Part,
    limit: int,
    iterations: int,
    seed: int,
    trained: Mapping[str, str],
    command: str,
    output: OutputOptions,
    standings: list[Standing],
) -> int:
    """Search, print the standing and append it. Returns the exit code. trained: more arms"""
    config = load_comparison(
        None,
        {"problems": (part.problems,), "limit": limit, "iterations": iterations, "seed": seed, "until_solved": True},
        arms={name: {"policy": policy} for name, policy in {**part.policies, **trained}.items()},
        baselines=list(part.baselines),
        seeds=1,
        against=part.reference,
    )
    runs = planned_runs(config)
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]

    def show(console: Console, name: str) -> None:
        standings.append(_read_standing(name, output.db, part.reference))
        _print_standing(part, standings[-1], trained, console)

    console, driver = foreground(output, f"{limit} {part.noun}")
    outcome = run_comparison(
        lambda: begin(output.db, None, runs, configs, command), configs, driver, output.db, against=part.reference
    )
    return report_comparison(outcome, output, console, show=show)


def _read_standing(name: str, db: str, reference: str) -> Standing:
    from evo.comparison.table import read_arms  # verdicts: scipy
    from evo.comparison.verdict import verdicts_of

    with Store.open(db, read_only=True) as store:
        comparison, summary, *_ = read_arms(store, name, reference)
    if summary is None:
        return Standing(name, len(comparison.problems), {}, [], None)
    solved = {arm: each.solved.mean for arm, each in summary.arms.items() if each.solved is not None}
    gap = summary.against.get("model", {}).get("solved")
    ahead = gap.interval.mean > 0 if gap is not None and gap.shown else None
    return Standing(name, len(comparison.problems), solved, [each.text for each in verdicts_of(summary)], ahead)


def _print_standing(part: Part, standing: Standing, trained: Mapping[str, str], console: Console) -> None:
    meaning = {**part.meaning, **{arm: f"plans routes, trained by {arm}" for arm in trained}}
    rows = [(arm, meaning[arm], f"{share:.0%}") for arm, share in standing.solved.items()]
    titles = ("arm", "description", f"solved of {standing.problems}")
    print_table(console, titles, rows, right=titles[2:])
    for text in standing.verdicts:
        console.print(f"  {text}", soft_wrap=True, markup=False)


TABLE_HEAD = "length [m],mass [kg],angle [deg],period [s]"
TABLE_ROWS = 120


def _fit(folder: Path, seed: int, console: Console, plain: bool) -> tuple[int, dict[str, Any]]:
    """Write a table of a measured pendulum, and fit it. Returns the exit code and what the fit found."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "pendulum.csv"
    rng, lines = random.Random(seed), [TABLE_HEAD]
    for _ in range(TABLE_ROWS):
        length, mass, angle = rng.uniform(0.2, 3), rng.uniform(0.1, 2), rng.uniform(1, 10)
        period = 2 * math.pi * math.sqrt(length / 9.81) * rng.gauss(1, 0.005)
        lines.append(f"{length:.3f},{mass:.3f},{angle:.2f},{period:.4f}")
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["fit", str(table), "--target", "period", "--seconds", str(FIT_SECONDS), "--seed", str(seed), "--json"]
    for line in (*lines[:3], f"... {TABLE_ROWS} swings of a pendulum, measured to 0.5%"):
        console.print(f"  {line}", soft_wrap=True, markup=False)
    console.print(f"evo {shlex.join(arguments[:-1])}", style="dim", soft_wrap=True, markup=False)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = commands.main(args=[*arguments, *["--plain"] * plain], prog_name="evo", standalone_mode=False)
    if code:
        return int(code), {}
    saved = json.loads(printed.getvalue())
    best = saved["rows"][saved["recommended"]]
    rows = [
        ("*" if row is best else "", str(row["complexity"]), f"{row['test_r2']:.4f}", _shorten(row["equation"]))
        for row in saved["rows"][: saved["recommended"] + 3]
    ]
    titles = ("", "size", "held-out R2", "period =")
    print_table(console, titles, rows, right=titles[1:3])
    formula = f"period = {_shorten(best['equation'])}"
    return 0, {"name": saved["name"], "formula": formula, "held_out_r2": best["test_r2"]}


def _shorten(equation: str) -> str:
    """The formula with four digits a constant."""
    return re.sub(r"\d+\.\d+", lambda digits: f"{float(digits[0]):.4g}", equation)


def summarize(standings: Sequence[Standing], fitted: Mapping[str, Any] | None) -> str:
    """The demo in one sentence."""
    verdicts = {True: "so the model helps", False: "so the model does worse", None: "so no difference is shown"}
    said = []
    for part, standing in zip((MAZES, FORMULAS), standings, strict=False):
        model, other = (standing.solved.get(arm, 0.0) for arm in ("model", part.reference))
        said.append(
            f"on {standing.problems} {part.noun} the model solved {model:.0%} and {part.rival} {other:.0%}, "
            f"{verdicts[standing.model_ahead]}"
        )
    if fitted is not None:
        said.append(f"evo fit found {fitted['formula']} in {FIT_SECONDS} seconds without a model")
    return "; ".join(said) + "."


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


def _write_page(name: str, folder: Path, db: str, console: Console) -> str | None:
    """Write the report's page, if its libraries are installed. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with console.status("writing the report"), Store.open(db, read_only=True) as store:
            return str(write_report(store, name, str(folder / f"{name}.html")).page)
    except BadInput as error:
        console.print(f"no report: {error}", style="yellow", soft_wrap=True, markup=False)
        return None


def _print_next(name: str, page: str | None, fit: str | None, db: str, console: Console) -> None:
    suffix = format_db_option(db)
    rows = [
        (f"evo watch {name}{suffix}", "the screen again: routes, lineages, curves"),
        (f"evo show {name}{suffix}", "areas, times, costs and all differences"),
        (f"evo best {name}/model/s0{suffix}", "the best routes"),
        ("evo run my_scorer.py --policy MODEL", "search your own problem with any model"),
    ]
    rows += [] if fit is None else [(f"evo fit show {fit} --as python", "the formula as a function")]
    rows += [] if page is None else [(page, "the report of the mazes, for a browser")]
    console.print("\nNext:", style="bold")
    longest = max(len(command) for command, _ in rows)
    for command, what in rows:
        console.print(f"  {command:<{longest}}   [dim]{what}[/dim]", soft_wrap=True)
