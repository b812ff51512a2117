"""An arm's best answer to a problem with where it came from, for the detail of a screen."""

from __future__ import annotations

from collections.abc import Mapping

from evo.monitor.best_known import best_known_of
from evo.monitor.snapshot import Ancestor, Detail
from evo.monitor.statement import statement_of, walk_of
from islands.db.reflections import reflections_on
from islands.db.store import Store
from islands.queries import lineage
from islands.queries.runs import candidate
from islands.types import RunRecord

ANCESTORS = 12
"""As many as a screen names; a long search's line has thousands."""


def best_answer(store: Store, arm: str, problem: int, searches: Mapping[int, RunRecord]) -> Detail:
    """The fittest of an arm's searches of one problem. searches: problem id -> its run, one per seed."""
    if not searches:
        return Detail(arm, problem)
    with store.read() as connection:
        place = lineage.fittest(connection, list(searches))
        problem_id = next(iter(searches)) if place is None else place[0]
        run = searches[problem_id]
        first = lineage.first_prompt(connection, run.id, problem_id) or lineage.Origin("", "", "", 0)
    if place is None:
        return _unanswered(store, arm, problem, run, problem_id, first)
    with store.read() as connection:
        id = place[1]
        line = lineage.ancestors(connection, id, ANCESTORS)
        origin = lineage.origin(connection, id)
    found = candidate(store, run.id, id)
    parent = candidate(store, run.id, line[1][0]).candidate if len(line) > 1 else None
    answer = found.candidate
    said = reflections_on(store, [one for one, _ in line[:2]])
    stated = statement_of(found.problem)
    asked = first if origin is None else origin
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
        tuple(Ancestor(id, fitness) for id, fitness in line),
        None if parent is None else parent.text,
        () if parent is None else parent.rewards,
        stated.text,
        None if stated.board is None else walk_of(stated.board, answer.text),
        asked.system,
        asked.user,
        asked.chain,
        asked.place,
        best_known_of(found.problem),
        said.get(id, ""),
        "" if parent is None else said.get(parent.id, ""),
    )


def _unanswered(store: Store, arm: str, problem: int, run: RunRecord, problem_id: int, first: lineage.Origin) -> Detail:
    """What a problem asks for, as long as nothing valid has answered it."""
    stated = statement_of(next(record for record in store.problems(run.id) if record.id == problem_id))
    walk = None if stated.board is None else walk_of(stated.board, "")
    return Detail(arm, problem, statement=stated.text, walk=walk, system=first.system, prompt=first.user)
