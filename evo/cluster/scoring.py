"""Scoring on the nodes of a cluster: as many processes as were asked for, each with the sandbox of its machine.

The rules of scoring (problems.scoring) stay with the search that asks: what a fault means, what is scored in this
process after all. A process that is lost with its node is started again elsewhere, and asked again what it owed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from evo.cluster.connection import import_path, take_on
from evo.config.cluster import ClusterOptions
from evo.exit_status import answer_of_error
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.contract import Problem, Score, ScorerFault
from problems.registry import resolve
from problems.sandbox.contract import Mode, SandboxFault
from problems.sandbox.shared import set_sandbox_mode
from problems.scoring import Scorer, checked_score, scores_its_seed

EACH = 2
"""Answers that a search has at one process: one that is scored, and one that waits beside it."""


class ScorerActor:
    """Scores answers on a node, one at a time. Problems are opened by their addresses."""

    def __init__(self, folder: str, path: Sequence[str]) -> None:
        take_on(folder, path)
        self._problems: dict[str, Problem] = {}

    def check(self, name: str, answer: str, mode: Mode) -> WorkerAnswer:
        """The checked Score of an answer."""
        return self._answered(lambda problem: checked_score(problem, answer), name, mode)

    def takes_seed(self, name: str, answer: str, mode: Mode) -> WorkerAnswer:
        """Whether the scorer, having failed on `answer`, scores its seed."""
        return self._answered(lambda problem: scores_its_seed(problem, answer), name, mode)

    def _answered(self, work: Any, name: str, mode: Mode) -> WorkerAnswer:
        try:
            set_sandbox_mode(mode)
            if name not in self._problems:
                (self._problems[name],) = resolve(name)
            return WorkerAnswer(work(self._problems[name]))
        except Exception as error:
            return answer_of_error(error)


def start_scorer_actors(options: ClusterOptions) -> list[Any]:
    """The processes, which Ray restarts where they are lost."""
    remote = ray.remote(ScorerActor).options(
        num_cpus=options.scorer_cpus,
        num_gpus=options.scorer_gpus,
        resources=options.scorer_resources or None,
        max_restarts=-1,
        max_task_retries=-1,
    )
    return [remote.remote(str(Path.cwd()), import_path()) for _ in range(options.scorers)]


class ClusterScorer(Scorer):
    """A Scorer whose answers are judged by processes on other nodes, in turn."""

    def __init__(self, scorer_actors: Sequence[Any], mode: Mode) -> None:
        super().__init__(EACH * len(scorer_actors))
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
        try:
            scored: WorkerAnswer = ray.get(getattr(scorer_actor, method).remote(problem.name, answer, self._mode))
            return scored.result()
        except (ScorerFault, SandboxFault):
            raise
        except (RayError, WorkerFailed) as error:
            reason = " ".join(str(error).split())[-200:]
            raise SandboxFault(f"{problem.name}: no process of the cluster can score it ({reason})") from None
        except Exception as error:
            raise SandboxFault(str(error)) from None
