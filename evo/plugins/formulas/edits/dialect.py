"""`formula-edit` as the entry point of "evo.dialects" names it: the language of policies for formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evo.plugins.formulas.edits import words
from evo.plugins.formulas.edits.language import decode_chain, encode_answer, read_prompt
from evo.plugins.formulas.edits.sketch import encode_prompt
from evo.plugins.formulas.grammar import FormulaError
from evo.plugins.formulas.problem import FormulaProblem
from problems.contract import Problem
from vpo.languages.contract import require

if TYPE_CHECKING:
    from evo.plugins.formulas.edits.answer_grammar import FormulaGrammar

FORMULA_FORMAT = "formula-edit"
CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoint"


@dataclass
class FormulaDialect:
    name: str = FORMULA_FORMAT
    speaks_of: str = "formulas of tables (formula:)"
    answer_format: str = "text"
    example: str = "formula:train/0"
    checkpoints: Mapping[str, Path] = field(default_factory=lambda: {"formula": CHECKPOINT})

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, FormulaProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return words.WORDS

    def most_tokens(self, answers: int) -> int:
        return words.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, answers: int) -> str:
        return encode_prompt(require(problem, FormulaProblem, self), parent, answers)

    def read(self, text: str, prompt: str) -> list[str]:
        return decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        """The chain that `read` reads as these answers up to their constants, which the problem fits."""
        shown = read_prompt(prompt)
        if shown is None:
            return None
        chain: list[str] = []
        for answer in answers:
            try:
                written = encode_answer(shown.read(answer), shown)
            except FormulaError:
                return None
            if written is None:
                return None
            chain += [words.ANSWER, *written]
        text = " ".join(chain)
        return text if len(self.read(text, prompt)) == len(answers) else None

    @property
    def grammar(self) -> type[FormulaGrammar]:
        from evo.plugins.formulas.edits.answer_grammar import FormulaGrammar

        return FormulaGrammar


DIALECT = FormulaDialect()
