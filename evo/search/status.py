"""The reports of a running search: plain counters, for progress displays and the final summary."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from islands.types import FORMAT, REPLIES, GroupSums, RunRecord, Totals
from problems.types import ScoredGroup, Unanswered
from vpo.policies.prompt_formats import CHAT

if TYPE_CHECKING:
    from evo.search.problem_run import ProblemRun  # slow to import: the database's library
    from vpo.policies.contract import Policy

SUMMARY_SECONDS = 1.0
"""How often a search stores its metrics with its groups, for watchers."""
_TIMES = ("training_seconds", "syncing_seconds", "commit_seconds")


Period = tuple[float, float]
"""From, to: seconds since 1970. A period that has not ended has None as its end in a summary, and math.inf here."""


class ActiveTime:
    """A stopwatch that keeps the periods in which it ran, so that parallel runs can be merged. The last one has an end
    of math.inf while it runs; wall time only marks the start of each.

    periods: those of earlier processes first
    """

    def __init__(self) -> None:
        self.periods: list[Period] = [(time.time(), math.inf)]
        self._offset = self.periods[0][0] - time.monotonic()

    def pause(self) -> None:
        began, end = self.periods[-1]
        self.periods[-1] = began, min(end, time.monotonic() + self._offset)

    @property
    def seconds(self) -> float:
        """Until now, at least a little more than none."""
        *ended, last = self.periods
        now = time.monotonic() + self._offset
        return max(seconds_until(ended, math.inf) + seconds_until([last], now), 1e-9)


def ended_periods(summary: Mapping[str, Any]) -> list[Period]:
    """The periods of processes that have ended. One that was killed counts until its last summary."""
    at = summary.get("at") or 0.0
    return [(began, end if end is not None else max(began, at)) for began, end in summary.get("active") or []]


def active_periods(run: RunRecord) -> list[Period]:
    """The periods of a stored run, with an end of math.inf for the current one."""
    periods = ended_periods(run.summary)
    stored = run.summary.get("active")
    if run.status == "running" and stored and stored[-1][1] is None:
        periods[-1] = (periods[-1][0], math.inf)
    elif run.status == "running" and not run.summary:
        periods = [(run.updated, math.inf)]
    return periods


def union(periods: Sequence[Period]) -> tuple[Period, ...]:
    """The periods in which any of these ran, in order."""
    merged: list[Period] = []
    for began, end in sorted(periods):
        if merged and began <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((began, end))
    return tuple(merged)


def seconds_until(periods: Sequence[Period], now: float) -> float:
    """The seconds of these periods, which do not overlap, up to `now`."""
    return sum(max(0.0, min(end, now) - began) for began, end in periods)


@dataclass(kw_only=True)
class SearchStatus(Totals):
    """The whole search: its totals over committed groups, also those of earlier processes, with its times and rates.

    estimated: tokens that are estimates, because a server reported no usage
    unanswered: replies in a row without an answer, up to now; reply: the newest one with a text
    drawing: tokens of iterations in flight, which count in the rate only
    asks_models: whether a policy is more than random edits, so that its tokens and waiting for it mean something
    training: the metrics of the last training step during the search
    active: the seconds that were searched, in this process and in those before it; rates are of these
    policy_seconds, policy_before: seconds that this process, and earlier ones, had a policy sample
    machines: those of this process and of those before it (evo.provenance), each once
    """

    run: str
    problem_runs: Sequence[ProblemRun]
    active: ActiveTime = field(default_factory=ActiveTime)
    estimated: int = 0
    unanswered: int = 0
    reply: str = ""
    drawing: int = 0
    asks_models: bool = True
    commit_seconds: float = 0.0
    training_seconds: float = 0.0
    syncing_seconds: float = 0.0
    training: dict[str, float] = field(default_factory=dict)
    policy_seconds: float = 0.0
    policy_before: float = 0.0
    machines: list[dict[str, Any]] = field(default_factory=list)

    def carry(self, summary: Mapping[str, Any], committed: Totals) -> None:
        """Continue from an earlier process: what it committed, and its times from its last summary, which is at most
        SUMMARY_SECONDS older."""
        self.add(committed)
        for name in _TIMES:
            vars(self)[name] = summary.get(name, 0)
        self.estimated, self.policy_before = summary.get("estimated_tokens", 0), summary.get("sampling_seconds", 0.0)
        self.active.periods[:0] = ended_periods(summary)
        before = [machine for machine in summary.get("machines", []) if machine not in self.machines]
        self.machines = [*before, *self.machines]

    def metrics(self, scoring_queue: int = 0) -> dict[str, Any]:
        """Counts and rates, as a run keeps them in its summary while it runs and at its end. Seconds and rates are
        of the time searched, by all processes. scoring_queue: answers that wait to be scored."""
        seconds, sampling = self.active.seconds, self.policy_before + self.policy_seconds
        periods = [[round(began, 3), None if end == math.inf else round(end, 3)] for began, end in self.active.periods]
        return {
            **self.as_dict(),
            "solved": sum(problem_run.solved for problem_run in self.problem_runs),
            "estimated_tokens": self.estimated,
            "active": periods,
            "seconds": round(seconds, 3),
            "answers_per_second": round(self.answers / seconds, 2),
            "tokens_per_second": round((self.tokens + self.drawing) / seconds, 1) if self.asks_models else None,
            "policy_busy": round(min(1.0, sampling / seconds), 4) if self.asks_models else None,
            "sampling_seconds": round(sampling, 3),
            "scoring_queue": scoring_queue,
            **{name: round(vars(self)[name], 3) for name in _TIMES},
            "machines": self.machines,
            "at": round(time.time(), 3),
        }

    def count(self, group: ScoredGroup, sums: GroupSums) -> None:
        self.add(
            Totals(
                groups=1, answers=sums.given, missing=sums.missing, repeats=sums.repeats, tokens=sums.tokens,
                prompt_tokens=sums.prompt_tokens, cost=sums.cost, sampling_seconds=group.sampling_seconds,
                scoring_seconds=sums.scored_seconds, errors=Counter(sums.errors),
            )
        )  # fmt: skip
        for scored in group.rollouts:
            if scored.rollout.text.strip():
                self.reply = scored.rollout.text
            usage = scored.rollout.usage
            if usage is not None:
                self.estimated += usage.completion_tokens + usage.prompt_tokens if usage.estimated else 0
            lacking = usage is not None and scored.unanswered is not None
            self.unanswered = self.unanswered + 1 if lacking else 0


def clock(seconds: float) -> str:
    """1:05, 2:03:04, 3d 04:05."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_time(seconds: float) -> str:
    """A day and time of this machine's clock, with its zone: 24 Nov 16:45 CET. seconds: since 1970"""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%d %b %H:%M %Z")


