"""Which stored groups a training run learns from: the runs named, the user's filters, and what teaches nothing."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from evo.config.traces import run_and_address, span, timestamp
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.improvement import CACHE_BYTES, Improvements, LessonSource, find_improvements
from evo.training.traces import Chosen, TraceRun, Traces
from islands.db.comparisons import runs_named
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.groups import TraceRow, trace_rows
from islands.queries.progress import group_count
from islands.types import ProblemRecord, RunRecord
from problems.contract import BadAddress
from problems.registry import resolve
from vpo.advantage import METHODS
from vpo.training.config import DPO

_TRAINED = re.compile(r"(.*)\+[a-z_]+\.(\d+)")
"""The version that a trainer gives its n-th step's weights (vpo.training.trainer)."""


def open_traces(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Traces:
    """The traces that `run` asks for; read-only.

    began: what TraceRun.describe said when training began, for a resume: the same groups then, or BadInput
    Raises BadInput, one line with the reason, where no group is left to learn from, or where those that are left are
    no training examples of the method; UnknownRun, DatabaseUnavailable.
    """
    stores: dict[str, Store] = {}
    try:
        sources = _runs(run, stores, began)
        traces = _choose(run, sources)
        if began is not None:
            _check_unchanged(traces, began)
        return traces
    except BaseException:
        for store in stores.values():
            store.close()
        raise


def open_improvements(run: TrainRun, began: Sequence[Mapping[str, Any]] | None = None) -> Improvements:
    """What the runs that `run` names have to teach by example; read-only. Arguments and errors as of open_traces."""
    stores: dict[str, Store] = {}
    try:
        found: dict[tuple[str, str], LessonSource] = {}
        for _, store, records in _named_runs(run, stores):
            for record in records:
                problems = {problem.id: problem for problem in store.problems(record.id)}
                reader = CandidateReader(store, CACHE_BYTES)
                found.setdefault((store.address, record.name), LessonSource(store, record, problems, -1, reader))
        sources = list(found.values())
        if began is None:
            for source in sources:
                source.upto = group_count(source.store, source.run.id)[1]
        else:
            _check_names([source.run.name for source in sources], began)
            for source, one in zip(sources, began, strict=True):
                source.upto = one["upto"]
        named = {id(s): _resolve_wanted(run.trace_problems, s.problems) for s in sources}
        improvements = find_improvements(
            sources, lambda source, record: record.id in named[id(source)], contrasted=run.method == DPO
        )
        if began is not None:
            for source, one in zip(sources, began, strict=True):
                if source.digest != one["digest"]:
                    raise BadInput(
                        f"the traces of {source.name} are not those that training began with; an exact resume is not "
                        "possible"
                    )
        return improvements
    except BaseException:
        for store in stores.values():
            store.close()
        raise


def _named_runs(run: TrainRun, stores: dict[str, Store]) -> Iterator[tuple[str, Store, list[RunRecord]]]:
    """Of everything that is named as traces its name, where it lies and its runs, of a comparison all; `stores` gets
    what was opened."""
    for given in run.from_traces:
        name, address = run_and_address(given, run.db)
        if address not in stores:
            stores[address] = Store.open(address, read_only=True)
        yield name, stores[address], runs_named(stores[address], name)


def _check_names(names: Sequence[str], began: Sequence[Mapping[str, Any]]) -> None:
    then = [one["run"] for one in began]
    if list(names) != then:
        raise BadInput(f"the traces are of {', '.join(names)}; training began with those of {', '.join(then)}")


def _runs(run: TrainRun, stores: dict[str, Store], began: Sequence[Mapping[str, Any]] | None) -> list[TraceRun]:
    """Every run named, each once; of a comparison those whose chains are of a length that the method learns from."""
    found: dict[tuple[str, str], TraceRun] = {}
    for name, store, records in _named_runs(run, stores):
        fitting = [one for one in records if one.name == name or _suits(run, one)]
        if not fitting:
            raise BadInput(f"no run of the comparison {name} has {_wanted(run)}; {run.method} could learn from none")
        for record in fitting:
            problems = {problem.id: problem for problem in store.problems(record.id)}
            found.setdefault((store.address, record.name), TraceRun(store, record, problems, upto=-1))
    sources = list(found.values())
    if began is not None:
        _check_names([source.run.name for source in sources], began)
        for source, one in zip(sources, began, strict=True):
            source.upto = one["upto"]
    return sources


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
        for row in trace_rows(source.store, source.run.id, upto=source.upto if source.upto >= 0 else None):
            source.stored += 1
            source.upto = max(source.upto, row.sequence)
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
    """What the user does not want, by the flag that says so."""
    found: list[tuple[str, Callable[[TraceRow], bool]]] = []
    if run.trace_problems:
        wanted = _resolve_wanted(run.trace_problems, source.problems)
        found.append(("--trace-problems", lambda row: row.problem_id not in wanted))
    if run.trace_versions:
        prefixes = tuple(run.trace_versions)
        found.append(("--trace-versions", lambda row: not row.version.startswith(prefixes)))
    if run.trace_after is not None:
        first = timestamp(run.trace_after)
        found.append(("--trace-after", lambda row: row.created < first))
    if run.trace_before is not None:
        end = timestamp(run.trace_before)
        found.append(("--trace-before", lambda row: row.created >= end))
    if run.trace_iterations is not None:
        low, high = span(run.trace_iterations)
        found.append(
            ("--trace-iterations", lambda row: row.iteration < low or (high is not None and row.iteration > high))
        )
    return found


def _is_named(record: ProblemRecord, wanted: Sequence[str]) -> bool:
    return record.name in wanted or record.address in wanted


def _resolve_wanted(wanted: Sequence[str], problems: Mapping[int, ProblemRecord]) -> set[int]:
    """Ids of those of a run's problems that names, addresses, sets and parts of sets name; of all where there is none
    of those."""
    if not wanted:
        return set(problems)
    known = {word for record in problems.values() for word in (record.name, record.address)}
    names = {problem.name for address in wanted if address not in known for problem in _problems(address, resolve)}
    return {id for id, record in problems.items() if record.name in names or _is_named(record, wanted)}


def _problems(address: str, resolve: Callable[[str], list[Any]]) -> list[Any]:
    try:
        return resolve(address)
    except BadAddress as error:
        raise BadInput(f"--trace-problems {address}: no problem of the runs, and {error}") from error


class Lack(Enum):
    """Why a stored group that passed the filters cannot teach the method."""

    OTHER_LENGTH = "not of {answers} answers"
    CHAIN = "chains of several answers"
    ONE_ROLLOUT = "one rollout"
    NO_ROLLOUT = "no rollouts"
    NOT_SAMPLED = "sampled at temperature 0, or imported"
    TOO_OLD = "more than {behind} versions behind"

    def describe(self, run: TrainRun) -> str:
        """In words, with the limits of the training run."""
        return self.value.format(answers=run.answers, behind=run.trace_most_behind)


def _lacks(run: TrainRun, source: TraceRun) -> Callable[[TraceRow], Lack | None]:
    """A function that names why a group cannot teach, as far as its row shows; None if it can."""
    compares = METHODS[run.method].credit == "rollout"
    newest: dict[str, int] = {}
    if run.trace_most_behind is not None:
        for row in trace_rows(source.store, source.run.id, upto=source.upto if source.upto >= 0 else None):
            root, step = lineage(row.version)
            newest[root] = max(newest.get(root, 0), step)

    def lack(row: TraceRow) -> Lack | None:
        if run.answers is not None and row.answers != run.answers:
            return Lack.OTHER_LENGTH
        if run.answers is None and row.answers > 1 and not METHODS[run.method].chain:
            return Lack.CHAIN
        if row.rollouts < (2 if compares else 1):
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
    """What a version was trained from, and in how many steps: 0 for one that no search's trainer made."""
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
        if lack is Lack.CHAIN:
            held = ", ".join(map(str, sorted(lengths)))
            chains = ", ".join(name for name, method in METHODS.items() if method.chain)
            return f"{run.method} learns from single answers, and these are chains of {held}: {chains} learn from them"
        if lack is Lack.OTHER_LENGTH:
            held = ", ".join(map(str, sorted(lengths)))
            return f"--answers {run.answers}: the stored groups are of {held} answers a rollout"
    reasons = ", ".join(f"{count:,} {lack.describe(run)}" for lack, count in counted)
    return (
        f"none of the {sum(left_out.values()):,} stored groups that pass the filters can teach {run.method}: {reasons}"
    )


def _check_unchanged(traces: Traces, began: Sequence[Mapping[str, Any]]) -> None:
    for source, then in zip(traces.runs, began, strict=True):
        if (source.stored, source.chosen) != (then["stored"], then["chosen"]):
            raise BadInput(
                f"the traces of {source.name} have changed: up to group {then['upto']} there were {then['stored']:,} "
                f"groups, {then['chosen']:,} to learn from, and now {source.stored:,} and {source.chosen:,}; an exact "
                "resume is not possible"
            )
        if source.digest != then["digest"]:
            raise BadInput(
                f"the traces of {source.name} are not those that training began with (as many, but others); an exact "
                "resume is not possible"
            )
