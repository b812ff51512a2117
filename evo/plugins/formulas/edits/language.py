"""Formulas as words in prefix order, and answers as changes of the parent that a prompt shows.

    of:m,v=1.0*m*v y pos r3 x1 pos r1 x2 pos r0      the names and the parent (one word, unknown to the policy), signs
                                                     and sizes of the target and of the variables
    par n0 f:* n1 f:* n2 c+0 ...  err e4 e2 e3 e4 e3 the parent, its nodes counted, its reward by region (optional)
    at t1 f:square x2 q9 t2 f:sin x1 q4 ...          terms that would lower its error as a summand, and by how much
    at A n2 A1 x1 q8                                 the same as a summand of one of its nodes, which is called A
    m2                                               the number of answers requested; the prompt ends here
    > n0 f:+ n0 f:* c+0 t1 > A f:+ A A1 <eos>        the chain: a node of the parent and what replaces it, in which a
                                                     node stands for its subtree and t1 for the term; without a parent
                                                     a whole formula

Without a parent the terms explain the target, and log1, log2, log3 its logarithm, one after another; the same for its
square, inverse and exponential.

A constant is written roughly, and one that a linear fit gives as 1, since the problem fits constants before it scores.
Subtrees of the parent keep their exact constants, which the first word of the prompt carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.edits import words as w
from evo.plugins.formulas.grammar import (
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
from vpo.languages.contract import MOST_ANSWERS

Skeleton = tuple[tuple[int, ...], tuple[float, ...]]
MOST_PROMPT = 2000
"""Words of a prompt that are read."""
_PLACES = {word: place for place, word in enumerate(w.NODES)}
_TERMS = frozenset(w.TERMS)


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
    spans: list[tuple[int, int]] = []
    waiting = [(0, formula.size)]
    while waiting:
        begin, end = waiting.pop()
        spans.append((begin, end))
        last = end - 1
        for _ in range(arity(formula.codes[end - 1])):  # the last argument first, so that the first is popped first
            waiting.append((begins[last - 1], last))
            last = begins[last - 1]
    return spans


def prefix_words(formula: Formula) -> list[str]:
    """The formula's words, one a node."""
    numbers = iter(formula.values)
    words = [_word(code, numbers) for code in formula.codes]
    return [words[end - 1] for _begin, end in nodes(formula)]


def _word(code: int, numbers: Iterator[float]) -> str:
    if code >= VARIABLE:
        return f"x{code - VARIABLE + 1}"
    if code >= CONSTANT:
        return w.word_of_number(next(numbers), code == FIXED)
    return w.FUNCTION_WORDS[code]


@dataclass(frozen=True)
class ShownFormula:
    """What a prompt shows. parent: None if there is none; spans: of its nodes; terms: by name; called: the place of the
    node that has a name; exact: whether numbers stay as they are written"""

    names: tuple[str, ...]
    parent: Formula | None
    spans: tuple[tuple[int, int], ...]
    terms: Mapping[str, Formula]
    called: Mapping[str, int]
    exact: bool = False

    def read(self, text: str) -> Formula:
        """The formula that a text says. Raises FormulaError."""
        formula = parse(text, self.names)
        return formula.freeze() if self.exact else formula

    def place_of(self, word: str) -> int | None:
        """The parent's node that a word means."""
        place = _PLACES[word] if word in _PLACES else self.called.get(word, len(self.spans))
        return place if place < len(self.spans) else None

    @cached_property
    def words_of_nodes(self) -> Mapping[int, str]:
        """The name of a node, if it has one."""
        return {place: word for word, place in self.called.items()}

    @cached_property
    def known(self) -> Mapping[Skeleton, str]:
        """The words of terms and of the parent's subtrees of several nodes, by what they say. Of its numbers too that
        stay as they are and have no word of their own."""
        words: dict[Skeleton, str] = {}
        for name, term in self.terms.items():
            words.setdefault(_skeleton(term), name)
        for place, span in enumerate(self.spans):
            assert self.parent is not None
            part = self.parent.cut(*span)
            if part.size > 1 or (self.exact and part.values and part.values[0] not in w.VALUES):
                words.setdefault(_skeleton(part), self.words_of_nodes.get(place, w.NODES[place]))
        return words


def read_prefix(words: Sequence[str], shown: ShownFormula | None = None) -> Formula | None:
    """The formula at the beginning of `words`, None if there is none. shown: what words for nodes and terms mean"""
    stack: list[tuple[int, list[Formula]]] = []  # functions that wait for arguments
    for word in words[: w.MOST_WORDS]:
        code = w.CODES.get(word)
        if code is not None and code < CONSTANT:
            stack.append((code, []))
            continue
        leaf = Formula((code,)) if code is not None else _leaf(word, shown)
        if leaf is None:
            return None
        done = leaf
        while stack:
            function, arguments = stack[-1]
            arguments.append(done)
            if len(arguments) < arity(function):
                break
            stack.pop()
            done = apply(function, *arguments)
            if done.size > w.MOST_NODES:
                return None
        else:
            return done
    return None


def _leaf(word: str, shown: ShownFormula | None) -> Formula | None:
    if (number := w.number_of_word(word)) is not None:
        formula = Formula((number[0],), (number[1],))
        return formula.freeze() if shown is not None and shown.exact else formula
    if shown is None:
        return None
    if word in shown.terms:
        return shown.terms[word]
    place = shown.place_of(word)
    return None if place is None or shown.parent is None else shown.parent.cut(*shown.spans[place])


