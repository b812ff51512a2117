"""New inputs from known ones, of the same types and within what was seen.

A data set's tests say by example what an input looks like: how large its numbers are, which characters its texts hold,
whether its rows are equally long. What is made here keeps to that. A bound that only the statement names can still be
broken, so no more can be promised of an input than that it looks like the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """What one argument, or one line of standard input, was in the known inputs."""

    integers: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def note(self, value: Any) -> None:
        """Add a value and all that is in it."""
        for one in _within(value):
            if isinstance(one, bool) or one is None:
                continue
            if isinstance(one, int):
                self.integers.append(one)
            elif isinstance(one, float):
                self.floats.append(one)
            elif isinstance(one, str):
                self.texts.append(one)
            elif isinstance(one, list | tuple | dict | set):
                self.lengths.append(len(one))


def _within(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set):
        for item in value:
            yield from _within(item)


def mutate(value: Any, seen: Seen, rng: random.Random, resize: bool = True) -> Any:
    """One change somewhere in it. resize: whether its own length may change."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _integer(value, seen, rng)
    if isinstance(value, float):
        low, high = min(seen.floats, default=value), max(seen.floats, default=value)
        return rng.choice((round(rng.uniform(low, high), 3), min(high, max(low, value * rng.choice((0.5, -1.0, 2.0))))))
    if isinstance(value, str):
        return mutate_text(value, seen, rng, resize)
    if isinstance(value, list | tuple):
        return type(value)(_items(list(value), seen, rng, resize))
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, key: mutate(value[key], seen, rng)}
    if isinstance(value, set) and value:
        return {*value} - {rng.choice(sorted(value, key=repr))} | {
            mutate(rng.choice(sorted(value, key=repr)), seen, rng)
        }
    return value


def _integer(value: int, seen: Seen, rng: random.Random) -> int:
    """Near it, or anywhere between the smallest and the largest seen."""
    low, high = min(seen.integers, default=value), max(seen.integers, default=value)
    near = value + rng.choice((-2, -1, 1, 2))
    return min(high, max(low, rng.choice((near, near, rng.randint(low, high), low, high))))


def mutate_text(text: str, seen: Seen, rng: random.Random, resize: bool) -> str:
    """One of its characters changed, added or left out; reversed; or a piece of it twice."""
    letters = "".join(seen.texts) or text
    shortest = min((len(one) for one in seen.texts), default=len(text))
    longest = 2 * max((len(one) for one in seen.texts), default=len(text))
    if not letters:
        return text
    at = rng.randrange(len(text) + 1)
    kind = rng.choice(
        ("change", "change", "swap", "reverse", "add", "drop", "repeat") if resize else ("change", "swap")
    )
    if kind == "add" and len(text) < longest:
        return text[:at] + rng.choice(letters) + text[at:]
    if kind == "drop" and len(text) > shortest and at < len(text):
        return text[:at] + text[at + 1 :]
    if kind == "repeat" and len(text) * 2 <= longest:
        return text + text[:at]
    if kind == "reverse":
        return text[::-1]
    if kind == "swap" and text:
        return "".join(rng.sample(text, len(text)))
    return text[:at] + rng.choice(letters) + text[at + 1 :] if at < len(text) else text


def _items(items: list[Any], seen: Seen, rng: random.Random, resize: bool) -> list[Any]:
    """One item changed, or the items dropped, repeated, reordered. Rows of one length stay so."""
    rows = [item for item in items if isinstance(item, list | tuple)]
    equal = len(rows) > 1 and len({len(row) for row in rows}) == 1
    shortest, longest = min(seen.lengths, default=len(items)), 2 * max(seen.lengths, default=len(items))
    kind = rng.choice(
        ("item", "item", "item", "swap", "sort", "drop", "repeat", "grow") if resize else ("item", "swap")
    )
    if (
        not items
        or (kind == "drop" and len(items) <= shortest)
        or (kind in ("repeat", "grow") and len(items) >= longest)
    ):
        return items
    at = rng.randrange(len(items))
    if kind == "swap":
        other = rng.randrange(len(items))
        items[at], items[other] = items[other], items[at]
    elif kind == "sort" and all(type(item) is type(items[0]) and isinstance(item, int | float | str) for item in items):
        items.sort(reverse=rng.random() < 0.5)
    elif kind == "drop":
        del items[at]
    elif kind == "repeat":
        items.insert(rng.randrange(len(items) + 1), items[at])
    elif kind == "grow":
        items.insert(at, mutate(items[at], seen, rng, resize=not equal))
    else:
        items[at] = mutate(items[at], seen, rng, resize=not equal)
    return items


