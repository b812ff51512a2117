"""What a search tells the world while it runs: plain counters, read by progress displays and the final summary."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from problems.records import ScoredGroup


@dataclass
class LaneStatus:
    """One problem: how far it is, its best fitness, and when it was solved."""

    name: str
    target: float | None
    iterations: int
    done: int = 0
    best: float | None = None
    solved_at: int | None = None
    stopped: str = ""
    candidates: int = 0


@dataclass
class SearchStatus:
    """The whole search. Counts cover this process and, after a resume, what was committed before it."""

    run: str
    policy: str
    lanes: list[LaneStatus]
    started: float = field(default_factory=time.monotonic)
    groups: int = 0
    groups_here: int = 0
    answers: int = 0
    missing: int = 0
    repeats: int = 0
    tokens: int = 0
    tokens_here: int = 0
    answers_here: int = 0
    scoring_seconds: float = 0.0
    commit_seconds: float = 0.0
    sampling_seconds: float = 0.0
    migrations: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    stopping: str = ""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def planned(self) -> int:
        return sum(lane.done if lane.stopped else lane.iterations for lane in self.lanes)

    @property
    def solved(self) -> int:
        return sum(lane.solved_at is not None for lane in self.lanes)

    def count(self, group: ScoredGroup) -> None:
        """Add a committed group."""
        self.groups += 1
        self.groups_here += 1
        for rollout in group.rollouts:
            tokens = len(rollout.rollout.token_ids)
            self.tokens += tokens
            self.tokens_here += tokens
            self.missing += max(0, group.answers - len(rollout.answers))
            if rollout.format_error:
                self.errors["format"] += 1
            for answer in rollout.answers:
                self.answers += 1
                self.answers_here += 1
                self.scoring_seconds += answer.seconds
                if answer.candidate is not None:
                    self.repeats += 1
                elif answer.score.error:
                    self.errors[error_kind(answer.score.error)] += 1


def error_kind(error: str) -> str:
    """The first words of an answer's error, as a class to count by: "timeout", "SyntaxError", "no route"."""
    head = error.split(":", 1)[0].strip()
    return head if 0 < len(head) <= 40 else head[:37] + "..."
