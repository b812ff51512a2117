"""The stages of a pipeline, one after another: each is one `evo` command in a separate process.

A stage that crashes, or runs out of memory, harms nothing else. It continues by its command's own resume, and what is
done is not done again. DIR/pipeline.json holds what each stage was begun with, DIR/settings/ the --config files.

The inputs of a stage in addition to its settings (scorers, weights, stored runs, files) have fingerprints: those by
which a run knows its scorer and a policy its version; of a stored run they change with its iterations. A stage whose
inputs have changed is refused, since its results would be mixed with results of the new ones.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from evo.config.parse import StrictModel, parse
from evo.config.train import RESUMABLE, run_and_address
from evo.errors import INTERRUPTED, BadInput
from evo.exit_status import describe_exit, exit_code_of
from evo.pipelines.file import SEARCHES, STAGE_KINDS, Pipeline, Stage, replace_references
from evo.process import ENDS, STAGE, handling
from evo.search.resources import problems_at
from evo.whole_file import lock_folder, write_whole
from islands.comparisons import runs_named
from islands.engine import parse_url
from islands.errors import DatabaseUnavailable, NoRuns, UnknownRun
from islands.runs import group_count
from islands.store import Store
from islands.types import RunRecord
from problems.address import user_path
from problems.child_process import python_path
from problems.contract import BadAddress
from problems.fingerprint import files_fingerprint, files_named_by, fingerprint_of
from problems.redaction import redact
from problems.registry import is_of_package
from vpo.policies.address import PolicyAddress, parse_addresses
from vpo.policies.checkpoint import find_base, fingerprint
from vpo.policies.command import find_command

_STATE, _LOCK = "pipeline.json", ".lock"
_BUSY_SECONDS = 30.0
"""How long to wait for a run of a process that was killed and has not ended yet."""
_LONGEST_PREFIX = 36
"""Characters of the directory's name at most: with the 40 of a stage's name it fits a run's name."""


class Status(StrEnum):
    """Of a stage, and of a pipeline."""

    WAITING = "waiting"
    BEGUN = "begun"
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class StageRecord(StrictModel):
    """settings: with which it was begun; inputs: fingerprints of what it reads, by name, as it was begun"""

    state: Status = Status.WAITING
    settings: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""


class PipelineState(StrictModel):
    """db: the database that was named, without its password; "" for the one in the directory"""

    version: Literal[2] = 2
    db: str = ""
    stages: dict[str, StageRecord] = Field(default_factory=dict)


OnStage = Callable[[Stage, StageRecord, bool], None]
"""Called when a stage begins and when it ends, with whether it had begun before."""


