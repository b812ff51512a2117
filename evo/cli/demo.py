"""`evo demo`: one command from nothing to a finished search."""

from __future__ import annotations

import click

from evo.cli.options import DEFAULT_DB, db_option, plain_option, without_password

DEMO_PROBLEMS = "maze:test"


@click.command()
@click.option("--limit", type=click.IntRange(1, 100), default=30, show_default=True, help="mazes to search")
@click.option("--iterations", type=click.IntRange(1), default=50, show_default=True, help="prompt groups per maze")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@db_option
@plain_option
def demo(limit: int, iterations: int, seed: int, db: str, plain: bool) -> int:
    """Search held-out 9x9 mazes with the embedded base policy.

    Each maze hides gold and diamonds in opposite corners and leaves steps for one of them: the objectives conflict.
    The policy, a small transformer that ships with the package, proposes chains of three routes; an island population
    keeps the best of each kind and shows them to it as parents. Solved means the exact optimum was reached.
    """
    from rich.console import Console
    from rich.table import Table

    from evo.cli.running import drive
    from evo.config import load_config
    from evo.launch import Launched, launch

    config = load_config(
        None,
        {
            "problems": (DEMO_PROBLEMS,),
            "limit": limit,
            "iterations": iterations,
            "seed": seed,
            "policy": "embedded:base",
        },
    )

    def ending(console: Console, launched: Launched) -> None:
        run = launched.run.name
        suffix = "" if db == DEFAULT_DB else f" --db {without_password(db)}"
        console.print("\nNext:", style="bold")
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        for command, what in (
            (f"evo show {run}{suffix}", "best routes and their vectors"),
            (f"evo resume {run} --iterations {iterations * 2}{suffix}", "search on from here"),
            (f"evo export {run} -o traces.jsonl{suffix}", "all of it as training traces"),
            ("evo run programs:easy --policy MODEL", "evolve programs with any model"),
            ("evo problems", "what else there is to search"),
        ):
            table.add_row(f"  {command}", f"[dim]{what}[/dim]")
        console.print(table)

    command = f"evo demo --limit {limit} --iterations {iterations} --seed {seed}"
    return drive(
        lambda: launch(config, db=db, name=None, command=command), db=db, plain=plain, as_json=False, ending=ending
    )
