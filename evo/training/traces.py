"""Stored searches as training data: the runs, and their prompt groups, chosen by the method and the user's filters.

Memory holds a few numbers for each chosen group. Its prompt and answers are read when a step needs them.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evo.config.traces import run_and_address, span, timestamp
from evo.config.train import TrainRun
from evo.errors import BadInput
from islands.db.comparisons import runs_named
from islands.db.store import Store
from islands.queries.groups import TraceRow, groups_at, trace_rows
from islands.queries.progress import group_count
from islands.types import ProblemRecord, RunRecord
from problems.contract import BadAddress
from problems.registry import resolve
from problems.types import ScoredGroup
from vpo.advantage import METHODS


@dataclass
class StoredRun:
    """A run that a training learns from.

    upto: the last stored group when training began; later groups do not count
    digest: of all data that distinguishes the chosen groups or lessons
    """

    store: Store
    run: RunRecord
    problems: Mapping[int, ProblemRecord]
    upto: int = -1
    digest: str = ""

    @property
    def name(self) -> str:
        return f"{self.run.name} ({self.store.address})"

    def describe(self) -> dict[str, Any]:
        """The record that a training run keeps of it."""
        return {"run": self.run.name, "database": self.store.address, "upto": self.upto, "digest": self.digest}

    def check_unchanged(self, then: Mapping[str, Any]) -> None:
        """Raise BadInput if the run differs from the record that `describe` made when training began."""
        if self.digest != then["digest"]:
            raise BadInput(
                f"the traces of {self.name} are not those that training began with; an exact resume is not possible"
            )


class LearningSource(ABC):
    """The stored runs that a training run learns from, open for reading."""

    runs: Sequence[StoredRun]

    @abstractmethod
    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        """Its problems, by the run's index and the problem's id."""

    @property
    def run_names(self) -> str:
        return ", ".join(source.name for source in self.runs)

    @property
    def problem_names(self) -> set[str]:
        """Names of the problems, which are their addresses."""
        return {record.address for record in self.records().values()}

    @property
    def example(self) -> str:
        """The address of one of the problems."""
        return next(iter(self.records().values())).address

    def close(self) -> None:
        for store in {id(source.store): source.store for source in self.runs}.values():
            store.close()


@dataclass
class TraceRun(StoredRun):
    """A run whose groups are training data. stored: groups up to `upto`; chosen: how many of them are used"""

    stored: int = 0
    chosen: int = 0

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "stored": self.stored, "chosen": self.chosen}

    def check_unchanged(self, then: Mapping[str, Any]) -> None:
        if (self.stored, self.chosen) != (then["stored"], then["chosen"]):
            raise BadInput(
                f"the traces of {self.name} have changed: up to group {then['upto']} there were {then['stored']:,} "
                f"groups, {then['chosen']:,} to learn from, and now {self.stored:,} and {self.chosen:,}; an exact "
                "resume is not possible"
            )
        super().check_unchanged(then)


@dataclass(frozen=True)
class Chosen:
    """Columns over the N chosen groups: the run's index in Traces.runs, the place in the run, the problem's id, the
    requested answers of all rollouts, and the version's index in Traces.versions."""

    run: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    problem: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    version: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.run)

    def where(self, kept: npt.NDArray[Any]) -> Chosen:
        return Chosen(*(column[kept] for column in vars(self).values()))


@dataclass
class Traces(LearningSource):
    """The prompt groups that a training run learns from.

    versions: the policy versions that wrote the chosen groups; answers: m, the chain length of all of them
    left_out: groups that passed the user's filters but are unusable, by the reason
    """

    runs: list[TraceRun]
    chosen: Chosen
    versions: list[str]
    answers: int
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.chosen)

    def records(self) -> dict[tuple[int, int], ProblemRecord]:
        pairs = sorted(set(zip(self.chosen.run.tolist(), self.chosen.problem.tolist(), strict=True)))
        return {(run, problem): self.runs[run].problems[problem] for run, problem in pairs}

    def read(self, places: npt.NDArray[np.int64]) -> list[ScoredGroup]:
        """The groups with these indices in `chosen`, in this order. Raises BadInput if one is missing."""
        found: dict[tuple[int, int], ScoredGroup] = {}
        keys = list(zip(self.chosen.run[places].tolist(), self.chosen.sequence[places].tolist(), strict=True))
        for number in sorted({run for run, _ in keys}):
            source = self.runs[number]
            wanted = [sequence for run, sequence in keys if run == number]
            try:
                groups = groups_at(source.store, source.run.id, wanted)
            except LookupError as error:
                raise BadInput(
                    f"the traces of {source.name} have changed while they are learned from: {error}"
                ) from None
            found |= {(number, group.sequence): group for group in groups}
        return [found[key] for key in keys]

    def keep(self, kept: npt.NDArray[np.bool_], reason: str) -> None:
        """Keep only these groups."""
        if not kept.all():
            self.left_out[reason] += int((~kept).sum())
            self.chosen = self.chosen.where(kept)