class PipelineRun:
    """A pipeline in its directory.

    db: the database's address, with its password; prefix: of the names of its runs; state: what was done before
    """

    def __init__(self, pipeline: Pipeline, folder: Path, db: str | None) -> None:
        """db: the database that was named. Raises BadInput if the directory belongs to something else."""
        self.pipeline, self.folder = pipeline, folder
        self.db = db or f"sqlite:///{folder / 'evo.db'}"
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)[:_LONGEST_PREFIX]
        self.prefix = name.strip("-") or "pipeline"
        self.interrupted = False
        self._process: _StageProcess | None = None
        self._on_line: Callable[[str], object] | None = None
        self._named = redact(db or "")
        self._load()

    def _load(self) -> None:
        path = self.folder / _STATE
        if self.folder.exists() and not self.folder.is_dir():
            raise BadInput(f"-o {self.folder}: is a file")
        if not path.exists():
            if self.folder.is_dir() and any(entry.name != _LOCK for entry in self.folder.iterdir()):
                raise BadInput(f"-o {self.folder}: holds other files; name a new directory, or that of a pipeline")
            self.state = PipelineState(db=self._named)
            return
        try:
            self.state = parse(PipelineState, json.loads(path.read_text(encoding="utf-8")), str(path))
        except (ValueError, OSError) as error:
            raise BadInput(f"{path}: cannot be read ({error}); name another directory") from error
        if self.state.db != self._named:
            where = self.state.db or "the directory's database"
            raise BadInput(f"-o {self.folder}: its runs are in {where}; use another directory for another database")

    def record(self, name: str) -> StageRecord:
        return self.state.stages.get(name, StageRecord())

    def result(self, stage: Stage) -> str:
        """What a stage makes, as an argument of commands: a path, or a run's name."""
        kind = STAGE_KINDS[stage.kind]
        if stage.kind in SEARCHES:
            return f"{self.prefix}-{stage.name}"
        return str(self.folder / kind.folder / f"{stage.name}{kind.ending}")

    def left(self) -> list[Stage]:
        """The stages that are not done. Raises BadInput, in one line, where results would be mixed: settings or inputs
        have changed, or another thing has the name of a result."""
        left: list[Stage] = []
        for name, stage in self.pipeline.stages.items():
            record, made, result = self.record(name), self._exists(stage), self.result(stage)
            remedy = self._remedy(stage)
            if record.state is Status.WAITING and made:
                raise BadInput(
                    f"stage {name}: {result} exists already; name another directory, after which runs are named"
                )
            if record.state is Status.DONE and not made:
                record.state = Status.WAITING
            if record.state is Status.DONE and any(run.status == "waiting" for run in self._runs(stage)):
                record.state = Status.INTERRUPTED  # runs of the comparison were deleted
            if record.state is not Status.WAITING and made:
                if changed := self._changed(stage, record):
                    change = ", ".join(f"{key} was {was}, is {now}" for key, (was, now) in changed.items())
                    raise BadInput(f"stage {name} has changed since it was begun ({change}): {remedy}")
                inputs = self._inputs(stage) if record.inputs else {}
                for read, before in record.inputs.items():
                    if inputs.get(read, _GONE) != before:
                        what = f"{read} (or a file that it uses)" if Path(read).suffix == ".py" else read
                        raise BadInput(f"{what} has changed since stage {name} was begun: {remedy}")
            if record.state is not Status.DONE:
                left.append(stage)
        return left

    def _changed(self, stage: Stage, record: StageRecord) -> dict[str, tuple[str, str]]:
        """The settings that differ from those it was begun with, each as it was and is. A training whose budgets grow
        may continue, unless a stage was done with the shorter one."""
        given = dict.fromkeys([*record.settings, *stage.given])
        pairs = {key: (record.settings.get(key), stage.given.get(key)) for key in given}
        pairs = {key: (was, now) for key, (was, now) in pairs.items() if was != now}
        if pairs and stage.kind == "train" and all(starmap(_lengthens, pairs.items())):
            for other in self.pipeline.stages.values():
                if stage.name in other.reads and self._exists(other):
                    raise BadInput(
                        f"stage {other.name} was done with the shorter training of stage {stage.name}: "
                        f"{self._remedy(other)}"
                    )
            record.state = Status.INTERRUPTED
            return {}

        def write(value: Any) -> str:
            return "not given" if value is None else str(value)[:60]

        return {key: (write(was), write(now)) for key, (was, now) in pairs.items()}

    def _remedy(self, stage: Stage) -> str:
        what = "run " * (stage.kind in SEARCHES) + self.result(stage)
        return f"remove {what} to do it again, or name another -o"

    def run(
        self,
        *,
        quiet: bool,
        report: OnStage,
        on_line: Callable[[str], object] | None = None,
    ) -> tuple[Status, list[Stage]]:
        """Do the stages that are left, in their order: DONE, FAILED or INTERRUPTED, and what was left. After a failure
        no further stage is begun.

        quiet: what stages print goes to stderr; on_line: gets the lines
        that stages print, instead of stdout
        """
        self._on_line = on_line
        with lock_folder(self.folder, _LOCK, "another evo pipeline works in this directory; stop it first"):
            self._load()  # another process may have worked here
            left = self.left()
            with handling(self._interrupt, *ENDS):
                for stage in left:
                    status = self._do(stage, quiet, report)
                    if status is not Status.DONE:
                        return status, left
        return Status.DONE, left

    def _inputs(self, stage: Stage) -> dict[str, str]:
        return dict(_inputs(stage.kind, self._values(stage), self.db))

    def _values(self, stage: Stage) -> dict[str, Any]:
        """The settings of a stage with the results of others in them."""
        results = {stage.name: self.result(stage) for stage in self.pipeline.stages.values()}
        return replace_references(stage.given, results.__getitem__)

    def _exists(self, stage: Stage) -> bool:
        return bool(self._runs(stage)) if stage.kind in SEARCHES else Path(self.result(stage)).exists()

    def _runs(self, stage: Stage) -> list[RunRecord]:
        """The stored runs of a search or comparison, none of another stage; none if there is no database yet."""
        if stage.kind not in SEARCHES:
            return []
        url = parse_url(self.db)
        if url.drivername == "sqlite" and not Path(str(url.database)).exists():
            folder = Path(str(url.database)).parent
            if not folder.is_dir() and folder.resolve() != self.folder.resolve():
                raise DatabaseUnavailable(f"{self.db}: there is no directory {folder}")
            return []
        try:
            with Store.open(self.db, read_only=True) as store:
                return runs_named(store, self.result(stage))
        except (UnknownRun, NoRuns):
            return []

    def _command(self, stage: Stage) -> list[str]:
        """The arguments of `evo` that do the stage, or the rest of it. Writes its --config file first."""
        values, target = self._values(stage), self.result(stage)
        if stage.kind not in SEARCHES:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        if stage.kind == "report":
            return ["report", values.pop("run"), *_flags(values), "-o", target]
        if stage.kind == "evaluate":
            return ["evaluate", *values.pop("problems", []), *_flags(values), "-o", target, "--plain"]
        if stage.kind == "train":
            return ["train", "--config", self._write_config(stage, values), "-o", target, "--plain"]
        processes, against = (_flags({name: values.pop(name, None)}) for name in ("processes", "against"))
        deadline = time.monotonic() + _BUSY_SECONDS
        while any(run.status == "running" for run in self._runs(stage)) and time.monotonic() < deadline:
            time.sleep(0.2)  # processes that have not noticed the kill of their parent
        if self._runs(stage):
            return ["resume", target, *processes, "--plain"]
        command, config = "run" if stage.kind == "search" else "compare", self._write_config(stage, values)
        return [command, "--config", config, "--name", target, *processes, *against, "--plain"]

    def _write_config(self, stage: Stage, values: dict[str, Any]) -> str:
        path = self.folder / "settings" / f"{stage.name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return str(path)

    def _do(self, stage: Stage, quiet: bool, report: OnStage) -> Status:
        before, began = self.record(stage.name), time.monotonic()
        record = StageRecord(
            state=Status.BEGUN, settings=dict(stage.given), inputs=self._inputs(stage), seconds=before.seconds
        )
        self.state.stages[stage.name] = record

        def save() -> None:
            write_whole(self.folder / _STATE, self.state.model_dump_json(indent=1) + "\n")
            report(stage, record, before.state in (Status.BEGUN, Status.INTERRUPTED))

        save()
        # a file is written whole, and it is there without a record if a kill came between
        written = before.state is Status.BEGUN and Path(self.result(stage)).is_file()
        try:
            code, reason = (0, "") if written else self._run_command(self._command(stage), quiet)
        except Exception as error:
            if exit_code_of(error) is None:
                raise
            code, reason = 1, " ".join(str(error).split())
        record.seconds = round(before.seconds + time.monotonic() - began, 3)
        if code == 0 and not self._exists(stage):
            code, reason = 1, f"its command ended well but {self.result(stage)} is not there"
        if code == 0:
            record.state = Status.DONE
        elif code == INTERRUPTED or self.interrupted:
            record.state = Status.INTERRUPTED
        else:
            record.state, record.reason = Status.FAILED, reason or describe_exit(code)
        save()
        return record.state

    def _run_command(self, arguments: Sequence[str], quiet: bool) -> tuple[int, str]:
        """Run `evo ARGUMENTS`: its exit code (negative: the signal that killed it) and its last line on stderr."""
        # the database in the environment, since lists of processes would show its password
        self._process = _StageProcess(arguments, {"EVO_DB": self.db}, quiet, self._on_line)
        if self.interrupted:  # before the process could get the signal
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(), self._process.last_line.removeprefix("evo: ")
        finally:
            self._process = None

    def _interrupt(self, number: int) -> None:
        """The stage reacts to the signal; this process only stops to begin stages."""
        self.interrupted = True
        if self._process is not None:
            self._process.send_signal(number)


