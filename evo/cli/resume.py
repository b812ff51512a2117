"""`evo resume`: go on with a stored run."""

from __future__ import annotations

from typing import Any

import click

from evo.cli.options import db_option, json_option, plain_option


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--iterations", type=click.IntRange(1), help="a new total per problem")
@click.option("--max-answers", type=click.IntRange(1), help="a new budget of answers, those already spent included")
@click.option("--max-tokens", type=click.IntRange(1), help="a new budget of tokens, those already spent included")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="a budget of seconds for this part")
@db_option
@plain_option
@json_option
def resume(name: str, db: str, plain: bool, as_json: bool, **budgets: Any) -> int:
    """Go on with RUN after its last committed group, on the same seed; nothing committed is scored again."""
    from evo.cli.running import drive
    from evo.launch import relaunch

    changed = {key: value for key, value in budgets.items() if value is not None}
    return drive(lambda: relaunch(name, db=db, overrides=changed), db=db, plain=plain, as_json=as_json)
