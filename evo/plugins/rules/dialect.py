"""`rule-edit`, the language of policies for rules, as the entry point of "evo.dialects" names it: its prompts.

    of:p,w=p/(w+1) rule x1 x2           the names and the parent (one word, unknown to the policy), the features
    loose tight                         what the families of instances are, by language.FAMILY_KINDS
    par n0 f:/ n1 x1 n2 f:+ n3 x2 ...   the parent, its nodes counted
    err e4 q6 e9 q0                     how low its cost is on each family: e4 q6 as the seed's, then in steps of 2%
    m2                                  the number of answers requested; the prompt ends here
    > n2 f:max x2 c+1 > n0 x1 <eos>     the chain: a node of the parent and what replaces it

Numbers stay as they are written: 1 to 6, or a power of 3. Those of the parent's subtrees are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evo.plugins.formulas.grammar import Formula, FormulaError, write_formula
from evo.plugins.rules import language as w
from evo.plugins.rules.language import decode_rules, encode_rule, prefix_words, read_prompt, write_header
from evo.plugins.rules.rule import RuleTask, parse_rule
from problems.contract import Problem
from vpo.languages.contract import LONGEST_CHAIN, PARENT, require

if TYPE_CHECKING:
    from evo.plugins.rules.rule_grammar import RuleGrammar

RULE_FORMAT = "rule-edit"
CHECKPOINT = Path(__file__).parent / "checkpoint"
LOWEST, HIGHEST = 0.04, 2.5
"""Costs that the language tells apart, as multiples of the seed's."""


@dataclass
class RuleDialect:
    name: str = RULE_FORMAT
    speaks_of: str = "priority rules (rules: and your own simulators)"
    answer_format: str = "text"
    example: str = "rules:jobshop/0"
    checkpoints: Mapping[str, Path] = field(
        default_factory=lambda: {"rules": CHECKPOINT} if CHECKPOINT.is_dir() else {}
    )

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, RuleTask)

    def vocabulary(self) -> tuple[str, ...]:
        return w.RULE_WORDS

    def most_tokens(self, answers: int) -> int:
        return w.most_rule_tokens(answers)

    def prompt(self, problem: Problem, parent: str, answers: int) -> str:
        task = require(problem, RuleTask, self)  # type: ignore[type-abstract]
        if not 1 <= answers <= LONGEST_CHAIN:
            raise ValueError(f"the language writes 1 to {LONGEST_CHAIN} answers a chain, not {answers}")
        if len(task.names) > w.MOST_FEATURES:
            raise ValueError(f"the language has words for {w.MOST_FEATURES} features at most, not {len(task.names)}")
        return f"{_begin(task, parent)} m{answers}"

    def read(self, text: str, prompt: str) -> list[str]:
        return decode_rules(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        """The chain. Numbers that have no word and are not the parent's are rounded to one that has; None also if that
        makes an answer worse, and no better than the parent."""
        shown = read_prompt(prompt)
        if shown is None:
            return None
        chain: list[str] = []
        for answer in answers:
            try:
                rule = _round(parse_rule(answer, shown.names), shown.parent)
            except FormulaError:
                return None
            rounded = write_formula(rule, shown.names)
            if rounded != answer:
                parents = [] if shown.parent is None else [write_formula(shown.parent, shown.names)]
                found, *others = (problem.score(text).fitness for text in (rounded, answer, *parents))
                if found < others[0] and found <= others[-1]:
                    return None
            words = encode_rule(shown.read(rounded), shown)
            if words is None:
                return None
            chain += [w.ANSWER, *words]
        text = " ".join(chain)
        return text if len(self.read(text, prompt)) == len(answers) else None

    @property
    def grammar(self) -> type[RuleGrammar]:
        from evo.plugins.rules.rule_grammar import RuleGrammar

        return RuleGrammar


def _round(rule: Formula, parent: Formula | None) -> Formula:
    kept = () if parent is None else parent.values
    return Formula(rule.codes, tuple(value if value in kept else _nearest(value) for value in rule.values))


def _nearest(value: float) -> float:
    """The number with a word that has the same sign and is nearest by its logarithm."""
    size, sign = max(abs(value), w.RATIO**w.SMALLEST), math.copysign(1.0, value)
    return min((each for each in w.VALUES if each * sign > 0), key=lambda each: abs(math.log(abs(each) / size)))


@lru_cache(maxsize=8192)
def _begin(problem: RuleTask, parent: str) -> str:
    """A prompt up to the number of answers."""
    names = problem.names
    kinds = problem.kinds or (w.FAMILY_KINDS[-1],) * len(problem.objectives)
    words = [w.RULE_WORD, *w.VARIABLES[: len(names)], *kinds]
    try:
        rule = parse_rule(parent, names)
    except FormulaError:
        return " ".join([write_header(names, None), *words])
    nodes = zip(w.NODES, prefix_words(rule), strict=False)
    words += [PARENT, *(word for pair in nodes for word in pair), w.ERRORS, *_levels(problem, parent)]
    return " ".join([write_header(names, rule), *words])


def _levels(problem: Problem, parent: str) -> list[str]:
    """Two words a family: a level of the logarithm of its cost, and a finer step. The lowest cost is the highest level.
    The reward, s / (s + cost), gives the cost."""
    words: list[str] = []
    for reward in problem.score(parent).rewards:
        ratio = min(max(1 / max(reward, 1e-9) - 1, LOWEST), HIGHEST)
        share = math.log(HIGHEST / ratio) / math.log(HIGHEST / LOWEST)
        level, digit = divmod(round(share * (len(w.QUALITY) * len(w.DIGITS) - 1)), len(w.DIGITS))
        words += [w.QUALITY[level], w.DIGITS[digit]]
    return words


DIALECT = RuleDialect()
