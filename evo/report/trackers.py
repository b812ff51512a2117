"""Runs and trainings in experiment trackers, by accelerate: the numbers of the table of the arms, the losses of a
training, and the settings. A thread reads what is stored, as a screen does, so that no search waits for a tracker."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evo.errors import BadInput
from evo.progress.model import Progress
from evo.progress.rows import arm_rows
from evo.report.tables import flattened
from islands.errors import DatabaseUnavailable
from islands.store import Store

_PROJECT = "evo"
_READ_SECONDS, _SHARE = 2.0, 0.02
"""Between two readings, at least; they take at most this share of a core."""
_START_SECONDS, _END_SECONDS = 60.0, 120.0
"""How long a tracker may take to answer at the start, and to send the rest."""
_REMEDIES = {
    "tensorboard": "TENSORBOARD_LOGGING_DIR names another folder than runs",
    "wandb": "`wandb login` logs in, WANDB_MODE=offline writes to this folder",
    "mlflow": "MLFLOW_TRACKING_URI names the store, as in sqlite:///mlflow.db",
    "trackio": "TRACKIO_DIR names its folder",
}
_Step = tuple[int, dict[str, float]]


def tag(title: str) -> str:
    """A title as every tracker takes it: E_w[best] is E_w_best."""
    return re.sub(r"[^\w./-]+", "_", title).strip("_")


class TrackedRun:
    """A run or a comparison. A step is the number of iterations committed, of all its arms; those that were there
    before are not reported again."""

    def __init__(self, db: str, name: str, against: str | None = None) -> None:
        self._progress = Progress.open(Store.open(db, read_only=True), name, against)
        self._begun, self._held = self._progress.totals.groups, list[_Step]()

    @property
    def settings(self) -> dict[str, int | float | str]:
        """Of a run that begins; none of one that continues, which trackers refuse to change."""
        configs = {arm.name: arm.runs[0].config for arm in self._progress.comparison.arms}
        flat = flattened(configs if len(configs) > 1 else next(iter(configs.values()))) if not self._begun else {}
        known = {key: value for key, value in flat.items() if value not in (None, "", [])}
        return {key: value if isinstance(value, int | float) else _text(value) for key, value in known.items()}

    def read(self, *, last: bool) -> list[_Step]:
        """The numbers of new steps. They are final once there is a later step, or at the `last`."""
        self._progress.refresh()
        held, step = self._held, self._progress.totals.groups
        self._held = [(step, self._numbers())] if step > self._begun else []
        return [entry for entry in held if entry[0] < step] + self._held * last

    def _numbers(self) -> dict[str, float]:
        snapshot, found = self._progress.snapshot(), dict[str, Any]()
        rows = arm_rows(snapshot, diversity=self._progress.diversity)
        for number, (arm, row) in enumerate(zip(snapshot.arms, rows, strict=True)):
            of = f"{tag(arm.name)}/" if len(snapshot.arms) > 1 else ""
            for title, cell in row.items():
                key = of + tag(title.replace("/", " per "))
                found |= {key: cell.value, f"{key}_low": cell.low, f"{key}_high": cell.high}
            curves = self._progress.training(number)
            found |= {f"{of}training/{name}": float(curve.mean[-1]) for name, curve in curves.items()}
        return _drawable(found)


class Tracking:
    """The trackers of a run or a training, in a `with` block around its work. names: of the trackers, key: of the run
    in them"""

    def __init__(self, names: Sequence[str], key: str) -> None:
        self._names, self._key, self._open = names, key, dict[str, Any]()
        self._find: Callable[[], TrackedRun] | None = None
        self._source: TrackedRun | None = None
        self._lines = list[_Step]()
        self._fault: tuple[str, Exception | str] | None = names[0], f"no answer within {_START_SECONDS:.0f} seconds"
        self._started, self._found, self._again = threading.Event(), threading.Event(), threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)  # MLflow's runs are a thread's

    def __enter__(self) -> Tracking:
        """Raises BadInput if a tracker cannot be opened."""
        self._thread.start()
        self._started.wait(_START_SECONDS)
        if self._fault is not None:
            self._ended = True
            name, error = self._fault
            raise BadInput(f"--report-to {name}: {_first_line(error)}; {_REMEDIES[name]}")
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        self._again.set()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            warnings.warn(f"--report-to {', '.join(self._open)}: not all is sent: no answer", stacklevel=2)

    def follow(self, find: Callable[[], TrackedRun]) -> None:
        """Report what `find` opens, from now on."""
        self._find = find
        self._again.set()
        self._found.wait(_START_SECONDS)  # what is stored by now is reported no second time

    def log(self, line: Mapping[str, Any]) -> None:
        """Report a line of a training's metrics."""
        self._lines.append((line["step"], _drawable({tag(name): line[name] for name in line if name != "step"})))
        self._again.set()

    def _work(self) -> None:
        from accelerate.state import PartialState  # torch

        fresh = PartialState._shared_state == {}
        PartialState(cpu=True)  # the trackers' logs need one; no device is touched
        try:
            name = ""
            try:
                for name in self._names:
                    with contextlib.redirect_stdout(sys.stderr):  # stdout is the command's own
                        self._open[name] = open_tracker(name, self._key)
                self._fault = None
            except Exception as error:
                self._fault = name, error
            self._started.set()
            while self._fault is None and not self._ended:
                began = time.thread_time()
                self._report(last=False)
                self._again.wait(max(_READ_SECONDS, (time.thread_time() - began) / _SHARE))
                self._again.clear()
            if self._fault is None:
                self._report(last=True)
            with contextlib.redirect_stdout(sys.stderr):
                self._each(lambda tracker: tracker.finish())
        finally:
            if fresh:  # what comes after in this process may want a device
                PartialState._reset_state()

    def _report(self, *, last: bool) -> None:
        try:
            if self._source is None and self._find is not None:
                self._source = self._find()
                self._found.set()
                if settings := self._source.settings:
                    self._each(lambda tracker: tracker.store_init_configuration(settings))
            steps = [] if self._source is None else self._source.read(last=last)
        except DatabaseUnavailable as error:
            if last:
                warnings.warn(f"--report-to: the last numbers are missing: {_first_line(error)}", stacklevel=2)
            return
        lines, self._lines = self._lines, []
        for step, values in (*steps, *lines):
            self._each(lambda tracker, step=step, values=values: tracker.log(values, step=step))  # type: ignore[misc]

    def _each(self, act: Callable[[Any], object]) -> None:
        """One that fails is left out from now on, with a warning."""
        for name, tracker in list(self._open.items()):
            try:
                act(tracker)
            except Exception as error:
                del self._open[name]
                why = f"--report-to {name}: {_first_line(error)}; nothing more is reported there, all else continues"
                warnings.warn(why, stacklevel=2)


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

        project = given("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        chosen = f"attributes.run_name = '{key}'"
        held = mlflow.search_runs(experiment_names=[project], filter_string=chosen, output_format="list")
        tracker = kind(project, run_id=held[0].info.run_id if held else None, run_name=key)
    else:
        own = {"id": key} if name == "wandb" else {}
        tracker = kind(given(f"{name.upper()}_PROJECT", _PROJECT), name=key, resume="allow", **own)
    tracker.start()
    return tracker


def _drawable(values: Mapping[str, Any]) -> dict[str, float]:
    known = {name: float(value) for name, value in values.items() if type(value) in (int, float)}
    return {name: value for name, value in known.items() if math.isfinite(value)}


def _text(value: Any) -> str:
    return json.dumps(value).strip('"')[:500]


def _first_line(error: Exception | str) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
