"""A training (`evo train -o DIR`): how far its folder is, its curves, what it gained, and what is printed at its
end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evo.comparison.summary import Curve, step_curve
from evo.glossary import TRAINING_METRICS
from evo.process import is_stage
from evo.search.status import clock
from evo.search.stop import Stop, StopReason
from evo.training.directory import METRICS, SETTINGS, TrainingDirectory
from problems.address import name_few
from problems.registry import describe_sets

if TYPE_CHECKING:
    from evo.training.loop import Training


@dataclass(frozen=True, eq=False)
class TrainingProgress:
    """A training as far as it is.

    folder: as it was named; about: its train.json; lines: of its metrics.jsonl
    state: running, done, or stopped (interrupted or killed; `evo train --resume` continues it)
    updated: when the last line was written, seconds since 1970
    """

    folder: str
    about: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]
    state: str
    updated: float

    @classmethod
    def open(cls, folder: str) -> TrainingProgress:
        """Read what is written now. Raises BadInput if there is no training."""
        directory = TrainingDirectory(folder)
        about, lines, last = directory.settings(), tuple(directory.read_lines()), Path(folder) / "config.json"
        updated = (Path(folder) / (METRICS if lines else SETTINGS)).stat().st_mtime
        ended = last.exists() and last.stat().st_mtime >= updated  # the policy is written after the last line
        return cls(
            folder, about, lines, "running" if directory.is_locked() else "done" if ended else "stopped", updated
        )

    @property
    def title(self) -> str:
        """vpo from embedded:base on maze:train."""
        run = self.about["config"]
        learned = run["problems"] or [f"the answers of {name}" for name in run["from_traces"]]
        return f"{run['method']} from {self.about.get('start', run['policy'])} on {name_few(learned, 4, separator=' ')}"

    @property
    def step(self) -> int:
        return int(self.lines[-1]["step"]) if self.lines else 0

    @property
    def planned(self) -> int:
        """Steps."""
        return int(self.about.get("steps") or self.about["config"]["steps"])

    @property
    def standing(self) -> str:
        """How far it is, and what that took, in a line."""
        last: Mapping[str, Any] = self.lines[-1] if self.lines else {}
        answers = f"{last['answers']:,} answers, " if last.get("answers") else ""
        spent = f", {answers}{last['total_tokens']:,} tokens, {clock(last['seconds'])}" if last else ""
        stopped = f"; evo train --resume {self.folder} continues it" * (self.state == "stopped")
        return f"{self.state}, step {self.step:,} of {self.planned:,}{spent}{stopped}"

    @property
    def gain(self) -> str:
        """What it gained on held-out problems, in a sentence; "" without an evaluation."""
        return describe_gain(self.lines, self.about)

    def curve(self, name: str) -> Curve:
        """A metric over the steps that have it (step_curve)."""
        return step_curve([(line["step"], line[name]) for line in self.lines if name in line])

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics that it has -> their meaning: of held-out problems first, then of the steps."""
        return {name: words for name, words in TRAINING_METRICS.items() if any(name in line for line in self.lines)}

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": self.folder, "state": self.state, "title": self.title, "step": self.step,
            "steps": self.planned, "updated": self.updated, "gain": self.gain, "command": self.about["command"],
            "log": [dict(line) for line in self.lines],
        }  # fmt: skip


def is_training(name: str) -> bool:
    """Whether it is the folder of a training."""
    return (Path(name) / SETTINGS).is_file()


def format_metrics(line: Mapping[str, Any]) -> str:
    return "  ".join(f"{name} {line[name]:.3f}" for name in TRAINING_METRICS if name in line)


def describe_gain(lines: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """What a training gained on its held-out problems, in a sentence, from the first evaluation to the last; "" with
    fewer than two. lines: of metrics.jsonl; about: of train.json"""
    told = [line for line in lines if line["kind"] == "evaluation"]
    if len(told) < 2 or told[0]["step"] == told[-1]["step"]:
        return ""
    first, last = told[0], told[-1]
    names = [next((name for name in [*last][::-1] if name.startswith(kind)), "") for kind in ("solve@", "best@")]
    moved = ", ".join(f"{name} {first[name]:.2f} -> {last[name]:.2f}" for name in names if name in first)
    count, sets = about.get("held_out"), name_few(about["config"]["evaluate"], 3)
    where = f"{count} problems of {sets}" if count and count > 1 else sets
    return f"held out: {moved} on {where}"


def print_training(console: Console, training: Training, stop: Stop) -> None:
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
    named = shlex.quote(min(str(folder), os.path.relpath(folder), key=len))
    if not interrupted:
        tried = (training.run.evaluate or [_held_out_beside(training.source.example)])[0]
        console.print(f"Next: evo show {named}   evo evaluate {tried} --policy {named}", soft_wrap=True, markup=False)
    elif not is_stage():
        console.print(f"Resume with: evo train --resume {named}", soft_wrap=True, markup=False)
    if gain := describe_gain(training.directory.lines, training.about):
        console.print(gain, style="bold", soft_wrap=True, markup=False)


def _held_out_beside(address: str) -> str:
    """The set to measure on after training on this one: maze:test for maze:train/5; SET if none is known."""
    learned = address.partition("/")[0]
    sets = {row["name"] for row in describe_sets()} - {learned}
    named = (learned.removesuffix("-train"), learned.replace(":train", ":test"))
    return next((name for name in named if name in sets), "SET")


def summarize_training(training: Training, stop: Stop) -> dict[str, Any]:
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
