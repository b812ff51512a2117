"""What is printed of a training run: its metrics in a line, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evo.search.status import clock
from evo.search.stop import Stop, StopReason
from evo.training.directory import HELD_OUT

if TYPE_CHECKING:
    from evo.training.loop import Training


def format_metrics(line: Mapping[str, Any], names: Sequence[str] = HELD_OUT) -> str:
    return "  ".join(f"{name} {line[name]:.3f}" for name in names if name in line)


def print_summary(console: Console, training: Training, stop: Stop) -> None:
    """Print how the training ended."""
    status, folder = training.status, training.directory.folder
    interrupted, reason = stop.reason is StopReason.INTERRUPTED, str(stop)
    ended = "Interrupted" if interrupted else "Done"
    why = f" ({reason})" if reason and not interrupted else ""
    spent = max(status.seconds, 1e-9)
    shares = "  ".join(f"{name} {share:.0%}" for name, share in status.shares().items())
    answers = f"{status.answers:,} answers, " if status.answers else ""  # examples are none
    rate = f"{status.answers / spent:,.1f} answers/s  " if status.answers else ""
    console.print(
        f"[bold]{ended}[/bold]{why}: {status.step} step{'s' * (status.step != 1)}, {answers}{status.tokens:,} tokens "
        f"in {clock(status.seconds)}; {rate}{status.tokens / spent:,.0f} tokens/s  {shares}",
        soft_wrap=True,
    )
    if training.run.from_traces:
        console.print(f"learned from {status.groups:,} groups; left out: {status.reasons}", soft_wrap=True)
    if interrupted:
        console.print(f"Resume with: evo train --resume {folder}", soft_wrap=True)
    else:
        tried = (training.run.evaluate or [training.source.example])[0]
        console.print(f"the policy: {folder}   try: evo evaluate {tried} --policy {folder}", soft_wrap=True)


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
