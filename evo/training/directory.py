"""The files of a training run: its configuration, its metrics by step, its checkpoints and their card.

DIR/train.json        configuration, command, commit, start
DIR/metrics.jsonl     a line for each step and each evaluation
DIR/checkpoints/step-000050/   a Hugging Face checkpoint with the trainer's state
DIR/config.json, model.safetensors, README.md ...   the final policy with its card
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evo.config.train import RESUMABLE, TrainRun
from evo.errors import BadInput, at_file
from evo.glossary import TRAINING_METRICS
from evo.whole_file import lock_folder, write_whole
from problems.weights import write_weights

SETTINGS, METRICS, _CHECKPOINTS = "train.json", "metrics.jsonl", "checkpoints"


class TrainingDirectory:
    """The directory of one training run. lines: of its metrics"""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.lines: list[dict[str, Any]] = []

    def settings(self) -> dict[str, Any]:
        """What `write_settings` wrote. Raises BadInput if there is no training run."""
        try:
            about: dict[str, Any] = json.loads((self.folder / SETTINGS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadInput(f"{self.folder}: holds no training run (no {SETTINGS})") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.folder}: {SETTINGS} cannot be read: {error}") from error
        return about

    def begun(self, run: TrainRun) -> bool:
        """Whether a training with these settings has begun here, its budgets aside. Raises BadInput if the directory
        holds something else."""
        if (self.folder / SETTINGS).exists():
            about, now = self.settings(), run.stored()
            then = about["given"]
            for name in [name for name in now if name not in RESUMABLE and then.get(name) != now[name]]:
                raise BadInput(
                    f"-o {self.folder}: holds a training run with another {name} ({_short(then.get(name))}, not "
                    f"{_short(now[name])}); name another directory, or continue it with `evo train --resume "
                    f"{self.folder}`"
                )
            return True
        if (self.folder / "config.json").exists():
            raise BadInput(f"-o {self.folder}: holds a checkpoint already; name another directory")
        if self.folder.exists() and not self.folder.is_dir():
            raise BadInput(f"-o {self.folder}: is a file")
        return False

    def write_settings(self, about: Mapping[str, Any]) -> None:
        with at_file(f"-o {self.folder}"):
            write_whole(self.folder / SETTINGS, json.dumps(about, indent=2) + "\n")

    def log(self, line: dict[str, Any]) -> None:
        """Append a record to the metrics and flush it to disk."""
        self.lines.append(line)
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def rewind(self, step: int) -> None:
        """Delete records after `step`, which will be repeated, and checkpoints that a kill left incomplete."""
        for pattern in ("*.writing-*", "*.replaced"):
            for half in (self.folder / _CHECKPOINTS).glob(pattern):
                shutil.rmtree(half)
        self.lines = [line for line in self.read_lines() if line["step"] <= step]
        path = self.folder / METRICS
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")

    def read_lines(self) -> list[dict[str, Any]]:
        """The complete records of the metrics, as they are on disk now."""
        path = self.folder / METRICS
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return [line for line in map(_parse, text.splitlines()) if line]

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Hold the directory, which is made if need be. Raises BadInput if another process trains in it."""
        return lock_folder(self.folder, METRICS, f"another training runs there; look at it: evo show {self.folder}")

    def is_locked(self) -> bool:
        """Whether a process of this machine trains in it now."""
        with contextlib.suppress(FileNotFoundError), (self.folder / METRICS).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def place(self, step: int) -> Path:
        return self.folder / _CHECKPOINTS / f"step-{step:06d}"

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        from vpo.training.checkpoint import TRAINER_STATE

        return sorted(
            p.parent for p in (self.folder / _CHECKPOINTS).glob(f"step-*/{TRAINER_STATE}") if p.parent.suffix == ""
        )

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` checkpoints."""
        for old in self.checkpoints()[:-keep]:
            shutil.rmtree(old)

    def card(self, run: TrainRun, about: Mapping[str, Any], source: str, notes: Sequence[str]) -> str:
        """The README.md of a checkpoint: how it was made, and its metrics. source: of the training data; notes:
        paragraphs on it"""
        step = self.lines[-1]["step"] if self.lines else 0
        defaults, values = TrainRun(problems=run.problems).stored(), run.stored()
        changed = {k: v for k, v in values.items() if v != defaults[k]}
        settings = ", ".join(f"{name} {_short(value)}" for name, value in changed.items())
        parts = [
            f"# {run.method} from {about['start']}",
            f"Trained for {step} steps on {source} by evo, commit {about['commit']}, seed {run.seed}:",
            f"    {about['command']}",
            f"Settings that differ from the defaults: {settings}. All of them are in {SETTINGS}.",
            *notes,
        ]
        rows = ["| metric | first | last | meaning |", "| --- | --- | --- | --- |"]
        for name, meaning in TRAINING_METRICS.items():
            if known := [line[name] for line in self.lines if name in line]:
                rows.append(f"| {name} | {_short(known[0])} | {_short(known[-1])} | {meaning} |")
        where = f"{' '.join(run.evaluate)}, {run.evaluate_answers} answers a problem in chains of {run.chain}"
        held_out = [f"Held out: {where}, temperature {run.asked_temperature:g}"] * bool(run.evaluate)
        parts += ["## Metrics", *held_out, "\n".join(rows), f"Those of every step are in {METRICS}."]
        return "\n\n".join(parts) + "\n"


def _parse(line: str) -> dict[str, Any] | None:
    """The record of a line; None for an incomplete or foreign line."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and type(parsed.get("step")) is int else None


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return write_weights(value)
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
