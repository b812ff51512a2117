"""Scoring answers in parallel: threads that wait on sandbox workers, behind one asyncio call with back-pressure."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from problems.contract import Problem, Score, ScorerFault
from problems.sandbox.contract import SandboxFault, SandboxUnavailable

MOST_FAULTS = 20
"""After this many faults, a scorer that has judged nothing except its seed is at fault itself."""


def cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Scorer:
    """At most `workers` answers are judged at a time; further callers wait, which slows the producer of answers.

    A problem with `inline = True` (a maze) is scored on the event loop itself, since a thread would cost more than
    the work.

    workers: None for one per core
    scored: answers judged so far; busy_seconds: their time, summed over workers
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"a scorer needs at least one worker, not {workers}")
        self.workers = workers or cores()
        self.scored = 0
        self.busy_seconds = 0.0
        self._asked = 0  # answers that have no score yet
        self._faults: Counter[str] = Counter()
        self._judged: set[str] = set()  # problems of which an answer other than the seed has a score
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="score")
        self._closed = False

    @property
    def queued(self) -> int:
        """Answers that wait for a worker."""
        return max(0, self._asked - self.workers)

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[tuple[Score, float]]:
        """Each answer's Score, checked, with the seconds it took, in order.

        If the scorer fails on an answer but then scores the seed, the answer is at fault: it counts as failed, with the
            fault as feedback. Otherwise any answer that triggers a fault would end the search of its problem. Raises
            ScorerFault if it fails on the seed too, if there is no seed, and if it fails MOST_FAULTS times before it
            has judged any other answer; the first fault cancels the rest.
        SandboxUnavailable and SandboxFault pass through: they concern every problem.
        """
        if self._closed:
            raise RuntimeError("the scorer is closed")
        if problem.inline or len(answers) == 1:
            return [await self._one(problem, answer) for answer in answers]
        tasks = [asyncio.ensure_future(self._one(problem, answer)) for answer in answers]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # nothing of this call runs on after it
            raise

    async def _one(self, problem: Problem, answer: str) -> tuple[Score, float]:
        if problem.inline:
            result = self._judge(problem, answer)
        else:
            self._asked += 1
            try:  # the threads' own queue: a worker need not wait for the event loop to get its next answer
                loop = asyncio.get_running_loop()
                result = await loop.run_in_executor(self._threads, self._judge, problem, answer)
            finally:
                self._asked -= 1
        self.scored += 1
        self.busy_seconds += result[1]
        return result

    def _judge(self, problem: Problem, answer: str) -> tuple[Score, float]:
        start = perf_counter()
        try:
            score = checked_score(problem, answer)
            self._judged.add(problem.name)
        except ScorerFault as fault:
            self._faults[problem.name] += not fault.of_answer
            broken = problem.name not in self._judged and self._faults[problem.name] >= MOST_FAULTS
            if broken or not scores_its_seed(problem, answer):
                raise
            if not fault.of_answer and self._faults[problem.name] == 1:
                warnings.warn(f"an answer counts as failed, because the scorer fails on it: {fault}", stacklevel=2)
            score = failure_of(problem, fault)
        return score, perf_counter() - start

    def close(self) -> None:
        """Wait for running work and end the threads. Safe to call twice."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)


def checked_score(problem: Problem, answer: str) -> Score:
    """One answer's Score, checked. Raises ScorerFault, whatever the scorer raised, SandboxFault, SandboxUnavailable."""
    try:
        score = problem.score(answer)
        if not isinstance(score, Score):
            raise ScorerFault(f"{problem.name}: score() gave {score!r}; it must return a problems.Score")
        return score.check(problem)
    except (ScorerFault, SandboxFault, SandboxUnavailable):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ScorerFault(f"{problem.name}: the scorer raised {text}") from error


def failure_of(problem: Problem, fault: ScorerFault) -> Score:
    """The Score of an answer on which the scorer fails although it scores its seed."""
    reason = fault.of_answer or f"the scorer fails on it: {fault}"
    return Score.failure(len(problem.objectives), " ".join(reason.split())[:300])


def scores_its_seed(problem: Problem, answer: str) -> bool:
    """Whether the scorer, which failed on `answer`, can now score the seed again without a fault or an error."""
    seed = problem.seed_answer()
    if problem.fault is not None or not seed or problem.canonical(seed) == answer:
        return False
    try:
        return problem.score_seed().check(problem).error is None
    except Exception:
        return False  # the first fault is the better message


_STAGE = re.compile(r"(evaluate(_stage\d)?|the answer fails, line \d+|[\w.]+\(\)): ")


def error_kind(error: str) -> str:
    """The first words of an answer's error, as a class to count by: "timeout", "SyntaxError", "no route". The stage of
    an evaluator, a line and a called function are none: "evaluate: SystemExit: no solution" is a SystemExit."""
    head = _STAGE.sub("", error).split(":", 1)[0].strip()
    return head if 0 < len(head) <= 40 else head[:37] + "..."