def write_header(names: Sequence[str], parent: Formula | None) -> str:
    """The first word of a prompt."""
    text = "" if parent is None else "=" + write(parent, names, digits=8).replace(" ", "")
    return f"{w.HEADER}{','.join(names)}{text}"


@lru_cache(maxsize=2048)
def read_prompt(prompt: str) -> ShownFormula | None:
    """What a prompt shows; None if it is no prompt of this language."""
    header, *words = prompt.split()[:MOST_PROMPT] or [""]
    if not header.startswith(w.HEADER):
        return None
    head, _, text = header.removeprefix(w.HEADER).partition("=")
    names = tuple(head.split(","))
    try:
        parent = parse(text, names) if text else None
        parent = parent.freeze() if parent is not None and w.RULE in words else parent
    except FormulaError:
        return None
    terms: dict[str, Formula] = {}
    called: dict[str, int] = {}
    for at, word in enumerate(words):
        if word in _TERMS and (term := read_prefix(words[at + 1 :])) is not None:
            terms[word] = term
        elif word == w.AT and at + 2 < len(words) and words[at + 1] in w.OTHERS and words[at + 2] in _PLACES:
            called[words[at + 1]] = _PLACES[words[at + 2]]
    spans = tuple(nodes(parent)) if parent is not None else ()
    return ShownFormula(names, parent, spans, terms, called, w.RULE in words)


def decode_chain(text: str, prompt: str) -> list[str]:
    """The formulas of a chain in order, as text; answers that are no formula or no change of the parent are left out.

    prompt: of the chain, for the names, the parent and the terms
    """
    shown = read_prompt(prompt)
    if shown is None:
        return []
    answers = []
    for section in f" {text} ".split(f" {w.ANSWER} ")[1:]:
        formula = read_answer(section.split(), shown)
        if formula is not None and all(index < len(shown.names) for index in formula.variables):
            answers.append(write(formula, shown.names, digits=8))
    return answers[:MOST_ANSWERS]


def read_answer(words: Sequence[str], shown: ShownFormula) -> Formula | None:
    """The formula that an answer's words without their opening make of what is shown; None if they make none."""
    if shown.parent is None:
        return read_prefix(words, shown)
    place = shown.place_of(words[0]) if words else None
    part = read_prefix(words[1:], shown) if place is not None else None
    if place is None or part is None:
        return None
    changed = shown.parent.replace(*shown.spans[place], part)
    return changed if changed.size <= w.MOST_NODES else None


def encode_answer(child: Formula, shown: ShownFormula) -> list[str] | None:
    """The words of an answer without its opening; None if it is too long, or the parent. Constants are written
    roughly.

    With a parent it is the smallest subtree that differs, and what replaces it; constants make no difference.
    """
    parent = shown.parent
    if child.size > w.MOST_NODES:
        return None
    if parent is None:
        words = _written(child, shown.known, True, True)
    else:
        place, part, linear = _difference(parent, child, 0, True)
        if _skeleton(part) == _skeleton(parent.cut(*shown.spans[place])):
            return None
        where = shown.words_of_nodes.get(place, w.NODES[place])
        words = [where, *_written(part, shown.known, True, linear)]
    return words if len(words) <= w.MOST_WORDS else None


def _skeleton(formula: Formula) -> Skeleton:
    """What makes a formula differ: its codes, and its numbers except those that are fitted."""
    fitted = set(formula.fitted)
    return (formula.codes, tuple(v for place, v in enumerate(formula.values) if place not in fitted))


def _difference(parent: Formula, child: Formula, place: int, linear: bool) -> tuple[int, Formula, bool]:
    """The node of the parent below which all of the difference is, the child's part there, and whether the whole is
    linear in that part. place: of `parent`"""
    if parent.codes[-1] != child.codes[-1] or parent.size == 1:
        return place, child, linear
    old, new = parent.arguments(), child.arguments()
    alike = [_skeleton(a) == _skeleton(b) for a, b in zip(old, new, strict=True)]
    if sum(alike) < len(alike) - 1 and parent.codes[-1] in (g.ADD, g.MUL):
        swapped = [_skeleton(a) == _skeleton(b) for a, b in zip(old, reversed(new), strict=True)]
        if any(swapped):
            new, alike = new[::-1], swapped
    if alike.count(False) != 1:
        return place, parent if all(alike) else child, linear
    which = alike.index(False)
    linear = linear and parent.codes[-1] in (g.ADD, g.SUB, g.MUL, g.NEG)
    return _difference(old[which], new[which], place + 1 + sum(each.size for each in old[:which]), linear)


def _written(formula: Formula, known: Mapping[Skeleton, str], summand: bool, linear: bool) -> list[str]:
    """Prefix words, with the words of known parts.

    summand: whether it is a summand of a node, as shown terms are; linear: whether the whole is linear in it, so that
    the value of its coefficient is of no importance
    """
    code = formula.codes[-1]
    word = known.get(_skeleton(formula))
    if formula.size == 1 and code in (CONSTANT, FIXED):
        return [word or w.word_of_number(1.0 if linear and code == CONSTANT else formula.values[0], code == FIXED)]
    if word is not None and (summand or formula.size > 1):
        return [word]
    arguments = formula.arguments()
    scaled = code == g.MUL and any(each.codes == (CONSTANT,) for each in arguments)
    adds = code in (g.ADD, g.SUB, g.NEG)
    parts = [_written(each, known, adds or (summand and scaled), linear and (adds or scaled)) for each in arguments]
    words = prefix_words(formula)[:1] if not arguments else [w.FUNCTION_WORDS[code]]
    return [*words, *(word for part in parts for word in part)]
