"""Scoring answers in parallel: threads that wait on sandbox workers, behind one asyncio call with back-pressure."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from problems.contract import Problem, Score, ScorerFault
from problems.sandbox.contract import SandboxFault, SandboxUnavailable


def cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Scorer:
    """At most `workers` answers are judged at a time; further callers wait, which holds back whoever produces answers.

    A problem with `inline = True` (a maze) is scored on the event loop itself, where a thread would cost more than the
    work.

    workers: None for one per core
    scored: answers judged so far; busy_seconds: the time that took, summed over workers; queued: answers that wait
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"a scorer needs at least one worker, not {workers}")
        self.workers = workers or cores()
        self.scored = 0
        self.busy_seconds = 0.0
        self.queued = 0
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="score")
        self._slots = asyncio.Semaphore(self.workers)
        self._closed = False

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[tuple[Score, float]]:
        """Each answer's Score, checked, with the seconds it took, in order.

        Raises ScorerFault where the problem's scorer failed, whatever it raised itself; the first fault cancels what
        has not started. SandboxUnavailable and SandboxFault pass through: they concern every problem.
        """
        if self._closed:
            raise RuntimeError("the scorer is closed")
        if problem.inline:
            return [self._counted(_judge(problem, answer)) for answer in answers]
        tasks = [asyncio.ensure_future(self._one(problem, answer)) for answer in answers]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # nothing of this call runs on after it
            raise

    async def _one(self, problem: Problem, answer: str) -> tuple[Score, float]:
        self.queued += 1
        try:
            await self._slots.acquire()
        finally:
            self.queued -= 1
        try:
            loop = asyncio.get_running_loop()
            return self._counted(await loop.run_in_executor(self._threads, _judge, problem, answer))
        finally:
            self._slots.release()

    def _counted(self, result: tuple[Score, float]) -> tuple[Score, float]:
        self.scored += 1
        self.busy_seconds += result[1]
        return result

    def close(self) -> None:
        """Wait for what runs and end the threads. Safe to call twice."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)


def _judge(problem: Problem, answer: str) -> tuple[Score, float]:
    start = perf_counter()
    try:
        score = problem.score(answer)
        if not isinstance(score, Score):
            raise ScorerFault(f"{problem.name}: score() gave {score!r}; it must return a problems.Score")
        return score.check(problem), perf_counter() - start
    except (ScorerFault, SandboxFault, SandboxUnavailable):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ScorerFault(f"{problem.name}: the scorer raised {text}") from error
