"""The command line. Each command's module is imported when it is called, so `evo --help` starts at once."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from evo.process import is_stage, is_text, prepare_streams, print_warnings_plainly, wrap_words
from evo.version import __version__
from problems.address import did_you_mean
from problems.child_process import one_blas_thread
from problems.entry_points import find_entry_points, load_entry_point, read_summary
from problems.redaction import redact

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("evo.cli.demo", "Compare two trained policies on trade-offs named afterwards, in half a minute."),
    "run": ("evo.cli.run", "Search problems with a policy."),
    "resume": ("evo.cli.run", "Continue a run after its last committed iteration."),
    "watch": ("evo.cli.watch", "Watch a run or a comparison on a live screen, from anywhere."),
    "ui": ("evo.cli.ui", "Show the runs of a database, and the page of each, in a browser."),
    "runs": ("evo.cli.runs", "List the runs in a database; delete or rename them."),
    "show": ("evo.cli.show", "Show a run, a comparison, or a candidate with its lineage."),
    "best": ("evo.cli.show", "Print the best answers of a run or a comparison."),
    "verify": ("evo.cli.check", "Score the best answer again, beside a tuned seed and plain samples."),
    "problems": ("evo.cli.problems", "List problem sets, or look at what an address names."),
    "check": ("evo.cli.check", "Check a scorer before a search: repeats, objectives, cheats."),
    "export": ("evo.cli.runs", "Write a run's iterations as training traces."),
    "report": ("evo.cli.show", "Write a run or a comparison as one HTML page, with its plots."),
    "evaluate": ("evo.cli.policy", "Measure a policy without search: best@k, solve@k, diversity."),
    "compare": ("evo.cli.run", "Compare policies as searchers: solve rates under one budget, with a verdict."),
    "train": ("evo.cli.policy", "Fine-tune a policy by reward (vpo, grpo, ...) or by what searches found (improve)."),
    "pipeline": ("evo.cli.pipeline", "Train, evaluate, search, compare and report by one file."),
    "doctor": ("evo.cli.doctor", "Check this machine: sandbox, database, GPUs, a policy."),
}

COMMAND_ENTRY_POINTS = "evo.commands"
"""The group of entry points of installed packages' commands. Each names a click command; the first line of its module's
docstring is its line in `evo --help`."""


class LazyGroup(click.Group):
    """A group whose commands are in separate modules, named in COMMANDS and by entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_installed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in _installed():
            return None
        with one_blas_thread():
            if cmd_name in COMMANDS:
                command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), f"{cmd_name}_command")
            else:
                command = load_entry_point(_installed()[cmd_name], f"evo {cmd_name}")
        if not gc.isenabled():  # main disabled it; imported objects are never garbage, so they are not scanned
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and args[0] not in _installed():
            names = self.list_commands(ctx)
            hint = did_you_mean(args[0], names).removeprefix("; ") or f"there are {', '.join(names)}"
            ctx.fail(f"no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            listed = [(name, help_) for name, (_, help_) in COMMANDS.items()]
            formatter.write_dl(listed + [(name, read_summary(point)) for name, point in _installed().items()])


def _installed() -> dict[str, EntryPoint]:
    """Commands of installed packages; a name of COMMANDS stays ours."""
    points = find_entry_points(COMMAND_ENTRY_POINTS)
    return {name: points[name] for name in sorted(points) if name not in COMMANDS}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="evo")
def evo() -> None:
    """Evolutionary search driven by policies trained to be searched.

    Start with `evo demo`. `evo COMMAND --help` explains each command.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a fault of ours, 2 bad input, 130 interrupted with everything committed."""
    end_with_parent()
    prepare_streams()
    # without passwords: the text of an exception may hold an address
    sys.excepthook = lambda *raised: print(
        redact("".join(traceback.format_exception(*raised))), end="", file=sys.stderr
    )
    gc.disable()  # until the command is imported (LazyGroup)
    code = [1]  # the exit code of an uncaught exception
    atexit.register(_leave, code)
    if argv is not None:
        sys.argv[1:] = argv  # a run records its command
    code[0] = invoke(sys.argv[1:])
    sys.exit(code[0])


def end_with_parent() -> None:
    """Let the kernel kill this process, a stage of a pipeline, when the one that EVO_PARENT names ends. This works on
    Linux; elsewhere it continues, which only costs time. All results survive a kill at any moment."""
    if (parent := os.environ.pop("EVO_PARENT", "")) and sys.platform == "linux":
        import ctypes  # only here

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
        if os.getppid() != int(parent):  # it ended before the call
            os._exit(1)


def _leave(code: list[int]) -> None:
    """End the process before Python frees its modules one by one, which takes a quarter of the time of their import.
    It is registered first, so it runs last: all threads are joined by then, and all other exit handlers have run."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code[0])


def invoke(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are one line on stderr."""
    print_warnings_plainly()
    if (invalid := next((argument for argument in argv if not is_text(argument)), None)) is not None:
        return _complain(f"{invalid!r} is not UTF-8 text, so it cannot be a name or a path", 2)
    try:
        with evo.make_context("evo", list(argv)) as command:  # evo.main would print a line after Ctrl-C
            code = evo.invoke(command)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        where = context.command_path.removeprefix("evo") if context else ""
        return _complain(f"{' '.join(error.format_message().split())} (see evo{where} --help)", 2)
    except (click.Abort, KeyboardInterrupt) as error:
        from evo.errors import INTERRUPTED

        return _complain(str(error), INTERRUPTED) if str(error) and not is_stage() else INTERRUPTED
    except BrokenPipeError:
        # the reader closed the pipe (`evo runs | head`), which is no error: keep Python from reporting one at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from evo.exit_status import exit_code_of, message_of

        code = exit_code_of(error)
        if os.environ.get("EVO_TRACEBACK"):
            raise
        if code is not None:
            return _complain(" ".join(message_of(error).split()), code)
        raise


def _complain(message: str, code: int) -> int:
    click.echo(wrap_words(f"evo: {redact(message)}"), err=True)
    return code
