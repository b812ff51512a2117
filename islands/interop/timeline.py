"""A checkpoint's programs as the events of a search: their order and the kind of each.

A program that begins the search is a seed. One with the text of its parent on another island, there by migration or to
fill an empty island, is a copy: the same candidate on a second island. Every other one is the answer of an iteration,
even if it repeats an earlier program.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from islands.errors import BadCheckpoint
from islands.interop.checkpoint import Checkpoint, CheckpointProgram
from problems.identity import identity


@dataclass(frozen=True, eq=False)
class Event:
    """A program's arrival. Candidates are numbered from 0 in the order of their first events.

    island: where it arrived; source: of a copy, its island of origin
    parent: the parent's candidate, None if the program has none or it is not in the checkpoint
    """

    kind: Literal["seed", "answer", "copy"]
    program: CheckpointProgram
    candidate: int
    island: int
    source: int = 0
    parent: int | None = None


@dataclass(frozen=True, eq=False)
class Timeline:
    """The events in order, and for each candidate its identity and the program that brought it."""

    events: Sequence[Event]
    identities: Sequence[bytes]
    first: Sequence[CheckpointProgram]
    orphans: int
    """Programs whose parent is not in the checkpoint: OpenEvolve forgets those it removes."""


def timeline(checkpoint: Checkpoint, answer_format: str) -> Timeline:
    """Raises BadCheckpoint if the parents form a circle."""
    programs = {program.id: program for program in checkpoint.programs}
    of_text: dict[str, bytes] = {}
    numbers: dict[bytes, int] = {}
    first: list[CheckpointProgram] = []
    candidates: dict[str, int] = {}
    events: list[Event] = []
    for program in in_order(checkpoint):
        key = of_text.get(program.code)
        if key is None:
            key = of_text[program.code] = identity(program.code, answer_format)
        known = numbers.get(key)
        number = numbers.setdefault(key, len(numbers))
        if known is None:
            first.append(program)
        candidates[program.id] = number
        parent = programs.get(program.parent) if program.parent else None
        of_parent = None if parent is None else candidates[parent.id]
        if known is not None and parent is not None and of_parent == number and _copied(program, parent):
            events.append(Event("copy", program, number, program.island, parent.island, of_parent))
        elif _begins(program) and known is None:
            events.append(Event("seed", program, number, program.island))
        else:
            events.append(Event("answer", program, number, program.island, 0, of_parent))
    orphans = sum(program.parent is not None and program.parent not in programs for program in programs.values())
    return Timeline(events, list(numbers), first, orphans)


def in_order(checkpoint: Checkpoint) -> list[CheckpointProgram]:
    """Seeds first, then by time, every program after its parent. Raises BadCheckpoint."""
    programs = {program.id: program for program in checkpoint.programs}
    children: dict[str, list[CheckpointProgram]] = {}
    ready: list[tuple[tuple[bool, float, bool, int, int, str], CheckpointProgram]] = []
    for program in programs.values():
        if program.parent in programs:
            children.setdefault(str(program.parent), []).append(program)
        else:
            ready.append((_key(program), program))
    heapq.heapify(ready)
    ordered: list[CheckpointProgram] = []
    while ready:
        _, program = heapq.heappop(ready)
        ordered.append(program)
        for child in children.get(program.id, ()):
            heapq.heappush(ready, (_key(child), child))
    if len(ordered) < len(programs):
        held = {program.id for program in ordered}
        circle = min(id for id in programs if id not in held)
        raise BadCheckpoint(f"{checkpoint.path}: the program {circle} is among its own ancestors")
    return ordered


def _key(program: CheckpointProgram) -> tuple[bool, float, bool, int, int, str]:
    """Unique, so programs themselves are never compared. A copy follows programs of the same time; ids with numbers
    are sorted by number."""
    return (
        not _begins(program), program.created, program.migrant, program.iteration, len(program.id), program.id,
    )  # fmt: skip


def _begins(program: CheckpointProgram) -> bool:
    return program.parent is None and program.iteration == 0 and program.generation == 0


def _copied(program: CheckpointProgram, parent: CheckpointProgram) -> bool:
    """Whether a program of its parent's text is a copy and not an answer that changed nothing."""
    if program.island == parent.island:
        return False
    return program.migrant or program.iteration in (0, parent.iteration) or "changes" not in program.metadata
