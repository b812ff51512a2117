"""`evo pretrain`: train the embedded base policy from random weights."""

from __future__ import annotations

from pathlib import Path

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from evo.cli.flags import collect_given, flag, flags
from evo.cli.options import open_console, plain_option
from evo.config.parse import OPTIONS, parse
from evo.config.pretrain import PretrainSettings
from evo.errors import BadInput
from vpo.embedded.pretrain import pretrain as train
from vpo.embedded.pretrain_config import PretrainProgress as Report
from vpo.embedded.pretrain_config import languages


@click.command()
@click.argument("language", type=click.Choice(list(languages())))
@click.option(
    "-o", "--output", required=True, type=click.Path(file_okay=False), help="The directory of the new checkpoint."
)
@flag(PretrainSettings, "start", metavar="POLICY")
@flags(
    PretrainSettings,
    ("steps", "seconds", "seed", "width", "layers", "heads", "lr", "large_share", "precision", "threads"),
)
@plain_option
def pretrain(language: str, output: str, plain: bool, **options: float | str | None) -> int:
    """Train the base policy of LANGUAGE and save it as a Hugging Face checkpoint.

    A policy of maze writes routes through 9x9 boards. A policy of maze-edit writes an edit of its parent, or a route,
    on 9x9 and 13x13 boards. Plug-ins add languages. The same seed and number of steps give the same checkpoint. Use it
    with `--policy DIR`.
    """
    if (Path(output) / "config.json").exists():
        raise BadInput(f"-o {output}: holds a checkpoint already; name another directory")
    config = parse(PretrainSettings, {"language": language, **collect_given(options)}, OPTIONS).config()
    console = open_console()
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
    for kind, of in done.fidelity.items():
        console.print(
            f"{kind}: an answer keeps {of.shown.kept:.2f} of the parent that it is shown, {of.unshown.kept:.2f} of one "
            f"that it is not, the teacher's {of.teacher.kept:.2f}"
        )
    console.print(
        f"{output}: {last.step} steps, {last.tokens:,} tokens, loss {last.loss:.3f} in {last.seconds:.0f} s; "
        f"try: evo run {languages()[language].searched} --limit 10 --policy {output}"
    )
    return 0
