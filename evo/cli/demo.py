"""`evo demo`: from nothing to measured comparisons, in one to two minutes.

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
from islands.names import format_db_option
from problems.entry_points import find_entry_points, load_entry_point

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


@dataclass
class ComparisonAct:
    """A comparison of a model with a policy that has none.

    key: the noun of the problems
    problems: their address
    rival: the reference in words
    policies: by arm, the first one being the reference
    meaning: of each arm, in words
    baselines: as `evo compare` names them
    most, iterations: problems at most, and iterations of each; by default the user's
    """

    key: str
    title: str
    shows: str
    problems: str
    rival: str
    policies: Mapping[str, str]
    meaning: Mapping[str, str]
    baselines: Sequence[str] = ()
    most: int | None = None
    iterations: int | None = None

    @property
    def reference(self) -> str:
        return next(iter(self.policies))

    def play(self, context: DemoContext) -> ActResult:
        """Compare, as `evo compare` does, and print how each arm did."""
        output = context.output
        name, limit = choose_name(output.db), min(context.limit, self.most or context.limit)
        settings = {
            **{"limit": limit, "iterations": self.iterations or context.iterations, "seed": context.seed},
            **{"seeds": 1, "name": name, "against": self.reference, "db": output.db},
        }
        arguments = [
            "compare",
            self.problems,
            "--until-solved",
            *(f"--{key}={value}" for key, value in settings.items()),
        ]
        arguments += [f"--arm={arm}={policy}" for arm, policy in self.policies.items()]
        arguments += [f"--baseline={baseline}" for baseline in self.baselines or ("none",)]
        if wants_screen(output):
            loading = f"{limit} {self.key}"
            code = search_on_screen(name, output, loading, arguments, against=self.reference, quiet=True)
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                code = evo.main(args=[*arguments, "--plain", "--json"], prog_name="evo", standalone_mode=False)
            if code:
                context.console.print(f"Resume with: evo resume {format_arguments(name, output.db)}", soft_wrap=True)
        if code:
            raise click.exceptions.Exit(code)
        record = read_standing(name, output.db, self.reference)
        rows = [(arm, self.meaning[arm], f"{share:.0%}") for arm, share in record["solved"].items()]
        titles = ("arm", "description", f"solved of {record['problems']}")
        print_table(context.console, titles, rows, right=titles[2:])
        for text in record["verdicts"]:
            context.console.print(f"  {text}", soft_wrap=True, markup=False)
        return ActResult(record, self.describe(record))

    def describe(self, record: Mapping[str, Any]) -> str:
        """What `read_standing` gives, as a part of a sentence."""
        verdicts = {True: "so the model helps", False: "so the model does worse", None: "so no difference is shown"}
        model, other = (record["solved"].get(arm, 0.0) for arm in ("model", self.reference))
        return (
            f"on {record['problems']} {self.key} the model solved {model:.0%} and {self.rival} {other:.0%}, "
            f"{verdicts[record['model_ahead']]}"
        )


def read_standing(name: str, db: str, reference: str) -> dict[str, Any]:
    """A comparison's end: the share of problems that each arm solved, all verdicts, and whether `model` is ahead of the
    reference, or behind it; None if no difference is shown."""
    figures = load_comparison(name, db=db, against=reference).summary
    solved = {arm: each["solved"]["mean"] for arm, each in figures["arms"].items() if each["solved"] is not None}
    gap = figures["against"].get("model", {}).get("solved")
    ahead = gap["mean"] > 0 if gap is not None and gap["shown"] else None
    common = {"name": name, "problems": len(figures["problems"]), "verdicts": figures["verdicts"]}
    return {**common, "solved": solved, "model_ahead": ahead}


MAZES = ComparisonAct(
    "mazes",
    "Mazes with gold and diamonds in opposite corners, and steps for only one of them",
    "whether a small model helps a search of mazes, against random edits",
    "maze:hard",
    "random edits",
    {"random": "scripted:mutate", "model": "embedded:edit-solve"},
    {
        "random": "random edits of good routes, no model",
        "model": "a small model that was trained to improve routes",
        "best-of-n": "the same model, which never sees a good route",
    },
    ["best-of-n=model"],
)


@click.command()
@click.option("--limit", type=click.IntRange(1, 200), default=16, show_default=True, help="Mazes to search.")
@click.option("--iterations", type=click.IntRange(1), default=60, show_default=True, help="Iterations per maze.")
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
    """Measure whether a small model helps a search, in one to two minutes on two cores.

    On mazes a small transformer, which was trained to improve routes, searches against random edits, and against itself
    without evolution. Installed plug-ins add further acts: `evo fit` on a table.
    """
    folder, console = Path(output), open_console(stderr=as_json)
    points = find_entry_points(ENTRY_POINTS)
    acts: list[DemoAct] = [MAZES, *(load_entry_point(points[name], "evo demo") for name in sorted(points))]
    console.print("The demo takes one to two minutes on two cores. It shows")
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
        (f"evo show {name}{suffix}", "areas, times, costs and all differences"),
        (f"evo report {name}{suffix}", "all of it on a page for a browser"),
        (f"evo best {name}/model/s0{suffix}", "the best routes"),
        ("evo run my_scorer.py --policy MODEL", "search your own problem with any model"),
        *(row for result in results for row in result.next),
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
