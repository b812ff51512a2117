"""`formula-text`: the prompts of `embedded:formula` as short plain text, for language models trained to answer them.

    formula of x1, x2; positive: y, x1
    parent: 2.4*x1 + 1.8
    error by region: 3 2 4 1 1
    terms: sqrt(x1) 99.5, exp(-x1) 99.5; in turn: sin(x1) 99.9
    terms in sin(x1): exp(x1) 40
    better:

A term's number is the share, in percent, of what the parent leaves that the term would explain. The error of a region
runs from 0 (none) to 20 (as a constant's). An answer is a line with a whole formula; its constants are written
roughly, since the problem fits them. An ordinary prompt of a chat model takes five times as many tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.plugins.formulas.edits import words as w
from evo.plugins.formulas.edits.dialect import FORMULA_FORMAT
from evo.plugins.formulas.edits.language import ShownFormula, read_prompt
from evo.plugins.formulas.grammar import Formula, FormulaError, parse, write
from evo.plugins.formulas.problem import FormulaProblem
from evo.prompts.registry import open_format
from islands.types import Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout
from vpo.chain import Chain

if TYPE_CHECKING:
    import numpy as np

DIGITS = 2
"""Of constants."""
TOKENS = 64
"""That suffice for most answers: one of 45 nodes has up to 90, but few in a search have more than 40."""
TAUGHT = 21
"""Nodes of an answer that is taught, at most: a prompt says too little of larger ones."""
_LINKS = dict(zip(w.LINKS, ("{}**2", "log({})", "1/{}", "exp({})"), strict=True))
_SHARES = dict(zip(w.EXPLAINED, (f"{100 * edge:.6g}" for edge in (0, *w.EXPLAINED_EDGES)), strict=True))
_ERRORS = {word: str(w.LEVELS - k) for k, word in enumerate(w.QUALITY)}


class FormulaTextFormat:
    """The format for one problem. Raises BadInput if the problem is no table, or has too many variables."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int) -> None:
        if not isinstance(problem, FormulaProblem):
            raise BadInput(f"the prompt format formula-text is for formula: problems, not for {problem.name}")
        self.problem, self.answers = problem, answers
        self._words = open_format(problem, FORMULA_FORMAT, config, answers)  # whose prompts it rewrites

    @property
    def default_limit(self) -> int:
        return TOKENS * self.answers

    def select_shown(self, selection: Selection) -> Selection:
        return self._words.select_shown(selection)

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        prompt = self._words.build(selection, stream).user
        shown = read_prompt(prompt)
        assert shown is not None
        request = "better:" if self.answers == 1 else f"{self.answers} better:"
        return Prompt("\n".join([*self._describe(shown, prompt.split()), request]), stream=stream)

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        lines = list(dict.fromkeys(filter(None, map(str.strip, rollout.text.splitlines()))))
        if rollout.finish == "length":
            lines = lines[:-1]
        answers = tuple(lines[: self.answers])
        return Chain(
            answers, None if len(answers) == self.answers else f"{len(answers)} of {self.answers} answers found"
        )

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        try:
            formulas = [parse(answer, self.problem.names) for answer in answers]
        except FormulaError:
            return None
        lines = list(dict.fromkeys(self._line(formula) for formula in formulas if formula.size <= TAUGHT))
        return "\n".join(lines) if len(lines) == len(answers) else None

    def _line(self, formula: Formula) -> str:
        return write(formula, self.problem.names, digits=DIGITS)

    def _describe(self, shown: ShownFormula, words: Sequence[str]) -> list[str]:
        """The lines of a prompt, from its words in the token language and what these show."""
        shares = _shares_of(words)

        def listed(names: Sequence[str]) -> str:
            return ", ".join(f"{self._line(shown.terms[name])} {shares[name]}" for name in names if name in shown.terms)

        named = {"y": self.problem.output, **dict(zip(w.VARIABLES, self.problem.names, strict=False))}
        positive = [named[word] for word, sign in zip(words, words[1:], strict=False) if sign == w.SIGNS[0]]
        lines = [f"formula of {', '.join(self.problem.names)}; positive: {', '.join(positive) or 'none'}"]
        if shown.parent is not None:
            lines.append(f"parent: {self._line(shown.parent)}")
            lines.append("error by region: " + " ".join(_ERRORS[word] for word in words if word in _ERRORS))
        best, turns = listed(w.ROOT_TERMS[: w.BEST]), listed(w.ROOT_TERMS[w.BEST :])
        lines.append("terms: " + best + (f"; in turn: {turns}" if turns else ""))
        for node in w.OTHERS:
            if node in shown.called and shown.parent is not None:
                part = shown.parent.cut(*shown.spans[shown.called[node]])
                lines.append(
                    f"terms in {self._line(part)}: {listed([f'{node}{k}' for k in range(1, w.OF_OTHERS + 1)])}"
                )
        for link, text in _LINKS.items():
            if terms := listed([f"{link}{k}" for k in range(1, w.IN_TURN + 1)]):
                lines.append(f"terms of {text.format(self.problem.output)}: {terms}")
        return lines


def _shares_of(words: Sequence[str]) -> dict[str, str]:
    """The share that follows each term's name, in percent."""
    shares: dict[str, str] = {}
    name = ""
    for word in words:
        if word in w.TERMS:
            name = word
        elif word in _SHARES:
            shares.setdefault(name, _SHARES[word])
    return shares
