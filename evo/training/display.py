"""The display of `evo train`: two live lines on a terminal, otherwise a plain line every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from evo.search.status import clock
from evo.search.stop import Stop, StopReason
from evo.training.metrics import HELD_OUT, ON_POLICY
from evo.training.run_directory import shown_metrics

if TYPE_CHECKING:
    from evo.training.loop import Training

PLAIN_SECONDS = 10.0


class TrainingDisplay:
    """Shows one training run, from loading to summary."""

    def __init__(self, console: Console, plain: bool):
        self.console = console
        self.live = console.is_terminal and not plain
        self._training: Training[Any] | None = None
        self._last = 0.0

    def loading(self) -> contextlib.AbstractContextManager[object]:
        return self.console.status("loading") if self.live else contextlib.nullcontext()

    @contextlib.contextmanager
    def show(self, training: Training[Any]) -> Iterator[None]:
        """The live lines, while training runs."""
        self._training = training
        if not training.main:
            yield
        elif self.live:
            with Live(self, console=self.console, refresh_per_second=4):
                yield
        else:
            run = training.run
            self.console.print(f"{run.method} from {training.about['start']} on {training.source}", soft_wrap=True)
            yield

    def log(self, line: dict[str, Any]) -> None:
        """Show a step or an evaluation."""
        if line["kind"] == "evaluation":
            self.console.print(f"step {line['step']}  held out: {format_metrics(line, HELD_OUT)}", soft_wrap=True)
        elif not self.live and time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            names = ON_POLICY if self._training is None else shown_metrics(self._training.run)
            self.console.print(f"step {line['step']}  {format_metrics(line, names)}", soft_wrap=True)

    def __rich__(self) -> RenderableType:
        assert self._training is not None
        status, run = self._training.status, self._training.run
        left = (status.steps - status.step) * status.seconds / status.step if status.step else None
        head = Text.assemble(
            (run.method, "bold"),
            f" from {self._training.about['start']}  step {status.step}/{status.steps}  "
            f"{clock(status.seconds)} trained, {'-' if left is None else clock(left)} left"
            + (f"  {status.stopping}" if status.stopping else ""),
        )
        rows: list[RenderableType] = [head, ProgressBar(total=status.steps, completed=status.step)]
        if status.metrics:
            rows += [Text(format_metrics(status.metrics, shown_metrics(run))), Text(self._rates(), style="dim")]
        return Group(*rows)

    def _rates(self) -> str:
        assert self._training is not None
        status = self._training.status
        spent = max(status.seconds, 1e-9)
        shares = "  ".join(f"{name} {share:.0%}" for name, share in status.shares().items())
        answers = f"{status.answers / spent:,.1f} answers/s  " if status.answers else ""  # examples are none
        return f"{answers}{status.tokens / spent:,.0f} tokens/s  {shares}"

    def summary(self, training: Training[Any], stop: Stop) -> dict[str, Any]:
        """Print how the training ended; returns the same as plain values."""
        status, folder = training.status, training.record.folder
        interrupted, reason = stop.reason is StopReason.INTERRUPTED, str(stop)
        ended = "Interrupted" if interrupted else "Done"
        why = f" ({reason})" if reason and not interrupted else ""
        answers = f"{status.answers:,} answers, " if status.answers else ""
        self.console.print(
            f"[bold]{ended}[/bold]{why}: {status.step} step{'s' * (status.step != 1)}, {answers}"
            f"{status.tokens:,} tokens in {clock(status.seconds)}; {self._rates()}",
            soft_wrap=True,
        )
        if training.run.from_traces:
            left = ", ".join(f"{count:,} {reason}" for reason, count in status.left_out.items() if count)
            self.console.print(f"learned from {status.groups:,} groups; left out: {left or 'none'}", soft_wrap=True)
        if interrupted:
            self.console.print(f"Resume with: evo train --resume {folder}", soft_wrap=True)
        else:
            tried = (training.run.evaluate or [training.example])[0]
            self.console.print(f"the policy: {folder}   try: evo evaluate {tried} --policy {folder}", soft_wrap=True)
        return summarize(training, stop)


def summarize(training: Training[Any], stop: Stop) -> dict[str, Any]:
    """How a training run ended, as plain values."""
    status, interrupted = training.status, stop.reason is StopReason.INTERRUPTED
    return {
        "outcome": "interrupted" if interrupted else "done",
        "reason": str(stop),
        "policy": str(training.record.folder),
        "method": training.run.method,
        "steps": status.step,
        "answers": status.answers,
        "tokens": status.tokens,
        "seconds": round(status.seconds, 3),
        "figures": status.metrics,
        "held_out": status.evaluation,
        **({"groups": status.groups, "left_out": status.left_out} if training.run.from_traces else {}),
    }


def format_metrics(line: dict[str, Any], names: tuple[str, ...]) -> str:
    return "  ".join(f"{name} {line[name]:.3f}" for name in names if name in line)
