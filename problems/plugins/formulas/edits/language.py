"""Formulas as words in prefix order, and answers as changes of the parent that a prompt shows.

    of:m,v=1.0*m*v y pos r3 x1 pos r1 x2 pos r0      the names and the parent (one word, unknown to the policy), signs
                                                     and sizes of the target and of the variables
    par n0 f:* n1 c+0 n2 ...  err e4 e2 e3 e4 e3     the parent, its nodes counted, its reward by region (optional)
    at n0 f:square x2 q9 f:sin x1 q4 at n2 x1 q8     terms that would lower its error as a summand of a node, and by
                                                     how much; without a parent: of the target and its transforms
    m2                                               the number of answers requested; the prompt ends here
    > n0 f:+ n0 f:* c+1 f:square x2 > n2 x1 <eos>    the chain: a node of the parent and what replaces it, in which a
                                                     node stands for its subtree; without a parent a whole formula

A constant is written roughly, since the problem fits constants before it scores. Subtrees of the parent keep their
exact constants, which the first word of the prompt carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from problems.plugins.formulas import grammar as g
from problems.plugins.formulas.edits.words import (
    ANSWER,
    CODES,
    FUNCTION_WORDS,
    HEADER,
    MOST_NODES,
    MOST_WORDS,
    NODES,
    number_of_word,
    word_of_number,
)
from problems.plugins.formulas.grammar import (
    CONSTANT,
    FIXED,
    VARIABLE,
    Formula,
    FormulaError,
    apply,
    arity,
    parse,
    write,
)
from vpo.embedded.words import MOST_ANSWERS

_PLACES = {word: place for place, word in enumerate(NODES)}


def nodes(formula: Formula) -> list[tuple[int, int]]:
    """Begin and end in `codes` of every subtree, in prefix order: the formula first, then its arguments' nodes."""
    begins: list[int] = []
    stack: list[int] = []
    for place, code in enumerate(formula.codes):
        begin = place
        for _ in range(arity(code)):
            begin = stack.pop()
        stack.append(begin)
        begins.append(begin)
    found: list[tuple[int, int]] = []
    waiting = [(0, formula.size)]
    while waiting:
        begin, end = waiting.pop()
        found.append((begin, end))
        last = end - 1
        for _ in range(arity(formula.codes[end - 1])):  # the last argument first, so that the first is popped first
            waiting.append((begins[last - 1], last))
            last = begins[last - 1]
    return found


def prefix_words(formula: Formula) -> list[str]:
    """The formula's words, one a node."""
    numbers = iter(formula.values)
    words = [_word(code, numbers) for code in formula.codes]
    return [words[end - 1] for _begin, end in nodes(formula)]


def _word(code: int, numbers: Iterator[float]) -> str:
    if code >= VARIABLE:
        return f"x{code - VARIABLE + 1}"
    if code >= CONSTANT:
        return word_of_number(next(numbers), code == FIXED)
    return f"f:{FUNCTION_WORDS[code]}"


def read_prefix(words: Sequence[str], parent: Formula | None = None) -> Formula | None:
    """The formula at the beginning of `words`, None if there is none. parent: what words for nodes refer to"""
    subtrees = nodes(parent) if parent is not None else []
    stack: list[tuple[int, list[Formula]]] = []  # functions that wait for arguments
    for word in words[:MOST_WORDS]:
        code = CODES.get(word)
        if code is not None and code < CONSTANT:
            stack.append((code, []))
            continue
        if code is not None:
            done = Formula((code,))
        elif word in _PLACES:
            if parent is None or _PLACES[word] >= len(subtrees):
                return None
            done = parent.cut(*subtrees[_PLACES[word]])
        elif (number := number_of_word(word)) is not None:
            done = Formula((number[0],), (number[1],))
        else:
            return None
        while stack:
            function, arguments = stack[-1]
            arguments.append(done)
            if len(arguments) < arity(function):
                break
            stack.pop()
            done = apply(function, *arguments)
            if done.size > MOST_NODES:
                return None
        else:
            return done
    return None


