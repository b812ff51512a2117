"""Credit along the lineage: an answer of a stored search is paid for what its descendants reached.

A descendant's gain over the answer counts if it came within `horizon` iterations, discounted by the generations
between them: an answer of value v is worth v + max(0, max over descendants of discount^k (v_d - v)), with k = 1 for a
child. Discount 0 or horizon 0 leaves the answer's own value; discount 1 gives the best of its subtree. The same holds
under every weighting w of the objectives with v = w.r. The set of the vectors r and r + discount^k (r_d - r) of all
descendants carries this exactly: its best vector under w has that value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from islands.queries.children import Child
from vpo.training.examples import Lineage


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
