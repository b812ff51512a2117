"""A Problem judged by test cases: one component of the reward vector per case, further cases in the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from problems.contract import Problem, Score, ScorerFault
from problems.programs.cases import CallCase, Case, StdinCase, Task, TestCase
from problems.programs.comparison import CaseReport, call_passes, clip, feedback, same_output
from problems.python_syntax import code_features, strip_fence
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Limits, Program

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
        reports = self._reports(code)
        passed = [report.passed for report in reports]
        last = self.task.components - 1
        rewards = (*map(float, passed[:last]), float(all(passed[last:])))
        ran = any(report.outcome.status == "ok" or "AssertionError" in report.outcome.message for report in reports)
        error = None if ran else clip(reports[0].outcome.message or reports[0].outcome.status)
        return Score(rewards, sum(rewards) / len(rewards), code_features(code), feedback(reports), error)

    def _check_tests(self) -> None:
        """Before the first answer is scored: the tests accept the data set's own solution, and refuse answers that do
        nothing."""
        with self._tests_lock:
            if self._tests_checked:
                return
            reference = self.canonical(self.task.reference) if self.task.reference else ""
            if reference:
                outcomes = self._outcomes(reference, hooks=True)
                failing = [report for report in self._judged(outcomes) if not report.passed]
                if failing:
                    about = feedback(failing[:1]).strip().splitlines()
                    self._stop(
                        f"the data set's own solution fails {len(failing)} of {len(self.task.cases)} tests "
                        f"({about[-1] if about else failing[0].outcome.message})"
                    )
                if self.task.tests is not None:
                    self._fewest = [outcome.value[0] for outcome in outcomes]
                    self._hooks = any(outcome.value[1] for outcome in outcomes)
            for what, answer in self._degenerate(bool(reference)):
                if all(report.passed for report in self._reports(answer)):
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

    def _reports(self, code: str) -> list[CaseReport]:
        return self._judged(self._outcomes(code))

    def _judged(self, outcomes: Sequence[CaseOutcome]) -> list[CaseReport]:
        return [CaseReport(c, self._passes(c, o), o) for c, o in zip(self.task.cases, outcomes, strict=True)]

    def _outcomes(self, code: str, hooks: bool = False) -> list[CaseOutcome]:
        task = self.task
        if task.tests is not None:
            tests = replace(task.tests, hooks=hooks or self._hooks)
            program = Program(code, (), "tests", task.setup, task.epilogue, tests)
            return [self._counted(at, outcome) for at, outcome in enumerate(self._sandbox().run(program, self._limits))]
        texts = tuple(c.stdin if isinstance(c, StdinCase) else getattr(c, "expression", "") for c in task.cases)
        code = f"{code}\n{task.epilogue}\n" if task.epilogue else code
        program = Program(code, texts, "stdin" if task.stdin else "calls", task.setup)
        outcomes = self._sandbox().run(program, self._limits)
        unplain = [at for at, outcome in enumerate(outcomes) if _needs_truth(task.cases[at], outcome)]
        if unplain:  # a match or another object, of which the test wants only the truth
            truths = self._sandbox().run(
                replace(program, cases=tuple(f"bool({texts[at]})" for at in unplain)), self._limits
            )
            known = dict(zip(unplain, truths, strict=True))
            outcomes = [known.get(at, outcome) for at, outcome in enumerate(outcomes)]
        return outcomes

    def _counted(self, at: int, outcome: CaseOutcome) -> CaseOutcome:
        """A case in which fewer assertions ran than with the row's own solution has failed."""
        fewest = self._fewest[at] if self._fewest else 0
        if outcome.status != "ok" or outcome.value[0] >= fewest:
            return outcome
        message = f"only {outcome.value[0]} of {fewest} assertions ran"
        return replace(outcome, status="error", value=None, message=message)

    def _passes(self, case: Case, outcome: CaseOutcome) -> bool:
        if outcome.status != "ok":
            return False
        if isinstance(case, StdinCase):
            return isinstance(outcome.value, str) and same_output(outcome.value, case.expected)
        return isinstance(case, TestCase) or call_passes(case, outcome.value)


def _needs_truth(case: Case, outcome: CaseOutcome) -> bool:
    wants = isinstance(case, CallCase) and case.relation in ("true", "false")
    return wants and outcome.status == "error" and outcome.message.startswith("Unplain: ")