def mutate_lines(text: str, known: Sequence[str], rng: random.Random) -> str:
    """Standard input with one change that keeps its form: a number that counts what follows (words of a line, lines,
    letters of a word) changes with what it counts, and never alone."""
    lines = [line.split() for line in text.splitlines()]
    places = [(row, column) for row, words in enumerate(lines) for column in range(len(words))]
    if not places:
        return text
    counts = _counts(lines)
    for other in known:  # what counts by chance in one input does not in all
        others = _counts([line.split() for line in other.splitlines()])
        counts = {place: counted for place, counted in counts.items() if place[0] > 2 or place in others}
    if counts and rng.random() < 0.4:
        _resize(lines, *rng.choice(sorted(counts.items())), rng)
    else:
        free = [place for place in places if place not in counts]
        if not free:
            return text
        row, column = rng.choice(free)
        if rng.random() < 0.2:
            rng.shuffle(lines[row])
        else:
            lines[row][column] = _word(lines[row][column], row, known, rng, counts)
    return "\n".join(" ".join(words) for words in lines) + "\n"


def _counts(lines: Sequence[Sequence[str]]) -> dict[tuple[int, int], tuple[str, int]]:
    """The place of each number that counts something -> what. What is counted counts nothing itself."""
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for row, words in enumerate(lines):
        if any(at == row or what == "lines" and at <= row for what, at in found.values()):
            continue
        for column in range(len(words)):
            counted = _counted(lines, row, column)
            if counted is not None and counted not in found.values():
                found[row, column] = counted
    return found


def _counted(lines: Sequence[Sequence[str]], row: int, column: int) -> tuple[str, int] | None:
    """What a number counts, ("words" of, "letters" of, or "lines" from, a row); None for one that counts nothing."""
    word = lines[row][column]
    if not word.isdecimal() or (number := int(word)) < 1:
        return None
    later = range(row + 1, len(lines))
    if number > 1 or len(lines) > row + 1:
        for other in later:
            if len(lines[other]) == number:
                return "words", other
            if len(lines[other]) == 1 and len(lines[other][0]) == number and not lines[other][0].isdecimal():
                return "letters", other
        if len(later) == number and len({len(lines[other]) for other in later}) == 1:
            return "lines", row + 1
    return None


def _resize(lines: list[list[str]], place: tuple[int, int], counted: tuple[str, int], rng: random.Random) -> None:
    (row, column), (what, at) = place, counted
    number = int(lines[row][column])
    more = number == 1 or rng.random() < 0.6
    if what == "lines":
        one = rng.randrange(at, len(lines))
        lines[one : one + 1] = [lines[one], list(lines[one])] if more else []
    elif what == "words":
        one = rng.randrange(number)
        lines[at][one : one + 1] = [lines[at][one]] * 2 if more else []
    else:
        one, letters = rng.randrange(number), lines[at][0]
        lines[at][0] = letters[:one] + (letters[one] * 2 if more else "") + letters[one + 1 :]
    lines[row][column] = str(number + (1 if more else -1))


def _word(
    word: str, row: int, known: Sequence[str], rng: random.Random, counts: dict[tuple[int, int], tuple[str, int]]
) -> str:
    """A word of the same type, within what that line held in the known inputs."""
    seen = Seen()
    for text in known:
        lines = text.splitlines()
        for other in lines[min(row, len(lines) - 1)].split() if lines else ():
            seen.note(_typed(other))
    value = _typed(word)
    seen.note(value)
    sized = any(what == "letters" and at == row for what, at in counts.values())
    return str(mutate(value, seen, rng, resize=not sized)) or word


def _typed(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        return value if str(value) == word else word
    return word
