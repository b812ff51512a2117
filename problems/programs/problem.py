"""A Problem judged by test cases: one component of the reward vector per case, further cases in the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from problems.contract import Problem, Score, ScorerFault
from problems.programs.cases import Task
from problems.programs.comparison import clip, feedback, passes
from problems.python_syntax import code_features, strip_fence
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Limits, Program
from problems.weights import ALL_REWARDS

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


class ProgramProblem(Problem):
    """A Python function, or a program that reads standard input, judged case by case in the sandbox.

    objectives: `case_1`, `case_2`, ...; where the task has more cases than components, the last component is 1 only if
        all the remaining cases pass
    fitness: mean of the components; solved is 1.0, where every case passes
    features: `code_length` in characters and `branching`, the number of branches and loops; both are exact, so an
        answer always falls into the same cell (a running time would not)
    """

    answer_format = "python"
    target: float | None = 1.0

    def __init__(self, name: str, task: Task, sandbox: Callable[[], Sandbox]) -> None:
        self.name = name
        self.task = task
        self.objectives = tuple(f"case_{number}" for number in range(1, task.components + 1))
        self._sandbox = sandbox
        self._tests_lock = threading.Lock()
        self._tests_checked = task.reference is None and task.tests is None
        self._fewest: list[int] = []
        self._hooks = False
        self.execution = "apart" if task.tests is None else "shared"
        self.timeout: float | None = task.seconds
        self._limits = Limits(cpu_seconds=task.seconds, wall_seconds=task.seconds * WALL_FACTOR)

    def __repr__(self) -> str:
        return f"ProgramProblem({self.name!r}, {len(self.objectives)} cases)"

    def known_answers(self, seed: int) -> list[str]:
        """The data set's solution, if it has one."""
        return [self.task.reference] if self.task.reference else []

    def target_under(self, weights: Sequence[float]) -> float:
        """Of an answer that passes every case."""
        return ALL_REWARDS

    def statement(self) -> str:
        """Task, signature and a public example or two; and where cases share the last component, that they do."""
        cases, components = len(self.task.cases), self.task.components
        if cases == components:
            return self.task.text
        shared = f"case_{components} is 1 only if all tests from number {components} on pass"
        return f"{self.task.text}\n\nThere are {cases} tests and {components} scores: {shared}."

    def seed_answer(self) -> str:
        """The signature with an empty body."""
        return self.task.seed

    def fingerprint(self) -> str:
        """Of the data set's line."""
        return self.task.fingerprint

    def canonical(self, answer: str) -> str:
        """The code alone: out of its fence, with newlines normalised and no space at line ends."""
        return strip_fence(answer, wanted=f"def {self.task.entry}" if self.task.entry else "")

    def score(self, answer: str) -> Score:
        """Rewards 1.0 or 0.0 per case. Raises ScorerFault if a test of the data set fails by itself, fails the data
        set's own solution, or passes an answer that does nothing."""
        self._check_tests()
        code = self.canonical(answer)
        if not code.strip():
            return Score.failure(len(self.objectives), "empty answer", "The answer holds no code.")
        cases, outcomes = self.task.cases, self._run(code)
        passed = [*map(passes, cases, outcomes)]
        last = self.task.components - 1
        rewards = (*map(float, passed[:last]), float(all(passed[last:])))
        ran = any(outcome.status == "ok" or "AssertionError" in outcome.message for outcome in outcomes)
        error = None if ran else clip(outcomes[0].message or outcomes[0].status)
        return Score(rewards, sum(rewards) / len(rewards), code_features(code), feedback(cases, outcomes), error)

    def _check_tests(self) -> None:
        """Before the first answer is scored: the tests accept the data set's own solution, and refuse answers that do
        nothing."""
        with self._tests_lock:
            if self._tests_checked:
                return
            reference = self.canonical(self.task.reference) if self.task.reference else ""
            if reference:
                outcomes = self._run(reference, hooks=True)
                cases = self.task.cases
                failing = [pair for pair in zip(cases, outcomes, strict=True) if not passes(*pair)]
                for case, outcome in failing[:1]:
                    about = feedback([case], [outcome]).splitlines()[-1].removeprefix("- ")
                    self._stop(f"the data set's own solution fails {len(failing)} of {len(cases)} tests ({about})")
                if self.task.tests is not None:
                    self._fewest = [outcome.value[0] for outcome in outcomes]
                    self._hooks = any(outcome.value[1] for outcome in outcomes)
            for what, answer in self._degenerate(bool(reference)):
                if all(map(passes, self.task.cases, self._run(answer))):
                    self._stop(f"its tests pass {what}")
            self._tests_checked = True

    def _stop(self, why: str) -> NoReturn:
        raise ScorerFault(f"{self.name}: cannot be judged here: {why}")

    def _degenerate(self, known: bool) -> list[tuple[str, str]]:
        """Answers that no test should accept, each with what it is. known: the row has a solution of its own"""
        task, name = self.task, self.task.entry
        found = [("an answer with an empty body", task.seed)] if known or task.tests is not None else []
        if task.tests is None or name is None or task.seed.startswith("class "):
            return found
        bodies = {
            "an answer that only returns []": "    return []\n",
            "an answer that only returns nan": "    return float('nan')\n",
            "an answer that only raises StopIteration": "    raise StopIteration\n",
            "an answer that empties its arguments and returns []": (
                "    for a in args:\n        getattr(a, 'clear', int)()\n    return []\n"
            ),
        }
        return found + [(what, f"def {name}(*args, **kwargs):\n{body}") for what, body in bodies.items()]

    def _run(self, code: str, hooks: bool = False) -> list[CaseOutcome]:
        task = self.task
        if task.tests is not None:
            tests = replace(task.tests, hooks=hooks or self._hooks)
            program = Program(code, (), "tests", task.setup, task.epilogue, tests)
            outcomes = self._sandbox().run(program, self._limits)
            return [*map(_counted, outcomes, self._fewest)] if self._fewest else outcomes
        code = f"{code}\n{task.epilogue}\n" if task.epilogue else code
        cases = tuple(case.source for case in task.cases)
        program = Program(code, cases, "stdin" if task.stdin else "calls", task.setup)
        return self._sandbox().run(program, self._limits)


def _counted(outcome: CaseOutcome, fewest: int) -> CaseOutcome:
    """A case in which fewer assertions ran than with the row's own solution has failed."""
    if outcome.status != "ok" or outcome.value[0] >= fewest:
        return outcome
    message = f"only {outcome.value[0]} of {fewest} assertions ran"
    return replace(outcome, status="error", value=None, message=message)