_TRAINED = re.compile(r"(.*)\+[a-z_]+\.(\d+)")
"""The version of the weights of a trainer's n-th step (vpo.training.trainer)."""
Run = TypeVar("Run", bound=StoredRun)
Source = TypeVar("Source", bound=LearningSource)


def open_traces(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Traces:
    """The prompt groups that `run` names; read-only.

    began: for a resume, the record of StoredRun.describe when training began: the same groups, or BadInput
    Raises BadInput, one line with the reason, if no group is left to learn from, or if those that are left are no
    training examples of the method; UnknownRun, DatabaseUnavailable.
    """
    return open_stored(run, began, TraceRun, partial(_fitting, run), partial(_choose, run))


def open_stored(
    run: TrainRun,
    began: Sequence[Mapping[str, Any]] | None,
    kind: Callable[[Store, RunRecord, Mapping[int, ProblemRecord]], Run],
    fitting: Callable[[str, list[RunRecord]], list[RunRecord]],
    choose: Callable[[list[Run]], Source],
) -> Source:
    """The results of `choose` for the runs that `run` names, each run once; of a comparison, for the `fitting` runs.
    The databases are closed on an error."""
    stores: dict[str, Store] = {}
    try:
        named: dict[tuple[str, str], Run] = {}
        for given in run.from_traces:
            name, address = run_and_address(given, run.db)
            if address not in stores:
                stores[address] = Store.open(address, read_only=True)
            store = stores[address]
            for record in fitting(name, runs_named(store, name)):
                problems = {problem.id: problem for problem in store.problems(record.id)}
                named.setdefault((store.address, record.name), kind(store, record, problems))
        sources = list(named.values())
        names = [source.run.name for source in sources]
        then = names if began is None else [described["run"] for described in began]
        if names != then:
            raise BadInput(f"the traces are of {', '.join(names)}; training began with those of {', '.join(then)}")
        for place, source in enumerate(sources):
            source.upto = group_count(source.store, source.run.id)[1] if began is None else began[place]["upto"]
        chosen = choose(sources)
        for source, described in zip(sources, began or (), strict=began is not None):
            source.check_unchanged(described)
        return chosen
    except BaseException:
        for store in stores.values():
            store.close()
        raise


def _fitting(run: TrainRun, name: str, records: list[RunRecord]) -> list[RunRecord]:
    """The run; for a comparison, the runs with a chain length that the method can learn from."""
    fitting = [record for record in records if record.name == name or _suits(run, record)]
    if not fitting:
        raise BadInput(f"no run of the comparison {name} has {_wanted(run)}; {run.method} could learn from none")
    return fitting


def _suits(run: TrainRun, record: RunRecord) -> bool:
    answers = int(record.config.get("answers", 3))
    if run.answers is not None:
        return answers == run.answers
    return (answers > 1) == METHODS[run.method].chain


def _wanted(run: TrainRun) -> str:
    if run.answers is not None:
        return f"chains of {run.answers}"
    return "chains of several answers" if METHODS[run.method].chain else "single answers"


def _choose(run: TrainRun, sources: list[TraceRun]) -> Traces:
    columns = [array("q") for _ in range(5)]
    versions: dict[str, int] = {}
    filtered: Counter[str] = Counter()
    left_out: Counter[Lack] = Counter()
    lengths: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for number, source in enumerate(sources):
        drops, lacks = _filters(run, source), _lacks(run, source)
        digest = hashlib.blake2b(digest_size=16)
        for row in trace_rows(source.store, source.run.id, upto=source.upto):
            source.stored += 1
            flag = next((flag for flag, drop in drops if drop(row)), None)
            if flag is not None:
                filtered[flag] += 1
                continue
            lack = lacks(row)
            if lack is not None:
                left_out[lack] += 1
                others[row.answers] += 1
                continue
            lengths[row.answers] += 1
            source.chosen += 1
            digest.update(repr((row.sequence, row.iteration, row.version, row.rollouts, row.created)).encode())
            version = versions.setdefault(row.version, len(versions))
            numbers = (number, row.sequence, row.problem_id, row.answers * row.rollouts, version)
            for column, value in zip(columns, numbers, strict=True):
                column.append(value)
        source.digest = digest.hexdigest()
    if not lengths:
        raise BadInput(_why_none(run, sources, filtered, left_out, others))
    if len(lengths) > 1 and run.answers is None:
        counts = " and ".join(f"{count:,} of {m}" for m, count in sorted(lengths.items()))
        raise BadInput(f"the stored chains differ in length ({counts} answers); choose one with --answers")
    chosen = Chosen(*(np.array(column, dtype=np.int64) for column in columns))
    described = Counter({lack.describe(run): count for lack, count in left_out.items()})
    return Traces(sources, chosen, list(versions), next(iter(lengths)), described)


def _filters(run: TrainRun, source: TraceRun) -> list[tuple[str, Callable[[TraceRow], bool]]]:
    """The user's filters, by flag: whether a group is left out."""
    filters: list[tuple[str, Callable[[TraceRow], bool]]] = []
    if run.trace_problems:
        wanted = resolve_wanted(run.trace_problems, source.problems)
        filters.append(("--trace-problems", lambda row: row.problem_id not in wanted))
    if run.trace_versions:
        prefixes = tuple(run.trace_versions)
        filters.append(("--trace-versions", lambda row: not row.version.startswith(prefixes)))
    if run.trace_after is not None:
        first = timestamp(run.trace_after)
        filters.append(("--trace-after", lambda row: row.created < first))
    if run.trace_before is not None:
        end = timestamp(run.trace_before)
        filters.append(("--trace-before", lambda row: row.created >= end))
    if run.trace_iterations is not None:
        low, high = span(run.trace_iterations)
        filters.append(
            ("--trace-iterations", lambda row: row.iteration < low or (high is not None and row.iteration > high))
        )
    return filters


def resolve_wanted(wanted: Sequence[str], problems: Mapping[int, ProblemRecord]) -> set[int]:
    """Ids of a run's problems that the names, addresses, sets and parts of sets choose; all without any."""
    if not wanted:
        return set(problems)
    known = {word for record in problems.values() for word in (record.name, record.address)}
    names = set(wanted)
    for address in wanted:
        if address not in known:
            try:
                names |= {problem.name for problem in resolve(address)}
            except BadAddress as error:
                raise BadInput(f"--trace-problems {address}: no problem of the runs, and {error}") from error
    return {id for id, record in problems.items() if names & {record.name, record.address}}


class Lack(Enum):
    """Why a stored group that passed the filters cannot teach the method."""

    OTHER_LENGTH = "not of {answers} answers"
    CHAIN = "chains of several answers"
    ONE_ROLLOUT = "one rollout"
    NO_ROLLOUT = "no rollouts"
    NOT_SAMPLED = "sampled at temperature 0, or imported"
    TOO_OLD = "more than {behind} versions behind"

    def describe(self, run: TrainRun) -> str:
        """The reason in words, with the limits of the training run."""
        return self.value.format(answers=run.answers, behind=run.trace_most_behind)


def _lacks(run: TrainRun, source: TraceRun) -> Callable[[TraceRow], Lack | None]:
    """A function that gives the reason why a group is unusable, as far as its row shows; None if it is usable."""
    newest: dict[str, int] = {}
    if run.trace_most_behind is not None:
        for row in trace_rows(source.store, source.run.id, upto=source.upto):
            root, step = lineage(row.version)
            newest[root] = max(newest.get(root, 0), step)

    def lack(row: TraceRow) -> Lack | None:
        if run.answers is not None and row.answers != run.answers:
            return Lack.OTHER_LENGTH
        if run.answers is None and row.answers > 1 and not METHODS[run.method].chain:
            return Lack.CHAIN
        if row.rollouts < 2:
            return Lack.ONE_ROLLOUT if row.rollouts else Lack.NO_ROLLOUT
        if row.temperature <= 0:
            return Lack.NOT_SAMPLED
        if run.trace_most_behind is not None:
            root, step = lineage(row.version)
            if newest[root] - step > run.trace_most_behind:
                return Lack.TOO_OLD
        return None

    return lack


def lineage(version: str) -> tuple[str, int]:
    """(the version that training started from, the number of steps); 0 steps if no search's trainer made it."""
    matched = _TRAINED.fullmatch(version)
    return (matched[1], int(matched[2])) if matched else (version, 0)


def _why_none(
    run: TrainRun, sources: Sequence[TraceRun], filtered: Counter[str], left_out: Counter[Lack], lengths: Counter[int]
) -> str:
    where, stored = ", ".join(source.name for source in sources), sum(source.stored for source in sources)
    if not stored:
        return f"nothing to learn from: {where} holds no prompt groups yet"
    if not left_out:
        counts = ", ".join(f"{flag} leaves out {count:,}" for flag, count in filtered.most_common())
        return f"none of the {stored:,} stored groups of {where} passes the filters: {counts}"
    counted = left_out.most_common()
    if len(counted) == 1:
        lack = counted[0][0]
        if lack is Lack.ONE_ROLLOUT:
            return (
                f"every stored group has one rollout, which leaves {run.method} nothing to compare; search with "
                "--rollouts 4 or more to learn from it"
            )
        held = ", ".join(map(str, sorted(lengths)))
        if lack is Lack.CHAIN:
            chains = ", ".join(name for name, method in METHODS.items() if method.chain)
            return f"{run.method} learns from single answers, and these are chains of {held}: {chains} learn from them"
        if lack is Lack.OTHER_LENGTH:
            return f"--answers {run.answers}: the stored groups are of {held} answers a rollout"
    reasons = ", ".join(f"{count:,} {lack.describe(run)}" for lack, count in counted)
    return (
        f"none of the {sum(left_out.values()):,} stored groups that pass the filters can teach {run.method}: {reasons}"
    )