def describe_work(counts: Mapping[str, Any], seconds: float | None, solved: int, known: int, others: str = "") -> str:
    """What a search did, in words: 2 of 3 solved, 40 iterations, 120 answers, 900 tokens in 1:05. counts: as
    Totals.as_dict has them; known: problems with a target; others: words between"""
    parts = [f"{solved} of {known} solved" if known else "", others, f"{counts['groups']:,} iterations"]
    parts += [
        f"{counts['answers']:,} answers",
        describe_usage(*(counts[k] for k in ("tokens", "prompt_tokens", "cost"))),
    ]
    return ", ".join(filter(None, parts)) + (f" in {clock(seconds)}" if seconds else "")


def describe_usage(tokens: int, prompt_tokens: int, cost: float) -> str:
    """Tokens in words, with prompt tokens and the cost if there is one."""
    return f"{tokens:,} tokens" + (f", {prompt_tokens:,} of prompts, cost {cost:.4g}" if cost else "")


LACKING = {
    Unanswered.FAILED: ("failed", "look at the server, and lower ?concurrency="),
    Unanswered.CUT: ("cut at the token limit", "raise --max-new-tokens, or ask for fewer --answers a reply"),
    Unanswered.EMPTY: ("empty", "ask the model by hand whether it answers, or name another"),
    Unanswered.REASONING: (
        "only reasoning",
        "the model had finished, so the server's reasoning parser took its answer, or it wrote none: start the server "
        "without the parser, or name a model that answers",
    ),
    Unanswered.FILTERED: ("ended by a content filter", "reword the task, or name another server"),
    Unanswered.CALL: ("a tool call", "start the server without tools, or name another model"),
    Unanswered.REFUSED: ("a refusal", "read one (evo show), and reword the task"),
}
"""Why replies hold no answer, in words, and what to do about it."""


def is_scripted(policy: Policy) -> bool:
    """Whether it answers without a model."""
    return policy.version.startswith("scripted:")


def remedy_of_repeats(policy: Policy) -> str:
    """What to do about answers that the search had before; "" for rules of a token language, which repeat by design."""
    if is_scripted(policy):
        edits = "random edits need a seed_answer with numbers or a program to change; write one, or name a model"
        return edits if policy.prompt_format == CHAT else ""
    return "raise its temperature (POLICY?temperature=1.2), or name another policy"


def describe_errors(errors: Mapping[str, int]) -> str:
    """Counts by kind in words: replies without an answer, and failed answers with their most frequent kinds."""
    kinds = Counter(errors)
    unread, parts = kinds.pop(FORMAT, 0), []
    lacking = {reason: count for reason in Unanswered if (count := kinds.pop(REPLIES[reason], 0))}
    if total := sum(lacking.values()):
        reasons = ", ".join(f"{count:,} {LACKING[reason][0]}" for reason, count in lacking.items())
        parts.append(f"{total:,} {'reply' if total == 1 else 'replies'} without an answer ({reasons})")
    if unread:
        parts.append(f"{unread:,} unreadable {'reply' if unread == 1 else 'replies'}")
    if failed := kinds.total():
        frequent = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common(3))
        parts.append(f"{failed:,} answer{'s' * (failed != 1)} failed ({frequent})")
    return "; ".join(parts)
