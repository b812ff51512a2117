"""How far a comparison or a run is, by what its runs keep on record about once a second."""

from __future__ import annotations

import time

from evo.api.progress import Progress
from evo.comparison.load import planned
from islands.db.store import Store
from islands.errors import DatabaseUnavailable
from islands.types import RunRecord

SECONDS = 1.0


class ComparisonProgress:
    """Called for the progress; the database is asked at most once a second."""

    def __init__(self, db: str, name: str, alone: bool = False) -> None:
        """alone: it is the name of one run"""
        self._db, self._name, self._alone = db, name, alone
        self._read = 0.0
        self._last: Progress | None = None

    def expire(self) -> None:
        """Ask again at the next call."""
        self._read = 0.0

    def __call__(self) -> Progress | None:
        now = time.monotonic()
        if now - self._read >= SECONDS:
            self._read = now
            try:
                with Store.open(self._db, read_only=True) as store:
                    runs = [store.run(self._name)] if self._alone else store.runs(comparison=self._name)
                    self._last = self._of(runs)
            except DatabaseUnavailable:
                pass  # busy for a moment; where it is gone, the searches say so
        return self._last

    def _of(self, runs: list[RunRecord]) -> Progress:
        plans = [planned(run) * len(run.config.get("problems", ())) for run in runs]
        done = sum(
            plan if run.status == "done" else int(run.summary.get("groups", 0))
            for run, plan in zip(runs, plans, strict=True)
        )
        solved: dict[str, int] = {}
        for run in runs:
            arm = str(run.arm or run.name)
            solved[arm] = solved.get(arm, 0) + int(run.summary.get("solved", 0))
        told = ", ".join(f"{arm} {count}" for arm, count in solved.items()) if any(solved.values()) else ""
        return Progress(self._name, done, sum(plans), "prompt groups", f"solved: {told}" if told else "")
