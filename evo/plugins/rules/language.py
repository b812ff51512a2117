"""The words of `rule-edit`, and its answers as changes of the parent that a prompt shows (prompts: dialect.py).

A node of the parent is n0, n1, ... in prefix order. In an answer such a word is the node's subtree, with its
exact numbers, which the first word of the prompt carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import (
    CONSTANT,
    FIXED,
    MIN,
    VARIABLE,
    Formula,
    FormulaError,
    apply,
    arity,
    parse_formula,
    write_constant,
    write_formula,
)
from vpo.languages.contract import LONGEST_CHAIN, PAD, PARENT, STOP, UNKNOWN

MOST_FEATURES = 16
NAMED_NODES = 45
"""Nodes of a parent that has words, and of an answer that is read; a rule has at most rule.MOST_RULE_NODES."""
MOST_WORDS = 40
"""Words of an answer."""
MOST_PROMPT = 2000
"""Words of a prompt that are read."""
ANSWER, ERRORS = ">", "err"
HEADER = "of:"
"""Begins a prompt's first word, which the policy does not know: names of the features, and the parent as text."""
VARIABLES = tuple(f"x{i}" for i in range(1, MOST_FEATURES + 1))
NUMBERS = ("1", "2", "3", "4", "5", "6", "pi", "e")
RATIO, SMALLEST, LARGEST = 3.0, -3, 5
"""Other numbers are written as powers of RATIO with a sign, from RATIO**SMALLEST to RATIO**LARGEST."""
CONSTANT_WORDS = tuple(f"c{sign}{k}" for sign in "+-" for k in range(SMALLEST, LARGEST + 1))
NODES = tuple(f"n{k}" for k in range(NAMED_NODES))
DIGITS = tuple(f"q{k}" for k in range(9))
"""Finer steps of a level of QUALITY."""
QUALITY = tuple(f"e{k}" for k in range(21))
FUNCTION_WORDS = tuple(f"f:{each.name}" for each in g.FUNCTIONS)
RULE_WORD = "rule"
"""Opens the prompt after its first word."""
FAMILY_KINDS = ("makespan", "bottleneck", "flow", "loose", "tight", "other")
"""Of the families of instances on which a rule is measured."""
_OF_FORMULAS = (
    *("sq", "log", "inv", "exp", *(f"t{k}" for k in range(1, 8))),
    *(f"{link}{k}" for link in ("sq", "log", "inv", "exp") for k in (1, 2, 3)),
    *("A1", "A2", "B1", "B2", "A", "B"),
)
"""Words of the language of formulas, of commit 883a8fdc: the ids of the shipped policy count them."""
RULE_WORDS = (
    *(PAD, UNKNOWN, STOP, ANSWER, PARENT, ERRORS, "at", "y"),
    *(f"m{answers}" for answers in range(1, LONGEST_CHAIN + 1)),
    *(*_OF_FORMULAS, *DIGITS, *(f"q{k}" for k in range(9, 19)), *QUALITY),
    *("pos", "neg", "mix", *(f"r{k}" for k in range(-4, 8))),
    *(*FUNCTION_WORDS[:MIN], *VARIABLES[:9], *NUMBERS, *CONSTANT_WORDS, *NODES),
    *(RULE_WORD, *FUNCTION_WORDS[MIN:], *VARIABLES[9:], *FAMILY_KINDS),
)
"""Every token, in the order of its id."""
CODE_OF: dict[str, int] = {
    **{name: code for code, name in enumerate(FUNCTION_WORDS)},
    **{name: VARIABLE + index for index, name in enumerate(VARIABLES)},
}
_NODE_OF = {word: node for node, word in enumerate(NODES)}


def word_of_number(value: float) -> str:
    """The word of a number: exact for NUMBERS, else the nearest power of RATIO."""
    if (text := write_constant(value, True)) in NUMBERS:
        return text
    size = abs(value)
    power = SMALLEST if size == 0 or not math.isfinite(size) else round(math.log(size) / math.log(RATIO))
    return f"c{'-' if value < 0 else '+'}{min(max(power, SMALLEST), LARGEST)}"


def _number_of(word: str) -> float:
    """Of a word of CONSTANTS."""
    value = RATIO ** int(word[2:])
    return float(f"{-value if word[1] == '-' else value:.3g}")


NUMBER_OF: Mapping[str, float] = {
    **{word: float(word) for word in NUMBERS[:6]},
    **{"pi": math.pi, "e": math.e},
    **{word: _number_of(word) for word in CONSTANT_WORDS},
}
"""The numbers that have a word."""
VALUES = tuple(sorted({NUMBER_OF[word] for word in (*NUMBERS[:6], *CONSTANT_WORDS)}))
"""The same but for pi and e."""


