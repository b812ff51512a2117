"""`evo verify`: is the winner of a search real?"""

from __future__ import annotations

from typing import Any

import click

from evo.cli.flags import flag
from evo.cli.live import Lines
from evo.cli.options import (
    db_option,
    json_option,
    named_weights_option,
    open_console,
    plain_option,
    print_json,
    print_table,
    read_command,
)
from evo.config.run import RunConfig


@click.command("verify")
@click.argument("name", metavar="RUN")
@click.option("--problem", multiple=True, metavar="NAME", help="Verify only this problem of the run.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 10_000),
    help="Scores of each answer.  [default: 1, or 10 if the scorer is noisy]",
)
@click.option(
    "--sample/--no-sample", default=None, help="Run plain sampling.  [default: if the policy is small and local]"
)
@click.option("--tune/--no-tune", default=True, help="Run the tuned start.  [default: on]")
@flag(RunConfig, "max_answers", help="Answers of plain sampling, and of the tuned start.  [default: as the search]")
@flag(RunConfig, "max_seconds", help="Stop plain sampling, and the tuned start, after this many seconds each.")
@named_weights_option
@db_option
@plain_option
@json_option
def verify_command(name: str, db: str, plain: bool, as_json: bool, **options: Any) -> int:
    """Score the best answer of RUN and its seed again: once, or ten times in turn if the scorer is noisy, and on
    held-out cases if it has any. Before that, search with the same number of answers without evolution: the numbers of
    the seed tuned by CMA-ES (a run RUN-tuned), and the policy sampled without a parent (RUN-sampled).

    A verification that was interrupted continues. Exit code 1: a best answer cannot be scored now.

    \b
    evo verify mine
    evo verify mine --repeats 30 --no-tune
    """
    from evo.api.drive import Driver
    from evo.api.verify import verify_run  # slow to import
    from evo.comparison.verification import write_mean

    console = open_console(stderr=as_json, color_system=None if plain else "auto", markup=False)
    found = verify_run(name, db, lambda: Driver(Lines(console), command=True), read_command(), **options)
    if as_json:
        print_json(found.record())
    else:
        fitness = found.fitness
        gains = {answer: fitness.gain(answer) for answer in fitness.values}
        rows = [(found.name(one), write_mean(fitness.mean(one)), str(gain or "-")) for one, gain in gains.items()]
        print_table(console, ("answer", fitness.name, "winner better by"), rows)
        console.print(f"\n{found}")
    return 1 if found.failed else 0
