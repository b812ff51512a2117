"""The lessons of the base policy for formulas: generated targets, parents that lack something of them, and the change.

A target is drawn as the problems formula:train are, with other seeds. Targets that equal a published formula or one of
formula:test, up to constants and names of variables, are left out. A parent is one of

    nothing          the answer is the target or some of its terms
    a part           the target with parts dropped, hoisted or replaced, one to four times; the answer is a step back,
                     or the target
    a rough fit      a sum of simple terms that fit the rows best, as searches find it; the answer is the target, or
                     a term of it added
    another formula  the answer is the target or some of its terms

Some answers do not come from the target: they add one or two of the terms that the prompt shows, to the parent or to
the node that the terms are shown for, as their marks advise.

Parents and answers are fitted to the rows as a search fits them, and an answer must be better than its parent. The
teacher knows the target; the policy sees the prompt only. A lesson costs more than a training step on it, so each is
given several times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.canonical import Terms, unnamed_shape
from evo.plugins.formulas.edits.language import ShownFormula, encode_answer, nodes, read_answer, read_prompt
from evo.plugins.formulas.edits.sketch import Parent, Sketch, basis_of, chosen_in_turn, fit_parent
from evo.plugins.formulas.edits.words import (
    ANSWER,
    BEST,
    HEADER,
    IN_TURN,
    MOST_VARIABLES,
    NODES,
    OF_OTHERS,
    OTHERS,
    ROOT_TERMS,
)
from evo.plugins.formulas.evaluation import fit_constants, quiet
from evo.plugins.formulas.family import LawProblem
from evo.plugins.formulas.generated import FUNCTIONS, SIZES, generate, published_formulas
from evo.plugins.formulas.grammar import Formula, constant, parse, write
from evo.plugins.formulas.problem import FIT_STEPS
from evo.plugins.formulas.published import Law
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation
from vpo.embedded.lesson import Lesson, PooledTeacher
from vpo.embedded.words import STOP, UNKNOWN

POOL, FRESH = 250, 0.1
"""Targets in use at a time, and new ones per lesson."""
NEW, KEPT = 0.3, 6000
"""The share of a batch that is new, and the lessons kept from which the rest is drawn."""
KINDS, SHARES = ("nothing", "part", "rough", "other"), (0.15, 0.5, 0.2, 0.15)
CHAIN_LENGTHS, CHAIN_WEIGHTS = (1, 2, 3), (0.9, 0.05, 0.05)
WIDENED, NOISY = 0.15, 0.1
"""Shares of targets with columns that matter nothing, and with noise on the rows."""
ADVISED = 0.45
"""Share of the answers that follow the marks alone."""
MOST_TAUGHT = 14
"""Words of an answer of a lesson: a prompt says too little of longer ones."""
LEFT = 0.9
"""The most of a parent's squared error that a lesson's answer leaves."""
SOLVED = 0.999
UNDONE = {"sq": ["f:sqrt"], "log": ["f:exp"], "inv": ["f:/", "1"], "exp": ["f:log"]}
"""What makes the target of a transform of it."""
_TRIES = 6


@cache
def held_out_shapes() -> frozenset[Terms]:
    """The shapes of all published formulas and of formula:test; no lesson's target has one of them."""
    tests = [generate("test", index).formula for index in range(SIZES["test"])]
    return frozenset(unnamed_shape(formula) for formula in (*published_formulas(), *tests))


@dataclass(frozen=True)
class LessonTarget:
    """A formula to be found, its problem, and the sketch of the problem."""

    formula: Formula
    problem: LawProblem
    sketch: Sketch
    summands: tuple[Formula, ...]


def draw_target(rng: random.Random) -> LessonTarget:
    """A fresh target."""
    while True:
        law = generate.__wrapped__("lessons", rng.randrange(10**9))
        if unnamed_shape(law.formula) not in held_out_shapes():
            break
    formula = law.formula
    if rng.random() < WIDENED:
        formula, law = _widened(law, rng)
    noise = rng.choice((0.01, 0.1)) if rng.random() < NOISY else 0.0
    problem = LawProblem(f"formula:lessons/{law.name}", lambda: law, "train", noise, 0)
    return LessonTarget(formula, problem, Sketch(problem), tuple(summands(formula)))


