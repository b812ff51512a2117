"""`evo pretrain`: the embedded base policy from nothing."""

from __future__ import annotations

import click

from evo.cli.options import plain_option


@click.command()
@click.argument("language", type=click.Choice(["maze"]))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), help="directory of the new checkpoint")
@click.option("--steps", type=click.IntRange(1), help="optimiser steps  [default: what made the shipped policy]")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="stop by the clock instead of by steps")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--width", type=click.IntRange(8), help="of the model")
@click.option("--layers", type=click.IntRange(1), help="of the model")
@click.option("--heads", type=click.IntRange(1), help="of attention")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="CPU threads")
@plain_option
def pretrain(language: str, output: str, plain: bool, **options: float | None) -> int:
    """Train the base policy of LANGUAGE from nothing and save it as a Hugging Face checkpoint.

    One seed and one number of steps give one checkpoint. Use it with `--policy DIR`.
    """
    from pathlib import Path

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from evo.errors import BadInput
    from vpo.embedded.pretrain import PretrainConfig
    from vpo.embedded.pretrain import Progress as Report
    from vpo.embedded.pretrain import pretrain as train

    if (Path(output) / "config.json").exists():
        raise BadInput(f"-o {output}: holds a checkpoint already; name another directory")
    given = {key: value for key, value in options.items() if value is not None}
    config = PretrainConfig(**given)  # type: ignore[arg-type]
    if config.width % config.heads or config.width // config.heads % 2:
        raise BadInput(f"--width {config.width} must be an even multiple of --heads {config.heads}")
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

        history = train(output, config, report=report)
    last = history[-1]
    console.print(
        f"{output}: {last.step} steps, {last.tokens:,} tokens, loss {last.loss:.3f} in {last.seconds:.0f} s; "
        f"try: evo run maze:test --limit 10 --policy {output}"
    )
    return 0
