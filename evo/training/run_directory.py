"""The files of a training run: its configuration, its metrics by step, its checkpoints and their card.

DIR/train.json        configuration, command, commit, start
DIR/metrics.jsonl     a line for each step and each evaluation
DIR/checkpoints/step-000050/   a Hugging Face checkpoint with the trainer's state
DIR/config.json, model.safetensors, README.md ...   the final policy with its card
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.metrics import BY_EXAMPLE, HELD_OUT, OFFLINE, ON_POLICY
from islands.training import current_names
from vpo.training.config import IMPROVE

SETTINGS, METRICS, CHECKPOINTS = "train.json", "metrics.jsonl", "checkpoints"
_CURVE_ROWS = 12


def shown_metrics(run: TrainRun) -> tuple[str, ...]:
    """The metrics of its steps that are shown, in order."""
    if not run.from_traces:
        return ON_POLICY
    return BY_EXAMPLE if run.method == IMPROVE else OFFLINE


class TrainingRecord:
    """The directory of one training run."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.lines: list[dict[str, Any]] = []

    @classmethod
    def create(cls, folder: str | Path, about: Mapping[str, Any]) -> TrainingRecord:
        """Create a new run's directory. Raises BadInput if it already holds a run or a checkpoint."""
        record = cls(folder)
        record.check_new()
        try:
            record.folder.mkdir(parents=True, exist_ok=True)
            record.write_settings(about)
        except OSError as error:
            raise BadInput(f"-o {folder}: {error.strerror or error}") from error
        return record

    def check_new(self) -> None:
        """Raise BadInput if the directory already holds a run or a checkpoint."""
        if (self.folder / SETTINGS).exists():
            raise BadInput(
                f"-o {self.folder}: holds a training run already; continue it with `evo train --resume {self.folder}`"
            )
        if (self.folder / "config.json").exists():
            raise BadInput(f"-o {self.folder}: holds a checkpoint already; name another directory")
        if self.folder.exists() and not self.folder.is_dir():
            raise BadInput(f"-o {self.folder}: is a file")

    def begun(self) -> bool:
        """Whether a training run is in the directory. If a kill cut its first file short, it is none, and the file is
        deleted. Raises BadInput if that file is damaged and there are checkpoints."""
        path = self.folder / SETTINGS
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:
            if self.checkpoints():
                raise BadInput(
                    f"{path}: cannot be read, and there are checkpoints; train into another directory"
                ) from None
            path.unlink()
            return False
        return True

    @classmethod
    def open(cls, folder: str | Path) -> tuple[TrainingRecord, dict[str, Any]]:
        """A run to continue, and its settings. BadInput if the directory holds none."""
        record = cls(folder)
        try:
            about = json.loads((record.folder / SETTINGS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadInput(f"--resume {folder}: holds no training run (no {SETTINGS})") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"--resume {folder}: {SETTINGS} cannot be read: {error}") from error
        return record, about

    def write_settings(self, about: Mapping[str, Any]) -> None:
        (self.folder / SETTINGS).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def log(self, line: dict[str, Any]) -> None:
        """Append a record to the metrics and flush it to disk."""
        self.lines.append(line)
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read_lines(self) -> None:
        """The records logged so far."""
        path = self.folder / METRICS
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self.lines = [line for line in map(_parse, text.splitlines()) if line]

    def rewind(self, step: int) -> None:
        """Delete records after `step`, which will be repeated, and checkpoints that a kill left incomplete."""
        for pattern in ("*.writing-*", "*.replaced"):
            for half in (self.folder / CHECKPOINTS).glob(pattern):
                shutil.rmtree(half)
        self.read_lines()
        self.lines = [line for line in self.lines if line["step"] <= step]
        (self.folder / METRICS).write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")

    def place(self, step: int) -> Path:
        return self.folder / CHECKPOINTS / f"step-{step:06d}"

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        from vpo.training.checkpoint import STATE

        return sorted(p.parent for p in (self.folder / CHECKPOINTS).glob(f"step-*/{STATE}") if p.parent.suffix == "")

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` checkpoints."""
        for old in self.checkpoints()[:-keep]:
            shutil.rmtree(old)

    def card(self, run: TrainRun, about: Mapping[str, Any], source: str = "", notes: Sequence[str] = ()) -> str:
        """The README.md of a checkpoint: how it was made, and its metrics.

        source: of the training data; notes: paragraphs on it
        """
        step = self.lines[-1]["step"] if self.lines else 0
        defaults, values = TrainRun(problems=run.problems).stored(), run.stored()
        changed = {k: v for k, v in values.items() if v != defaults[k]}
        settings = ", ".join(f"{name} {_short(value)}" for name, value in changed.items())
        parts = [
            f"# {run.method} from {about['start']}",
            f"Trained for {step} steps on {source or ' '.join(run.problems)} by evo, commit {about['commit']}, "
            f"seed {run.seed}:",
            f"    {about['command']}",
            f"Settings that differ from the defaults: {settings}. All of them are in {SETTINGS}.",
            *notes,
        ]
        evaluations = [line for line in self.lines if line["kind"] == "evaluation"]
        if evaluations:
            names = [name for name in HELD_OUT if name in evaluations[-1]]
            where = f"{' '.join(run.evaluate)}, {run.evaluate_answers} answers a problem in chains of {run.chain}"
            parts += [f"## Held out: {where}, temperature {run.asked_temperature:g}", _table(evaluations, names)]
        steps = [line for line in self.lines if line["kind"] == "step"]
        if steps:
            names = [name for name in shown_metrics(run) if any(name in line for line in steps)]
            parts += ["## In training, on the prompts of the step", _table(steps, names)]
        return "\n\n".join(parts) + "\n"


def _parse(line: str) -> dict[str, Any] | None:
    """The record of a line; None for an incomplete or foreign line."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return current_names(parsed) if isinstance(parsed, dict) and type(parsed.get("step")) is int else None


def _table(lines: list[dict[str, Any]], names: list[str]) -> str:
    shown = lines[:: max(1, -(-len(lines) // _CURVE_ROWS))]
    if shown[-1] is not lines[-1]:
        shown.append(lines[-1])
    head = ["step", "answers", "seconds", *names]
    rows = [
        [f"{n['step']}", f"{n['answers']:,}", f"{n['seconds']:.0f}", *(_short(n.get(name)) for name in names)]
        for n in shown
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
