"""The contract between a search and what it searches: a Problem turns an answer into a Score.

Two kinds of failure never mix. A fault of the *answer* (it does not parse, crashes, times out) is a Score: zero
rewards, the reason in `error`, something for the next prompt in `feedback`. A fault of the *scorer* (it raises, returns
nothing, or a number that is not finite) raises ScorerFault, which stops the search of that problem alone: turned into
reward 0 it would become a training signal. Only where the scorer still takes the seed is it the doing of the one answer
(problems.scoring).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from problems.redaction import redact

ANSWER_FORMATS = ("text", "python", "route", "tagged")
"""How an answer is written: `text` as it is, `python` in a code fence, `route` as maze moves, `tagged` as fields in
tags of its own, which the statement shows."""
EXECUTIONS = ("never", "apart", "shared", "unconfined", "unknown")
"""Where what an answer says is executed: `never`, in a sandbox process `apart` from the one that judges it, in a
sandbox process `shared` with it, in a process that nothing confines (`unconfined`), or `unknown`."""


class ScorerFault(Exception):
    """The scorer itself failed. The message names the file or problem, the value, and what to do."""


class BadAddress(ValueError):
    """A problem, policy or database address that names nothing; one line that says what would, without the keys and
    passwords that an address may hold."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redact(message))


@dataclass(frozen=True)
class Score:
    """One answer's outcome.

    rewards: (d,) in the order of Problem.objectives, higher is better, finite
    fitness: the deployment scalar that the search maximises; solved is fitness >= Problem.target
    features: behaviour, for the archive's cells
    feedback: what the next prompt may show (errors, failing cases, a scorer's artifacts)
    error: the answer's own fault in one line, or None
    """

    rewards: tuple[float, ...]
    fitness: float
    features: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    error: str | None = None

    @classmethod
    def failure(cls, dimensions: int, error: str, feedback: str = "") -> Score:
        """The zero Score of an answer at fault: `dimensions` zero rewards, fitness 0."""
        return cls((0.0,) * dimensions, 0.0, {}, feedback or error, error)

    def check(self, problem: Problem) -> Score:
        """Itself, or ScorerFault where the length is wrong or a number is not finite."""
        if len(self.rewards) != len(problem.objectives):
            raise ScorerFault(
                f"{problem.name}: the scorer gave {len(self.rewards)} rewards for the {len(problem.objectives)} "
                f"objectives {', '.join(problem.objectives)}"
            )
        named = {**dict(zip(problem.objectives, self.rewards, strict=True)), "fitness": self.fitness, **self.features}
        for name, value in named.items():
            if not math.isfinite(value):
                raise ScorerFault(f"{problem.name}: the scorer gave {name} = {value}; every value must be finite")
        return self