class _StageProcess:
    """`evo ARGUMENTS` as a child. It has its own session, so that the terminal's signals come to the pipeline alone,
    and it is killed when the pipeline ends (evo.cli.end_with_parent).

    last_line: that it wrote to stderr
    """

    def __init__(
        self,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        quiet: bool,
        on_line: Callable[[str], object] | None,
    ) -> None:
        """settings: for its environment; quiet: whether it prints to stderr; on_line: gets what it prints instead, from
        another thread"""
        self.last_line = ""
        own = {"PYTHONPATH": python_path(), "EVO_PARENT": str(os.getpid()), STAGE: "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evo", *arguments],
            env={**os.environ, **own, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if on_line is not None else 2 if quiet else None,
            stderr=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
        self._readers = [threading.Thread(target=self._pass_on, daemon=True)]
        if on_line is not None:
            assert self._process.stdout is not None
            lines = (line.rstrip("\n") for line in self._process.stdout)
            self._readers.append(threading.Thread(target=lambda: deque(map(on_line, lines), 0), daemon=True))
        for reader in self._readers:
            reader.start()

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.last_line = line.strip() or self.last_line
            sys.stderr.write(line)

    def send_signal(self, number: int) -> None:
        """SIGINT is Ctrl-C: the first finishes what is in flight, the second ends at once. Nothing if it has ended."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code (negative: the signal that killed it)."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(timeout=1.0)  # a process that it started may still hold the pipe
        return code


def _lengthens(key: str, pair: tuple[Any, Any]) -> bool:
    """Whether a training with the second value of a setting continues from one with the first."""
    was, now = pair
    numbers = isinstance(was, int | float) and isinstance(now, int | float)
    return key in RESUMABLE and (now is None or not numbers or now > was)


def _flags(values: Mapping[str, Any]) -> list[str]:
    given = {name: value for name, value in values.items() if value is not None}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]


_GONE = ""
"""The fingerprint of an input that is not there."""


def _inputs(kind: str, values: Mapping[str, Any], db: str) -> Iterator[tuple[str, str]]:
    """(name, fingerprint) of all that a stage reads. Problem sets and policies of this package are left out: no user
    changes them.

    values: the stage's settings as plain values, with the results of earlier stages in them; db: of the runs
    """
    for key, limit in (("problems", "limit"), ("evaluate", "evaluate_limit")):
        for address in values.get(key) or ():
            if not is_of_package(address):
                yield address, _of_problems(address, values.get(limit))
    policies = [values.get("policy"), *(arm["policy"] for arm in (values.get("arms") or {}).values())]
    for address in [one for named in policies if named for one in parse_addresses(named)]:
        if found := _of_policy(address):
            yield address.plain, found
    if kind == "evaluate" and values.get("against"):
        yield values["against"], _of_file(values["against"])
    runs = [values["run"]] if kind == "report" else [*(values.get("from_traces") or ())]
    if (parents := values.get("parents_from") or "").startswith("archive:"):
        runs.append(parents.removeprefix("archive:"))
    for start in values.get("start") or ():
        if Path(start).is_file():
            yield start, _of_file(start)
        else:
            runs.append(start)
    for run in runs:
        yield f"run {run}", _of_run(*run_and_address(run, values.get("db") or db))


def _of_problems(address: str, limit: int | None) -> str:
    try:
        return fingerprint_of(*(problem.fingerprint() for problem in problems_at([address], limit)))
    except (BadAddress, OSError):
        return _GONE


def _of_policy(address: PolicyAddress) -> str:
    """Empty for a policy that no file of the user's makes, as one on a server or of the hub."""
    try:
        if address.kind == "command":
            words = [Path(word) for word in find_command(address)[1:]]
            files = [word for word in words if word.is_file()]
            used = set[Path]().union(*(files_named_by([file], file.parent) for file in files))
            return files_fingerprint(Path.cwd(), used) if files else ""
        if address.folder is None or address.kind == "embedded":
            return ""
        source, adapters = find_base(address) if address.has_weights else (str(address.folder), [])
        return "+".join(map(fingerprint, (source, *adapters)))
    except (BadAddress, OSError):
        return _GONE


def _of_file(path: str) -> str:
    try:
        return fingerprint_of(user_path(path).read_bytes())
    except OSError:
        return _GONE


def _of_run(name: str, db: str) -> str:
    try:
        with Store.open(db, read_only=True) as store:
            return fingerprint_of(*([run.created, *group_count(store, run.id)] for run in runs_named(store, name)))
    except (UnknownRun, NoRuns, DatabaseUnavailable):
        return _GONE
