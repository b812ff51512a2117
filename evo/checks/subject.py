"""A problem under check: its answers are scored, its scorer's faults are kept, and mutants of its seed are made."""

from __future__ import annotations

import ast
import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from evo.values import target_value, write_value
from problems.contract import Problem, Score, ScorerFault
from problems.python_syntax import parse_python
from problems.scoring import cores, failure_of
from vpo.policies.mutation import mutate_answer
from vpo.policies.variants import place_code

_ROUNDS = 4
_CLIMB = 12
"""Rounds of the search with which a suspicious answer is compared."""
_MARK, _NAP = "evo check: it ran", 0.5
"""What an answer raises, and how many seconds it sleeps, so that one sees whether it is executed."""
_PATIENCE = 30.0
"""Seconds after which no more mutants are made; a scorer so slow is asked for a part of the answers of each check."""


@dataclass(frozen=True)
class Outcome:
    """One answer as the scorer took it: a score, or the fault that the scorer had over it."""

    answer: str
    score: Score | None
    fault: str
    seconds: float

    @property
    def valid(self) -> bool:
        """Whether it is an answer without an error that achieved anything."""
        return self.score is not None and self.score.error is None and any(self.score.rewards)

    @property
    def fitness(self) -> float:
        return self.score.fitness if self.score is not None and self.score.error is None else 0.0


