"""What runs on a node of a cluster: whole searches as tasks, and processes that score answers, as actors.

A task is a search by the runner of one machine (evo.comparison.workers). A scoring process has the sandbox of its
machine, and the search that uses it keeps the rules of scoring (problems.scoring): what a fault means, and which
answers are scored in the search's process. A process that is lost is restarted on another node and gets its unfinished
answers again. Faults of known kinds are returned as answers, because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from evo.cluster.connection import adopt_paths, list_import_path
from evo.comparison.workers import Runner
from evo.config.cluster import ClusterOptions
from evo.config.run import RunConfig
from evo.exit_status import answer_of_error
from evo.runs.start import Changes
from evo.search.stop import Stop, StopReason
from islands.errors import DatabaseUnavailable, RunBusy
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.contract import Problem, Score, ScorerFault
from problems.registry import resolve
from problems.sandbox import set_sandbox_mode
from problems.sandbox.contract import Mode, SandboxFault
from problems.scoring import Scorer, checked_score, scores_its_seed
from problems.weights import weigh_by

_BUSY_SECONDS, _BUSY_TRIES = 5.0, 30
"""Pause between attempts, and their number. A run whose writer was lost on another machine is busy for a while; a
database server may come back after a restart."""


class Bell:
    """An actor that tells every task to stop."""

    def __init__(self) -> None:
        self.reason = ""
        self._rung = asyncio.Event()

    async def ring(self, reason: str) -> None:
        self.reason = reason
        self._rung.set()

    async def has_rung(self) -> bool:
        return self._rung.is_set()

    async def wait(self) -> str:
        """The reason, once it is rung."""
        await self._rung.wait()
        return self.reason


@dataclass(frozen=True)
class Surroundings:
    """What each task needs of its driver.

    folder, path: its working directory, to which relative names refer, and its import path
    scorer_actors: processes that score answers, none if a task scores them itself; mode: their
        sandbox
    """

    folder: str
    path: Sequence[str]
    bell: Any
    scorer_actors: Sequence[Any] = ()
    mode: Mode = "auto"


def load_policies(surroundings: Surroundings, configs: Sequence[RunConfig]) -> WorkerAnswer:
    """Load the problems and policies of these runs, as a check."""
    return _answer(surroundings, lambda runner: runner.prepare(configs))


def search_run(surroundings: Surroundings, run: str, db: str, changes: Changes, take_over: bool) -> WorkerAnswer:
    """Search a run to its end; wait for one that another process still holds, or for the database."""

    async def listen(runner: Runner) -> None:
        runner.interrupt(Stop(StopReason.INTERRUPTED, await surroundings.bell.wait.remote()))

    async def work(runner: Runner) -> None:
        if await surroundings.bell.has_rung.remote():
            return
        listening = asyncio.create_task(listen(runner))
        try:
            for attempt in range(_BUSY_TRIES + 1):
                try:
                    await runner.search_run(run, db, changes, take_over=take_over)
                    return
                except (RunBusy, DatabaseUnavailable):
                    if runner.stopping or attempt == _BUSY_TRIES:
                        raise
                await asyncio.sleep(_BUSY_SECONDS)
        finally:
            listening.cancel()

    return _answer(surroundings, work)


def _answer(surroundings: Surroundings, work: Callable[[Runner], Awaitable[None]]) -> WorkerAnswer:
    async def whole() -> None:
        actors = surroundings.scorer_actors
        runner = Runner(ClusterScorer(actors, surroundings.mode) if actors else None)
        try:
            await work(runner)
        finally:
            await runner.close()

    adopt_paths(surroundings.folder, surroundings.path)
    try:
        asyncio.run(whole())
        return WorkerAnswer()
    except Exception as error:
        return answer_of_error(error)


_ANSWERS_EACH = 2
"""Answers that a search sends to one process: one is scored while the other waits."""


class ScorerActor:
    """Scores answers on a node, one at a time. Problems are opened by their addresses."""

    def __init__(self, folder: str, path: Sequence[str]) -> None:
        adopt_paths(folder, path)
        self._problems: dict[str, Problem] = {}

    def check(self, name: str, weights: Mapping[str, float] | None, answer: str, mode: Mode) -> WorkerAnswer:
        """The checked Score of an answer. weights: Problem.user_weights"""
        return self._answer(lambda problem: checked_score(problem, answer), name, weights, mode)

    def takes_seed(self, name: str, weights: Mapping[str, float] | None, answer: str, mode: Mode) -> WorkerAnswer:
        """Whether the scorer, which failed on `answer`, can score its seed."""
        return self._answer(lambda problem: scores_its_seed(problem, answer), name, weights, mode)

    def _answer(self, work: Any, name: str, weights: Mapping[str, float] | None, mode: Mode) -> WorkerAnswer:
        try:
            set_sandbox_mode(mode)
            key = repr((name, weights))
            if key not in self._problems:
                (problem,) = resolve(name)
                self._problems[key] = weigh_by(problem, weights)
            return WorkerAnswer(work(self._problems[key]))
        except Exception as error:
            return answer_of_error(error)


def start_scorer_actors(options: ClusterOptions) -> list[Any]:
    """Start the processes; Ray restarts those that are lost."""
    remote = ray.remote(ScorerActor).options(
        num_cpus=options.scorer_cpus,
        num_gpus=options.scorer_gpus,
        resources=options.scorer_resources or None,
        max_restarts=-1,
        max_task_retries=-1,
    )
    return [remote.remote(str(Path.cwd()), list_import_path()) for _ in range(options.scorers)]


class ClusterScorer(Scorer):
    """A Scorer that sends its answers to processes on other nodes, in turn."""

    def __init__(self, scorer_actors: Sequence[Any], mode: Mode) -> None:
        super().__init__(_ANSWERS_EACH * len(scorer_actors))
        self._scorer_actors, self._mode = itertools.cycle(scorer_actors), mode
        self._turn = threading.Lock()

    def check(self, problem: Problem, answer: str) -> Score:
        score: Score = self._ask("check", problem, answer)
        return score

    def takes_seed(self, problem: Problem, answer: str) -> bool:
        return bool(self._ask("takes_seed", problem, answer))

    def _ask(self, method: str, problem: Problem, answer: str) -> Any:
        with self._turn:
            scorer_actor = next(self._scorer_actors)
        asked = problem.name, problem.user_weights
        try:
            scored: WorkerAnswer = ray.get(getattr(scorer_actor, method).remote(*asked, answer, self._mode))
            return scored.result()
        except (ScorerFault, SandboxFault):
            raise
        except (RayError, WorkerFailed) as error:
            reason = " ".join(str(error).split())[-200:]
            raise SandboxFault(f"{problem.name}: no process of the cluster can score it ({reason})") from None
        except Exception as error:
            raise SandboxFault(str(error)) from None
