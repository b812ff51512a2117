"""The words of `formula-edit`: functions, variables, numbers, places in the parent, and measures of the data."""

from __future__ import annotations

import math

from evo.plugins.formulas.grammar import CONSTANT, FIXED, FUNCTIONS, MIN, VARIABLE, write_number
from vpo.languages.contract import MOST_ANSWERS, PAD, PARENT, STOP, UNKNOWN

MOST_VARIABLES, MOST_FEATURES = 9, 16
"""Of a table, and of a rule."""
MOST_NODES = 45
"""Nodes of a parent that has words, and of an answer."""
MOST_WORDS = 40
"""Words of an answer."""
ANSWER, ERRORS, AT = ">", "err", "at"
HEADER = "of:"
"""Begins a prompt's first word, which the policy does not know: names of the variables, and the parent as text."""
VARIABLES = tuple(f"x{i}" for i in range(1, MOST_FEATURES + 1))
NUMBERS = ("1", "2", "3", "4", "5", "6", "pi", "e")
"""Fixed numbers; others are written as constants."""
RATIO, SMALLEST, LARGEST = 3.0, -3, 5
"""Constants are written as powers of RATIO with a sign, from RATIO**SMALLEST on."""
CONSTANTS = tuple(f"c{sign}{k}" for sign in "+-" for k in range(SMALLEST, LARGEST + 1))
NODES = tuple(f"n{k}" for k in range(MOST_NODES))
LINKS = ("sq", "log", "inv", "exp")
"""Transforms of the target that a sum is compared with: square, logarithm, inverse, exponential."""
IN_TURN = 3
"""Terms that are chosen one after another."""
BEST, OTHERS, OF_OTHERS = 5, ("A", "B"), 2
"""Terms of the whole formula that are shown, by their hints; other nodes with terms, and how many each has."""
ROOT_TERMS = tuple(f"t{k}" for k in range(1, BEST + IN_TURN))
TERMS = (
    *ROOT_TERMS,
    *(f"{link}{k}" for link in LINKS for k in range(1, IN_TURN + 1)),
    *(f"{node}{k}" for node in OTHERS for k in range(1, OF_OTHERS + 1)),
)
"""Names of the terms that a prompt shows."""
EXPLAINED_EDGES = (
    *(0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    *(0.98, 0.99, 0.995, 0.999, 0.9999, 0.999999),
)
EXPLAINED = tuple(f"q{k}" for k in range(len(EXPLAINED_EDGES) + 1))
LEVELS = 20
QUALITY = tuple(f"e{k}" for k in range(LEVELS + 1))
SIGNS = ("pos", "neg", "mix")
SIZES = tuple(f"r{k}" for k in range(-4, 8))
FUNCTION_WORDS = tuple(f"f:{each.name}" for each in FUNCTIONS)
RULE = "rule"
"""Opens the prompts of rules (evo/plugins/rules), whose numbers stay as they are written."""
KINDS = ("makespan", "bottleneck", "flow", "loose", "tight", "other")
"""Of the families of instances on which a rule is measured."""
WORDS = (
    *(PAD, UNKNOWN, STOP, ANSWER, PARENT, ERRORS, AT, "y"),
    *(f"m{answers}" for answers in range(1, MOST_ANSWERS + 1)),
    *(*LINKS, *TERMS, *OTHERS, *EXPLAINED, *QUALITY, *SIGNS, *SIZES),
    *(*FUNCTION_WORDS[:MIN], *VARIABLES[:MOST_VARIABLES], *NUMBERS, *CONSTANTS, *NODES),
    *(RULE, *FUNCTION_WORDS[MIN:], *VARIABLES[MOST_VARIABLES:], *KINDS),  # only in those of rules
)
"""Every token, in the order of its id."""
CODES: dict[str, int] = {
    **{name: code for code, name in enumerate(FUNCTION_WORDS)},
    **{name: VARIABLE + index for index, name in enumerate(VARIABLES)},
}


def word_of_number(value: float, fixed: bool) -> str:
    """The word of a number: exact for NUMBERS that are fixed, else the nearest power of RATIO."""
    if fixed and (text := write_number(value, True)) in NUMBERS:
        return text
    size = abs(value)
    power = SMALLEST if size == 0 or not math.isfinite(size) else round(math.log(size) / math.log(RATIO))
    return f"c{'-' if value < 0 else '+'}{min(max(power, SMALLEST), LARGEST)}"


def number_of_word(word: str) -> tuple[int, float] | None:
    """(CONSTANT or FIXED, value) of a number's word; None for other words."""
    if word in NUMBERS:
        known = {"pi": math.pi, "e": math.e}
        return FIXED, known[word] if word in known else float(word)
    if word in _CONSTANTS:
        value = RATIO ** int(word[2:])
        return CONSTANT, float(f"{-value if word[1] == '-' else value:.3g}")
    return None


_CONSTANTS = frozenset(CONSTANTS)
VALUES = tuple(sorted({read[1] for word in (*NUMBERS[:6], *CONSTANTS) if (read := number_of_word(word)) is not None}))
"""The numbers that have a word, but for pi and e."""


def explained_word(share: float) -> str:
    """The word for the share of a variance that a term explains."""
    return EXPLAINED[sum(share >= edge for edge in EXPLAINED_EDGES)]


def most_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` answers."""
    return answers * (MOST_WORDS + 2) + 1
