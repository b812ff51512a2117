"""`evo train`: fine-tune a policy by reward on a problem set."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any, Literal, get_args, get_origin

import click

from evo.cli.options import json_option, plain_option
from evo.config.train import TrainRun
from islands.db.address import hide_password

_POSITIONAL = ("method", "problems")
_RESUMABLE = {"steps", "max_seconds", "max_answers", "keep", "save_every", "passes", "db", "from_traces"}
"""What a resume may change: budgets, and where the same traces lie."""


def _options(command: Any) -> Any:
    """A flag for every setting of TrainRun, its help and default taken from there."""
    for name, field in reversed(TrainRun.model_fields.items()):
        if name in _POSITIONAL:
            continue
        kind = field.annotation
        if type(None) in get_args(kind):
            kind = next(one for one in get_args(kind) if one is not type(None))
        settings: dict[str, Any] = {"default": None, "help": field.description}
        if name == "db":
            settings["envvar"] = "EVO_DB"
        if field.default not in (None, [], ...) and get_origin(field.annotation) is not list:
            shown = " ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
            settings["help"] = " ".join(filter(None, (field.description, f" [default: {shown}]")))
        flag = "--" + name.replace("_", "-")
        if kind is bool:
            flag = f"{flag}/--no-{name.replace('_', '-')}"
        elif get_origin(kind) is Literal:
            settings["type"] = click.Choice([str(one) for one in get_args(kind)])
        elif get_origin(kind) is list:
            settings["multiple"] = True
            inner = get_args(kind)[0]
            settings["type"] = click.Choice(list(get_args(inner))) if get_origin(inner) is Literal else str
        elif get_origin(kind) is tuple:
            settings["nargs"], settings["type"] = len(get_args(kind)), float
        else:
            settings["type"] = kind
        command = click.option(flag, name, **settings)(command)
    return command


@click.command()
@click.argument("method", required=False)
@click.argument("problems", nargs=-1, metavar="PROBLEMSET...")
@click.option("-o", "--output", type=click.Path(file_okay=False), help="directory of the run and of the trained policy")
@click.option("--resume", "folder", type=click.Path(file_okay=False), help="go on with the run in this directory")
@click.option(
    "--config", "config_file", type=click.Path(dir_okay=False), help="settings from a YAML file; flags override"
)
@_options
@json_option
@plain_option
def train(
    method: str | None,
    problems: tuple[str, ...],
    output: str | None,
    folder: str | None,
    config_file: str | None,
    as_json: bool,
    plain: bool,
    **options: Any,
) -> int:
    """Train a policy with METHOD (vpo, grpo, max_at_k, maxrl, gdpo, random_weighting, multi_rlvr, entropic, per_answer,
    archive_vpo) on PROBLEMSET, or on the prompt groups that searches stored (--from-traces), and write it to -o as a
    Hugging Face checkpoint with its card.

    \b
    evo train vpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/vpo
    evo train grpo maze:train --policy embedded:base --steps 300 --evaluate maze:test -o runs/grpo
    evo train vpo --from-traces RUN --db sqlite:///evo.db --policy embedded:vpo -o runs/again
    evo train --resume runs/vpo --steps 600
    """
    from rich.console import Console

    from evo.config.parse import parse, read_yaml
    from evo.config.train import TrainRun
    from evo.errors import BadInput
    from evo.training.display import Display
    from evo.training.setup import begin, resume

    given = {name: _plain(value) for name, value in options.items() if value not in (None, ())}
    console = Console(highlight=False, stderr=as_json)
    display = Display(console, plain)
    if folder:
        fixed = sorted(set(given) - _RESUMABLE)
        if method or problems or output or config_file or fixed:
            what = f"--{fixed[0].replace('_', '-')}" if fixed else "METHOD, PROBLEMSET, -o and --config"
            raise BadInput(f"--resume goes on as the run began: {what} cannot change (budgets can)")
        with display.loading():
            training = resume(folder, given, display.log)
    else:
        values = {**read_yaml(config_file), **given}
        values |= {"method": method} if method else {}
        values |= {"problems": list(problems)} if problems else {}
        if not output:
            raise BadInput("where to? name a directory with -o DIR")
        if "method" not in values:
            raise BadInput("which method? evo train vpo maze:train -o DIR")
        run = parse(TrainRun, values, f"--config {config_file}" if config_file else "the options")
        with display.loading():
            training = begin(run, output, hide_password(shlex.join(["evo", *sys.argv[1:]])), display.log)
    return asyncio.run(drive_training(training, display, as_json=as_json))


async def drive_training(training: Any, display: Any, *, as_json: bool) -> int:
    """Train to the end or to an interrupt; the exit code."""
    import json

    from evo.cli.execute_run import obeying_interrupts

    try:
        with display.shown(training), obeying_interrupts(training.loop.stop):
            reason = await training.loop.run()
        interrupted = reason.startswith("interrupted")
        if not interrupted:
            training.finish()
        if training.main:
            summary = display.summary(training, reason)
            if as_json:
                sys.stdout.write(json.dumps(summary) + "\n")
        return 130 if interrupted else 0
    except asyncio.CancelledError:
        return 130
    finally:
        await training.close()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
