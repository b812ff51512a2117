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
from functools import cache

from evo.plugins.formulas.edits.dialect import FORMULA_FORMAT
from evo.plugins.formulas.edits.language import ShownFormula, encode_answer, read_prompt
from evo.plugins.formulas.edits.words import ANSWER, BEST, IN_TURN, NODES, OF_OTHERS, OTHERS, ROOT_TERMS
from evo.plugins.formulas.grammar import CODES, Formula, FormulaError, parse, write
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation
from problems.entry_points import find_entry_points, load_entry_point
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.generators import Generator, TokenGenerator

FUNCTIONS = tuple(
    CODES[name] for name in ("+", "-", "*", "/", "square", "cube", "sqrt", "exp", "log", "sin", "cos", "tanh")
)
LARGEST = 45
"""Nodes of a child."""
_NAMES = re.compile(r"from the variables (.+?)\.(?:\n|$)")
_FITTED = re.compile(r"(?m)\bFitted: (.+)$")
_TRIES = 8
_UNDONE = {"sq": ["f:sqrt"], "log": ["f:exp"], "inv": ["f:/", "1"], "exp": ["f:log"]}
"""What makes the target of a transform of it."""


def generate(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """Children of the parent that a prompt shows. form: how answers are written, text; bits: random. What is no formula
    goes to the generator `rule-gp`.

    Raises PolicyUnavailable for a prompt of another task.
    """
    match = _NAMES.search(prompt.user)
    if match is None:
        return _find_other()(prompt, form, answers, bits)
    names = tuple(name.strip() for name in match[1].split(","))
    shown = _formulas(prompt.shown, names)
    fitted = _FITTED.search(prompt.user)
    if fitted is not None and prompt.shown:  # the parent has the constants that its feedback gives
        shown = [*_formulas([fitted[1]], names), *shown[1:]]
    return [write(_child(shown, names, _generator(bits, place)), names, digits=8) for place in range(answers)]


@cache
def _find_other() -> Generator:
    """The generator of rules (evo/plugins/rules), a folder that may have been deleted."""
    if point := find_entry_points("evo.generators").get("rule-gp"):
        found: Generator = load_entry_point(point, "scripted:gp")
        return found
    raise PolicyUnavailable("it changes formulas only; name another --policy")


def write_marks(prompt: Prompt, answers: int, bits: int) -> str:
    """A chain that adds terms which the prompt shows; a change of the parent where it shows none. Raises
    PolicyUnavailable for a prompt of another language."""
    shown = read_prompt(prompt.user)
    if shown is None:
        raise PolicyUnavailable("it reads the prompts of formula: problems only; name another --policy")
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


def advised_answer(shown: ShownFormula, rng: random.Random) -> list[str] | None:
    """The words of an answer that adds terms which the prompt shows; None if it shows none.

    A term of a good mark comes first in the prompt and is chosen more often. Without a parent the sum is a formula, or
    the argument of the function that undoes a transform of the target.
    """
    if shown.parent is None:
        links = [link for link in _UNDONE if f"{link}1" in shown.terms]
        if links and rng.random() < 0.3:
            link = rng.choice(links)
            names = [name for k in range(1, IN_TURN + 1) if (name := f"{link}{k}") in shown.terms]
            return [*_UNDONE[link], *_sum_of(names[: rng.choice((1, 2, 2, 3))], rng)]
        names = [name for name in ROOT_TERMS if name in shown.terms]
        turns = [name for name in names if name not in ROOT_TERMS[1:BEST]]
        if not names or rng.random() < 0.5:
            return _sum_of(turns[: rng.choice((1, 2, 2, 3))], rng) if turns else None
        return _sum_of([names[min(int(rng.expovariate(0.8)), len(names) - 1)]], rng)
    nodes_named = [node for node in OTHERS if node in shown.called and f"{node}1" in shown.terms]
    if nodes_named and rng.random() < 0.45:
        node = rng.choice(nodes_named)
        names = [name for k in range(1, OF_OTHERS + 1) if (name := f"{node}{k}") in shown.terms]
    else:
        place = shown.words_of_nodes.get(0, NODES[0])
        node, names = place, [name for name in ROOT_TERMS if name in shown.terms]
    if not names:
        return None
    chosen = names[min(int(rng.expovariate(0.8)), len(names) - 1)]
    return [node, "f:+", node, "f:*", "c+0", chosen]


def _sum_of(names: list[str], rng: random.Random) -> list[str]:
    """Scaled terms, most often with an intercept."""
    words = ["f:*", "c+0", names[0]]
    for name in names[1:]:
        words = ["f:+", *words, "f:*", "c+0", name]
    return ["f:+", *words, "c+0"] if rng.random() < 0.7 else words


def _generator(bits: int, place: int) -> random.Random:
    digest = hashlib.blake2b(bits.to_bytes(64, "little") + bytes([place % 256])).digest()
    return random.Random(int.from_bytes(digest, "little"))


def _formulas(texts: Sequence[str], names: tuple[str, ...]) -> list[Formula]:
    formulas = []
    for text in texts:
        try:
            formulas.append(parse(text, names))
        except FormulaError:
            continue
    return formulas


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
