"""Which mutation an answer gets, by its form."""

from __future__ import annotations

import random
from collections.abc import Sequence

from vpo.policies.mutation.numbers import mutate_vector, read_vector
from vpo.policies.mutation.program import mutate_program, write_program
from vpo.policies.mutation.text import mutate_text

TRIES = 8
"""Until a mutant is none of the answers that are shown."""


def mutate_answer(parent: str, others: Sequence[str], task: str, python: bool, rng: random.Random) -> str:
    """An answer near `parent`, and mostly none of those shown.

    others: further answers that the prompt shows, to cross it with
    task: the prompt, for its words; python: whether programs are asked for
    """
    shown = {parent.strip(), *(other.strip() for other in others)}
    mutant = parent
    for _ in range(TRIES):
        mutant = _once(parent, others, task, python, rng)
        if mutant.strip() and mutant.strip() not in shown:
            break
    return mutant


def _once(parent: str, others: Sequence[str], task: str, python: bool, rng: random.Random) -> str:
    if python:
        return mutate_program(parent, others, rng) if parent.strip() else write_program(task, rng)
    vector = read_vector(parent)
    if vector is None:
        return mutate_text(parent, others, task, rng)
    read = [found for other in others if (found := read_vector(other)) is not None]
    return mutate_vector(vector, read, rng)


def edit_block(parent: str, child: str) -> str:
    """The SEARCH/REPLACE edit that makes `child` of `parent`: one block over all lines that differ, with as many before
    them as make it unique."""
    old, new = parent.rstrip("\n").split("\n"), child.rstrip("\n").split("\n")
    most = min(len(old), len(new))
    first = next((i for i in range(most) if old[i] != new[i]), most)
    last = next((i for i in range(most - first) if old[-1 - i] != new[-1 - i]), most - first)
    while first + last and (
        first >= min(len(old), len(new)) - last or parent.count("\n".join(old[first : len(old) - last])) != 1
    ):
        first, last = (first - 1, last) if first else (first, last - 1)
    search, replacement = old[first : len(old) - last], new[first : len(new) - last]
    return "\n".join(["<<<<<<< SEARCH", *search, "=======", *replacement, ">>>>>>> REPLACE"])
