"""An arm's best answer to a problem with where it came from, for the detail of a screen."""

from __future__ import annotations

from collections.abc import Mapping

from evo.monitor.snapshot import Ancestor, Detail
from islands.db.store import Store
from islands.queries import live as readings
from islands.queries.runs import candidate, lineage
from islands.types import RunRecord


def best_answer(store: Store, arm: str, problem: int, searches: Mapping[int, RunRecord]) -> Detail:
    """The fittest of an arm's searches of one problem. searches: problem id -> its run, one per seed."""
    if not searches:
        return Detail(arm, problem)
    with store.read() as connection:
        place = readings.fittest(connection, list(searches))
    if place is None:
        return Detail(arm, problem)
    run, id = searches[place[0]], place[1]
    found = candidate(store, run.id, id)
    line = lineage(store, id)
    parent = line[1] if len(line) > 1 else None
    answer = found.candidate
    return Detail(
        arm,
        problem,
        answer.id,
        run.seed,
        None if found.iteration is None else found.iteration + 1,
        answer.fitness,
        answer.rewards,
        dict(answer.features),
        found.policy_version or "the seed answer",
        answer.island,
        answer.generation,
        found.found,
        answer.text,
        answer.feedback or answer.error or "",
        found.problem.answer_format,
        tuple(Ancestor(one.id, one.fitness) for one in line),
        None if parent is None else parent.text,
        () if parent is None else parent.rewards,
    )