class Subject:
    """The problem, all its scored answers, and the budget for more.

    known: answers that score, if the problem provides any; never shown to anyone
    seed: of every random choice; mutants: the number of answers for the checks of objectives
    """

    def __init__(self, problem: Problem, seed: int = 0, mutants: int = 64) -> None:
        self.problem = problem
        self.seed_answer = problem.canonical(problem.seed_answer()) if problem.seed_answer() else ""
        self.asked: list[Outcome] = []
        self.known = problem.known_answers(seed)
        self._seed, self._count = seed, mutants
        self.noise = 0.0  # the range of one answer's fitness, as far as the check of repeats saw

    def ask(self, answer: str) -> Outcome:
        """Score one answer as a search would."""
        return self._timed(answer, lambda: self.problem.score(self.problem.canonical(answer)))

    def ask_all(self, answers: Iterable[str]) -> list[Outcome]:
        """Scores them, in order; several at a time unless the problem is scored in this process."""
        typical = min((one.seconds for one in self.asked[:2]), default=0.0)
        texts = list(answers)[: max(3, int(_PATIENCE * cores() / max(typical, 1e-3)))]
        if self.problem.inline or len(texts) < 2:
            return [self.ask(text) for text in texts]
        with ThreadPoolExecutor(cores()) as threads:
            return list(threads.map(self.ask, texts))

    def ask_seed(self) -> Outcome:
        """Score the seed again, whatever the problem remembers of it."""
        return self._timed(self.seed_answer, self.problem.score_seed)

    @cached_property
    def honest(self) -> Outcome:
        """The best of the seed and the known answers: an attack has to beat it."""
        return max([self.ask_seed(), *self.ask_all(self.known[:1])], key=lambda outcome: outcome.fitness)

    @cached_property
    def runs(self) -> bool:
        """Whether the scorer executes an answer, as far as one that raises and one that sleeps show."""
        told = [
            self.armed.fault,
            *([self.armed.score.feedback, self.armed.score.error or ""] if self.armed.score else []),
        ]
        return _MARK in "\n".join(told) or self.armed.seconds >= self.honest.seconds + 0.8 * _NAP

    @cached_property
    def armed(self) -> Outcome:
        """The honest answer with lines that sleep and raise."""
        return self.ask(
            place_code(self.honest.answer, f"import time\ntime.sleep({_NAP})\nraise RuntimeError({_MARK!r})")
        )

    @cached_property
    def python(self) -> bool:
        """Whether answers are Python: by their format, or because the seed is a program that the scorer executes."""
        problem = self.problem
        if problem.answer_format != "text" or problem.execution not in ("apart", "shared"):
            return problem.answer_format == "python"
        tree = parse_python(self.seed_answer)
        return tree is not None and not all(isinstance(node, ast.Expr) for node in tree.body) and self.runs

    @property
    def seed_fitness(self) -> float:
        """The seed's fitness, 0 if it is at fault."""
        return next((outcome.fitness for outcome in self.asked if outcome.answer == self.seed_answer), 0.0)

    def write(self, fitness: float) -> str:
        """As the scorer measures it."""
        return write_value(target_value(self.problem.metrics, fitness), arrow=False)

    def _timed(self, answer: str, score: Callable[[], Score]) -> Outcome:
        began, checked, fault = time.perf_counter(), None, ""
        try:
            checked = score().check(self.problem)
        except ScorerFault as error:
            if error.of_answer and answer != self.seed_answer:
                checked = failure_of(self.problem, error)
            else:
                fault = " ".join(str(error).split())
        outcome = Outcome(answer, checked, fault, time.perf_counter() - began)
        self.asked.append(outcome)
        return outcome

    @cached_property
    def mutants(self) -> list[Outcome]:
        """Distinct answers by small random changes of the seed and the known answers, then of the best of those."""
        first = [self.honest.answer, *self.known]
        scored, seen, made = self.ask_all(self.known), set(map(self.problem.canonical, first)), list[Outcome]()
        rng, began = random.Random(self._seed), time.monotonic()
        for _ in range(_ROUNDS):
            parents = [*first, *(one.answer for one in _fittest([*made, *scored]))] if made else first
            made += self._change(parents, self._count // _ROUNDS, seen, rng)
            if time.monotonic() - began > _PATIENCE:
                break
        return made

    @cached_property
    def reached(self) -> float:
        """The fitness that a short search reaches: the best mutants are changed further, in rounds of as many."""
        best, rng, began = _fittest([self.honest, *self.mutants]), random.Random(self._seed), time.monotonic()
        for _ in range(_CLIMB if best else 0):
            parents = [one.answer for one in best]
            best = _fittest([*best, *self._change(parents, self._count, set(parents), rng)])
            if time.monotonic() - began > _PATIENCE:
                break
        return max((one.fitness for one in best), default=0.0)

    def _change(self, parents: Sequence[str], count: int, seen: set[str], rng: random.Random) -> list[Outcome]:
        """Scores at most `count` changes of the parents that were not seen, and adds them to those."""
        texts = [self.problem.canonical(self._mutant(rng.choice(parents), parents, rng)) for _ in range(count)]
        new = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(new)
        return self.ask_all(new)

    def _mutant(self, parent: str, others: Sequence[str], rng: random.Random) -> str:
        problem = self.problem
        if route := problem.random_answer(rng):
            return route if rng.random() < 0.75 else route[: rng.randint(1, len(route))]  # a part of one
        mates = [other for other in rng.sample(others, min(2, len(others))) if other != parent]
        return mutate_answer(parent, mates, problem.statement(), self.python, rng)


def _fittest(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The eight best that achieved anything."""
    return sorted((one for one in outcomes if one.valid), key=lambda one: -one.fitness)[:8]


EXPLOITED = ("empties", "equals", "elements", "leaves early", "process")
"""Checks whose faults only an answer meets that tries to cheat."""
Level = Literal["ok", "finding", "note", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One check's outcome.

    check: its name, the same in every report
    level: "ok", "finding" (something to fix: exit code 1), "note" (worth knowing), or "skipped" (with the reason)
    summary: one line
    details: further lines
    """

    check: str
    level: Level
    summary: str
    details: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        return {"check": self.check, "level": self.level, "message": self.summary, "details": list(self.details)}


def _maker(level: Level) -> Callable[..., Finding]:
    def make(check: str, summary: str, details: Iterable[str] = ()) -> Finding:
        return Finding(check, level, summary, tuple(details))

    return make


ok, faulty, note, skipped = _maker("ok"), _maker("finding"), _maker("note"), _maker("skipped")


@dataclass(frozen=True)
class CheckReport:
    """All findings on one problem. asked: answers that were scored for it; seconds: their total time"""

    problem: str
    findings: tuple[Finding, ...]
    asked: int = 0
    seconds: float = 0.0

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "finding")

    @property
    def skipped(self) -> tuple[Finding, ...]:
        """What could not be tried: that there is no fault in it is not known."""
        return tuple(finding for finding in self.findings if finding.level == "skipped")

    def record(self) -> dict[str, Any]:
        findings = [finding.record() for finding in self.findings]
        about = {"problem": self.problem, "sound": not self.faults, "skipped": [one.check for one in self.skipped]}
        return {**about, "answers_scored": self.asked, "seconds": round(self.seconds, 3), "findings": findings}
