"""The work of a stage: the place of its result, how much of it exists, and the command that does the rest.

Every stage is one `evo` command in a separate process. A stage that crashes, or runs out of memory, therefore harms
nothing else, and torch's memory is freed between stages. Screens, Ctrl-C, exit codes and stored runs are those of the
command, and a stage continues by the command's resume.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evo.pipelines.file import KINDS, SEARCHES, Stage, replace_references
from evo.pipelines.state import StageState, State
from evo.search.stop import StopReason
from evo.training.run_directory import TrainingRecord
from islands.db.address import hide_password
from islands.db.comparisons import runs_named
from islands.db.engine import parse_address
from islands.db.store import Store
from islands.errors import DatabaseUnavailable, NoRuns, RunBusy, UnknownRun
from islands.types import RunRecord

BUSY_SECONDS = 30.0


@dataclass(frozen=True)
class PipelineFolder:
    """The directory of a pipeline. db: the database's address, with its password."""

    folder: Path
    db: str

    def gives(self, state: State, stage: Stage, attempt: int) -> str:
        """The result of an attempt at the stage: a path below the directory, or a run's name."""
        name = stage.name if attempt == 1 else f"{stage.name}.{attempt}"
        if stage.kind in SEARCHES:
            return f"{state.name}-{name}"
        kind = KINDS[stage.kind]
        return f"{kind.folder}/{name}{kind.ending}"

    def address(self, record: StageState) -> str:
        """The result of the stage as an argument of commands."""
        if record.kind == "pick":
            return f"list:{self.folder / record.gives}"
        return record.gives if record.kind in SEARCHES else str(self.folder / record.gives)

    def present(self, record: StageState) -> bool:
        """Whether the result of a finished stage still exists."""
        if record.kind in SEARCHES:
            return bool(self.runs(record.gives))
        path = self.folder / record.gives
        return (path / "config.json").is_file() if record.kind in ("pretrain", "train") else path.is_file()

    def left(self, record: StageState) -> bool:
        """Whether an unfinished stage left results that must not be mixed with other settings."""
        if record.kind in SEARCHES:
            return bool(self.runs(record.gives))
        return (self.folder / record.gives).exists()

    def finished(self, record: StageState) -> bool:
        """Whether a stage has ended although its end was not recorded: its process ended before this one was killed."""
        if record.kind in SEARCHES:
            runs = self.runs(record.gives)
            return bool(runs) and all(run.status == "done" and not _faults(run) for run in runs)
        path = self.folder / record.gives
        if record.kind == "evaluate" and path.is_file():
            return not json.loads(path.read_text(encoding="utf-8")).get("faults")
        if record.kind == "pretrain":
            return (path / "config.json").is_file()
        return record.kind in ("pick", "report") and path.is_file()

    def runs(self, name: str) -> list[RunRecord]:
        """The stored runs of this name, or of the comparison of this name; none if there is no database yet."""
        if self._missing():
            return []
        try:
            with Store.open(self.db, read_only=True) as store:
                return runs_named(store, name)
        except (UnknownRun, NoRuns):
            return []

    def check_database(self) -> None:
        """Raise DatabaseUnavailable if the database cannot be used."""
        if self._missing():
            where = Path(str(parse_address(self.db).database)).parent
            if not where.is_dir() and where.resolve() != self.folder.resolve():
                raise DatabaseUnavailable(f"{self.db}: there is no directory {where}")
            return
        self.runs("")

    def _missing(self) -> bool:
        url = parse_address(self.db)
        return url.drivername == "sqlite" and not Path(str(url.database)).exists()

    def command(self, stage: Stage, record: StageState, state: State) -> list[str]:
        """The arguments of `evo` that do the stage, or the rest of it. Writes its files first."""
        values = replace_references(dict(stage.given), lambda name: self.address(state.stages[name]))
        target = self.folder / record.gives
        if stage.kind not in SEARCHES:
            target.parent.mkdir(parents=True, exist_ok=True)
        arguments: list[str] = {
            "pretrain": self._pretrain,
            "train": self._train,
            "evaluate": self._evaluate,
            "pick": self._pick,
            "search": self._search,
            "compare": self._compare,
            "report": self._report,
        }[stage.kind](stage, record, values, target)
        return arguments

    def _pretrain(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        # incomplete directories that a kill left
        for half in target.parent.glob(f"{target.name}.writing-*"):
            shutil.rmtree(half)
        language = values.pop("language", "maze")
        return ["pretrain", language, "-o", str(target), *_flags(values)]

    def _train(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        if TrainingRecord(target).begun():
            return ["train", "--resume", str(target)]
        stored = values.get("from_traces") or values.get("parents_from", "").startswith("archive:")
        if stored and "db" not in values and self.db == hide_password(self.db):
            values["db"] = self.db  # an address with a password is passed only through the environment
        return ["train", "--config", self._config(stage, record, values), "-o", str(target)]

    def _evaluate(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        problems = values.pop("problems", [])
        return ["evaluate", *problems, *_flags(values), "-o", str(target)]

    def _pick(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        evaluations = values.pop("evaluations")
        return ["problems", "pick", *evaluations, *_flags(values), "-o", str(target)]

    def _search(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        if self._freed(record.gives):
            return ["resume", record.gives]
        return ["run", "--config", self._config(stage, record, values), "--name", record.gives]

    def _compare(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        against, processes = values.pop("against", None), values.pop("processes", None)
        options = [] if processes is None else ["--processes", str(processes)]
        if self._freed(record.gives):
            return ["resume", record.gives, *options]
        options += [] if against is None else ["--against", against]
        return ["compare", "--config", self._config(stage, record, values), "--name", record.gives, *options]

    def _report(self, stage: Stage, record: StageState, values: dict[str, Any], target: Path) -> list[str]:
        return ["report", values.pop("run"), *_flags(values), "-o", str(target)]

    def _config(self, stage: Stage, record: StageState, values: dict[str, Any]) -> str:
        folder = self.folder / "settings"
        folder.mkdir(exist_ok=True)
        path = folder / f"{stage.name if record.attempt == 1 else f'{stage.name}.{record.attempt}'}.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return str(path)

    def _freed(self, name: str) -> bool:
        """Whether runs of this name are stored. Waits for child processes that have not noticed the kill of their
        parent."""
        runs = [run for run in self.runs(name) if run.status != "done"]
        if not runs:
            return bool(self.runs(name))
        deadline = time.monotonic() + BUSY_SECONDS
        with Store.open(self.db) as store:
            for run in runs:
                while True:
                    try:
                        store.lease(run.id).release()
                        break
                    except RunBusy:
                        if time.monotonic() > deadline:
                            raise
                        time.sleep(0.2)
        return True


def _flags(values: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for name, value in values.items():
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", str(value)]
    return flags


def _faults(run: RunRecord) -> bool:
    problems = run.summary.get("problems", [])
    return any(str(problem.get("stopped", "")).partition(":")[0] == StopReason.FAILED for problem in problems)
