"""The contract between a search and its problems: a Problem turns an answer into a Score.

Two kinds of failure never mix. A fault of the *answer* (it does not parse, crashes, times out) is a Score: zero
rewards, the reason in `error`, a text for the next prompt in `feedback`. A fault of the *scorer* (it raises, returns
nothing, or a number that is not finite) raises ScorerFault, which stops the search of only that problem: as reward 0 it
would become a training signal. Only if the scorer still scores the seed is it a fault of the answer (problems.scoring).
"""

from __future__ import annotations

import importlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from problems.objectives import Objective
from problems.redaction import redact

ANSWER_FORMATS = ("text", "python", "route", "tagged")
"""How an answer is written: `text` as it is, `python` in a code fence, `route` as maze moves, `tagged` as fields in
tags that the statement shows."""
EXECUTIONS = ("never", "apart", "shared", "unconfined", "unknown")
"""Where an answer's code is executed: `never`, in a sandbox process `apart` from its scorer's, in a sandbox process
`shared` with the scorer, in an `unconfined` process, or `unknown`."""


class ScorerFault(Exception):
    """The scorer itself failed. The message names the file or problem, the value, and what to do.

    of_answer: the failure as a fault of the answer, which it is if the scorer can score its seed; "" if nothing says so
    """

    of_answer: str = ""


class BadAddress(ValueError):
    """A problem, policy or database address that names nothing; one line with valid alternatives, without keys and
    passwords of the address."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redact(message))


def finite(number: Any) -> float | None:
    """A number of any kind as a float; None for what is no number, is not finite, or is too large for a float."""
    try:
        value = math.nan if isinstance(number, str | bytes) else float(number)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def clip(value: Any) -> str:
    """A value in a fault's message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"a number of more than {sys.get_int_max_str_digits():,} digits"
    return text if len(text) <= 200 else text[:200] + "..."


@dataclass(frozen=True)
class Score:
    """One answer's outcome.

    rewards: (d,) in the order of Problem.objectives, higher is better, finite
    fitness: the deployment scalar that the search maximises; solved is fitness >= Problem.target
    features: behaviour, for the archive's cells
    feedback: text that the next prompt may show (errors, failing cases, a scorer's artifacts)
    error: the answer's fault in one line, or None
    values: the scorer's own numbers, where rewards are made from them (problems.objectives); None: not measured
    """

    rewards: tuple[float, ...]
    fitness: float
    features: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    error: str | None = None
    values: tuple[float | None, ...] = ()

    @classmethod
    def failure(cls, dimensions: int, error: str, feedback: str = "") -> Score:
        """The zero Score of an answer at fault: `dimensions` zero rewards, fitness 0."""
        return cls((0.0,) * dimensions, 0.0, {}, feedback or error, error)

    def check(self, problem: Problem) -> Score:
        """Itself, or ScorerFault if the length is wrong or a number is not finite. With an error, such numbers are no
        fault: programs commonly mark an answer that failed by -inf."""
        if len(self.rewards) != len(problem.objectives):
            raise ScorerFault(
                f"{problem.name}: the scorer gave {len(self.rewards)} rewards for the {len(problem.objectives)} "
                f"objectives {', '.join(problem.objectives)}"
            )
        named = {**dict(zip(problem.objectives, self.rewards, strict=True)), "fitness": self.fitness, **self.features}
        for name, value in named.items():
            if finite(value) is None:
                if self.error:
                    return Score.failure(len(problem.objectives), self.error, self.feedback)
                raise ScorerFault(f"{problem.name}: the scorer gave {name} = {clip(value)}; every value must be finite")
        return self


