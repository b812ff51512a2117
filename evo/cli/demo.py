"""`evo demo`: from nothing to a measured comparison, in a minute.

The first act is the mazes'. Plug-ins add acts (`DemoAct`) by entry points of the group `evo.demo`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console

from evo.api.results import load_comparison
from evo.cli import evo
from evo.cli.live import choose_name, search_on_screen, wants_screen
from evo.cli.options import (
    OutputOptions,
    db_option,
    format_arguments,
    json_option,
    open_console,
    plain_option,
    print_json,
    print_table,
)
from evo.evaluation.preferences import JUDGED_WEIGHTINGS as WEIGHTINGS
from islands.names import format_db_option
from problems.entry_points import find_entry_points, load_entry_point
from problems.weights import SPREAD

ENTRY_POINTS = "evo.demo"


@dataclass(frozen=True)
class DemoContext:
    """What an act is given: where it writes, and what the user asked for.

    folder: for files
    limit, iterations, seed: as the user gave them
    """

    folder: Path
    limit: int
    iterations: int
    seed: int
    output: OutputOptions
    console: Console


@dataclass(frozen=True)
class ActResult:
    """The end of an act.

    record: for --json
    sentence: its part of the outcome
    next: commands to try next, and what each does
    """

    record: Mapping[str, Any]
    sentence: str
    next: Sequence[tuple[str, str]] = ()


class DemoAct(Protocol):
    """A part of the demo. key: of its record in --json; title: its headline; shows: what follows "It shows" """

    key: str
    title: str
    shows: str

    def play(self, context: DemoContext) -> ActResult:
        """Play it. Raises click.exceptions.Exit with an exit code if the demo ends here."""


TRAINED = {"grpo": "embedded:grpo", "vpo": "embedded:vpo"}
"""By arm. Both were trained from one start, with one budget, under one set of weights: the mean."""


class TradeOffAct:
    """Two trained policies, asked for trade-offs that no one named while they were trained and searched."""

    key = "mazes"
    title = "Train once, choose the trade-off later: mazes with gold, diamonds and lava"
    shows = "which training leaves answers for a trade-off that is named afterwards: GRPO or VPO"

    def play(self, context: DemoContext) -> ActResult:
        """Compare, as `evo compare --weights spread` does, and print what each arm has."""
        output, name = context.output, choose_name(context.output.db)
        settings = {
            **{"limit": context.limit, "iterations": context.iterations, "seed": context.seed},
            **{"seeds": 1, "name": name, "weights": SPREAD, "baseline": "none", "db": output.db},
        }
        arguments = ["compare", "maze:test", *(f"--{key}={value}" for key, value in settings.items())]
        arguments += [f"--arm={arm}={policy}" for arm, policy in TRAINED.items()]
        if wants_screen(output):
            code = search_on_screen(name, output, f"{context.limit} mazes", arguments, quiet=True)
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                code = evo.main(args=[*arguments, "--plain", "--json"], prog_name="evo", standalone_mode=False)
            if code:
                context.console.print(f"Resume with: evo resume {format_arguments(name, output.db)}", soft_wrap=True)
        if code:
            raise click.exceptions.Exit(code)
        record = read_standing(name, output.db)
        rows = [
            (arm, f"trained by {arm.upper()}", f"{record['solved'][arm]:.0%}", f"{share:.0%}")
            for arm, share in record["weightings_solved"].items()
        ]
        titles = ("arm", "policy", "solved at the mean", f"trade-offs solved, of {record['problems']} x {WEIGHTINGS}")
        print_table(context.console, titles, rows, right=titles[2:])
        for text in record["verdicts"]:
            context.console.print(f"  {text}", soft_wrap=True, markup=False)
        best = f"evo best {name}/vpo/s0{format_db_option(output.db)}"
        return ActResult(
            record,
            self.describe(record),
            [
                (f"{best} --weights gold=1", "the best routes for who wants gold alone"),
                (f"{best} --weights diamond=3,safety=1", "and for who wants diamonds and no lava"),
            ],
        )

    def describe(self, record: Mapping[str, Any]) -> str:
        """What `read_standing` gives, as a part of a sentence."""
        shares = record["weightings_solved"]
        verdicts = {True: "VPO is ahead", False: "VPO is behind", None: "no difference is shown"}
        return (
            f"asked afterwards for {WEIGHTINGS} trade-offs on each of {record['problems']} mazes, the policy trained "
            f"by VPO has the best route for {shares['vpo']:.0%}, the one trained by GRPO for {shares['grpo']:.0%}: "
            f"{verdicts[record['vpo_ahead']]}"
        )


def read_standing(name: str, db: str) -> dict[str, Any]:
    """The comparison's end: each arm's share of problems solved under their own weights and of weightings solved, the
    verdict, and whether vpo is ahead of grpo, or behind it; None if no difference is shown."""
    figures = load_comparison(name, db=db).summary
    solved, weightings = (
        {arm: each[metric]["mean"] for arm, each in figures["arms"].items()}
        for metric in ("solved", "weightings_solved")
    )
    gap = figures["against"]["vpo"]["weightings"]
    common = {"name": name, "problems": len(figures["problems"]), "verdicts": figures["verdicts"]}
    ahead = gap["mean"] > 0 if gap["shown"] else None
    return {**common, "solved": solved, "weightings_solved": weightings, "vpo_ahead": ahead}


@click.command()
@click.option("--limit", type=click.IntRange(1, 200), default=30, show_default=True, help="Mazes to search.")
@click.option("--iterations", type=click.IntRange(1), default=20, show_default=True, help="Iterations per maze.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of every random choice.")
@click.option(
    "-o",
    "--output",
    default="evo-demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="The directory of the table.",
)
@db_option
@plain_option
@json_option
def demo(limit: int, iterations: int, seed: int, output: str, db: str, plain: bool, as_json: bool) -> int:
    """Train once, choose the trade-off later: in a minute on two cores.

    Two small transformers, one trained by GRPO and one by VPO, search the same mazes. Afterwards the answers are judged
    under many weightings of gold, diamonds and safety. Installed plug-ins add further acts: `evo fit` on a table.
    """
    folder, console = Path(output), open_console(stderr=as_json)
    points = find_entry_points(ENTRY_POINTS)
    acts: list[DemoAct] = [TradeOffAct(), *(load_entry_point(points[name], "evo demo") for name in sorted(points))]
    console.print("The demo takes about a minute on two cores. It shows")
    for number, act in enumerate(acts, 1):
        console.print(f"  {number}. {act.shows}{'.' if act is acts[-1] else ','}", soft_wrap=True, markup=False)
    context = DemoContext(folder, limit, iterations, seed, OutputOptions(db, plain, as_json), console)
    results: list[ActResult] = []
    for number, act in enumerate(acts, 1):
        console.print(f"\n[bold]{number}. {act.title}[/bold]", soft_wrap=True)
        results.append(act.play(context))
    name, suffix = results[0].record["name"], format_db_option(db)
    rows = [
        (f"evo watch {name}{suffix}", "the screen again: routes, lineages, curves"),
        (f"evo show {name}{suffix}", "the trade-offs by iteration, times, costs and all differences"),
        (f"evo report {name}{suffix}", "all of it on a page, with sliders for the weights"),
        *(row for result in results for row in result.next),
        ("evo run my_scorer.py --policy MODEL", "search your own problem with any model"),
    ]
    console.print("\nNext:", style="bold")
    longest = max(len(command) for command, _ in rows)
    for command, what in rows:
        console.print(f"  {command:<{longest}}   [dim]{what}[/dim]", soft_wrap=True)
    outcome = "; ".join(result.sentence for result in results) + "."
    console.print(f"\n[bold]Outcome:[/bold] {outcome}", soft_wrap=True)
    if as_json:
        print_json({**{a.key: r.record for a, r in zip(acts, results, strict=True)}, "outcome": outcome})
    return 0
