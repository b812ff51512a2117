"""Policies for formulas without a model.

`scripted:gp` is genetic programming: it changes the parent by subtree, point and hoist mutation and by crossover with
the other answers shown. Constants are fitted when an answer is scored; those of the parent are read from its feedback.

`scripted:marks` reads the prompts of `embedded:formula`, and adds a term that lowers the parent's residual, the better
the more often. It is the control for what that policy has learned.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from evo.plugins.formulas.edits.dialect import FORMULA_FORMAT
from evo.plugins.formulas.edits.language import encode_answer, read_prompt
from evo.plugins.formulas.edits.lessons import advised_answer
from evo.plugins.formulas.edits.words import ANSWER
from evo.plugins.formulas.generated import FUNCTIONS
from evo.plugins.formulas.grammar import Formula, FormulaError, parse, write
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation
from problems.types import Prompt
from vpo.policies.generators import TokenGenerator

LARGEST = 45
"""Nodes of a child."""
_NAMES = re.compile(r"from the variables (.+?)\.(?:\n|$)")
_FITTED = re.compile(r"(?m)\bFitted: (.+)$")
_TRIES = 8


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Children of the parent that a prompt shows. form: how answers are written, text; bits: random

    Raises ValueError for a prompt of another task.
    """
    names = names_in(prompt, "scripted:gp")
    shown = shown_formulas(prompt, names)
    children = []
    for place in range(answers):
        children.append(write(_child(shown, names, _generator(bits, place)), names, digits=8))
    return children


def names_in(prompt: Prompt, policy: str) -> tuple[str, ...]:
    """The variables of a formula: problem's prompt. Raises ValueError for a prompt of another task."""
    found = _NAMES.search(prompt.user)
    if found is None:
        raise ValueError(f"{policy} answers formula: problems only; name another --policy")
    return tuple(name.strip() for name in found[1].split(","))


def shown_formulas(prompt: Prompt, names: tuple[str, ...]) -> list[Formula]:
    """The answers that a prompt shows, the first with the constants that its feedback gives."""
    shown = _formulas(prompt.shown, names)
    fitted = _FITTED.search(prompt.user)
    if fitted is not None and prompt.shown:
        shown = [*_formulas([fitted[1]], names), *shown[1:]]
    return shown


def write_marks(prompt: Prompt, answers: int, bits: int) -> str:
    """A chain that adds terms which the prompt shows; a change of the parent where it shows none. Raises ValueError for
    a prompt of another language."""
    shown = read_prompt(prompt.user)
    if shown is None:
        raise ValueError("scripted:marks answers formula: problems only; name another --policy")
    chain: list[str] = []
    for place in range(answers):
        rng = _generator(bits, place)
        written = advised_answer(shown, rng)
        for _ in range(0 if written else _TRIES):
            parents = [] if shown.parent is None else [shown.parent]
            if written := encode_answer(_child(parents, shown.names, rng), shown):
                break
        chain += [ANSWER, *(written or ())]
    return " ".join(chain)


MARKS = TokenGenerator(FORMULA_FORMAT, write_marks)


def _generator(bits: int, place: int) -> random.Random:
    digest = hashlib.blake2b(bits.to_bytes(64, "little") + bytes([place % 256])).digest()
    return random.Random(int.from_bytes(digest, "little"))


def _formulas(texts: Sequence[str], names: tuple[str, ...]) -> list[Formula]:
    found = []
    for text in texts:
        try:
            found.append(parse(text, names))
        except FormulaError:
            continue
    return found


def _child(shown: Sequence[Formula], names: tuple[str, ...], rng: random.Random) -> Formula:
    variation = Variation(range(len(names)), FUNCTIONS, rng)
    if not shown or rng.random() < 0.1:
        terms = [variation.term() for _ in range(rng.choice((1, 1, 2, 3)))]
        return weighted_sum(terms, [1.1] * len(terms), 0.1)
    parent, *others = shown
    for _ in range(_TRIES):
        if rng.random() < 0.25:
            child = weighted_sum([parent, variation.term()], [1.0, rng.choice((0.1, -0.1))])
        else:
            child = variation.change(parent, others)
        if child != parent and child.size <= LARGEST:
            return child
    return variation.term()