class Problem(ABC):
    """A problem as the core uses it. Subclass it and write `name`, `objectives`, `statement` and `score`. All
    others have defaults.

    name: its address, unique within a run
    objectives: names of the reward vector's d components
    target: the fitness at which it counts as solved; None if that is not known
    best_known: the fitness of the best known answer, a line to measure by; None if none is known
    answer_format: one of ANSWER_FORMATS
    inline: scoring takes microseconds and runs in this process, so on the event loop rather than in a thread
    distinct_rewards: of the answers of one chain, those with equal rewards count once, the first of them
    directions: "min" for the objectives whose metric is better when lower (problems.objectives)
    metrics: the objectives in full, where rewards are made from a scorer's own numbers
    timeout: CPU seconds that scoring an answer may take (one case of it, if there are cases); None if undeclared
    execution: one of EXECUTIONS
    source, licence: its origin and its terms in a few words; "" if unknown
    default_policy: the address of the policy that searches it where the user names none; "" for random edits
    fault: why the problem cannot be scored at all, None if it can; `score` raises it
    user_weights: by objective, where a user named the weights of the fitness (`weighted`); None where the problem's own
        fitness counts
    """

    name: str
    objectives: tuple[str, ...]
    target: float | None = None
    best_known: float | None = None
    answer_format: str = "text"
    inline: bool = False
    distinct_rewards: bool = False
    directions: Mapping[str, str] = MappingProxyType({})
    metrics: tuple[Objective, ...] = ()
    timeout: float | None = None
    execution: str = "unknown"
    source: str = ""
    licence: str = ""
    default_policy: str = ""
    fault: ScorerFault | None = None
    user_weights: Mapping[str, float] | None = None

    @abstractmethod
    def statement(self) -> str:
        """The task in English, as a prompt shows it."""

    @abstractmethod
    def score(self, answer: str) -> Score:
        """Judge one answer. Blocking, and called from several threads at once. Raises only ScorerFault."""

    def seed_answer(self) -> str:
        """The answer from which a search starts; "" if there is none."""
        return ""

    def canonical(self, answer: str) -> str:
        """The form in which an answer is stored, compared and scored (moves upper-cased, code spliced back into the
        blocks that may change). Never raises: an unreadable answer comes back unchanged, for `score` to fail. By
        default code out of its fence for `python`, else the text without white space around it."""
        from problems.python_syntax import strip_fence  # not for sandbox processes, which import this module too

        return strip_fence(answer) if self.answer_format == "python" else answer.replace("\r\n", "\n").strip()

    def picture(self, answer: str) -> str:
        """The answer drawn as plain text, a few lines for a person; "" if there is nothing to draw."""
        return ""

    def fingerprint(self) -> str:
        """16 hexadecimal digits, and more under a user's weights, equal on every machine and path, that change when
        what decides the scores changes: the scorer's files, the data set's line. By default of the class's source file
        and the texts of a prompt."""
        from problems.fingerprint import code_fingerprint  # not for sandbox processes

        return code_fingerprint(self, type(self))

    def weighted(self, weights: Mapping[str, float]) -> Problem:
        """The same problem judged by these weights of its objectives: the fitness is the weighted mean of the rewards,
        and the target is `target_under` them. weights: numbers of at least 0 by name; 0 for a name that is not there.
        Raises BadAddress for an unknown name, or weights that are none (problems.weights.order_weights)."""
        weighed: Problem = importlib.import_module("problems.weights").weigh(self, weights)  # it imports this module
        return weighed

    def target_under(self, weights: Sequence[float]) -> float | None:
        """The fitness that solves the problem under weights of its objectives, None if it is unknown. weights: (d,) in
        the order of `objectives`, with sum 1"""
        return None

    # -- what most problems leave as it is ---------------------------------------------------------------------------

    holds_out: bool = False
    """Whether it has cases that steer no search."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """From an OpenEvolve config.yaml (problems.openevolve.config); with any, its templates make the prompts."""

    def known_answers(self, seed: int) -> list[str]:
        """Good answers, the best first; `evo check` compares cheats with them, no prompt shows them. seed: of random
        choices"""
        return []

    def restore(self, objectives: Sequence[Objective]) -> None:
        """Take over the order and the scales that a stored search began with: a noisy scorer gives its seed others."""
        if self.metrics:
            self.metrics = tuple(objectives)

    def further_seeds(self) -> Sequence[str]:
        """The answers that the search starts from in addition to `seed_answer`."""
        return ()

    def score_seed(self) -> Score:
        """The Score of the seed answer, measured again. Raises as `score` does."""
        return self.score(self.seed_answer())

    def score_held_out(self, answer: str) -> Score:
        """The Score of an answer on the held-out cases. Raises ScorerFault as `score` does."""
        raise ScorerFault(f"{self.name} has no held-out cases")

    def score_held_out_cases(self, answer: str) -> Sequence[Score]:
        """The Scores whose mean `score_held_out` gives: one a case, where cases are scored one by one."""
        return [self.score_held_out(answer)]

    def score_of_metrics(
        self, metrics: Mapping[str, float], feedback: str = "", error: str | None = None
    ) -> Score | None:
        """The Score of metrics by name, all finite, that another program measured; None if they do not decide one."""
        return None

    def files_of(self, answer: str) -> dict[str, str]:
        """The answer as files, by their path in the program's folder."""
        return {"answer.py" if self.answer_format == "python" else "answer.txt": answer}

    def answer_of(self, files: Mapping[str, str]) -> str:
        """The answer that consists of these files; one that is missing stays as the program has it."""
        return next(iter(files.values()))

    def random_answer(self, rng: Random) -> str:
        """A valid answer drawn at random; "" if there is no way to draw one."""
        return ""
