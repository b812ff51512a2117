"""Credit along the lineage: an answer of a search is paid for what its descendants reached.

A descendant's gain over the answer counts if it came within `horizon` iterations, discounted by the generations
between them: an answer of value v is worth v + max(0, max over descendants of discount^k (v_d - v)), with k = 1 for a
child. Discount 0 or horizon 0 leaves the answer's own value; discount 1 gives the best of its subtree. The same holds
under every weighting w of the objectives with v = w.r. The set of the vectors r and r + discount^k (r_d - r) of all
descendants carries this exactly: its best vector under w has that value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from islands.db.store import Store
from islands.queries.children import Child, children
from problems.types import ScoredGroup
from vpo.training.examples import Lineage


class LineageCredit:
    """What the answers of stored groups are worth with their descendants.

    horizon: iterations; discount: a generation's, see above
    """

    def __init__(self, horizon: int, discount: float) -> None:
        self.horizon, self.discount = horizon, discount
        self._worth = lru_cache(maxsize=64)(self._read)

    def of(self, group: ScoredGroup, store: Store, upto: int | None) -> dict[bytes, Lineage]:
        """By identity, for the valid answers that the group brought first: a repeat is not paid again for what its
        first answer led to. Groups after `upto` do not count. group: as the store gives it, its candidates named"""
        worth = self._worth(store, group.problem, upto)
        new = {answer.identity: (group.sequence, answer.candidate) for answer in group.all_answers()}
        return {identity: worth[key] for identity, key in new.items() if key in worth}

    def _read(self, store: Store, problem: int, upto: int | None) -> Mapping[tuple[int, int | None], Lineage]:
        rows = list(children(store, problem, upto=upto))
        found = lineages(rows, self.horizon, self.discount)
        return {(row.sequence, row.id): found[row.id] for row in rows if row.id in found}


def lineages(rows: Sequence[Child], horizon: int, discount: float) -> dict[int, Lineage]:
    """What each valid candidate of a problem is worth with its descendants, by id. rows: all candidates, in order"""
    fitness = {row.id: row.fitness for row in rows if not row.failed}
    vectors: dict[int, dict[tuple[float, ...], None]] = defaultdict(dict)
    by_id = {row.id: row for row in rows}
    for row in rows:
        if row.failed:
            continue
        vectors[row.id][row.rewards] = None
        for generations, ancestor in _ancestors(row, by_id, horizon):
            share = discount**generations
            gained = ancestor.fitness + share * (row.fitness - ancestor.fitness)
            fitness[ancestor.id] = max(fitness[ancestor.id], gained)
            moved = (a + share * (b - a) for a, b in zip(ancestor.rewards, row.rewards, strict=True))
            vectors[ancestor.id][tuple(moved)] = None
    return {id: Lineage(fitness[id], tuple(vectors[id])) for id in fitness}


def _ancestors(row: Child, by_id: dict[int, Child], horizon: int) -> Iterator[tuple[int, Child]]:
    """(generations, ancestor) of a candidate, the parent first, as far back as the horizon."""
    generations, ancestor = 1, by_id.get(row.parent) if row.parent is not None else None
    while ancestor is not None and not ancestor.failed and row.iteration - ancestor.iteration <= horizon:
        yield generations, ancestor
        generations += 1
        ancestor = by_id.get(ancestor.parent) if ancestor.parent is not None else None
