"""The contract of a problem with a search (problems.contract.Problem), as tests."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from problems.contract import ANSWER_FORMATS, EXECUTIONS, Problem, Score

AWKWARD = (
    *("", " \n\t", "\0", "\ud800", "é\u2028\U0001f600", "0", "nan", "inf", "-1", "1e999", "[]", "R R D D"),
    *("def f(:", "```python\n", "```python\nx = 1\n```\nor\n```\ny = 2"),
    *("1" * 5000, "(" * 2000, "x" * 10_000, "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n"),
)
"""Answers as models write them too: nothing, half a character, numbers that are none, half a program, noise."""
SCORING_TESTS = (
    "test_any_text_has_a_score",
    "test_an_answer_always_has_the_same_score",
    "test_the_solution_reaches_the_target",
    "test_the_weights_of_a_user_decide",
)
"""The tests that score answers. `evo check` runs the others, and scores as a search does."""


class ProblemContract:
    """Subclass it as `TestMine` and define `problem`; pytest runs every test of it.

    answers: further answers to score, each as a policy would write it
    solution: an answer that reaches `target`, if one is known
    """

    answers: tuple[str, ...] = ()
    solution: str | None = None

    def problem(self) -> Problem:
        """The problem. Called in every test, so keep costly parts."""
        raise NotImplementedError

    def _all_answers(self, problem: Problem) -> list[str]:
        given = [problem.seed_answer(), *self.answers, *([self.solution] if self.solution else []), *AWKWARD]
        return list(dict.fromkeys(given))

    def test_it_has_every_member(self) -> None:
        problem = self.problem()
        assert isinstance(problem, Problem)
        assert problem.name and problem.name == problem.name.strip() and "\n" not in problem.name
        assert isinstance(problem.objectives, tuple) and problem.objectives
        assert all(isinstance(name, str) and name for name in problem.objectives)
        assert len(set(problem.objectives)) == len(problem.objectives)
        assert problem.target is None or math.isfinite(problem.target)
        assert problem.answer_format in ANSWER_FORMATS and problem.execution in EXECUTIONS
        assert isinstance(problem.inline, bool) and isinstance(problem.settings, Mapping)

    def test_it_can_be_scored(self) -> None:
        assert self.problem().fault is None

    def test_its_texts_stay_the_same(self) -> None:
        problem = self.problem()
        assert problem.statement().strip() and problem.statement() == problem.statement()
        assert isinstance(problem.seed_answer(), str) and problem.seed_answer() == problem.seed_answer()

    def test_the_canonical_form_of_any_text_is_its_own(self) -> None:
        problem = self.problem()
        for answer in self._all_answers(problem):
            form = problem.canonical(answer)
            assert isinstance(form, str) and problem.canonical(form) == form, answer

    def test_any_text_has_a_score(self) -> None:
        """An answer's fault is a Score: no exception, finite numbers, one reward per objective, one line of error."""
        problem = self.problem()
        for answer in self._all_answers(problem):
            score = problem.score(problem.canonical(answer))
            assert isinstance(score, Score) and score.check(problem) is score, answer
            assert isinstance(score.feedback, str) and all(isinstance(name, str) for name in score.features)
            assert score.error is None or (score.error and "\n" not in score.error), answer

    def test_an_answer_always_has_the_same_score(self) -> None:
        """Also when several threads call at once."""
        problem = self.problem()
        answers = [problem.canonical(answer) for answer in self._all_answers(problem)[:4]]
        alone = [problem.score(answer) for answer in answers]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(problem.score, answers * 2))
        for score, again in zip(alone * 2, together, strict=True):
            assert (again.rewards, again.fitness, again.features) == (score.rewards, score.fitness, score.features)

    def test_the_solution_reaches_the_target(self) -> None:
        problem = self.problem()
        if self.solution is not None:
            score = problem.score(problem.canonical(self.solution))
            assert score.error is None
            assert problem.target is None or score.fitness >= problem.target

    def test_the_weights_of_a_user_decide(self) -> None:
        """In a copy, of which the rest is the same; here all weight is on the first objective."""
        problem = self.problem()
        heavy = problem.weighted({problem.objectives[0]: 2.0})
        assert isinstance(heavy, type(problem)) and problem.user_weights is None and heavy.name == problem.name
        assert heavy.statement() != problem.statement() and problem.fingerprint() != heavy.fingerprint()
        assert heavy.fingerprint().partition("-")[0] == problem.fingerprint()
        for answer in dict.fromkeys((*self._all_answers(problem)[:2], self.solution or "", "")):
            form = problem.canonical(answer)
            score, own = heavy.score(form), problem.score(form)
            assert (score.rewards, score.values, score.error) == (own.rewards, own.values, own.error)
            assert score.fitness == own.rewards[0], answer
            if answer == self.solution and heavy.target is not None:
                assert score.fitness >= heavy.target
        if problem.seed_answer():
            assert heavy.score_seed().fitness == problem.score_seed().rewards[0]

    def test_metrics_measured_elsewhere_make_a_score_or_none(self) -> None:
        problem = self.problem()
        metrics = dict.fromkeys(problem.objectives, 0.5) | {"combined_score": 0.5}
        score = problem.score_of_metrics(metrics, "seen", None)
        assert score is None or (score.check(problem) is score and score.feedback == "seen" and score.error is None)

    def test_its_fingerprint_is_sixteen_digits_and_stays(self) -> None:
        problem = self.problem()
        first = problem.fingerprint()
        assert len(first) == 16 and set(first) <= set(string.hexdigits.lower()) and problem.fingerprint() == first
