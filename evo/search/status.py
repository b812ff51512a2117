"""The reports of a running search: plain counters, for progress displays and the final summary; and the machine."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evo.search.active_time import ActiveTime, ended_periods
from evo.search.defaults import source_commit
from evo.search.stop import Stop
from evo.version import __version__
from problems.scoring import cores
from problems.types import NO_USAGE, ScoredGroup, Unanswered, Usage, prompt_tokens

SUMMARY_SECONDS = 1.0
"""How often a search stores its metrics with its groups, for watchers."""
FORMAT = "format"
"""The kind of error of rollouts that could not be read in full."""
REPLIES = {reason: f"reply {reason}" for reason in Unanswered}
"""The kinds of error of paid replies without an answer; all others but FORMAT are errors of answers."""


@dataclass
class ProblemStatus:
    """One problem: how far it is, its best fitness, and when it was solved."""

    name: str
    target: float | None
    iterations: int
    done: int = 0
    best: float | None = None
    solved_at: int | None = None
    stop: Stop | None = None
    candidates: int = 0


@dataclass
class SearchStatus:
    """The whole search. Counts cover this process and, after a resume, all commits before it.

    tokens: generated; prompt_tokens: of prompts, each once for its group; both with those of reflections
    reflections, reflection_tokens: parents that were reflected on, and their generated tokens
    cost: of all tokens, if the policy has a price
    lost_tokens, lost_prompt_tokens, lost_cost: the part of these that no committed group holds: of failed requests, and
        of replies that could not be committed
    estimated: tokens that are estimates, because a server reported no usage
    unanswered: replies in a row without an answer, up to now
    held, held_reflections: what servers counted for the groups that this process committed, and for their reflections
    untimed_answers, untimed_tokens: from before the run's time was recorded, as an import's
    training: the metrics of the last training step during the search
    active: the seconds that were searched, in this process and in those before it; rates are of these
    sampling_before: seconds that earlier processes sampled
    machines: those of this process and of those before it (evo.search.status), each once
    """

    run: str
    policy: str
    problem_runs: list[ProblemStatus]
    active: ActiveTime = field(default_factory=ActiveTime)
    groups: int = 0
    answers: int = 0
    missing: int = 0
    repeats: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0
    lost_tokens: int = 0
    lost_prompt_tokens: int = 0
    lost_cost: float = 0.0
    estimated: int = 0
    unanswered: int = 0
    held: Usage = NO_USAGE
    held_reflections: Usage = NO_USAGE
    untimed_answers: int = 0
    untimed_tokens: int = 0
    scoring_seconds: float = 0.0
    commit_seconds: float = 0.0
    sampling_seconds: float = 0.0
    training_seconds: float = 0.0
    syncing_seconds: float = 0.0
    training: dict[str, float] = field(default_factory=dict)
    migrations: int = 0
    reflections: int = 0
    reflection_tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    sampling_before: float = 0.0
    machines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds searched, at least a little more than none."""
        return max(self.active.seconds, 1e-9)

    @property
    def answers_per_second(self) -> float:
        return (self.answers - self.untimed_answers) / self.elapsed

    @property
    def tokens_per_second(self) -> float:
        return (self.tokens - self.untimed_tokens) / self.elapsed

    @property
    def policy_busy(self) -> float:
        """The share of the time in which the policy sampled."""
        return min(1.0, (self.sampling_before + self.sampling_seconds) / self.elapsed)

    @property
    def planned(self) -> int:
        return sum(
            problem_run.done if problem_run.stop else problem_run.iterations for problem_run in self.problem_runs
        )

    @property
    def solved(self) -> int:
        return sum(problem_run.solved_at is not None for problem_run in self.problem_runs)

    def carry(self, summary: Mapping[str, Any], created: float, groups: int, answers: int, tokens: int) -> None:
        """Continue from an earlier process: its committed groups, answers and tokens, and the rest from its last
        summary, which is at most SUMMARY_SECONDS older."""
        self.groups, self.answers, self.tokens = groups, answers, tokens
        self.prompt_tokens, self.cost = int(summary.get("prompt_tokens", 0)), float(summary.get("cost", 0.0))
        self.lost_tokens, self.lost_prompt_tokens = summary.get("lost_tokens", 0), summary.get("lost_prompt_tokens", 0)
        self.lost_cost, self.estimated = summary.get("lost_cost", 0.0), summary.get("estimated_tokens", 0)
        periods = ended_periods(summary, created)
        self.active.carry(periods)
        if not periods:
            self.untimed_answers, self.untimed_tokens = answers, tokens
        self.sampling_before = float(summary.get("sampling_seconds", 0.0))
        self.missing, self.repeats = summary.get("missing_answers", 0), summary.get("repeats", 0)
        self.scoring_seconds = summary.get("scoring_seconds", 0.0)
        self.commit_seconds = summary.get("commit_seconds", 0.0)
        self.training_seconds = summary.get("training_seconds", 0.0)
        self.syncing_seconds = summary.get("syncing_seconds", 0.0)
        self.migrations = summary.get("migrations", 0)
        self.reflections = summary.get("reflections", 0)
        self.reflection_tokens = summary.get("reflection_tokens", 0)
        self.errors = Counter(summary.get("errors", {}))
        before = [machine for machine in summary.get("machines", []) if machine not in self.machines]
        self.machines = [*before, *self.machines]

    def metrics(self, scoring_queue: int = 0) -> dict[str, Any]:
        """Counts and rates, as a run keeps them in its summary while it runs and at its end. Seconds and rates are
        of the time searched, by all processes. scoring_queue: answers that wait to be scored."""
        return {
            "solved": self.solved,
            "groups": self.groups,
            "answers": self.answers,
            "missing_answers": self.missing,
            "repeats": self.repeats,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "cost": round(self.cost, 6),
            "lost_tokens": self.lost_tokens,
            "lost_prompt_tokens": self.lost_prompt_tokens,
            "lost_cost": round(self.lost_cost, 6),
            "estimated_tokens": self.estimated,
            "active": self.active.stored(),
            "seconds": round(self.elapsed, 3),
            "answers_per_second": round(self.answers_per_second, 2),
            "tokens_per_second": round(self.tokens_per_second, 1),
            "policy_busy": round(self.policy_busy, 4),
            "sampling_seconds": round(self.sampling_before + self.sampling_seconds, 3),
            "scoring_seconds": round(self.scoring_seconds, 3),
            "scoring_queue": scoring_queue,
            "training_seconds": round(self.training_seconds, 3),
            "syncing_seconds": round(self.syncing_seconds, 3),
            "commit_seconds": round(self.commit_seconds, 3),
            "migrations": self.migrations,
            "reflections": self.reflections,
            "reflection_tokens": self.reflection_tokens,
            "errors": dict(self.errors),
            "machines": self.machines,
            "at": round(time.time(), 3),
        }

    def lose(self, spent: Usage) -> None:
        """Add what was spent on replies that no group holds."""
        self.tokens += spent.completion_tokens
        self.prompt_tokens += spent.prompt_tokens
        self.cost += spent.cost
        self.lost_tokens += spent.completion_tokens
        self.lost_prompt_tokens += spent.prompt_tokens
        self.lost_cost += spent.cost

    def count(self, group: ScoredGroup) -> None:
        """Add a committed group."""
        self.groups += 1
        self.prompt_tokens += prompt_tokens([rollout.rollout for rollout in group.rollouts])
        if (said := group.reflection) is not None:
            self.reflections += 1
            self.reflection_tokens += said.tokens
            self.tokens += said.tokens
            self.prompt_tokens += said.prompt_tokens
            self.cost += said.cost
            self.held_reflections += Usage(said.prompt_tokens, said.tokens, said.cost)
        for rollout in group.rollouts:
            tokens, usage = rollout.rollout.tokens, rollout.rollout.usage
            if usage is not None:
                self.cost += usage.cost
                self.held += usage
                self.estimated += usage.completion_tokens + usage.prompt_tokens if usage.estimated else 0
            self.tokens += tokens
            self.missing += max(0, group.answers - len(rollout.answers))
            lacking = rollout.unanswered if usage is not None else None
            self.unanswered = self.unanswered + 1 if lacking is not None else 0
            if lacking is not None:
                self.errors[REPLIES[lacking]] += 1
            elif rollout.format_error:
                self.errors[FORMAT] += 1
            for answer in rollout.answers:
                self.answers += 1
                self.scoring_seconds += answer.seconds
                if answer.candidate is not None:
                    self.repeats += 1
                elif answer.score.error:
                    self.errors[error_kind(answer.score.error)] += 1


