"""`evo demo`: two trained policies search the same mazes, and are asked for trade-offs that were not named before."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import click

from evo.api.results import load_comparison
from evo.cli import invoke
from evo.cli.options import (
    db_option,
    format_arguments,
    json_option,
    open_console,
    plain_option,
    print_json,
    print_table,
)
from evo.errors import INTERRUPTED
from evo.evaluation.preferences import JUDGED_WEIGHTINGS as WEIGHTINGS
from islands.names import format_db_option
from problems.weights import SPREAD

_ARMS = {"grpo": "embedded:grpo", "vpo": "embedded:vpo"}
"""Both were trained from one start, with one budget, under one set of weights: the mean."""


@click.command("demo")
@click.option("--limit", type=click.IntRange(1, 200), default=30, show_default=True, help="Mazes to search.")
@click.option("--iterations", type=click.IntRange(1), default=20, show_default=True, help="Iterations per maze.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of every random choice.")
@db_option
@plain_option
@json_option
def demo_command(limit: int, iterations: int, seed: int, db: str, plain: bool, as_json: bool) -> int:
    """Train once, choose the trade-off later: in half a minute on two cores.

    Two small transformers, one trained by GRPO and one by VPO, search the same mazes. Afterwards the answers are judged
    under many weightings of gold, diamonds and safety.
    """
    console = open_console(stderr=as_json)
    console.print(
        "Which training leaves answers for a trade-off that is named afterwards: GRPO or VPO?", soft_wrap=True
    )
    settings = {
        **{"limit": limit, "iterations": iterations, "seed": seed, "seeds": 1},
        **{"weights": SPREAD, "baseline": "none", "db": db},
    }
    arguments = ["compare", "maze:test", *(f"--{key}={value}" for key, value in settings.items())]
    arguments += [*(f"--arm={arm}={policy}" for arm, policy in _ARMS.items()), "--json", *["--plain"] * plain]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = invoke(arguments)
    if code not in (0, INTERRUPTED):
        return code
    name = json.loads(printed.getvalue())["comparison"]
    if code:
        console.print(f"Resume with: evo resume {format_arguments(name, db)}", soft_wrap=True)
        return code
    record = read_standing(name, db)
    rows = [
        (arm, f"trained by {arm.upper()}", f"{record['solved'][arm]:.0%}", f"{share:.0%}")
        for arm, share in record["weightings_solved"].items()
    ]
    titles = ("arm", "policy", "solved at the mean", f"trade-offs solved, of {record['problems']} x {WEIGHTINGS}")
    print_table(console, titles, rows, right=titles[2:])
    suffix = format_db_option(db)
    best = f"evo best {name}/vpo/s0{suffix}"
    commands = [
        (f"{best} --weights gold=1", "the best routes for who wants gold alone"),
        (f"{best} --weights diamond=3,safety=1", "and for who wants diamonds and no lava"),
        (f"evo watch {name}{suffix}", "the screen again: routes, lineages, curves"),
        (f"evo show {name}{suffix}", "the trade-offs by iteration, times, costs and all differences"),
        (f"evo report {name}{suffix}", "all of it on a page, with sliders for the weights"),
        ("evo run my_scorer.py --policy MODEL", "search your own problem with any model"),
    ]
    longest = max(len(command) for command, _ in commands)
    console.print("\nNext:", style="bold")
    for command, what in commands:
        console.print(f"  {command:<{longest}}   [dim]{what}[/dim]", soft_wrap=True)
    outcome = f"{describe_outcome(record)}."
    console.print(f"\n[bold]Outcome:[/bold] {outcome}", soft_wrap=True)
    if as_json:
        print_json({**record, "outcome": outcome})
    return 0


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


def describe_outcome(record: dict[str, Any]) -> str:
    """What `read_standing` gives, as a sentence without its full stop."""
    shares = record["weightings_solved"]
    verdicts = {True: "VPO is ahead", False: "VPO is behind", None: "no difference is shown"}
    return (
        f"asked afterwards for {WEIGHTINGS} trade-offs on each of {record['problems']} mazes, the policy trained "
        f"by VPO has the best route for {shares['vpo']:.0%}, the one trained by GRPO for {shares['grpo']:.0%}: "
        f"{verdicts[record['vpo_ahead']]}"
    )
