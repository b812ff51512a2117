"""The display of `evo train`: a bar on a terminal, otherwise a plain line every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from evo.search.status import clock
from evo.search.stop import Stop, StopReason
from evo.training.directory import HELD_OUT

if TYPE_CHECKING:
    from evo.training.loop import Training, TrainingStatus

PLAIN_SECONDS = 10.0


class TrainingDisplay:
    """Shows one training run, from loading to summary."""

    def __init__(self, console: Console, plain: bool):
        self.console = console
        columns = (
            *(TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            *(TimeRemainingColumn(), TextColumn("{task.fields[metrics]}", style="dim")),
        )
        self._bar = Progress(*columns, console=console, disable=plain or not console.is_terminal)
        self._training: Training | None = None
        self._last = 0.0

    def loading(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if self._bar.disable else self.console.status("loading")

    @contextlib.contextmanager
    def show(self, training: Training) -> Iterator[None]:
        """The bar, while training runs."""
        self._training, status = training, training.status
        title = f"{training.run.method} from {training.about['start']}"
        if self._bar.disable and training.main:
            self.console.print(f"{title} on {training.source.words}", soft_wrap=True)
        with self._bar if training.main else contextlib.nullcontext():
            self._bar.add_task(escape(title), total=status.steps, completed=status.step, metrics="")
            yield

    def log(self, line: dict[str, Any]) -> None:
        """Show a step or an evaluation."""
        training = self._training
        assert training is not None
        if line["kind"] == "evaluation":
            self.console.print(f"step {line['step']}  held out: {format_metrics(line, HELD_OUT)}", soft_wrap=True)
            return
        metrics, stopping = format_metrics(line, training.source.shown), training.status.stopping
        for task in self._bar.task_ids:
            self._bar.update(task, completed=line["step"], metrics=f"{metrics}  {escape(str(stopping or ''))}")
        if self._bar.disable and time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            self.console.print(f"step {line['step']}  {metrics}", soft_wrap=True)

    def summary(self, training: Training, stop: Stop) -> dict[str, Any]:
        """Print how the training ended; returns the same as plain values."""
        status, folder = training.status, training.directory.folder
        interrupted, reason = stop.reason is StopReason.INTERRUPTED, str(stop)
        ended = "Interrupted" if interrupted else "Done"
        why = f" ({reason})" if reason and not interrupted else ""
        answers = f"{status.answers:,} answers, " if status.answers else ""
        self.console.print(
            f"[bold]{ended}[/bold]{why}: {status.step} step{'s' * (status.step != 1)}, {answers}"
            f"{status.tokens:,} tokens in {clock(status.seconds)}; {_rates(status)}",
            soft_wrap=True,
        )
        if training.run.from_traces:
            self.console.print(f"learned from {status.groups:,} groups; left out: {status.reasons}", soft_wrap=True)
        if interrupted:
            self.console.print(f"Resume with: evo train --resume {folder}", soft_wrap=True)
        else:
            tried = (training.run.evaluate or [training.source.example])[0]
            self.console.print(f"the policy: {folder}   try: evo evaluate {tried} --policy {folder}", soft_wrap=True)
        return summarize(training, stop)


def _rates(status: TrainingStatus) -> str:
    spent = max(status.seconds, 1e-9)
    shares = "  ".join(f"{name} {share:.0%}" for name, share in status.shares().items())
    answers = f"{status.answers / spent:,.1f} answers/s  " if status.answers else ""  # examples are none
    return f"{answers}{status.tokens / spent:,.0f} tokens/s  {shares}"


def summarize(training: Training, stop: Stop) -> dict[str, Any]:
    """How a training run ended, as plain values."""
    status, interrupted = training.status, stop.reason is StopReason.INTERRUPTED
    return {
        "outcome": "interrupted" if interrupted else "done",
        "reason": str(stop),
        "policy": str(training.directory.folder),
        "method": training.run.method,
        "steps": status.step,
        "answers": status.answers,
        "tokens": status.tokens,
        "seconds": round(status.seconds, 3),
        "figures": status.metrics,
        "held_out": status.evaluation,
        **({"groups": status.groups, "left_out": status.left_out} if training.run.from_traces else {}),
    }


def format_metrics(line: dict[str, Any], names: Sequence[str]) -> str:
    return "  ".join(f"{name} {line[name]:.3f}" for name in names if name in line)
