"""A stored answer in full: its parent, its prompt and its rollout, and its difference to another one, bounded in lines
and in characters whatever a model wrote. Also its problem, looked up by the stored address:
the statement, a picture of the answer, the best known value, and the held-out cases of a user's scorer. And what
`evo verify` keeps of a run, for every view."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from evo.errors import BadInput
from evo.values import scored_value, write_scored
from islands.browse import CandidateDetail, Origin, ancestors, candidate, origins
from islands.comparisons import runs_named
from islands.errors import UnknownRun
from islands.groups import CandidateReader
from islands.runs import best as best_of
from islands.runs import course_of
from islands.store import Store
from islands.types import Candidate, CandidateSummary, ProblemRecord, RunRecord
from problems.contract import BadAddress, Problem, Score, ScorerFault
from problems.objectives import Objective, Value, own_values, value_of
from problems.registry import BUILT_IN, resolve
from problems.weights import scorer_fingerprint, weigh_as_stored

_AT_ONCE, _IDS_NAMED = 500, 3
_SHOWN_LINES, _SHOWN_CHARS, _LINE_CHARS = 160, 6_000, 400
NO_ORIGIN = Origin("", "", "", 0)
"""The origin of a seed, which no prompt led to."""


@dataclass(frozen=True)
class StoredAnswer:
    """A candidate with its provenance.

    parent: None for a seed, and for an answer whose prompt showed none
    origin: the prompt and rollout that gave it first; NO_ORIGIN for a seed
    lineage: the answer and its nearest ancestors
    room: characters of its difference, about
    """

    candidate: Candidate
    problem: ProblemRecord
    parent: Candidate | None
    origin: Origin = NO_ORIGIN
    lineage: tuple[CandidateSummary, ...] = ()
    room: int = _SHOWN_CHARS

    @property
    def value(self) -> Value:
        """The fitness as the scorer measures it."""
        return scored_value(self.problem.metrics, self.candidate)

    @property
    def target(self) -> Value:
        """The value that solves the problem."""
        return value_of(self.problem.metrics, self.problem.target)

    @property
    def whole(self) -> bool:
        """Whether one objective, better when lower, is the whole fitness, which then has no line of its own."""
        return self.value.measure.lower

    def describe_known(self, known: float | None) -> str:
        """How near it is to the best known fitness; "" if none is known."""
        return "" if known is None else describe_best_known(self.candidate.fitness, known)

    @property
    def line(self) -> list[tuple[int, Value]]:
        """(candidate id, value) of the answer and its ancestors."""
        metrics = self.problem.metrics
        return [(each.id, value_of(metrics, each.fitness, each.values)) for each in self.lineage]

    @property
    def unit(self) -> str:
        """The unit in which it is compared with its parent (unit_of)."""
        return unit_of(self.problem.answer_format, self.parent.text if self.parent else "", self.candidate.text)

    @cached_property
    def difference(self) -> Sequence[Piece]:
        """From its parent; empty without one."""
        if self.parent is None or not self.parent.text.strip():
            return ()
        return diff_answers(self.parent.text, self.candidate.text, self.unit, self.room)

    @property
    def changes(self) -> list[tuple[Objective, float | None, float]]:
        """(objective, what the scorer measured, its change from the parent's: nan if that is unknown)."""
        metrics = self.problem.metrics
        own = own_values(metrics, self.candidate)
        before = [None] * len(own) if self.parent is None else own_values(metrics, self.parent)
        return [
            (one, value, math.nan if value is None or old is None else value - old)
            for one, value, old in zip(metrics, own, before, strict=True)
        ]

    @property
    def chain(self) -> str:
        """The whole rollout; "" if it holds nothing else."""
        return "" if self.origin.chain.strip() == self.candidate.text.strip() else self.origin.chain


def read_candidate(
    store: Store, name: str, candidate_id: int, *, lineage: int, room: int = _SHOWN_CHARS
) -> tuple[RunRecord, CandidateDetail, StoredAnswer]:
    """A candidate of the run, or of the comparison, of that name. lineage, room: as for read_answers. Raises
    UnknownRun."""
    found, runs = candidate(store, candidate_id), runs_named(store, name)
    for run in runs:
        if found is not None and run.id == found.problem.run_id:
            answers = read_answers(store, {candidate_id: found.problem}, lineage=lineage, room=room)
            return run, found, answers[candidate_id]
    known = [str(held.id) for _, held in best_of(store, runs[0].id) if held is not None]
    hint = f"; its best ones are {', '.join(known[:_IDS_NAMED])} (`evo show {shlex.quote(name)}`)" if known else ""
    raise UnknownRun(f"{name} has no candidate {candidate_id}{hint}")


def read_answers(
    store: Store, problems: Mapping[int, ProblemRecord], *, lineage: int = 0, room: int = _SHOWN_CHARS
) -> dict[int, StoredAnswer]:
    """The answers by candidate id. Raises KeyError for an id that is not stored.

    problems: of each candidate; lineage: how long it is at most
    """
    reader, answers, ids = CandidateReader(store, 0), dict[int, StoredAnswer](), list(problems)
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        candidates, given = reader.fetch(part), origins(store, part)
        parents = {parent.id: parent for parent in reader.fetch([c.parent for c in candidates if c.parent is not None])}
        for one in candidates:
            parent = None if one.parent is None else parents[one.parent]
            line = tuple(ancestors(store, one.id, lineage)) if lineage else ()
            answers[one.id] = StoredAnswer(one, problems[one.id], parent, given.get(one.id, NO_ORIGIN), line, room)
    return answers


_NAMED = re.compile(r"[\w-]+:.")
"""Addresses of sets. Paths are not read: on another machine they name nothing, or other code."""


@dataclass(frozen=True)
class Statement:
    """text: "" if the problem cannot be looked up here; its prompt has it then. picture: of an answer, as the problem
    draws it; "" for none. best_known: the best fitness known, None if there is none"""

    text: str = ""
    picture: str = ""
    best_known: float | None = None


def statement_of(record: ProblemRecord, answer: str = "") -> Statement:
    """The statement, and the picture of the answer; empty if the problem cannot be looked up (problem_of)."""
    problem = problem_of(record)
    if problem is None:
        return Statement()
    return Statement(problem.statement(), problem.picture(answer), problem.best_known)


def problem_of(record: ProblemRecord) -> Problem | None:
    """The problem at an address; None if it is not of a set, is missing, or is scored in another way than when it was
    searched."""
    return _look_up(record.address, record.fingerprint, record.metrics)


@lru_cache(maxsize=64)
def _look_up(address: str, fingerprint: str | None, metrics: tuple[Objective, ...]) -> Problem | None:
    if not _NAMED.match(address):
        return None
    with contextlib.suppress(BadAddress, ScorerFault, OSError, ValueError):
        found: list[Problem] = resolve(address)
        if len(found) == 1 and (fingerprint is None or scorer_fingerprint(fingerprint) == found[0].fingerprint()):
            return weigh_as_stored(found[0], metrics)
    return None


_EQUAL = 1e-9
"""Two numeric copies of one optimum differ by less than this share of it."""


def best_known_of(record: ProblemRecord) -> float | None:
    """The best known fitness of a problem that is looked up by its address; None if it is unknown."""
    if record.address.partition(":")[0] in BUILT_IN:  # none of whose problems has one; a look-up may take long
        return None
    found = problem_of(record)
    return None if found is None else found.best_known


def describe_best_known(fitness: float | None, known: float) -> str:
    """`best known 2.63598308, 97.2% reached`."""
    told = f"best known {known:.9g}"
    if fitness is None or known <= 0:
        return told
    if fitness > known * (1 + _EQUAL):
        return f"{told}, and this is above it"
    if fitness >= known * (1 - _EQUAL):
        return f"{told}, reached"
    return f"{told}, {min(99.9999, 100 * fitness / known):.6g}% reached"


_MOST_CHOICES = 50
"""Answers to choose from at most: the last ones that were the best."""
_CACHE_BYTES = 1 << 24


def score_held_out(record: ProblemRecord, candidates: Sequence[Candidate]) -> list[Score]:
    """The Scores of candidates on the held-out cases of their problem, a fault of the scorer as the error of one; none
    if the problem has no such cases, or has changed since the search. Takes as long as scoring them."""
    scores, problem = list[Score](), None
    for answer in candidates:
        try:
            problem = problem or _holding_out(record)
            if problem is None:
                return []
            scores.append(problem.score_held_out(answer.text))
        except (BadInput, BadAddress):
            return []
        except ScorerFault as fault:
            scores.append(Score.failure(len(record.objectives), f"fault of the scorer: {fault}"))
    return scores


def choose_held_out(
    store: Store, run: RunRecord, record: ProblemRecord
) -> tuple[RunRecord, ProblemRecord, Candidate | None]:
    """The candidate of a problem that the held-out cases prefer, of those that were the best at some time, the later
    of equals. Raises BadInput if the problem has no such cases, ScorerFault."""
    problem = _holding_out(record)
    if problem is None:
        raise BadInput(f"--held-out: {record.name} has no held-out cases; a scorer file defines held_out(answer)")
    steps = course_of(store, run.id).improvements.get(record.id, [])[-_MOST_CHOICES:]
    candidates = CandidateReader(store, _CACHE_BYTES).fetch([step.candidate for step in steps])
    scored = [(problem.score_held_out(candidate.text), candidate) for candidate in candidates]
    valid = [(score.fitness, number) for number, (score, _) in enumerate(scored) if score.error is None]
    return run, record, scored[max(valid)[1]][1] if valid else None


def _holding_out(record: ProblemRecord) -> Problem | None:
    file = Path(record.address)
    if not file.is_file():
        named = problem_of(record)
        return named if named is not None and named.holds_out else None
    if b"held_out" not in file.read_bytes():
        return None  # opening a problem scores its seed
    (problem,) = resolve(record.address)
    if record.fingerprint and scorer_fingerprint(record.fingerprint) != problem.fingerprint():
        raise BadInput(f"--held-out: {record.name} has changed since this run was searched")
    problem = weigh_as_stored(problem, record.metrics)
    problem.restore(record.metrics)
    return problem if problem.holds_out else None


def verification_of(run: RunRecord) -> Mapping[str, Any] | None:
    """Verification.record of the run's last one; None without one, and after the run continued."""
    return run.summary.get("verification")


def verified_score(run: RunRecord, candidate: int) -> dict[str, Any] | None:
    """`fitness`, `values`, `error` of a verified winner or seed, and whether they are of `held_out` cases."""
    found = verification_of(run) or {}
    measured = found.get("measured", {}).get(str(candidate))
    return None if measured is None else {**measured, "held_out": found["held_out"]}


def describe_verified(run: RunRecord, candidate: int, metrics: Sequence[Objective]) -> str:
    """`held out: fitness 0.52 (delay 54.8 ↓)`; "" for an answer that was not verified."""
    found = verified_score(run, candidate)
    if found is None:
        return ""
    own = tuple(found["values"].get(one.name) for one in metrics)
    rewards = tuple(math.nan if value is None else value for value in own)
    fitness = math.nan if found["fitness"] is None else found["fitness"]
    return describe_score(Score(rewards, fitness, error=found["error"], values=own), metrics, found["held_out"])


def describe_score(score: Score, metrics: Sequence[Objective], held_out: bool = True) -> str:
    """The same of a score on held-out cases, or of an answer that was scored again."""
    plain = [replace(one, seed=None) for one in metrics]  # the seed's are of the cases that steered the search
    fault = f", {score.error}" if score.error else ""
    return f"{'held out' if held_out else 'scored again'}: {write_scored(plain, score)}{fault}"


_COMPARED_LINES, _COMPARED_CHARS = 400, 40_000
"""The part of a text that is compared: matching takes quadratic time."""
_CONTEXT = 2


@dataclass(frozen=True)
class Piece:
    """A part of a difference. kind: same, new, old, or gap for omitted text."""

    kind: str
    text: str


def unit_of(answer_format: str, old: str, new: str) -> str:
    """The unit in which two answers are compared: lines for programs, characters for single words, as routes are, words
    with the space before them for others."""
    if answer_format == "python":
        return "lines"
    return "words" if len(old.split()) > 1 or len(new.split()) > 1 else "characters"


def diff_answers(old: str, new: str, unit: str, room: int = _SHOWN_CHARS) -> list[Piece]:
    """The changes from old to new in characters, words, or lines with a few equal lines around each change; about
    `room` characters at most."""
    together = unit != "lines"
    a, b = (_units(text, unit) for text in (old, new))
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    pieces: list[Piece] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(len(a) + len(b) + 1 if together else _CONTEXT)):
        if number:
            pieces.append(Piece("gap", "…"))
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                pieces += [Piece("same", part) for part in b[j:j_end]]
            else:
                pieces += [Piece("old", part) for part in a[i:i_end]]
                pieces += [Piece("new", part) for part in b[j:j_end]]
    if together:
        pieces = [Piece(kind, "".join(one.text for one in run)) for kind, run in groupby(pieces, lambda one: one.kind)]
    shown: list[Piece] = []
    for number, piece in enumerate(pieces):
        if number == _SHOWN_LINES or room <= 0:
            return [*shown, Piece("gap", f"… and {len(pieces) - number} more")]
        shown.append(piece if len(piece.text) <= room else Piece(piece.kind, piece.text[:room] + "…"))
        room -= len(piece.text)
    return shown


def _units(text: str, unit: str) -> list[str]:
    if unit == "characters":
        return list(text.strip()[: 2 * _COMPARED_LINES])
    if unit == "words":
        units = re.findall(r"\s*\S+", text[:_COMPARED_CHARS])[: 4 * _COMPARED_LINES]
    else:
        units = text[:_COMPARED_CHARS].splitlines()[:_COMPARED_LINES]
    return [part if len(part) <= _LINE_CHARS else part[: _LINE_CHARS - 1] + "…" for part in units]