def count_kinds(errors: Iterable[tuple[str, int]]) -> Counter[str]:
    """(an answer's error, how often it was met) -> counts by kind."""
    counts = Counter[str]()
    for error, count in errors:
        counts[error_kind(error)] += count
    return counts


def error_kind(error: str) -> str:
    """The first words of an answer's error, as a class to count by: "timeout", "SyntaxError", "no route"."""
    head = error.split(":", 1)[0].strip()
    return head if 0 < len(head) <= 40 else head[:37] + "..."


def clock(seconds: float) -> str:
    """1:05, 2:03:04."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def describe_usage(tokens: int, prompt_tokens: int, cost: float) -> str:
    """Tokens in words, with prompt tokens and the cost if there is one."""
    return f"{tokens:,} tokens" + (f", {prompt_tokens:,} of prompts, cost {cost:.4g}" if cost else "")


def describe_metrics(metrics: Mapping[str, Any]) -> str:
    """Throughput and what went wrong, in one line. metrics: as SearchStatus.metrics gives them"""
    repeats = metrics["repeats"]
    parts = [
        f"{metrics['answers_per_second']:,.0f} answers/s",
        f"{metrics['tokens_per_second']:,.0f} tokens/s",
        f"waiting for the model {metrics['policy_busy']:.0%} of the time",
        f"{repeats:,} repeat{'s' * (repeats != 1)}",
    ]
    if metrics["training_seconds"]:
        training, syncing = metrics["training_seconds"], metrics["syncing_seconds"]
        seconds = max(metrics["seconds"], 1e-9)
        parts.append(f"training {training / seconds:.0%}, syncing {syncing / seconds:.1%}")
    if metrics["errors"]:
        parts.append(describe_errors(metrics["errors"]))
    return "; ".join(parts)


LACKING = {
    Unanswered.FAILED: "failed",
    Unanswered.CUT: "cut at the token limit",
    Unanswered.EMPTY: "empty",
    Unanswered.REASONING: "only reasoning",
}
REMEDIES = {
    Unanswered.FAILED: "look at the server, and lower ?concurrency= or set ?rpm=",
    Unanswered.CUT: "raise --max-new-tokens, or ask for fewer --answers a reply",
    Unanswered.EMPTY: "ask the model by hand whether it answers, or name another",
    Unanswered.REASONING: "raise --max-new-tokens so that the model can finish, or let it think less",
}
"""By why replies hold no answer: what to do about it."""


def describe_errors(errors: Mapping[str, int]) -> str:
    """Counts by kind in words: replies without an answer, and failed answers with their most frequent kinds."""
    kinds = Counter(errors)
    unread, parts = kinds.pop(FORMAT, 0), []
    lacking = {reason: count for reason in Unanswered if (count := kinds.pop(REPLIES[reason], 0))}
    if total := sum(lacking.values()):
        reasons = ", ".join(f"{count:,} {LACKING[reason]}" for reason, count in lacking.items())
        parts.append(f"{total:,} {'reply' if total == 1 else 'replies'} without an answer ({reasons})")
    if unread:
        parts.append(f"{unread:,} {'reply' if unread == 1 else 'replies'} held no usable answer")
    if failed := kinds.total():
        frequent = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common(3))
        parts.append(f"{failed:,} answer{'s' * (failed != 1)} failed ({frequent})")
    return "; ".join(parts)


LIBRARIES = ("torch", "transformers", "vllm", "peft", "openai", "openevolve", "numpy")
"""Libraries whose versions may change a policy's answers; named if the process has imported them."""


def describe_machine() -> dict[str, Any]:
    """This process's machine and software, as JSON takes it: cpu, cores (that it may use), memory_gib, gpus (names),
    system, commit, and versions by name. Nothing that names a person or a host."""
    torch = sys.modules.get("torch")
    gpus = []
    if torch is not None and torch.cuda.is_initialized():
        gpus = [str(torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
    versions = {"evo": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            said = vars(sys.modules[name]).get("__version__") or _installed_version(name)
            if said is not None:
                versions[name] = str(said)
    return {**_hardware(), "gpus": gpus, "commit": source_commit(), "versions": versions}


def _installed_version(name: str) -> str | None:
    """The version of a package, without loading it."""
    from importlib import metadata  # 15 ms

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def _hardware() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