def _widened(law: Law, rng: random.Random) -> tuple[Formula, Law]:
    """The law among more variables, of which the others matter nothing."""
    count = rng.randint(len(law.names) + 1, MOST_VARIABLES)
    places = rng.sample(range(count), len(law.names))
    names = tuple(f"x{i}" for i in range(1, count + 1))
    formula = law.formula.rename(dict(enumerate(places)))
    own = dict(zip(places, range(len(places)), strict=True))
    sources = [own[k] if k in own else rng.randrange(len(places)) for k in range(count)]
    train, test = (tuple(spec[k] for k in sources) for spec in (law.train, law.test))
    return formula, Law(law.name, write(formula, names, digits=4), names, train, test)


def summands(formula: Formula) -> list[Formula]:
    """The terms of a sum, without signs; the formula if it is none."""
    if formula.codes[-1] in (g.ADD, g.SUB):
        return [term for part in formula.arguments() for term in summands(part)]
    return [formula]


class FormulaLessons(PooledTeacher[LessonTarget]):
    """An endless stream of lessons, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"formula lessons {seed}", POOL, FRESH)
        self._given: list[Lesson] = []

    def batch(self, size: int) -> list[Lesson]:
        fresh = super().batch(size if not self._given else max(1, round(size * NEW)))
        self._given = [*self._given, *fresh][-KEPT:]
        return [*fresh, *(self._rng.choice(self._given) for _ in range(size - len(fresh)))]

    def _draw(self) -> LessonTarget:
        return draw_target(self._rng)

    def _lesson(self, subject: LessonTarget) -> Lesson:
        with quiet():
            while (lesson := self._try(subject)) is None:
                subject = self._rng.choice(self._pool)
        return lesson

    def _try(self, target: LessonTarget) -> Lesson | None:
        rng = self._rng
        kind = rng.choices(KINDS, SHARES)[0]
        parent: Formula | None = None
        steps: list[Formula] = [target.formula]
        if kind == "part":
            steps = damage(target, rng)
            parent = steps.pop()
        elif kind == "rough":
            parent = rough_fit(target, rng)
        elif kind == "other":
            parent = another(target, rng)
        fitted = fit_parent(target.problem, parent) if parent is not None else None
        if parent is not None and (fitted is None or _is_solved(target, fitted)):
            return None
        count = rng.choices(CHAIN_LENGTHS, CHAIN_WEIGHTS)[0]
        prompt = target.sketch.prompt(fitted, count)
        shown = read_prompt(prompt)
        if shown is None:
            return None
        answers: dict[tuple[str, ...], None] = {}
        for _ in range(count):
            advised = advised_answer(shown, rng) if rng.random() < ADVISED else None
            words = advised or encode_answer(answer_for(target, shown.parent, steps, rng), shown)
            if words is not None and len(words) <= MOST_TAUGHT and _improves(target, fitted, read_answer(words, shown)):
                answers[tuple(words)] = None
        if len(answers) < count:
            return None
        chain = [word for words in answers for word in (ANSWER, *words)]
        given = [UNKNOWN if word.startswith(HEADER) else word for word in prompt.split()]
        return Lesson(given, [*chain, STOP])


def answer_for(target: LessonTarget, parent: Formula | None, steps: list[Formula], rng: random.Random) -> Formula:
    """What the teacher makes of a parent. steps: from the target to the last before the parent"""
    if len(steps) > 1:
        return steps[-1] if rng.random() < 0.6 else rng.choice(steps)
    many = len(target.summands) > 1
    if parent is not None and parent.codes[-1] in (g.ADD, g.SUB) and many and rng.random() < 0.4:
        return weighted_sum([parent, _bare(rng.choice(target.summands))], [1.0, _coefficient(rng)])
    if many and rng.random() < 0.25:
        chosen = rng.sample(target.summands, rng.randint(1, len(target.summands) - 1))
        return weighted_sum(
            [_bare(term) for term in chosen], [_coefficient(rng) for _ in chosen], rng.choice((0.0, 1.0))
        )
    return target.formula


def advised_answer(shown: ShownFormula, rng: random.Random) -> list[str] | None:
    """The words of an answer that adds terms which the prompt shows; None if it shows none.

    A term of a good mark comes first in the prompt and is chosen more often. Without a parent the sum is a formula, or
    the argument of the function that undoes a transform of the target.
    """
    if shown.parent is None:
        links = [link for link in UNDONE if f"{link}1" in shown.terms]
        if links and rng.random() < 0.3:
            link = rng.choice(links)
            names = [name for k in range(1, IN_TURN + 1) if (name := f"{link}{k}") in shown.terms]
            return [*UNDONE[link], *_sum_of(names[: rng.choice((1, 2, 2, 3))], rng)]
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


def _coefficient(rng: random.Random) -> float:
    return rng.choice((1.1, -1.1))


def _bare(term: Formula) -> Formula:
    """A term without its coefficient."""
    if term.codes[-1] == g.MUL:
        for number, other in (term.arguments(), term.arguments()[::-1]):
            if number.size == 1 and number.values:
                return other
    return term


def damage(target: LessonTarget, rng: random.Random) -> list[Formula]:
    """The target, and one to four formulas of which each lacks something of the one before it."""
    variation = Variation(range(len(target.problem.names)), FUNCTIONS, rng)
    steps = [target.formula]
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        for _attempt in range(_TRIES):
            worse = _damaged(steps[-1], variation, rng)
            if worse not in steps and worse.size <= 40:
                steps.append(worse)
                break
    if len(steps) == 1:
        steps.append(variation.term())
    return steps


def _damaged(formula: Formula, variation: Variation, rng: random.Random) -> Formula:
    spans = [span for span in nodes(formula) if span[1] - span[0] > 1]
    draw = rng.random()
    if spans and draw < 0.6:  # one argument in place of a function of it, most often a summand or a factor lost
        begin, end = rng.choice(spans)
        arguments = formula.cut(begin, end).arguments()
        return formula.replace(begin, end, rng.choice(arguments))
    if draw < 0.75:
        begin, end = formula.subtree(rng.randrange(formula.size))
        return formula.replace(begin, end, variation.leaf() if rng.random() < 0.7 else constant(1.0))
    if draw < 0.9:
        return variation.point(formula)
    return variation.subtree(formula)


def rough_fit(target: LessonTarget, rng: random.Random) -> Formula | None:
    """A sum of one to three of the simple terms, each the best after those before it among a random half of them."""
    y = target.problem.train[1]
    columns = target.sketch.columns
    if not len(columns.values):
        return None
    chosen = np.array([rng.random() < 0.5 for _ in columns.words])
    places = np.flatnonzero(chosen)
    if not len(places):
        return None
    basis = basis_of(np.ones((1, len(y))))
    found = chosen_in_turn(columns.values[places], y, basis, rng.randint(1, 3))
    if not found:
        return None
    picked = [columns.terms[int(places[place])] for place, _share in found]
    return weighted_sum(picked, [1.1] * len(picked), 0.1 if rng.random() < 0.8 else 0.0)


def another(target: LessonTarget, rng: random.Random) -> Formula:
    """A formula that was drawn without regard to the target."""
    count = len(target.problem.names)
    variation = Variation(range(count), FUNCTIONS, rng)
    if rng.random() < 0.2:
        return parse(target.problem.seed_answer(), target.problem.names)
    drawn = [variation.term() for _ in range(rng.choice((1, 1, 2, 3)))]
    return weighted_sum(drawn, [1.1] * len(drawn), 0.1)


def _improves(target: LessonTarget, parent: Parent | None, child: Formula | None) -> bool:
    """Whether the child, fitted, is better than the parent, or than a constant if there is none."""
    if child is None:
        return False
    x, y = target.problem.train
    before = y - y.mean() if parent is None else parent.residual
    loss = fit_constants(child, x, y, steps=FIT_STEPS).loss
    return loss < LEFT * float(before @ before) / len(y)


def _is_solved(target: LessonTarget, parent: Parent) -> bool:
    y = target.problem.train[1]
    return float(parent.residual @ parent.residual) < (1 - SOLVED) * float(((y - y.mean()) ** 2).sum()) / 10
