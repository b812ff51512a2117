"""Stored searches as training data: the runs, their prompt groups, and the training that learns from these.

    filters, one where clause -> rows of the index -> groups, whole -> trainer.step -> policy.version

What wrote a group is not what learns from it. Three things hold the difference in check: PPO's clip around the policy
that wrote it, whose log-probabilities are stored, so that all steps together go no further than one would; importance
weights against the same, truncated at a cap; and the choice of groups, which may leave old versions out. Groups are
taken whole or not at all: without some of its rollouts the others would be compared with too few. The order is drawn
from (seed, pass), so that a run that is stopped and resumed from a checkpoint continues as if it had not stopped.

Memory holds a few numbers for each chosen group. Its prompt and answers are read when a step needs them.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from evo.config.train import TRUNCATE, TrainRun, run_and_address
from evo.errors import BadInput
from evo.training.loop import Batch, Training
from islands.comparisons import runs_named
from islands.groups import TraceRow, groups_at, trace_rows
from islands.runs import group_count
from islands.store import Store
from islands.types import ProblemRecord, RunRecord
from problems.address import name_few
from problems.contract import BadAddress
from problems.registry import resolve
from problems.types import ScoredGroup
from vpo.advantage import METHODS
from vpo.policies.contract import LocalPolicy
from vpo.training import TrainStats
from vpo.training.examples import group_advantages

CHAINS, ONE_ROLLOUT = "chains of several answers", "with one rollout or none"
SILENT, FOREIGN = "without log-probabilities", "of another tokenizer"
TOO_LONG, SPREADLESS = "longer than the policy's context", "without spread"
REMEDY = {
    CHAINS: "learn from them by " + ", ".join(name for name, method in METHODS.items() if method.chain),
    ONE_ROLLOUT: "search with --rollouts 4 or more",
    SILENT: "without them the importance ratio is undefined",
    FOREIGN: "train the policy that searched, or one of its family",
    SPREADLESS: "choose other traces, or search with more rollouts or a higher temperature",
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

    def describe(self) -> dict[str, Any]:
        """The record that a training run keeps of it."""
        counts = {"upto": self.upto, "stored": self.stored, "chosen": self.chosen, "digest": self.digest}
        return {"run": self.run.name, "database": self.store.address, **counts}


@dataclass
class LearningSource:
    """What a training run learns from, open for reading. problems: (index of the run, id of the problem) it is of"""

    runs: list[StoredRun]
    problems: list[tuple[int, int]]

    @property
    def run_names(self) -> str:
        return ", ".join(source.name for source in self.runs)

    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        """Its problems."""
        return {(run, problem): self.runs[run].problems[problem] for run, problem in self.problems}

    @property
    def problem_names(self) -> set[str]:
        """Names of the problems, which are their addresses."""
        return {record.address for record in self.records().values()}


Source = TypeVar("Source", bound=LearningSource)


def open_stored(
    run: TrainRun,
    began: Sequence[Mapping[str, Any]] | None,
    choose: Callable[[TrainRun, list[StoredRun]], Source],
    opened: contextlib.ExitStack,
) -> Source:
    """What `choose` finds in the runs that `run` names, each run once, read-only, as long as `opened` is; of a
    comparison, for a method of rewards, in the runs whose chains are as long as it needs.

    began: for a resume, the records of StoredRun.describe when training began: the same data, or BadInput
    Raises BadInput, one line with the reason, if nothing is left to learn from; UnknownRun, DatabaseUnavailable.
    """
    stores: dict[str, Store] = {}
    sources: dict[tuple[str, str], StoredRun] = {}
    for given in run.from_traces:
        name, address = run_and_address(given, run.db)
        if address not in stores:
            stores[address] = opened.enter_context(Store.open(address, read_only=True))
        store, named = stores[address], runs_named(stores[address], name)
        fitting = [record for record in named if record.name == name or _suits(run, record)]
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
    chosen = choose(run, list(sources.values()))
    for source, described in zip(sources.values(), began or (), strict=began is not None):
        if source.digest != described["digest"]:
            raise BadInput(
                f"the traces of {source.name} up to group {source.upto} are not those that training began with; an "
                "exact resume is not possible"
            )
    return chosen


def _suits(run: TrainRun, record: RunRecord) -> bool:
    answers = int(record.config.get("answers", 3))
    if run.method not in METHODS:
        return True
    return answers == run.answers if run.answers is not None else (answers > 1) == METHODS[run.method].chain


def wanted_problems(run: TrainRun, source: StoredRun) -> set[int] | None:
    """Ids of the problems that --trace-problems chooses by name, address, set or part of a set; None without it."""
    if not run.trace_problems:
        return None
    known = {word for record in source.problems.values() for word in (record.name, record.address)}
    names = set(run.trace_problems)
    for address in names - known:
        try:
            names |= {problem.name for problem in resolve(address)}
        except BadAddress as error:
            raise BadInput(f"--trace-problems {address}: no problem of the runs, and {error}") from error
    return {id for id, record in source.problems.items() if names & {record.name, record.address}}


@dataclass
class StoredGroups(LearningSource):
    """The prompt groups that a training run learns from.

    rows: (index of the run, the group's row), in order; answers: m, the chain length of all of them
    left_out: groups that passed the user's filters but are unusable, by the reason
    """

    rows: list[tuple[int, TraceRow]]
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def answers(self) -> int:
        return self.rows[0][1].answers

    def read(self, places: Sequence[int] | npt.NDArray[np.int64]) -> list[ScoredGroup]:
        """The groups at these places of `rows`, in this order. Raises BadInput if one is missing."""
        keys = [(number, row.sequence) for number, row in (self.rows[int(place)] for place in places)]
        groups: dict[tuple[int, int], ScoredGroup] = {}
        for number in sorted({number for number, _ in keys}):
            source, wanted = self.runs[number], [sequence for run, sequence in keys if run == number]
            try:
                groups |= {(number, g.sequence): g for g in groups_at(source.store, source.run.id, wanted)}
            except LookupError as error:
                raise BadInput(
                    f"the traces of {source.name} have changed while they are learned from: {error}"
                ) from None
        return [groups[key] for key in keys]


def choose_groups(run: TrainRun, sources: list[StoredRun]) -> StoredGroups:
    """The groups of the runs that pass the filters and can teach the method, as far as their rows show."""
    rows: list[tuple[int, TraceRow]] = []
    left_out, lengths = Counter[str](), Counter[int]()
    for number, source in enumerate(sources):
        digest = hashlib.blake2b(digest_size=16)
        for row in trace_rows(source.store, source.run.id, wanted_problems(run, source), source.upto):
            if reason := _exclusion(run, row):
                left_out[reason] += 1
                continue
            rows.append((number, row))
            lengths[row.answers] += 1
            source.chosen += 1
            digest.update(repr((row.sequence, row.iteration, row.version, row.rollouts, row.created)).encode())
        source.digest = digest.hexdigest()
    if not rows and not left_out:
        where, stored = ", ".join(source.name for source in sources), sum(source.stored for source in sources)
        raise BadInput(
            f"none of the {stored:,} stored iterations of {where} is of --trace-problems"
            if stored
            else f"nothing to learn from: {where} holds no iterations yet"
        )
    if not rows:
        raise BadInput(_nothing_taught(run.method, left_out, "stored iterations that pass the filters"))
    if len(lengths) > 1:
        counts = " and ".join(f"{count:,} of {m}" for m, count in sorted(lengths.items()))
        raise BadInput(f"the stored chains differ in length ({counts} answers); choose one with --answers")
    return StoredGroups(sources, sorted({(number, row.problem_id) for number, row in rows}), rows, left_out)


def _exclusion(run: TrainRun, row: TraceRow) -> str:
    """Why a group cannot teach the method, as far as its row shows; "" if it can."""
    if run.answers is not None and row.answers != run.answers:
        return f"not of {run.answers} answers"
    if run.answers is None and row.answers > 1 and not METHODS[run.method].chain:
        return CHAINS
    if row.rollouts < 2:
        return ONE_ROLLOUT
    return "sampled at temperature 0, or imported" if row.temperature <= 0 else ""


def _nothing_taught(
    learner: str, left_out: Counter[str], groups: str, evidence: Mapping[str, str] | None = None
) -> str:
    details = evidence or {}
    reasons = ", ".join(f"{count:,} {reason}{details.get(reason, '')}" for reason, count in left_out.most_common())
    remedy = REMEDY.get(next(iter(left_out)), "") if len(left_out) == 1 else ""
    return f"none of the {left_out.total():,} {groups} can teach {learner}: {reasons}" + (
        f"; {remedy}" if remedy else ""
    )


_TRAINED = re.compile(r"(.*)\+[a-z_]+\.\d+")
"""The version of the weights of a trainer's n-th step (vpo.training.trainer)."""


def lineage(version: str) -> str:
    """The version that training started from."""
    matched = _TRAINED.fullmatch(version)
    return matched[1] if matched else version


@dataclass(kw_only=True, eq=False)
class StoredTraining(Training[Batch]):
    """Training from stored runs, without sampling. stored: what it learns from"""

    stored: LearningSource

    @property
    def example(self) -> str:
        return next(iter(self.stored.records().values())).address

    async def _gather(self) -> Batch:
        started = time.perf_counter()
        batch = self._read()
        self.status.reading_seconds += time.perf_counter() - started
        return batch

    @abstractmethod
    def _read(self) -> Batch:
        """The batch of the next step."""

    @abstractmethod
    def check_teaches(self) -> None:
        """Raise BadInput if this policy can learn nothing from the stored runs."""

    def _leave_out(self, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            self.status.left_out[reason] = self.status.left_out.get(reason, 0) + count

    @property
    def reasons(self) -> str:
        """Why groups or lessons were left out, with counts, for the card."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.status.left_out.items() if count) or "none"


Usable = tuple[list[ScoredGroup], Counter[str]]
"""The usable groups of a step, and the reasons why the others are unusable."""


@dataclass(kw_only=True, eq=False)
class OfflineTraining(StoredTraining[Usable]):
    """Runs a TrainRun to its end, to a budget, or until every chosen group was read in every pass."""

    stored: StoredGroups

    def __post_init__(self) -> None:
        super().__post_init__()
        self.status.left_out = dict(self.stored.left_out)
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def source(self) -> str:
        return f"{len(self.stored):,} iterations of {self.stored.run_names}"

    def notes(self) -> list[str]:
        """Paragraphs on the groups that were used and on those that were not."""
        run, groups = self.run, self.stored
        corrected = f"PPO's clip around it, importance weights of at most {run.truncate:g}"
        versions = name_few(list(dict.fromkeys(row.version for _, row in groups.rows)), 3, kind=" versions")
        return [
            "## Traces",
            "Nothing was sampled: the groups are those that searches stored, each as it was, corrected for the policy "
            f"that wrote them ({corrected}).",
            "\n".join(f"- {s.name}: {s.stored:,} groups stored, {s.chosen:,} chosen" for s in groups.runs),
            f"Written by {versions}. Learned from {self.status.groups:,} groups ({run.passes} passes at most); left "
            f"out: {self.reasons}.",
        ]

    def places(self, step: int) -> npt.NDArray[np.int64]:
        """Places of the groups of a step, at most `prompts`. A step belongs to one pass only."""
        run = self.run
        number, within = divmod(step, steps_a_pass(run, self.stored))
        if self._order is None or self._order[0] != number:
            self._order = number, np.random.default_rng([run.seed, number]).permutation(len(self.stored))
        return self._order[1][within * run.prompts : (within + 1) * run.prompts]

    def _next_answers(self) -> int:
        rows = (self.stored.rows[int(place)][1] for place in self.places(self.status.step))
        return sum(row.answers * row.rollouts for row in rows)

    def _read(self) -> Usable:
        return self.read(self.places(self.status.step))

    def read(self, places: npt.NDArray[np.int64]) -> Usable:
        """The usable groups at these places, and the reasons why the others are unusable."""
        usable, left_out = [], Counter[str]()
        for group in self.stored.read(places):
            if reason := unusable(group, self.policy):
                left_out[reason] += 1
            else:
                usable.append(group)
        return usable, left_out

    async def _learn(self, batch: Usable) -> TrainStats:
        return self.trainer.step(batch[0])

    def _account(self, batch: Usable, stats: TrainStats) -> dict[str, float]:
        groups, left_out = batch
        left_out[SPREADLESS] += int(stats.metrics["spreadless"])
        self._leave_out(left_out)
        self.status.groups += len(groups) - int(stats.metrics["spreadless"])
        return {"left_out": float(left_out.total())}

    def check_teaches(self) -> None:
        """Raise BadInput if the method can learn from no chosen group. Groups are read until one is usable."""
        left_out = Counter[str]()
        for step in range(steps_a_pass(self.run, self.stored)):
            groups, unfit = self.read(self.places(step))
            left_out += unfit
            for group in groups:
                if np.any(group_advantages(group, self.trainer.config)):
                    return
                left_out[SPREADLESS] += 1
        raise BadInput(_nothing_taught(self.run.method, left_out, "chosen groups"))


def steps_a_pass(run: TrainRun, groups: StoredGroups) -> int:
    return -(-len(groups) // run.prompts)


def plan_steps(run: TrainRun, groups: StoredGroups) -> int:
    """The number of steps: `steps`, or as many as the groups give in all passes."""
    return min(run.steps, run.passes * steps_a_pass(run, groups))


def resolve_settings(run: TrainRun, groups: StoredGroups) -> TrainRun:
    """The run with the settings that the groups decide: m, and the default cap of the importance weights."""
    if groups.answers == 1 and METHODS[run.method].chain:
        warnings.warn(
            f"{run.method} judges a rollout's answers as a set, and these rollouts have one answer each: what it can "
            "teach is little more than a single-answer method does",
            stacklevel=2,
        )
    return run.model_copy(update={"answers": groups.answers, "truncate": run.truncate or TRUNCATE})


def keep_fitting(groups: StoredGroups, policy: LocalPolicy) -> None:
    """Leave out the groups that policies of another tokenizer wrote, and those that came without log-probabilities, as
    far as a look at one group of each lineage of each run tells. BadInput if none is left."""
    reasons: dict[tuple[int, str], str] = {}
    evidence: dict[str, str] = {}
    kept, left_out = [], Counter[str]()
    for place, (number, row) in enumerate(groups.rows):
        key = number, lineage(row.version)
        if key not in reasons:
            (group,) = groups.read([place])
            reasons[key], detail = (SILENT, "") if _silent(group) else misfit(group, policy)
            evidence.setdefault(reasons[key], f" ({key[1]} wrote them{detail})")
        if reasons[key]:
            left_out[reasons[key]] += 1
        else:
            kept.append((number, row))
    if not kept:
        raise BadInput(_nothing_taught(policy.version, left_out, "chosen groups", evidence))
    groups.rows, groups.left_out = kept, groups.left_out + left_out


def misfit(group: ScoredGroup, policy: LocalPolicy) -> tuple[str, str]:
    """(FOREIGN, the evidence) if the group was written with another tokenizer than the policy's, else ("", "").

    A chat template may put the date into a prompt, so a prompt with other tokens still fits if it can be decoded.
    """
    prompt = group.rollouts[0].rollout.prompt_ids
    highest, size = _highest(group), _vocabulary(policy)
    if highest >= size:
        return FOREIGN, f" with token ids up to {highest:,}, and the policy knows {size:,}"
    if np.array_equal(policy.encode(group.prompt), prompt):
        return "", ""
    if policy.prompt_format == "chat" and group.prompt.user.strip() in policy.tokenizer.decode(prompt.tolist()):
        return "", ""
    return FOREIGN, ", and the policy encodes the stored prompt otherwise"


def unusable(group: ScoredGroup, policy: LocalPolicy) -> str:
    """Why the policy cannot learn from this one group, "" if it can."""
    if _silent(group):
        return SILENT
    if _highest(group) >= _vocabulary(policy):
        return FOREIGN
    longest = max(len(scored.rollout.token_ids) for scored in group.rollouts)
    return TOO_LONG if len(group.rollouts[0].rollout.prompt_ids) + longest > policy.context else ""


def _silent(group: ScoredGroup) -> bool:
    rollouts = [scored.rollout for scored in group.rollouts]
    return any(
        not len(r.token_ids) or len(r.logprobs) != len(r.token_ids) or not np.isfinite(r.logprobs).all()
        for r in rollouts
    )


def _highest(group: ScoredGroup) -> int:
    arrays = [group.rollouts[0].rollout.prompt_ids, *(scored.rollout.token_ids for scored in group.rollouts)]
    return max((int(ids.max()) for ids in arrays if len(ids)), default=-1)


def _vocabulary(policy: LocalPolicy) -> int:
    embeddings = policy.model.get_input_embeddings()
    assert isinstance(embeddings.weight, torch.Tensor)
    return int(embeddings.weight.shape[0])