def write_header(names: Sequence[str], parent: Formula | None) -> str:
    """The first word of a prompt."""
    text = "" if parent is None else "=" + write(parent, names, digits=8).replace(" ", "")
    return f"{HEADER}{','.join(names)}{text}"


@lru_cache(maxsize=512)
def read_header(prompt: str) -> tuple[tuple[str, ...], Formula | None] | None:
    """Names and parent of a prompt; None if it is no prompt of this language."""
    first = prompt.split(" ", 1)[0]
    if not first.startswith(HEADER):
        return None
    head, _, text = first.removeprefix(HEADER).partition("=")
    names = tuple(head.split(","))
    try:
        return names, parse(text, names) if text else None
    except FormulaError:
        return None


def decode_chain(text: str, prompt: str) -> list[str]:
    """The formulas of a chain in order, as text; answers that are no formula or no change of the parent are left out.

    prompt: of the chain, for the names and the parent
    """
    header = read_header(prompt)
    if header is None:
        return []
    names, parent = header
    answers = []
    for section in f" {text} ".split(f" {ANSWER} ")[1:]:
        words = section.split()
        formula = read_prefix(words) if parent is None else _changed(parent, words)
        if formula is not None and all(index < len(names) for index in formula.variables):
            answers.append(write(formula, names, digits=8))
    return answers[:MOST_ANSWERS]


def _changed(parent: Formula, words: Sequence[str]) -> Formula | None:
    subtrees = nodes(parent)
    place = _PLACES.get(words[0], len(subtrees)) if words else len(subtrees)
    part = read_prefix(words[1:], parent) if place < len(subtrees) else None
    if part is None:
        return None
    changed = parent.replace(*subtrees[place], part)
    return changed if changed.size <= MOST_NODES else None


def encode_answer(child: Formula, parent: Formula | None) -> list[str] | None:
    """The words of an answer without its opening; None if it is too long, or the parent. Constants are written
    roughly.

    With a parent it is the smallest subtree that differs, and what replaces it; constants make no difference.
    """
    if child.size > MOST_NODES:
        return None
    if parent is None:
        words = prefix_words(child)
    else:
        subtrees = nodes(parent)
        known: dict[tuple[object, ...], int] = {}
        for place, span in enumerate(subtrees):
            if span[1] - span[0] > 1:
                known.setdefault(_skeleton(parent.cut(*span)), place)
        place, part = _difference(parent, child, 0)
        if _skeleton(part) == _skeleton(parent.cut(*subtrees[place])):
            return None
        words = [NODES[place], *_written(part, known)]
    return words if len(words) <= MOST_WORDS else None


def _skeleton(formula: Formula) -> tuple[object, ...]:
    """What makes a formula differ: its codes, and its numbers except those that are fitted."""
    fitted = set(formula.fitted)
    return (formula.codes, tuple(v for place, v in enumerate(formula.values) if place not in fitted))


def _difference(parent: Formula, child: Formula, place: int) -> tuple[int, Formula]:
    """The node of the parent below which all of the difference is, and the child's part there. place: of `parent`"""
    if parent.codes[-1] != child.codes[-1] or parent.size == 1:
        return place, child
    old, new = parent.arguments(), child.arguments()
    alike = [_skeleton(a) == _skeleton(b) for a, b in zip(old, new, strict=True)]
    if sum(alike) < len(alike) - 1 and parent.codes[-1] in (g.ADD, g.MUL):
        swapped = [_skeleton(a) == _skeleton(b) for a, b in zip(old, reversed(new), strict=True)]
        if any(swapped):
            new, alike = new[::-1], swapped
    if alike.count(False) != 1:
        return place, parent if all(alike) else child
    which = alike.index(False)
    return _difference(old[which], new[which], place + 1 + sum(each.size for each in old[:which]))


def _written(formula: Formula, known: dict[tuple[object, ...], int]) -> list[str]:
    """Prefix words, subtrees of the parent by their place."""
    if formula.size == 1:
        return prefix_words(formula)
    place = known.get(_skeleton(formula))
    if place is not None:
        return [NODES[place]]
    return [
        f"f:{FUNCTION_WORDS[formula.codes[-1]]}",
        *(w for each in formula.arguments() for w in _written(each, known)),
    ]
