"""Stored searches as training data: the runs, and their prompt groups as a source of lessons.

    filters, one where clause (islands.training.GroupChoice) -> rows of the index -> groups, whole -> trainer.step

What wrote a group is not what learns from it. Three things hold the difference in check: PPO's clip around the policy
that wrote it, whose log-probabilities are stored, so that all steps together go no further than one would; importance
weights against the same, truncated at a cap; and the choice of groups, which may leave old versions out. Groups are
taken whole or not at all: without some of its rollouts the others would be compared with too few. The order is drawn
from the seed.

Memory holds a few numbers for each chosen group. Its prompt and answers are read when a step needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import time
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from evo.config.train import TRUNCATE, TrainRun, run_and_address
from evo.errors import BadInput
from evo.training.loop import GroupSource, TrainingBatch, TrainingStatus
from islands.comparisons import runs_named
from islands.groups import groups_at
from islands.runs import group_count
from islands.store import Store
from islands.training import CHAINS, NUCLEUS, ONE_ROLLOUT, GroupChoice, TraceRow
from islands.types import ProblemRecord, RunRecord
from problems.address import name_few
from problems.types import ScoredGroup
from vpo.advantage import METHODS
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainingStopped, TrainStats
from vpo.training.config import Estimation
from vpo.training.examples import group_advantages

SILENT, FOREIGN = "without log-probabilities", "of another tokenizer"
TOO_LONG, _SPREADLESS = "longer than the policy's context", "without spread"
_REMEDY = {
    CHAINS: "learn from them by " + ", ".join(name for name, method in METHODS.items() if method.chain),
    ONE_ROLLOUT: "search with --rollouts 4 or more",
    NUCLEUS: "their log-probabilities leave out the other tokens; search with --top-p 1",
    SILENT: "without them the importance ratio is undefined",
    FOREIGN: "train the policy that searched, or one of its family",
    _SPREADLESS: "choose other traces, or search with more rollouts or a higher temperature",
}


@dataclass
class StoredRun:
    """A run that a training learns from.

    upto: the last stored group when training began; later groups do not count
    stored: groups up to `upto`; chosen: how many of them, or of the lessons they gave, are learned from
    digest: of all data that distinguishes what was chosen
    """

    store: Store
    run: RunRecord
    problems: Mapping[int, ProblemRecord]
    upto: int = -1
    stored: int = 0
    chosen: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        return f"{self.run.name} ({self.store.address})"

    def choose(self, lessons: Sequence[tuple[Any, ...]], chosen: int) -> None:
        """Record what is learned from."""
        self.chosen, digest = chosen, hashlib.blake2b(digest_size=16)
        for lesson in lessons:
            digest.update(repr(lesson).encode())
        self.digest = digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """The record that a training run keeps of it."""
        counts = {"upto": self.upto, "stored": self.stored, "chosen": self.chosen, "digest": self.digest}
        return {"run": self.run.name, "database": self.store.address, **counts}


class StoredSource(GroupSource):
    """TrainingBatch from stored runs. Nothing is sampled.

    run: the settings, with those that the runs decide
    records: the problems that it is of, by the run's place and the problem's id
    """

    def __init__(self, run: TrainRun, runs: Sequence[StoredRun], problems: Sequence[tuple[int, int]]) -> None:
        self.run, self.runs = run, runs
        self.records = {(place, id): runs[place].problems[id] for place, id in problems}
        self.run_names = ", ".join(source.name for source in runs)
        self.example = next(iter(self.records.values())).address
        self.policy: LocalPolicy
        self._ahead: tuple[int, asyncio.Future[TrainingBatch]] | None = None

    @property
    def problem_names(self) -> set[str]:
        """Names of the problems, which are their addresses."""
        return {record.address for record in self.records.values()}

    @abstractmethod
    def fit(self, policy: LocalPolicy) -> None:
        """Prepare the lessons for the policy that learns. Raises BadInput if it can learn from none."""

    @abstractmethod
    def read(self, step: int) -> TrainingBatch:
        """The lessons of a step."""

    async def next(self, status: TrainingStatus) -> TrainingBatch:
        """The lessons of the step, which were read during the one before. The next ones are read meanwhile, where the
        policy samples, which an evaluation then waits for: one thread at a time uses a tokenizer."""
        started = time.perf_counter()
        known, self._ahead = self._ahead, None
        batch = await (known[1] if known and known[0] == status.step else self._reading(status.step))
        if (following := status.step + 1) < status.steps:
            self._ahead = following, self._reading(following)
            await asyncio.sleep(0)  # begins it: a step of training does not let the event loop run
        status.reading_seconds += time.perf_counter() - started
        return batch

    def _reading(self, step: int) -> asyncio.Future[TrainingBatch]:
        reading = asyncio.ensure_future(self.policy.between(functools.partial(self.read, step)))
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # the last may not be asked for
        return reading


Source = TypeVar("Source", bound=StoredSource)
_TracePlace = tuple[int, TraceRow]


def open_stored(
    run: TrainRun,
    began: Sequence[Mapping[str, Any]] | None,
    kind: Callable[[TrainRun, Sequence[StoredRun]], Source],
    opened: contextlib.ExitStack,
) -> Source:
    """The lessons of the runs that `run` names, each run once, read-only, as long as `opened` is; of a comparison, for
    a method of rewards, of the runs whose chains are as long as it needs.

    began: for a resume, the records of StoredRun.describe when training began: the same data, or BadInput
    Raises BadInput, one line with the reason, if nothing is left to learn from; UnknownRun, DatabaseUnavailable.
    """
    stores: dict[str, Store] = {}
    sources: dict[tuple[str, str], StoredRun] = {}
    for given in run.from_traces:
        name, address = run_and_address(given, run.db)
        if address not in stores:
            stores[address] = opened.enter_context(Store.open(address, read_only=True))
        store = stores[address]
        fitting = [record for record in runs_named(store, name) if record.name == name or _suits(run, record)]
        if not fitting:
            wanted = f"chains of {run.answers}" if run.answers else "answers in the form that it needs"
            raise BadInput(f"no run of the comparison {name} has {wanted}; {run.method} could learn from none")
        for record in fitting:
            problems = {problem.id: problem for problem in store.problems(record.id)}
            sources.setdefault((store.address, record.name), StoredRun(store, record, problems))
    names = [source.run.name for source in sources.values()]
    if began is not None and names != (then := [described["run"] for described in began]):
        raise BadInput(f"the traces are of {', '.join(names)}; training began with those of {', '.join(then)}")
    for place, source in enumerate(sources.values()):
        upto = None if began is None else int(began[place]["upto"])
        source.stored, last = group_count(source.store, source.run.id, upto)
        source.upto = last if upto is None else upto
    stored = kind(run, list(sources.values()))
    for source, described in zip(stored.runs, began or (), strict=began is not None):
        if source.digest != described["digest"]:
            raise BadInput(
                f"the traces of {source.name} up to group {source.upto} are not those that training began with; an "
                "exact resume is not possible"
            )
    return stored


def _suits(run: TrainRun, record: RunRecord) -> bool:
    answers = int(record.config.get("answers", 3))
    if run.method not in METHODS or answers == run.answers:
        return True
    return run.answers is None and (answers > 1) == METHODS[run.method].chain


class StoredGroups(StoredSource):
    """The groups of stored runs, each once.

    places: of the groups, in order: the place of the run, and the row
    left_out: those that cannot teach the method, or this policy, by the reason
    """

    def __init__(self, run: TrainRun, runs: Sequence[StoredRun]) -> None:
        """The groups that can teach the method of `run`, as far as their rows show."""
        left_out, self.places, where = Counter[str](), list[_TracePlace](), ", ".join(source.name for source in runs)
        for number, source in enumerate(runs):
            choice = GroupChoice(source.run.id, source.upto, run.answers, METHODS[run.method].chain)
            rows = choice.rows(source.store)
            left_out += choice.left_out(source.store)
            self.places += [(number, row) for row in rows]
            digested = [(row.sequence, row.iteration, row.version, row.rollouts, row.created) for row in rows]
            source.choose(digested, len(rows))
        if not self.places and not left_out:
            raise BadInput(f"nothing to learn from: {where} holds no iterations yet")
        if not self.places:
            raise BadInput(_nothing_taught(run.method, left_out, "stored iterations"))
        lengths = Counter(row.answers for _, row in self.places)
        if len(lengths) > 1:
            counts = " and ".join(f"{count:,} of {m}" for m, count in sorted(lengths.items()))
            raise BadInput(f"the stored chains differ in length ({counts} answers); choose one with --answers")
        (answers,) = lengths
        if answers == 1 and METHODS[run.method].chain:
            warnings.warn(
                f"{run.method} judges a rollout's answers as a set, and these rollouts have one answer each: what it "
                "can teach is little more than a single-answer method does",
                stacklevel=2,
            )
        run = run.model_copy(update={"answers": answers, "truncate": run.truncate or TRUNCATE})
        super().__init__(run, runs, sorted({(number, row.problem_id) for number, row in self.places}))
        self.left_out = left_out

    def __len__(self) -> int:
        return len(self.places)

    def fit(self, policy: LocalPolicy) -> None:
        """Leave out the groups of versions with another tokenizer, and those that came without log-probabilities, as
        far as a look at one group of each version tells."""
        self.policy, reasons = policy, dict[tuple[int, str], str]()
        for run, row in self.places:
            if (key := (run, row.version)) not in reasons:
                (group,) = self._groups([(run, row)])
                reason = unusable(group, policy)
                known = reason in (SILENT, FOREIGN)
                reasons[key] = reason if known else FOREIGN if _foreign(group, policy) else ""
        of = [reasons[run, row.version] for run, row in self.places]
        if left_out := Counter(filter(None, of)):
            evidence = {reason: f" ({version} wrote them)" for (_, version), reason in reversed(reasons.items())}
            self.places = [place for place, reason in zip(self.places, of, strict=True) if not reason]
            self.left_out = Counter(self.left_out) + left_out
            if not self.places:
                raise BadInput(_nothing_taught(policy.version, left_out, "chosen groups", evidence))
        self._order = np.random.default_rng([self.run.seed, 0]).permutation(len(self))
        self.steps = min(self.run.steps, -(-len(self) // self.run.prompts))
        self.words = f"{len(self):,} iterations of {self.run_names}"

    def check(self, estimation: Estimation) -> None:
        """Groups are read until one teaches."""
        left_out = Counter[str]()
        for step in range(-(-len(self) // self.run.prompts)):
            batch = self.read(step)
            left_out += batch.left_out
            for group in batch.groups:
                try:
                    taught = group_advantages(group, estimation)
                except TrainingStopped as error:
                    raise BadInput(str(error)) from None
                if np.any(taught):
                    return
                left_out[_SPREADLESS] += 1
        raise BadInput(_nothing_taught(self.run.method, left_out, "chosen groups"))

    def notes(self, status: TrainingStatus) -> list[str]:
        """Paragraphs on the groups that were used and on those that were not."""
        corrected = f"PPO's clip around it, importance weights of at most {self.run.truncate:g}"
        versions = name_few(list(dict.fromkeys(row.version for _, row in self.places)), 3, kind=" versions")
        return [
            "## Traces",
            "Nothing was sampled: the groups are those that searches stored, each as it was, corrected for the policy "
            f"that wrote them ({corrected}).",
            "\n".join(f"- {s.name}: {s.stored:,} groups stored, {s.chosen:,} chosen" for s in self.runs),
            f"Written by {versions}. Learned from {status.groups:,} groups; left out: {status.reasons}.",
        ]

    def of_step(self, step: int) -> list[_TracePlace]:
        """The groups of a step, at most `prompts`."""
        chosen = self._order[step * self.run.prompts : (step + 1) * self.run.prompts]
        return [self.places[int(place)] for place in chosen]

    def answers(self, step: int) -> int:
        return sum(row.answers * row.rollouts for _, row in self.of_step(step))

    def read(self, step: int) -> TrainingBatch:
        """The usable groups of a step, and the reasons why the others are unusable."""
        batch = TrainingBatch(usable := [])
        for group in self._groups(self.of_step(step)):
            if reason := unusable(group, self.policy):
                batch.left_out[reason] += 1
            else:
                usable.append(group)
        return batch

    def _groups(self, places: Sequence[_TracePlace]) -> list[ScoredGroup]:
        """In this order. Raises BadInput if one is missing."""
        groups: dict[tuple[int, int], ScoredGroup] = {}
        for number in sorted({run for run, _ in places}):
            source, wanted = self.runs[number], [row.sequence for run, row in places if run == number]
            try:
                groups |= {(number, g.sequence): g for g in groups_at(source.store, source.run.id, wanted)}
            except LookupError as error:
                raise BadInput(
                    f"the traces of {source.name} have changed while they are learned from: {error}"
                ) from None
        return [groups[run, row.sequence] for run, row in places]

    def learned(self, batch: TrainingBatch, stats: TrainStats, status: TrainingStatus) -> dict[str, float]:
        batch.left_out[_SPREADLESS] += int(stats.metrics["spreadless"])
        return {"left_out": float(batch.left_out.total())}


def _nothing_taught(
    learner: str, left_out: Counter[str], groups: str, evidence: Mapping[str, str] | None = None
) -> str:
    details = evidence or {}
    reasons = ", ".join(f"{count:,} {reason}{details.get(reason, '')}" for reason, count in left_out.most_common())
    alone = next(iter(left_out)) if len(left_out) == 1 else ""
    remedy = f"; {_REMEDY[alone]}" if alone in _REMEDY else ""
    return f"none of the {left_out.total():,} {groups} can teach {learner}: {reasons}{remedy}"


def unusable(group: ScoredGroup, policy: LocalPolicy) -> str:
    """Why the policy cannot learn from this one group, "" if it can."""
    rollouts = [scored.rollout for scored in group.rollouts]
    for r in rollouts:
        if not len(r.token_ids) or len(r.logprobs) != len(r.token_ids) or not np.isfinite(r.logprobs).all():
            return SILENT
    embeddings = policy.open_model().get_input_embeddings()
    assert isinstance(embeddings.weight, torch.Tensor)
    arrays = [rollouts[0].prompt_ids, *(rollout.token_ids for rollout in rollouts)]
    if max((int(ids.max()) for ids in arrays if len(ids)), default=-1) >= embeddings.weight.shape[0]:
        return FOREIGN
    longest = max(len(rollout.token_ids) for rollout in rollouts)
    return TOO_LONG if len(rollouts[0].prompt_ids) + longest > policy.context else ""


def _foreign(group: ScoredGroup, policy: LocalPolicy) -> bool:
    """Whether the policy encodes the prompt otherwise. A chat template may put the date into a prompt, so one with
    other tokens still fits if it can be decoded."""
    prompt = group.rollouts[0].rollout.prompt_ids
    if np.array_equal(policy.encode(group.prompt), prompt):
        return False
    chat = policy.prompt_format == "chat"
    return not (chat and group.prompt.user.strip() in policy.tokenizer.decode(prompt.tolist()))