@runtime_checkable
class Problem(Protocol):
    """What is searched. Subclass it and write `name`, `objectives`, `statement` and `score`; the rest has a default.

    name: its address, unique within a run
    objectives: names of the reward vector's d components
    target: the fitness at which it counts as solved; None where that is not known
    best_known: the fitness of the best answer that is known, a line to measure by; None where nobody says
    answer_format: one of ANSWER_FORMATS
    inline: it is scored in microseconds and in this process, so on the event loop itself rather than in a thread
    distinct_rewards: of the answers of one chain, those with equal rewards count once, the first of them
    settings: what an OpenEvolve config.yaml decides (problems.openevolve.config); a problem that has any is prompted by
        OpenEvolve's templates
    fault: why it cannot be scored at all, None where it can; `score` raises it
    directions: "min" for the objectives whose metric is better when lower (problems.directions)
    timeout: CPU seconds that scoring an answer may take (one case of it, where there are cases); None where nobody says
    resources: what scoring an answer takes (problems.resources); nothing where nobody says
    batched: `score_batch` takes many answers at once, as a service or a queue of jobs is asked best
    execution: one of EXECUTIONS; why_shared: why answers cannot be executed apart, where they are not
    source, licence: where it comes from and on what terms, in a few words; "" where that is not told
    """

    name: str
    objectives: tuple[str, ...]
    target: float | None = None
    best_known: float | None = None
    answer_format: str = "text"
    inline: bool = False
    distinct_rewards: bool = False
    settings: Mapping[str, Any] = MappingProxyType({})
    fault: ScorerFault | None = None
    directions: Mapping[str, str] = MappingProxyType({})
    timeout: float | None = None
    resources: Mapping[str, float] = MappingProxyType({})
    batched: bool = False
    execution: str = "unknown"
    why_shared: str = ""
    source: str = ""
    licence: str = ""

    def statement(self) -> str:
        """The task in English, as a prompt shows it."""
        ...

    def seed_answer(self) -> str:
        """Where the search starts; "" where there is nothing to start from."""
        return ""

    def canonical(self, answer: str) -> str:
        """The form in which an answer is stored, compared and scored (moves upper-cased, code spliced back into the
        blocks that may change). Never raises: what it cannot read it returns as it is, for `score` to fail. By default
        code out of its fence for `python`, else the text without white space around it."""
        from problems.answer_text import strip_fence  # not for sandbox processes, which import this module too

        return strip_fence(answer) if self.answer_format == "python" else answer.replace("\r\n", "\n").strip()

    def score(self, answer: str) -> Score:
        """Judge one answer. Blocking, and called from several threads at once. Raises ScorerFault alone."""
        ...

    def score_seed(self) -> Score:
        """The Score of the seed answer, measured anew where `score` remembers it. Raises as `score` does."""
        return self.score(self.seed_answer())

    def score_batch(self, answers: Sequence[str]) -> list[Score]:
        """Judge many answers; a Score of each, in order. Asked in the place of `score` where `batched`; blocking, and
        for as long as it takes. Raises ScorerFault alone, which is then no single answer's."""
        return [self.score(answer) for answer in answers]

    def verify_record(self, answer: str) -> bool:
        """Whether an answer, run again and measured exactly, is better than `best_known`; False where that cannot be
        told. Blocking, as `score` is."""
        return False

    def score_of_metrics(
        self, metrics: Mapping[str, float], feedback: str = "", error: str | None = None
    ) -> Score | None:
        """The Score that metrics measured elsewhere (by name, all finite) come to; None where they do not tell."""
        return None

    def fingerprint(self) -> str:
        """16 hexadecimal digits, equal on every machine and path, that change when what decides the scores changes: the
        scorer's files, the data set's line. By default of the class's source file and what a prompt says."""
        return _code_fingerprint(self, type(self))


@runtime_checkable
class KnowsAnswers(Protocol):
    """A problem that knows good answers. `evo check` compares attacks with them; no prompt shows them."""

    def known_answers(self, seed: int) -> list[str]:
        """The best first; empty if this problem has none. seed: of random choices"""
        ...


MEMBERS = ("name", "objectives", "statement", "score")
"""What a problem must have by itself."""
DEFAULTED = (
    *("target", "best_known", "answer_format", "inline", "distinct_rewards", "settings", "fault", "source", "licence"),
    *("directions", "timeout", "execution", "why_shared", "resources", "batched"),
    *("seed_answer", "score_batch", "canonical", "score_seed", "score_of_metrics", "verify_record", "fingerprint"),
)
"""What Problem has a default for."""


class _Completed(Problem):
    """An object with MEMBERS, and Problem's defaults for what else it lacks."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.name, self.objectives = str(given.name), tuple(given.objectives)
        for member in DEFAULTED:
            if hasattr(given, member):
                setattr(self, member, getattr(given, member))

    def statement(self) -> str:
        return str(self._given.statement())

    def score(self, answer: str) -> Score:
        score: Score = self._given.score(answer)
        return score

    def fingerprint(self) -> str:
        return _code_fingerprint(self, type(self._given))


def complete_problem(given: object) -> Problem | None:
    """`given` as a Problem: itself where it has every member, else with the defaults; None where it lacks one of
    MEMBERS. The one place where a foreign object is asked what it has."""
    if isinstance(given, type) or not all(hasattr(given, member) for member in MEMBERS):
        return None
    return given if isinstance(given, Problem) else _Completed(given)


def _code_fingerprint(problem: Problem, kind: type) -> str:
    """Of the class's source file, what a prompt says of the problem, and what solves it."""
    from problems.fingerprint import code_fingerprint  # not for sandbox processes

    said = [problem.statement(), problem.seed_answer(), problem.answer_format]
    return code_fingerprint(kind, problem.objectives, problem.target, *said)
