"""Edits of text that is nothing else: characters, words and lines, and crossover with other answers."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence

from vpo.policies.mutation.numbers import mutate_vector, numbers_in

_WORD = re.compile(r"\w+")
_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
LONGEST_PIECE = 8


def mutate_text(parent: str, others: Sequence[str], task: str, rng: random.Random) -> str:
    """One to a few edits, on a level that the parent has: lines, words or characters; "" is written anew."""
    if not parent.strip():
        return write_text(task, rng)
    levels = ["characters"] * 2
    if len(_WORD.findall(parent)) > 1:
        levels.append("words")
    if parent.strip().count("\n") > 0:
        levels += ["lines"] * 2
    if any(character.isdigit() for character in parent):
        levels.append("numbers")
    level = rng.choice(levels)
    if level == "numbers" and (vector := numbers_in(parent)) is not None:
        return mutate_vector(vector, [], rng)
    pieces, glue = _split(parent, level)
    mates = [_split(other, level)[0] for other in others if other.strip() and other != parent]
    pool = _pool(pieces, mates, task, level, parent)
    for _ in range(_count(rng)):
        pieces = _edit(pieces, mates, pool, rng)
    return glue.join(pieces)


def write_text(task: str, rng: random.Random) -> str:
    """A first answer for a task that comes without one: numbers, a word, or words of the task, since any of them may be
    what is asked for."""
    words = _WORD.findall(task) or ["answer"]
    count = rng.choice([int(word) for word in words if word.isdigit() and 0 < int(word) <= 100] or [rng.randint(2, 8)])
    numbers = [f"{rng.gauss(0, 1):.4g}" for _ in range(count)]
    letters = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 12)))
    phrase = " ".join(rng.choice(words) for _ in range(rng.randint(1, 8)))
    return rng.choice(
        (str(rng.randint(0, 100)), numbers[0], f"[{', '.join(numbers)}]", " ".join(numbers), letters, phrase)
    )


def _split(text: str, level: str) -> tuple[list[str], str]:
    if level == "lines":
        return text.split("\n"), "\n"
    return (text.split(" "), " ") if level == "words" else (list(text), "")


def _count(rng: random.Random) -> int:
    count = 1
    while count < 6 and rng.random() < 0.35:
        count += 1
    return count


def _pool(pieces: Sequence[str], mates: Sequence[Sequence[str]], task: str, level: str, parent: str) -> list[str]:
    """What may be put in: pieces of the answers, words of the task, and characters of the kinds that are there."""
    pool = [*pieces, *(piece for mate in mates for piece in mate)]
    if level == "words":
        pool += _WORD.findall(task)
    if level == "characters":
        pool += [c for kind in _CLASSES if any(one in kind for one in parent) for c in kind]
    return pool


def _edit(pieces: list[str], mates: Sequence[list[str]], pool: Sequence[str], rng: random.Random) -> list[str]:
    """One edit of a sequence: the operators of a genetic algorithm, inversion and inverted repeats among them."""
    size = len(pieces)
    at = rng.randrange(size) if size else 0
    end = min(size, at + rng.randint(1, max(1, min(LONGEST_PIECE, size // 2))))
    other = rng.choice(mates) if mates else pieces
    kind = rng.randrange(10 if mates else 8)
    if kind < 2 and size:
        return [*pieces[:at], rng.choice(pool), *pieces[at + 1 :]]
    if kind == 2:
        return [*pieces[:at], rng.choice(pool), *pieces[at:]]
    if kind == 3 and size > 1:
        return pieces[:at] + pieces[end:] or pieces
    if kind == 4:
        return pieces[:end] + pieces[at:end] + pieces[end:]
    if kind == 5:
        return pieces[:at] + pieces[at:end][::-1] + pieces[end:]
    if kind == 6:  # an inverted repeat, in place or of all that stands before it
        start = rng.choice((at, 0))
        return pieces[:end] + pieces[start:end][::-1] + (pieces[end:] if rng.random() < 0.5 else [])
    if kind == 7 and size > 1:
        to = rng.randrange(size)
        swapped = list(pieces)
        swapped[at], swapped[to] = swapped[to], swapped[at]
        return swapped
    if kind == 8:
        return pieces[:at] + other[min(at, len(other)) :]
    return other[: rng.randrange(len(other) + 1)] + pieces[at:]
