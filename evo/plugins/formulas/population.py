"""Evolution of sums of terms: the search that runs when least squares over known terms has not solved a problem.

An individual is a target (a link, a prefactor) and a few terms; its coefficients come from least squares, the constants
inside its terms from their draws. Every target has its island; terms migrate between islands by crossover.
Parents are drawn by tournaments whose pressure on size differs from draw to draw, so that small and exact formulas both
survive.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evo.plugins.formulas.grammar import Formula
from evo.plugins.formulas.ledger import Ledger
from evo.plugins.formulas.regression import Target, TermColumns, remove_terms, round_off, solve
from evo.plugins.formulas.terms import weighted_sum
from evo.plugins.formulas.variation import Variation, uses_variables

ISLAND = 60
MOST_TERMS = 8
LARGEST_TERM = 24


@dataclass(frozen=True)
class Individual:
    """terms and their coefficients on a target; loss in y; size of the whole formula"""

    terms: tuple[Formula, ...]
    loss: float
    size: int

    def cost(self, pressure: float, variance: float) -> float:
        """What a tournament compares, lower is better."""
        return math.log(self.loss / variance + 1e-14) + pressure * self.size


@dataclass
class TermIsland:
    """The individuals of one target."""

    target: Target
    members: list[Individual] = field(default_factory=list)
    seen: set[frozenset[Formula]] = field(default_factory=set)

    @property
    def best(self) -> float:
        return min((each.loss for each in self.members), default=math.inf)


class Evolution:
    """Islands that evolve until the ledger's budget is spent."""

    def __init__(
        self,
        ledger: Ledger,
        columns: TermColumns,
        targets: Sequence[Target],
        functions: Sequence[int],
        rng: random.Random,
    ) -> None:
        self._ledger, self._columns, self._rng = ledger, columns, rng
        self.islands = [TermIsland(target) for target in targets]
        self._variations = [Variation(t.indices, functions, rng) for t in targets]
        self._most_terms = max(1, min(MOST_TERMS, len(ledger.y) // 4))

    def run(self) -> None:
        """Raises SearchEnded at the end of the budget and at an exact formula."""
        for place in range(len(self.islands)):
            for _ in range(6):
                self.offer(place, self._random_terms(place))
        while True:
            self._ledger.stop_if_exact()
            if self._rng.random() < 0.35:
                place = self._rng.randrange(len(self.islands))
            else:
                best = sorted(range(len(self.islands)), key=lambda k: self.islands[k].best)
                place = best[min(int(self._rng.expovariate(0.7)), len(best) - 1)]
            self.offer(place, self._random_terms(place) if len(self.islands[place].members) < 4 else self._child(place))

    def _random_terms(self, place: int) -> tuple[Formula, ...]:
        return tuple(self._variations[place].term() for _ in range(self._rng.choice((1, 2, 3))))

    def _parent(self, island: TermIsland) -> Individual:
        pressure = self._rng.choice((0.0, 0.01, 0.03, 0.1))
        drawn = [self._rng.choice(island.members) for _ in range(5)]
        return min(drawn, key=lambda each: each.cost(pressure, self._ledger.variance))

    def _child(self, place: int) -> tuple[Formula, ...]:
        island, variation = self.islands[place], self._variations[place]
        parent = self._parent(island)
        terms = list(parent.terms)
        draw = self._rng.random()
        if draw < 0.2 and len(terms) < self._most_terms:
            return (*terms, variation.term())
        if draw < 0.3 and len(terms) > 1:
            terms.pop(self._rng.randrange(len(terms)))
            return tuple(terms)
        if draw < 0.45:
            filled = [island for island in self.islands if island.members]
            other = self._parent(island if self._rng.random() < 0.7 else self._rng.choice(filled))
            pool = [t for t in other.terms if set(t.variables) <= set(island.target.indices)]
            if pool:
                taken = self._rng.sample(pool, self._rng.randint(1, len(pool)))
                kept = self._rng.sample(terms, self._rng.randint(1, len(terms)))
                return tuple(dict.fromkeys((*kept, *taken)))[: self._most_terms]
        chosen = self._rng.randrange(len(terms))
        if draw < 0.55:
            terms[chosen] = variation.term()
            return tuple(terms)
        terms[chosen] = variation.change(terms[chosen], self._parent(island).terms)
        return tuple(terms)

    def offer(self, place: int, terms: tuple[Formula, ...]) -> None:
        """Fit a sum and put it on the island if it wins."""
        island, ledger = self.islands[place], self._ledger
        terms = tuple(dict.fromkeys(t for t in terms if t.size <= LARGEST_TERM and uses_variables(t)))
        if not terms or sum(t.size + 3 for t in terms) > ledger.rules.max_size + 12:
            ledger.spend(0.02)
            return
        key = frozenset(terms)
        if key in island.seen:
            ledger.spend(0.02)
            return
        island.seen.add(key)
        kept, columns = self._columns.matrix(terms)
        if not kept:
            return
        ledger.spend_pass(len(kept))
        target = island.target
        solved = solve(columns, target.z, target.root)
        if solved is None:
            return
        coefficients = solved[0]
        loss = target.loss(ledger, coefficients[:-1] @ columns + coefficients[-1])
        if not math.isfinite(loss):
            return
        self._place(island, kept, coefficients, loss)

    def _place(self, island: TermIsland, terms: Sequence[Formula], coefficients: np.ndarray, loss: float) -> None:
        ledger, target = self._ledger, island.target
        *numbers, intercept = [round_off(c) for c in np.asarray(coefficients).tolist()]
        whole = target.wrap(weighted_sum(terms, numbers, intercept))
        ledger.add(whole, loss)
        if ledger.exact:
            kept, columns = self._columns.matrix(terms)
            remove_terms(ledger, target, kept, columns)
        child = Individual(tuple(terms), loss, whole.size)
        members = island.members
        if len(members) < ISLAND:
            members.append(child)
            return
        pressure = self._rng.choice((0.0, 0.01, 0.03, 0.1))
        drawn = [self._rng.randrange(len(members)) for _ in range(6)]
        worst = max(drawn, key=lambda k: members[k].cost(pressure, ledger.variance))
        if child.cost(pressure, ledger.variance) < members[worst].cost(pressure, ledger.variance):
            members[worst] = child
