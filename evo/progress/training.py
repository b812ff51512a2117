"""A training folder (`evo train -o DIR`) as its watchers see it: how far it is, its curves, and what it gained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.comparison.summary import Curve, step_curve
from evo.glossary import TRAINING_METRICS
from evo.search.status import clock
from evo.training.directory import METRICS, SETTINGS, TrainingDirectory
from evo.training.display import describe_gain
from problems.address import name_few


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
