"""Runs and trainings in experiment trackers, by accelerate: the numbers of the table of rows, the settings, the best
answers and the page. A thread reads what is stored, as a screen does, so that no search waits for a tracker."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from evo.errors import BadInput
from evo.progress.model import FEW_PROBLEMS, Progress
from evo.progress.rows import answer_value, arm_rows
from evo.report.page import write_report, write_training_report
from evo.training.directory import TrainingDirectory
from islands.errors import DatabaseUnavailable
from islands.runs import best
from islands.store import Store
from islands.types import Candidate, ProblemRecord
from problems.objectives import own_values

PROJECT = "evo"
READ_SECONDS, SHARE = 2.0, 0.02
"""Between two readings, at least; they take at most this share of a core."""
START_SECONDS, END_SECONDS = 60.0, 120.0
"""How long a tracker may take to answer at the start, and to send the rest."""
REMEDIES = {
    "tensorboard": "TENSORBOARD_LOGGING_DIR names another folder than runs",
    "wandb": "`wandb login` logs in, WANDB_MODE=offline writes to this folder",
    "mlflow": "MLFLOW_TRACKING_URI names the store, as in sqlite:///mlflow.db",
    "trackio": "TRACKIO_DIR names its folder",
}


class TrackedStep(NamedTuple):
    """Numbers of a step. stored: whether they were there before this process"""

    step: int
    values: Mapping[str, float]
    stored: bool


def tag(title: str) -> str:
    """A title as every tracker takes it: E_w[best] is E_w_best."""
    return re.sub(r"[^\w./-]+", "_", title).strip("_")


def flatten(values: Mapping[str, Any], before: str = "") -> dict[str, str | int | float]:
    """Nested settings by dotted keys, without those that are open."""
    found = dict[str, str | int | float]()
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{before}{key}.")
        elif value not in (None, "", []):
            found[before + key] = value if isinstance(value, int | float) else (json.dumps(value).strip('"')[:500])
    return found


class TrackedRun:
    """A run or a comparison. A step is the number of iterations committed, of all its arms."""

    def __init__(self, db: str, name: str, against: str | None = None) -> None:
        self._store, self._name, self._against = Store.open(db, read_only=True), name, against
        self._progress = Progress.open(self._store, name, against)
        self._before, self._held = self._progress.totals.groups, list[TrackedStep]()

    def settings(self) -> Mapping[str, Any]:
        arms = self._progress.comparison.arms
        several = {arm.name: arm.runs[0].config for arm in arms}
        configs = several if len(arms) > 1 else arms[0].runs[0].config
        return {"run": self._name, "command": arms[0].runs[0].command, **configs}

    def read(self, *, last: bool) -> list[TrackedStep]:
        """The entries that are new. The numbers of a step are final once there is a later one, or at the `last`."""
        self._progress.refresh()
        held, step = self._held, self._progress.totals.groups
        self._held = [TrackedStep(step, self._numbers(), 0 < step <= self._before)]
        return [entry for entry in held if entry.step < step] + self._held * last

    def _numbers(self) -> dict[str, float]:
        progress, found = self._progress, dict[str, float | None]()
        snapshot = progress.snapshot(statistics=False)
        for arm, row in zip(snapshot.arms, arm_rows(snapshot, progress.summary, progress.diversity), strict=True):
            of = f"{tag(arm.name)}/" if len(snapshot.arms) > 1 else ""
            for title, cell in row.items():
                if cell.number and not isinstance(cell.value, str):
                    key = of + tag(title.replace("/", " per "))
                    found |= {key: cell.value, f"{key}_low": cell.low, f"{key}_high": cell.high}
            for name, values in (arm.training.metrics if arm.training else {}).items():
                found[f"{of}training/{name}"] = values[-1]
        for problem, answer in self._best():
            key = f"best/{tag(problem.name)}"
            own = zip(problem.metrics, own_values(problem.metrics, answer), strict=True)
            found |= {
                key: answer_value(problem, answer).number,
                **{f"{key}/{tag(of.name)}": value for of, value in own},
            }
        return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}

    def _best(self) -> list[tuple[ProblemRecord, Candidate]]:
        """The best answers of any arm, to few problems."""
        found = dict[int, tuple[ProblemRecord, Candidate]]()
        for run in self._progress.comparison.runs:
            for problem, answer in best(self._store, run.id)[:FEW_PROBLEMS]:
                held = found.get(problem.index)
                if answer is not None and (held is None or answer.fitness > held[1].fitness):
                    found[problem.index] = problem, answer
        return list(found.values())

    def texts(self) -> Mapping[str, str]:
        return {tag(problem.name): answer.text for problem, answer in self._best()}

    def write_page(self, file: str) -> None:
        write_report(self._store, self._name, file, self._against)


class TrackedTraining:
    """A training folder: the lines of its metrics.jsonl."""

    def __init__(self, folder: str) -> None:
        self._directory, self._folder = TrainingDirectory(folder), folder
        self._before = {(line["step"], line["kind"]) for line in self._directory.read_lines()}
        self._read = set[tuple[int, str]]()

    def settings(self) -> Mapping[str, Any]:
        about = self._directory.settings()
        return {"folder": self._folder, "command": about["command"], **about["config"]}

    def read(self, *, last: bool) -> list[TrackedStep]:
        entries = []
        for line in self._directory.read_lines():
            if (key := (line["step"], line["kind"])) not in self._read:
                self._read.add(key)
                numbers = {tag(name): value for name, value in line.items() if type(value) in (int, float)}
                entries.append(TrackedStep(numbers.pop("step"), numbers, key in self._before))
        return entries

    def texts(self) -> Mapping[str, str]:
        return {}

    def write_page(self, file: str) -> None:
        write_training_report([self._folder], file)


class Tracking:
    """The trackers of a run or a training, in a `with` block around its work.

    names: of the trackers, key: of the run in them; known: the trackers that it was reported to before
    """

    def __init__(self, names: Sequence[str] = (), key: str = "", known: Sequence[str] = ()) -> None:
        self._names, self._key, self._known = names, key, known
        self._open = dict[str, Any]()
        self._source: TrackedRun | TrackedTraining | None = None
        self._find: Callable[[], TrackedRun | TrackedTraining | None] = lambda: None
        self._fault: tuple[str, Exception | str] | None = None
        self._started, self._found, self._again = threading.Event(), threading.Event(), threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)  # MLflow's runs are a thread's

    def __enter__(self) -> Tracking:
        """Raises BadInput if a tracker cannot be opened."""
        if self._names:
            self._fault = self._names[0], f"no answer within {START_SECONDS:.0f} seconds"
            self._thread.start()
            self._started.wait(START_SECONDS)
            if self._fault is not None:
                self._ended = True
                name, error = self._fault
                raise BadInput(f"--report-to {name}: {_first_line(error)}; {REMEDIES[name]}")
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        self._again.set()
        if self._names:
            self._thread.join(END_SECONDS)
            if self._thread.is_alive():
                warnings.warn(f"--report-to {', '.join(self._open)}: not all is sent: no answer", stacklevel=2)

    def follow(self, find: Callable[[], TrackedRun | TrackedTraining | None]) -> None:
        """Report what `find` opens, from now on, or once it is there."""
        self._find = find
        self._again.set()

    def wait_until_found(self) -> None:
        """What is stored by now is reported no second time."""
        self._found.wait(START_SECONDS)

    def _work(self) -> None:
        from accelerate.state import PartialState  # torch

        fresh = PartialState._shared_state == {}
        PartialState(cpu=True)  # the trackers' logs need one; no device is touched
        try:
            for name in self._names:
                try:
                    with contextlib.redirect_stdout(sys.stderr):  # stdout is the command's own
                        self._open[name] = open_tracker(name, self._key)
                except Exception as error:
                    self._fault = name, error
                    break
            else:
                self._fault = None
            self._started.set()
            while self._fault is None and not self._ended:
                began = time.thread_time()
                self._report(last=False)
                self._again.wait(max(READ_SECONDS, (time.thread_time() - began) / SHARE))
                self._again.clear()
            if self._fault is None:
                self._report(last=True)
            with contextlib.redirect_stdout(sys.stderr):
                self._each(lambda name, tracker: tracker.finish())
        finally:
            if fresh:  # what comes after in this process may want a device
                PartialState._reset_state()

    def _report(self, *, last: bool) -> None:
        try:
            if self._source is None:
                self._source = self._find()
                if self._source is None:
                    return
                self._found.set()
                settings = flatten(self._source.settings())
                self._each(partial(self._store, settings))
            entries, texts = self._source.read(last=last), self._source.texts() if last else {}
        except DatabaseUnavailable as error:
            if last:
                warnings.warn(f"--report-to: the last numbers are missing: {_first_line(error)}", stacklevel=2)
            return
        for entry in entries:
            said = {f"answer/{name}": text for name, text in texts.items()} if entry is entries[-1] else {}
            self._each(partial(self._log, entry, said))
        if last and entries:
            with tempfile.TemporaryDirectory() as folder:
                self._source.write_page(str(Path(folder) / "report.html"))
                for name, text in texts.items():
                    (Path(folder) / f"{name.replace('/', '_')}.txt").write_text(text, encoding="utf-8")
                self._each(partial(self._attach, sorted(Path(folder).iterdir())))

    def _store(self, settings: dict[str, str | int | float], name: str, tracker: Any) -> None:
        if name == "trackio":  # accelerate puts them where trackio does not look
            tracker.run.config.update(settings)
        elif name not in self._known:  # MLflow's cannot change
            tracker.store_init_configuration(settings)

    def _log(self, entry: TrackedStep, texts: Mapping[str, str], name: str, tracker: Any) -> None:
        if not (entry.stored and name in self._known):
            tracker.log({**entry.values, **(texts if name != "mlflow" else {})}, step=entry.step)

    def _attach(self, files: Sequence[Path], name: str, tracker: Any) -> None:
        for file in files if name != "tensorboard" else ():
            if name == "mlflow":
                tracker.log_artifact(str(file))
            else:
                kind = "report" if file.suffix == ".html" else "answer"
                tracker.run.log_artifact(str(file), name=f"{self._key}-{file.name}"[-128:], type=kind)

    def _each(self, act: Callable[[str, Any], object]) -> None:
        """One that fails is left out from now on, with a warning."""
        for name, tracker in list(self._open.items()):
            try:
                act(name, tracker)
            except Exception as error:
                del self._open[name]
                told = f"--report-to {name}: {_first_line(error)}; nothing more is reported there, all else continues"
                warnings.warn(told, stacklevel=2)


def open_tracker(name: str, key: str) -> Any:
    """Accelerate's tracker, with the run of that key, which is continued if there is one."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    if name not in LOGGER_TYPE_TO_CLASS:
        raise BadInput("this version of accelerate does not know it: pip install -U accelerate")
    kind, given = LOGGER_TYPE_TO_CLASS[name], os.environ.get
    if name == "tensorboard":
        tracker = kind(key, given("TENSORBOARD_LOGGING_DIR", "runs"))
    elif name == "mlflow":
        import mlflow

        project = given("MLFLOW_EXPERIMENT_NAME", PROJECT)
        chosen = f"attributes.run_name = '{key}'"
        held = mlflow.search_runs(experiment_names=[project], filter_string=chosen, output_format="list")
        tracker = kind(project, run_id=held[0].info.run_id if held else None, run_name=key)
    else:
        own = {"id": key} if name == "wandb" else {}
        tracker = kind(given(f"{name.upper()}_PROJECT", PROJECT), name=key, resume="allow", **own)
    tracker.start()
    return tracker


def _first_line(error: Exception | str) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
