"""The candidates that a reader can open on the page: rows of the browser and nodes of the evolution trees. Their number
and their characters are bounded, and the page states how many are left out. templates/candidates.js shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.chart import even_sample, short_number
from evo.comparison.load import Comparison
from evo.encoding import visible
from evo.monitor.answer import NO_ORIGIN, read_answers
from evo.report.details import bounded
from evo.report.lineage import SearchLineage
from evo.report.load import RunReading, SearchReading
from islands.browse import CandidateFilter, CandidateSummary, browse
from islands.store import Store
from problems.scoring import error_kind

MOST_LISTED = 500
"""Candidates on the page; of more, the best, those of the drawn lineages, and even samples of failures and of all."""
BEST_LISTED, FAILED_LISTED, FITTEST_LISTED = 120, 120, 120
MOST_NODES, FITTEST_NODES = 500, 100
"""Candidates in a tree; of more, the line to the best, the fittest, and an even sample."""
PAGE_CHARS = 500_000
"""Characters of prompts, answers and feedback together; candidates beyond show the beginning of their answer only."""
TEXT_CHARS, HEAD_CHARS = 4_000, 160
AT_ONCE = 20
DIGITS = 9

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Place:
    """A search's arm, by its place in the comparison, its seed, and its problem's row."""

    arm: int
    seed: int
    row: int


def candidate_values(
    store: Store,
    comparison: Comparison,
    readings: Mapping[str, Sequence[RunReading]],
    lineages: Sequence[SearchLineage],
) -> dict[str, Any]:
    """The browser's data, for JSON.

    stored, failed: the numbers of all candidates and of those with an error, on the page or not
    texts: prompts, of which several candidates share one
    candidates: the newest first; a prompt is a place in `texts`; `cut` if texts are left out
    """
    places: dict[tuple[int, int], _Place] = {}
    searches: list[SearchReading] = []
    for arm, runs in enumerate(readings.values()):
        for run in runs:
            for row, search in enumerate(run.searches):
                places[run.run.id, search.problem.index] = _Place(arm, run.run.seed, row)
                searches.append(search)
    ids = chosen_candidates(searches, lineages)
    chosen = CandidateFilter(runs=[run.id for run in comparison.runs], ids=ids)
    summaries = {summary.id: summary for summary in browse(store, chosen, 0, len(ids))}
    texts: dict[str, int] = {}
    entries = [
        _entry(summaries[id], places[summaries[id].run, summaries[id].problem]) | full
        for id, full in _full_texts(store, [id for id in ids if id in summaries], texts)
    ]
    return {
        "stored": sum(len(search.ids) for search in searches),
        "failed": sum(int((~search.valid).sum()) for search in searches),
        "problems": [
            {"name": visible(problem.name), "objectives": [visible(name) for name in problem.objectives]}
            for problem in comparison.problems
        ],
        "texts": list(texts),
        "candidates": sorted(entries, key=lambda entry: -entry["id"]),
    }


def chosen_candidates(searches: Sequence[SearchReading], lineages: Sequence[SearchLineage]) -> list[int]:
    """At most MOST_LISTED ids, the most interesting first."""
    every = np.concatenate([search.ids for search in searches])
    failed = np.concatenate([search.ids[~search.valid] for search in searches])
    bests = [search.problem.best for search in searches if search.problem.best is not None]
    steps = [step.candidate for lineage in lineages for step in lineage.steps]
    each = -(-FITTEST_LISTED // max(1, len(searches)))
    fittest = [id for search in searches for id in search.ids[_fittest(search, each)].tolist()]
    wanted = [
        *bests[:BEST_LISTED],
        *steps,
        *even_sample(failed, FAILED_LISTED).tolist(),
        *fittest[:FITTEST_LISTED],
        *even_sample(every, MOST_LISTED).tolist(),
    ]
    return list(dict.fromkeys(wanted))[:MOST_LISTED]


def _fittest(search: SearchReading, most: int) -> Ints:
    """Places of the fittest valid candidates."""
    valid = np.flatnonzero(search.valid)
    fittest: Ints = valid[np.argsort(-search.fitness[valid], kind="stable")[:most]]
    return fittest


def _entry(summary: CandidateSummary, place: _Place) -> dict[str, Any]:
    """A row with the beginning of its answer. iteration: from 1, 0 for a seed answer"""
    error = None if summary.error is None else visible(summary.error)
    return {
        "id": summary.id,
        "arm": place.arm,
        "seed": place.seed,
        "row": place.row,
        "iteration": 0 if summary.iteration is None else summary.iteration + 1,
        "parent": summary.parent,
        "operator": "" if summary.operator is None else f"{place.arm}.{summary.operator}",
        "fitness": short_number(summary.fitness, DIGITS),
        "rewards": [short_number(value, DIGITS) for value in summary.rewards],
        "error": error,
        "kind": "" if summary.error is None else visible(error_kind(summary.error)),
        "answer": visible(bounded(summary.text, HEAD_CHARS)),
        "cut": True,
    }


def _full_texts(store: Store, ids: Sequence[int], texts: dict[str, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each id with its texts in full, while PAGE_CHARS last; then with none. texts: prompts are added here."""
    spent = 0
    for start in range(0, len(ids), AT_ONCE):
        part = ids[start : start + AT_ONCE]
        stored = read_answers(store, part) if spent < PAGE_CHARS else {}
        for id in part:
            full: dict[str, Any] = {}
            if id in stored and spent < PAGE_CHARS:
                origin = stored[id].origin or NO_ORIGIN
                full = {
                    "answer": visible(bounded(stored[id].candidate.text, TEXT_CHARS)),
                    "feedback": visible(bounded(stored[id].candidate.feedback, TEXT_CHARS // 4)),
                    "cut": False,
                }
                spent += len(full["answer"]) + len(full["feedback"])
                for key, text in (("system", origin.system), ("prompt", origin.user)):
                    shown = visible(bounded(text, TEXT_CHARS))
                    if shown:
                        spent += 0 if shown in texts else len(shown)
                        full[key] = texts.setdefault(shown, len(texts))
            yield id, full


def tree_values(lineage: SearchLineage, place: int) -> dict[str, Any]:
    """The tree of one search's valid candidates, for JSON. place: of the arm

    ids, iterations (from 1, 0 for a seed), fitness: of each node, older ones first
    parents: the node of the nearest ancestor that is drawn, -1 for none; line: nodes that lead to the best one
    left, failed: the numbers of valid candidates that are not drawn, and of failed ones, which are never drawn
    """
    search = lineage.search
    valid = np.flatnonzero(search.valid)
    nodes = np.array(list(lineage.line), dtype=np.int64)
    if len(nodes) < MOST_NODES:
        more = [*_fittest(search, FITTEST_NODES).tolist(), *even_sample(valid, MOST_NODES).tolist()]
        nodes = np.array(list(dict.fromkeys([*nodes.tolist(), *more]))[:MOST_NODES], dtype=np.int64)
    else:
        nodes = even_sample(nodes, MOST_NODES)
    nodes = np.sort(nodes)
    node_of = {int(at): node for node, at in enumerate(nodes)}
    return {
        "arm": place,
        "seed": lineage.seed,
        "row": lineage.row,
        "target": lineage.target,
        "ids": search.ids[nodes].tolist(),
        "iterations": (search.born[nodes] + 1).tolist(),
        "fitness": [short_number(value, DIGITS) for value in search.fitness[nodes]],
        "parents": [_nearest(search, int(at), node_of) for at in nodes],
        "line": [node_of[at] for at in lineage.line if at in node_of],
        "left": len(valid) - int(search.valid[nodes].sum()),
        "failed": len(search.ids) - len(valid),
    }


def _nearest(search: SearchReading, at: int, node_of: Mapping[int, int]) -> int:
    """The node of the nearest ancestor of a candidate that is drawn; -1 if none is."""
    while search.parents[at] >= 0:
        above = search.ordinal(int(search.parents[at]))
        if above is None or above >= at:  # a parent is older than its child
            return -1
        if above in node_of:
            return node_of[above]
        at = above
    return -1
