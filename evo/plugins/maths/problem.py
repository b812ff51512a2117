"""A Problem whose answer is a program that constructs something: run in the sandbox, measured here.

The sandbox returns only plain numbers; a candidate's claims are not read, and its changes to its process do not reach
the measurement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from evo.plugins.maths.exact import float_below
from evo.plugins.maths.task import MathsTask, Measured, Unfit
from problems.contract import Problem, Score
from problems.python_syntax import code_features, parse_python, strip_fence
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Limits, Program
from problems.weights import ALL_REWARDS

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

MARGIN = Fraction(1, 10**9)
"""A record is better than the best known value by more than this share of it: less is the same optimum, polished."""
_SECONDS = 20.0
"""Of CPU time for one instance."""
LICENCE = "Apache-2.0"
_MEMORY, _OUTPUT = 2 << 30, 16 << 20


@dataclass(frozen=True)
class Instance:
    """One size of the task: its measurement, or why there is none."""

    size: int
    measured: Measured | None = None
    error: str = ""
    record: bool = False


class MathsProblem(Problem):
    """A task as a Problem.

    objectives: one per instance, the deciding one first, named by its size (`n26`): value over best known, at most 1
    fitness: the value of the deciding instance as it is, or its inverse if small values are better; 0 at fault
    target: the fitness of the best value known, less the 1e-9 that makes two polished copies of it equal
    best_known: the fitness of the best value known
    """

    answer_format = "python"
    execution = "apart"

    def __init__(self, task: MathsTask, sandbox: Callable[[], Sandbox]) -> None:
        self.task = task
        self.name = f"maths:{task.name}"
        self.objectives = tuple(f"{task.symbol}{size}" for size in task.sizes())
        self.best_known: float | None = task.fitness(task.best.value)
        self.target: float | None = self.best_known * float(1 - MARGIN)
        self.source, self.licence = task.source, LICENCE
        self._sandbox = sandbox
        self.timeout: float | None = _SECONDS
        self._limits = Limits(_SECONDS, _SECONDS * WALL_FACTOR, memory=_MEMORY, output=_OUTPUT)

    def __repr__(self) -> str:
        return f"MathsProblem({self.name!r})"

    def statement(self) -> str:
        task = self.task
        sizes = ", ".join(str(size) for size in sorted(task.instances))
        known = "; ".join(f"{task.symbol} = {size}: {best.value:.10g}" for size, best in sorted(task.instances.items()))
        alias = ""
        if task.aliases:
            call = f"`{task.aliases[0]}()` without arguments, for {task.symbol} = {task.headline} alone"
            alias = f"({call}, is accepted too.)\n"
        decides = "" if self.user_weights else f"; {task.symbol} = {task.headline} decides"
        return f"""\
{task.text}

It is called for {task.symbol} = {sizes}, the smallest first{decides}. Each call may \
take {_SECONDS:g} s of one core;
numpy can be imported. What is returned is measured; nothing that is claimed about it counts.
{alias}Best values known: {known}."""

    def target_under(self, weights: Sequence[float]) -> float:
        """Of the best values known, each of which one program can construct."""
        return ALL_REWARDS

    def seed_answer(self) -> str:
        """A weak construction."""
        return self.task.seed

    def fingerprint(self) -> str:
        """Of the measure and the best values."""
        return self.task.fingerprint

    def score(self, answer: str) -> Score:
        """Components, fitness and features of an answer. Features: `code_length` and `branching`, as for programs."""
        code = strip_fence(answer, wanted=f"def {self.task.entry}")
        if not code.strip():
            return Score.failure(len(self.objectives), "empty answer", "The answer holds no code.")
        instances = {instance.size: instance for instance in self._run(code)}
        task, rewards, fitness = self.task, [], 0.0
        for size in task.sizes():
            measured = instances[size].measured if size in instances else None
            value = 0.0 if measured is None else _as_float(measured.value, task.better)
            usable = measured is not None and (task.better == "max" or value > 0)
            rewards.append(task.quality(size, value) if usable else 0.0)
            if size == task.headline and usable:
                fitness = task.fitness(value)
        error = None
        if not any(instance.measured for instance in instances.values()):
            error = next((i.error for i in instances.values() if i.error), "nothing was constructed")
        lines = [self._told(instances[size]) for size in sorted(instances)]
        return Score(tuple(rewards), fitness, code_features(code), "\n".join(lines), error)

    def verify_record(self, answer: str) -> bool:
        """Whether the deciding instance, constructed again and measured in exact arithmetic, beats the best value known
        by more than MARGIN of it."""
        code = strip_fence(answer, wanted=f"def {self.task.entry}")
        return any(instance.record for instance in self._run(code) if instance.size == self.task.headline)

    # -- running -------------------------------------------------------------------------------------------------------

    def _run(self, code: str) -> Iterable[Instance]:
        """The instances, the smallest first: after a failure the others are not run."""
        task, defined = self.task, _defined_names(code)
        alias = next((name for name in task.aliases if name in defined), None)
        if task.entry not in defined and alias is not None:
            (outcome,) = self._sandbox().run(Program(code, (f"{alias}()",)), self._limits)
            yield self._measure(task.headline, outcome, task.alias_size or task.headline)
            for size in task.sizes()[1:]:
                yield Instance(size, error=f"not constructed: {alias}() is for {task.headline} alone")
            return
        first, *rest = sorted(task.instances)
        (outcome,) = self._sandbox().run(Program(code, (f"{task.entry}({first})",)), self._limits)
        cheap = self._measure(first, outcome, first)
        yield cheap
        if cheap.measured is None:
            for size in rest:
                yield Instance(size, error=f"not run, as {task.symbol} = {first} failed")
            return
        cases = tuple(f"{task.entry}({size})" for size in rest)
        outcomes = self._sandbox().run(Program(code, cases), self._limits)
        for size, outcome in zip(rest, outcomes, strict=True):
            yield self._measure(size, outcome, size)

    def _measure(self, size: int, outcome: CaseOutcome, requested: int) -> Instance:
        if outcome.status != "ok":
            return Instance(size, error=" ".join((outcome.message or outcome.status).split())[:300])
        try:
            measured = self.task.measure(outcome.value, requested)
            return Instance(size, measured, record=self.task.beats(size, measured.value, MARGIN))
        except Unfit as fault:
            return Instance(size, error=str(fault))

    def _told(self, instance: Instance) -> str:
        task, best = self.task, self.task.instances[instance.size]
        place = f"{task.symbol} = {instance.size}"
        if instance.measured is None:
            return f"{place}: {instance.error}"
        measured = instance.measured
        line = f"{place}: {task.unit} {float(measured.value):.12g} (best known {best.value:.12g})"
        if measured.repair:
            line += f"; {measured.repair}; before that {measured.raw:.12g}"
        record = f"; A RECORD: exact arithmetic finds it better than the best value known here ({best.source})"
        return line + record * instance.record


def _as_float(value: Fraction, better: str) -> float:
    """Rounded to the worse side."""
    return float_below(value) if better == "max" else -float_below(-value)


def _defined_names(code: str) -> set[str]:
    """Names that the top level of the code defines, as far as its text shows."""
    tree = parse_python(code)
    if tree is None:
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names
