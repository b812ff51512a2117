"""`evo pretrain`: the embedded base policy from nothing."""

from __future__ import annotations

from typing import Any

import click

from evo.cli.options import plain_option


@click.command()
@click.argument("language", type=click.Choice(["maze", "maze-edit"]))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), help="directory of the new checkpoint")
@click.option("--start", metavar="POLICY", help="embedded policy to go on from  [default: from nothing]")
@click.option("--steps", type=click.IntRange(1), help="optimiser steps  [default: what made the shipped policy]")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="stop by the clock instead of by steps")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--width", type=click.IntRange(8), help="of the model")
@click.option("--layers", type=click.IntRange(1), help="of the model")
@click.option("--heads", type=click.IntRange(1), help="of attention")
@click.option("--lr", type=click.FloatRange(0, min_open=True), help="peak learning rate")
@click.option("--precision", type=click.Choice(["auto", "fp32", "bf16"]), help="of the products  [default: auto]")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="CPU threads")
@plain_option
def pretrain(language: str, output: str, plain: bool, **options: float | str | None) -> int:
    """Train the base policy of LANGUAGE and save it as a Hugging Face checkpoint.

    A policy of maze writes routes; one of maze-edit writes a change of the parent that it is shown, or a route. One
    seed and one number of steps give one checkpoint. Use it with `--policy DIR`.
    """
    from pathlib import Path

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from evo.errors import BadInput
    from vpo.embedded.pretrain import Progress as Report
    from vpo.embedded.pretrain import configured
    from vpo.embedded.pretrain import pretrain as train

    if (Path(output) / "config.json").exists():
        raise BadInput(f"-o {output}: holds a checkpoint already; name another directory")
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    try:
        config = configured(language, **given)
    except ValueError as error:
        raise BadInput(str(error)) from error
    console = Console(highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    live = not plain and console.is_terminal
    with Progress(*columns, console=console, disable=not live) as bar:
        task = bar.add_task("preparing", total=1.0)

        def report(now: Report) -> None:
            line = f"step {now.step}  loss {now.loss:.3f}  {now.tokens / max(now.seconds, 1e-9):,.0f} tokens/s"
            bar.update(task, completed=now.done, description=line)
            if not live:
                console.print(line)

        done = train(output, config, report=report)
    last = done.history[-1]
    if done.shown and done.unshown and done.teacher:
        console.print(
            f"an answer keeps {done.shown.kept:.2f} of the parent that it is shown, {done.unshown.kept:.2f} of one "
            f"that it is not, the teacher's {done.teacher.kept:.2f}"
        )
    console.print(
        f"{output}: {last.step} steps, {last.tokens:,} tokens, loss {last.loss:.3f} in {last.seconds:.0f} s; "
        f"try: evo run maze:test --limit 10 --policy {output}"
    )
    return 0
