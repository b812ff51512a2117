"""Scoring on the nodes of a cluster: a given number of processes, each with the sandbox of its machine.

The search that uses them keeps the rules of scoring (problems.scoring): what a fault means, and which answers are
scored in the search's process. A process that is lost is restarted on another node and gets its unfinished answers
again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from evo.cluster.connection import adopt_paths, list_import_path
from evo.config.cluster import ClusterOptions
from evo.exit_status import answer_of_error
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.contract import Problem, Score, ScorerFault
from problems.registry import resolve
from problems.sandbox import set_sandbox_mode
from problems.sandbox.contract import Mode, SandboxFault
from problems.scoring import Scorer, checked_score, scores_its_seed
from problems.weights import weigh_by

Weights = Mapping[str, float] | None

EACH = 2
"""Answers that a search sends to one process: one is scored while the other waits."""


class ScorerActor:
    """Scores answers on a node, one at a time. Problems are opened by their addresses."""

    def __init__(self, folder: str, path: Sequence[str]) -> None:
        adopt_paths(folder, path)
        self._problems: dict[str, Problem] = {}

    def check(self, name: str, weights: Weights, answer: str, mode: Mode) -> WorkerAnswer:
        """The checked Score of an answer. weights: Problem.user_weights"""
        return self._answer(lambda problem: checked_score(problem, answer), name, weights, mode)

    def takes_seed(self, name: str, weights: Weights, answer: str, mode: Mode) -> WorkerAnswer:
        """Whether the scorer, which failed on `answer`, can score its seed."""
        return self._answer(lambda problem: scores_its_seed(problem, answer), name, weights, mode)

    def _answer(self, work: Any, name: str, weights: Weights, mode: Mode) -> WorkerAnswer:
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
