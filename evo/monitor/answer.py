"""Read a stored answer in full: its parent, its prompt and rollout, and the notes on it. The screen, `evo show` and the
report use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from islands.db.reflections import reflections_on
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.lineage import Origin, origins
from islands.types import Candidate

AT_ONCE = 500


@dataclass(frozen=True)
class StoredAnswer:
    """A candidate with its provenance.

    parent: None for a seed, and for an answer whose prompt showed none
    origin: the prompt and rollout that gave it first; None for a seed
    reflection, parent_reflection: a policy's notes on what the answer and its parent need; "" for none
    """

    candidate: Candidate
    parent: Candidate | None
    origin: Origin | None
    reflection: str
    parent_reflection: str


def read_answers(store: Store, ids: Sequence[int]) -> dict[int, StoredAnswer]:
    """The answers by candidate id. Raises KeyError for an id that is not stored."""
    reader, answers = CandidateReader(store, 0), {}
    for start in range(0, len(ids), AT_ONCE):
        part = ids[start : start + AT_ONCE]
        candidates, given = reader.fetch(part), origins(store, part)
        parents = {parent.id: parent for parent in reader.fetch([c.parent for c in candidates if c.parent is not None])}
        notes = reflections_on(store, [*part, *parents])
        for candidate in candidates:
            parent = None if candidate.parent is None else parents[candidate.parent]
            answers[candidate.id] = StoredAnswer(
                candidate,
                parent,
                given.get(candidate.id),
                notes.get(candidate.id, ""),
                "" if parent is None else notes.get(parent.id, ""),
            )
    return answers
