"""A policy as the operator of a search's evolution: a formula goes into a prompt, and its changes come back."""

from __future__ import annotations

import asyncio
from typing import Self

import numpy as np

from evo.config.run import RunConfig
from evo.plugins.formulas.edits.sketch import contexts, marking_passes, sketch_of
from evo.plugins.formulas.evaluation import Array
from evo.plugins.formulas.grammar import Formula, FormulaError, parse, write
from evo.plugins.formulas.problem import FIT_STEPS, FormulaProblem
from evo.prompts.registry import open_format
from evo.search.resources import open_policy
from islands.types import Candidate, Selection

ROLLOUTS = 4
"""Changes of one formula that are sampled at a time."""


class FittedRows(FormulaProblem):
    """The rows of a fit as a problem, so that prompts can show them. x: (n, d); y: (n,); target: its name"""

    def __init__(self, x: Array, y: Array, names: tuple[str, ...], target: str) -> None:
        super().__init__("formula:fit", "the user's", "as the file's source says")
        self._names, self.output = names, target
        self._part = (np.ascontiguousarray(x.T), y)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def draw_rows(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        return self._part, self._part


class PolicyChanges:
    """Call it with a formula for changes of it, and for the passes over the rows that the prompt cost.

    address: of a policy that answers formula: problems; seed: of its samples. Use it in a `with` block, which closes
    the policy. Raises BadInput or BadAddress, one line, for a policy that does not, and PolicyUnavailable in a call.
    """

    def __init__(self, address: str, problem: FormulaProblem, seed: int) -> None:
        config = RunConfig(policy=address, rollouts=ROLLOUTS, answers=1)
        self._problem, self._seed, self._calls = problem, seed, 0
        self._policy = open_policy(config, [problem])
        self._format = open_format(problem, self._policy.prompt_format, config.prompt, 1)
        self._marks = len(sketch_of(problem).columns.terms) if self._policy.prompt_format != "chat" else 0
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._runner.run(self._policy.close())
        self._runner.close()

    def __call__(self, formula: Formula) -> tuple[list[Formula], float]:
        names = self._problem.names
        text = write(formula, names)
        score = self._problem.score(text)
        parent = Candidate(
            1, text, score.rewards, score.fitness, score.features, score.feedback, score.error, 1, 0, None
        )
        selection = Selection(parent, (), ())
        prompt = self._format.build(selection, self._calls)
        self._calls += 1
        sampling = self._policy.sample([prompt], rollouts=ROLLOUTS, answers=1, seed=self._seed)
        (group,) = self._runner.run(sampling)
        passes = 2.0 * FIT_STEPS
        if self._marks:
            passes += marking_passes(self._marks, len(contexts(formula)))
        changes = []
        for rollout in group:
            for answer in self._format.parse(rollout, selection).answers:
                try:
                    changes.append(parse(answer, names))
                except FormulaError:
                    continue
        return changes, passes