def most_rule_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` answers."""
    return answers * (MOST_WORDS + 2) + 1


def nodes(formula: Formula) -> list[tuple[int, int]]:
    """Begin and end in `codes` of every subtree, in prefix order: the formula first, then its arguments' nodes."""
    spans: list[tuple[int, int]] = []
    waiting = [(0, formula.size)]
    while waiting:
        begin, end = waiting.pop()
        spans.append((begin, end))
        last = end - 1
        for _ in range(arity(formula.codes[last])):  # the last argument first, so that the first is popped first
            waiting.append(formula.subtree(last - 1))
            last = waiting[-1][0]
    return spans


def prefix_words(formula: Formula) -> list[str]:
    """The formula's words, one a node."""
    numbers = iter(formula.values)
    words = [_word(code) or word_of_number(next(numbers)) for code in formula.codes]
    return [words[end - 1] for _begin, end in nodes(formula)]


def _word(code: int) -> str:
    """Of a function or a variable; "" for a number."""
    if code >= VARIABLE:
        return VARIABLES[code - VARIABLE]
    return "" if code >= CONSTANT else FUNCTION_WORDS[code]


@dataclass(frozen=True)
class ShownRule:
    """What a prompt shows. parent: None if there is none; spans: of its nodes, as `nodes` gives them"""

    names: tuple[str, ...]
    parent: Formula | None
    spans: tuple[tuple[int, int], ...]

    def read(self, text: str) -> Formula:
        """The rule that a text says. Raises FormulaError."""
        return parse_formula(text, self.names).freeze()

    def subtree(self, word: str) -> Formula | None:
        """The part of the parent that a word means."""
        node = _NODE_OF.get(word, len(self.spans))
        return self.parent.cut(*self.spans[node]) if self.parent is not None and node < len(self.spans) else None

    @cached_property
    def known(self) -> Mapping[Formula, str]:
        """The words of the parent's subtrees of several nodes, and of its numbers that have no word."""
        words: dict[Formula, str] = {}
        for node, span in enumerate(self.spans):
            assert self.parent is not None
            part = self.parent.cut(*span)
            if part.size > 1 or (part.values and part.values[0] not in VALUES):
                words.setdefault(part, NODES[node])
        return words


def read_prefix(words: Sequence[str], shown: ShownRule) -> Formula | None:
    """The formula at the beginning of `words`, None if there is none. shown: what words for nodes mean"""
    stack: list[tuple[int, list[Formula]]] = []  # functions that wait for arguments
    for word in words[:MOST_WORDS]:
        code = CODE_OF.get(word)
        if code is not None and code < CONSTANT:
            stack.append((code, []))
            continue
        if code is not None:
            done: Formula | None = Formula((code,))
        else:
            done = Formula((FIXED,), (NUMBER_OF[word],)) if word in NUMBER_OF else shown.subtree(word)
        while stack and done is not None:
            function, arguments = stack[-1]
            arguments.append(done)
            if len(arguments) < arity(function):
                break
            stack.pop()
            done = apply(function, *arguments)
            if done.size > NAMED_NODES:
                return None
        else:
            return done
    return None


def write_header(names: Sequence[str], parent: Formula | None) -> str:
    """The first word of a prompt."""
    text = "" if parent is None else "=" + write_formula(parent, names, digits=8).replace(" ", "")
    return f"{HEADER}{','.join(names)}{text}"


@lru_cache(maxsize=2048)
def read_prompt(prompt: str) -> ShownRule | None:
    """What a prompt shows; None if it is no prompt of this language."""
    header, *words = prompt.split()[:MOST_PROMPT] or [""]
    if not header.startswith(HEADER) or RULE_WORD not in words:
        return None
    head, _, text = header.removeprefix(HEADER).partition("=")
    names = tuple(head.split(","))
    try:
        parent = parse_formula(text, names).freeze() if text else None
    except FormulaError:
        return None
    return ShownRule(names, parent, tuple(nodes(parent)) if parent is not None else ())


def decode_rules(text: str, prompt: str) -> list[str]:
    """The rules of a chain in order, as text; answers that are no rule or no change of the parent are left out.

    prompt: of the chain, for the names and the parent
    """
    shown = read_prompt(prompt)
    if shown is None:
        return []
    answers = []
    for section in f" {text} ".split(f" {ANSWER} ")[1:]:
        rule = _read_answer(section.split(), shown)
        if rule is not None and all(index < len(shown.names) for index in rule.variables):
            answers.append(write_formula(rule, shown.names, digits=8))
    return answers[:LONGEST_CHAIN]


def _read_answer(words: Sequence[str], shown: ShownRule) -> Formula | None:
    """The rule that an answer's words without their opening make of what is shown; None if they make none."""
    if shown.parent is None:
        return read_prefix(words, shown)
    if not words or shown.subtree(words[0]) is None:
        return None
    part = read_prefix(words[1:], shown)
    if part is None:
        return None
    changed = shown.parent.replace(*shown.spans[_NODE_OF[words[0]]], part)
    return changed if changed.size <= NAMED_NODES else None


def encode_rule(child: Formula, shown: ShownRule) -> list[str] | None:
    """The words of an answer without its opening; None if it is too long, or the parent. With a parent it is the
    smallest subtree that differs, and what replaces it."""
    if child.size > NAMED_NODES or child == shown.parent:
        return None
    if shown.parent is None:
        words = _written(child, shown.known)
    else:
        node, part = _difference(shown.parent, child, 0)
        if part == shown.parent.cut(*shown.spans[node]):
            return None  # the same with swapped arguments
        words = [NODES[node], *_written(part, shown.known)]
    return words if len(words) <= MOST_WORDS else None


def _difference(parent: Formula, child: Formula, node: int) -> tuple[int, Formula]:
    """The node of the parent below which all of the difference is, and the child's part there. node: of `parent`"""
    if parent.codes[-1] != child.codes[-1] or parent.size == 1:
        return node, child
    old, new = parent.arguments(), child.arguments()
    alike = [a == b for a, b in zip(old, new, strict=True)]
    if sum(alike) < len(alike) - 1 and parent.codes[-1] in (g.ADD, g.MUL):
        swapped = [a == b for a, b in zip(old, reversed(new), strict=True)]
        if any(swapped):
            new, alike = new[::-1], swapped
    if alike.count(False) != 1:
        return node, parent if all(alike) else child
    which = alike.index(False)
    return _difference(old[which], new[which], node + 1 + sum(part.size for part in old[:which]))


def _written(formula: Formula, known: Mapping[Formula, str]) -> list[str]:
    """Prefix words, with the words of known parts."""
    if (word := known.get(formula)) is not None:
        return [word]
    arguments = formula.arguments()
    return [*prefix_words(formula)[:1], *(word for part in arguments for word in _written(part, known))]
