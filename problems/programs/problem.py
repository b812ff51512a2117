"""A Problem judged by test cases: one component of the reward vector per case, further cases in the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from problems.contract import Problem, Score, ScorerFault
from problems.programs.cases import CallCase, JudgeCase, StdinCase, Task
from problems.programs.comparison import call_passes, same_output
from problems.programs.feedback import CaseReport, clip, feedback
from problems.programs.judge import judge_answer
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
    execution = "apart"

    def __init__(self, name: str, task: Task, sandbox: Callable[[], Sandbox]) -> None:
        self.name = name
        self.task = task
        self.objectives = tuple(f"case_{number}" for number in range(1, task.components + 1))
        self._sandbox = sandbox
        self._accepted: dict[str, CaseOutcome] = {}
        self._oracle_lock = threading.Lock()
        self._tests_lock = threading.Lock()
        self._tests_checked = task.reference is None
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
        set's own solution, or passes an answer without a body."""
        self._check_tests()
        code = self.canonical(answer)
        if not code.strip():
            return Score.failure(len(self.objectives), "empty answer", "The answer holds no code.")
        reports = self._reports(code)
        passed = [report.passed for report in reports]
        last = self.task.components - 1
        rewards = (*map(float, passed[:last]), float(all(passed[last:])))
        ran = any(report.outcome.status == "ok" for report in reports)
        error = None if ran else clip(reports[0].outcome.message or reports[0].outcome.status)
        return Score(rewards, sum(rewards) / len(rewards), code_features(code), feedback(reports), error)

    def _check_tests(self) -> None:
        """Before the first answer is scored: the tests accept the data set's own solution, and refuse the seed."""
        with self._tests_lock:
            if self._tests_checked or self.task.reference is None:
                return
            failing = [report for report in self._reports(self.canonical(self.task.reference)) if not report.passed]
            if failing:
                about = feedback(failing[:1]).strip().splitlines()
                raise ScorerFault(
                    f"{self.name}: the data set's own solution fails {len(failing)} of {len(self.task.cases)} tests "
                    f"({about[-1] if about else failing[0].outcome.message}); mend the row or leave it out"
                )
            decided = [c for c in self.task.cases if not isinstance(c, CallCase) or c.relation != "any"]
            if decided and all(report.passed for report in self._reports(self.task.seed)):
                raise ScorerFault(f"{self.name}: its tests pass an answer without a body; mend the row or leave it out")
            self._tests_checked = True

    def _reports(self, code: str) -> list[CaseReport]:
        task = self.task
        compared = [case for case in task.cases if not isinstance(case, JudgeCase)]
        judged = [case for case in task.cases if isinstance(case, JudgeCase)]
        beside = f"{code}\n{task.epilogue}\n" if task.epilogue else code
        found = {id(c): r for c, r in zip(compared, self._compared(beside, compared), strict=True)}
        if judged:
            verdicts = judge_answer(self._sandbox(), beside, task.setup, task.judge, judged, self._limits)
            for case, verdict in zip(judged, verdicts, strict=True):
                found[id(case)] = CaseReport(case, verdict.passed, verdict.outcome, verdict.calls)
        return [found[id(case)] for case in task.cases]

    def _compared(self, code: str, cases: Sequence[CallCase | StdinCase]) -> list[CaseReport]:
        if not cases:
            return []
        texts = tuple(case.stdin if isinstance(case, StdinCase) else case.expression for case in cases)
        program = Program(code, texts, "stdin" if self.task.stdin else "calls", self.task.setup)
        outcomes = self._sandbox().run(program, self._limits)
        unplain = [at for at, outcome in enumerate(outcomes) if _needs_truth(cases[at], outcome)]
        if unplain:  # a match or another object, of which the test wants only the truth
            truths = self._sandbox().run(
                replace(program, cases=tuple(f"bool({texts[at]})" for at in unplain)), self._limits
            )
            known = dict(zip(unplain, truths, strict=True))
            outcomes = [known.get(at, outcome) for at, outcome in enumerate(outcomes)]
        self._ask_oracle()
        return [CaseReport(c, self._passes(c, o), o) for c, o in zip(cases, outcomes, strict=True)]

    def _ask_oracle(self) -> None:
        """What the cases accept, worked out once and for all. Raises ScorerFault if that fails."""
        asked = [source for case in self.task.cases if isinstance(case, CallCase) for source in case.accepts]
        with self._oracle_lock:
            if not asked or self._accepted:
                return
            texts = tuple(dict.fromkeys(asked))
            outcomes = self._sandbox().run(Program(self.task.oracle, texts), self._limits)
            found = dict(zip(texts, outcomes, strict=True))
            for text, outcome in found.items():
                if outcome.status != "ok":
                    raise ScorerFault(f"{self.name}: the reference failed at {clip(text, 120)}: {outcome.message}")
            self._accepted = found

    def _passes(self, case: CallCase | StdinCase, outcome: CaseOutcome) -> bool:
        if outcome.status != "ok":
            return False
        if isinstance(case, StdinCase):
            return isinstance(outcome.value, str) and same_output(outcome.value, case.expected)
        if not case.accepts:
            return call_passes(case, outcome.value)
        accepted = (self._accepted[text].value for text in case.accepts)
        return any(call_passes(replace(case, expected=value), outcome.value) for value in accepted)


def _needs_truth(case: CallCase | StdinCase, outcome: CaseOutcome) -> bool:
    wants = isinstance(case, CallCase) and case.relation in ("true", "false")
    return wants and outcome.status == "error" and outcome.message.startswith("Unplain: ")
