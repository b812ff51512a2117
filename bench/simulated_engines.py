"""Inference engines and evaluators that take as long as real ones and do nothing.

An engine is a batch of at most `slots` sequences that step together: a step with n sequences takes base + slope x n
seconds and gives each one token, the form that continuous batching has while it is bound by memory. A sequence that
ends makes room for the next in line.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from virtual_time import Clock

from problems.contract import Problem, Score, complete_problem
from problems.scoring import Scorer
from problems.types import Prompt, Rollout

MEASURED = {
    # bench/results: vLLM 0.32 on two cores, Qwen2.5-Coder-0.5B: 31 tokens/s alone, 296 with 32 sequences
    "cpu": (0.0298, 0.00244, 32),
    # the shape of a 7B model on one large GPU: about 110 tokens/s alone and 8,000 with 256. An assumption, not measured
    "gpu": (0.009, 0.00009, 256),
}
"""(base, slope, slots) of a step."""


@dataclass(frozen=True)
class Shape:
    """base, slope: seconds of a step; slots: sequences at once"""

    base: float
    slope: float
    slots: int

    def step(self, sequences: int) -> float:
        return self.base + self.slope * sequences

    @property
    def rate(self) -> float:
        """Tokens a second of a full engine."""
        return self.slots / self.step(self.slots)


class Engine:
    """One replica. tokens: given so far; full_seconds: what they would have taken with every slot taken"""

    def __init__(self, shape: Shape, clock: Clock) -> None:
        self.shape, self.clock = shape, clock
        self.tokens = 0.0
        self._active: list[tuple[float, int, asyncio.Future[None]]] = []
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._steps = 0.0  # so far, each of one token for every active sequence
        self._last = clock.now()
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def load(self) -> int:
        return len(self._active) + len(self._queue)

    def add(self, length: int, done: asyncio.Future[None]) -> None:
        self._queue.append((length, done))
        self._move()

    def _move(self) -> None:
        with self.clock.simulating():
            now = self.clock.now()
            if self._active:
                steps = (now - self._last) / self.shape.step(len(self._active))
                self.tokens += steps * len(self._active)
                self._steps += steps
            self._last = now
            while self._active and self._active[0][0] <= self._steps + 1e-6:
                done = heapq.heappop(self._active)[2]
                if not done.done():
                    done.set_result(None)
            while self._queue and len(self._active) < self.shape.slots:
                length, done = self._queue.popleft()
                self._count += 1
                heapq.heappush(self._active, (self._steps + length, self._count, done))
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if self._active:
                left = (self._active[0][0] - self._steps) * self.shape.step(len(self._active))
                self._timer = asyncio.get_running_loop().call_later(max(left, 0.0), self._move)


class Lengths:
    """Tokens of rollouts: log-normal about a mean, cut at four times that, as the lengths of a model's answers are.

    spread: of the logarithm; 0 makes all alike
    """

    def __init__(self, mean: int, spread: float, seed: int = 0) -> None:
        self.mean, self.spread, self.seed = mean, spread, seed

    def draw(self, stream: int, count: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, stream])
        found = rng.lognormal(np.log(self.mean) - self.spread**2 / 2, self.spread, count)
        return np.clip(found, 1, 4 * self.mean).astype(int)


class SimulatedPolicy:
    """A Policy over replicas: a group goes to the replica with the least to do, so that its prompt is computed once."""

    version, prompt_format, temperature, has_logprobs, continues = "simulated", "chat", 1.0, True, False
    max_tokens: int | None = None
    batch = 0

    def __init__(self, shape: Shape, replicas: int, lengths: Lengths, clock: Clock) -> None:
        self.engines = [Engine(shape, clock) for _ in range(replicas)]
        self.lengths, self.clock = lengths, clock
        rng = np.random.default_rng(0)
        self._ids = rng.integers(0, 150_000, 4 * lengths.mean).astype(np.int32)
        self._logprobs = -rng.exponential(0.5, 4 * lengths.mean).astype(np.float32)
        self._prompt = rng.integers(0, 150_000, 900).astype(np.int32)

    async def sample(self, prompts: Sequence[Prompt], *, rollouts: int, answers: int, seed: int) -> list[list[Rollout]]:
        (prompt,) = prompts
        with self.clock.simulating():
            lengths = self.lengths.draw(prompt.stream, rollouts)
            ends = [asyncio.get_running_loop().create_future() for _ in range(rollouts)]
            engine = min(self.engines, key=lambda one: one.load)
        for length, end in zip(lengths, ends, strict=True):
            engine.add(int(length), end)
        await asyncio.gather(*ends)
        with self.clock.simulating():
            return [[self._rollout(prompt, i, int(length)) for i, length in enumerate(lengths)]]

    def _rollout(self, prompt: Prompt, place: int, length: int) -> Rollout:
        text = f"```python\ndef value():\n    return {prompt.stream} * 1000 + {place}\n```"
        return Rollout(text, self._ids[:length], self._logprobs[:length], self._prompt)

    @property
    def tokens(self) -> float:
        return sum(engine.tokens for engine in self.engines)

    @property
    def rate(self) -> float:
        return sum(engine.shape.rate for engine in self.engines)

    async def close(self) -> None:
        """Nothing is held."""


class SimulatedScorer(Scorer):
    """Every answer takes `seconds` on one of so many workers; the share `slow` of them takes `slow_seconds`."""

    def __init__(
        self, seconds: float, workers: int, clock: Clock, slow: float = 0.0, slow_seconds: float = 0.0
    ) -> None:
        super().__init__(1)
        self.seconds, self.clock, self.slow, self.slow_seconds = seconds, clock, slow, slow_seconds
        self._free = asyncio.Semaphore(workers)

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[tuple[Score, float]]:
        found = []
        for answer in answers:
            drawn = crc32(answer.encode())
            seconds = self.slow_seconds if drawn % 10_007 < self.slow * 10_007 else self.seconds
            self.queued += 1
            async with self._free:
                self.queued -= 1
                await asyncio.sleep(seconds)
            with self.clock.simulating():
                value = (drawn % 997) / 997
                found.append((Score((value, 1 - value), value * 0.9), seconds))
            self.scored += 1
        return found


class _Problem:
    objectives, target, answer_format = ("first", "second"), None, "python"

    def __init__(self, name: str) -> None:
        self.name = name

    def statement(self) -> str:
        return "Improve the program."

    def seed_answer(self) -> str:
        return "def value():\n    return 0"

    def score(self, answer: str) -> Score:
        raise RuntimeError("the simulated scorer scores")


def simulated_problems(count: int) -> list[Any]:
    return [complete_problem(_Problem(f"simulated/{i}")) for i in range(count)]
