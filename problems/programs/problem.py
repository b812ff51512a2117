"""A Problem judged by test cases: one component of the reward vector per case, further cases in the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from problems.contract import Problem, Score, ScorerFault
from problems.programs.cases import Task, clip_text, feedback, passes
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
    execution = "apart"
    target: float | None = 1.0

    def __init__(self, name: str, task: Task, sandbox: Callable[[], Sandbox]) -> None:
        self.name = name
        self.task = task
        self.objectives = tuple(f"case_{number}" for number in range(1, task.components + 1))
        self._sandbox = sandbox
        self._tests_lock = threading.Lock()
        self._tests_checked = task.reference is None
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
        """Rewards 1.0 or 0.0 per case. Raises ScorerFault if the tests fail the data set's own solution, or pass an
        answer that does nothing."""
        self._check_tests()
        code = self.canonical(answer)
        if not code.strip():
            return Score.failure(len(self.objectives), "empty answer", "The answer holds no code.")
        cases, outcomes = self.task.cases, self._run(code)
        passed = [*map(passes, cases, outcomes)]
        last = self.task.components - 1
        rewards = (*map(float, passed[:last]), float(all(passed[last:])))
        ran = any(outcome.status == "ok" for outcome in outcomes)
        error = None if ran else clip_text(outcomes[0].message or outcomes[0].status)
        return Score(rewards, sum(rewards) / len(rewards), code_features(code), feedback(cases, outcomes), error)

    def _check_tests(self) -> None:
        """Before the first answer is scored: the tests accept the data set's own solution, if there is one, and refuse
        an empty body."""
        with self._tests_lock:
            if self._tests_checked:
                return
            cases, outcomes = self.task.cases, self._run(self.canonical(self.task.reference or ""))
            failing = [pair for pair in zip(cases, outcomes, strict=True) if not passes(*pair)]
            for case, outcome in failing[:1]:
                about = feedback([case], [outcome]).splitlines()[-1].removeprefix("- ")
                self._stop(f"the data set's own solution fails {len(failing)} of {len(cases)} tests ({about})")
            if all(map(passes, cases, self._run(self.task.seed))):
                self._stop("its tests pass an answer with an empty body")
            self._tests_checked = True

    def _stop(self, why: str) -> NoReturn:
        raise ScorerFault(f"{self.name}: cannot be judged here: {why}")

    def _run(self, code: str) -> list[CaseOutcome]:
        task = self.task
        code = f"{code}\n{task.epilogue}\n" if task.epilogue else code
        cases = tuple(case.source for case in task.cases)
        program = Program(code, cases, "stdin" if task.stdin else "calls", task.setup)
        return self._sandbox().run(program, self._limits)
