"""Python programs from a model's text: which of its blocks are answers, or the code in it if it has no fences."""

from __future__ import annotations

import re

from vpo.chain.division import DIVIDER, PROSE, answers_in, before_the_cut
from vpo.chain.fences import MOST, PYTHON, Block, read_fences
from vpo.chain.syntax import called_names, defined_names, is_placeholder, is_program, parse_code, without_checks

_CODE_START = re.compile(r"(?m)^(?:async def |def |class |import \w|from [\w.]++ import |@\w)")


def programs(text: str, answers: int) -> tuple[list[str], str]:
    """The Python programs in `text`, in order, and why others were left out ("" if none were).

    A closed block counts even if it is not valid Python: that is a fault of the answer, and its score shows it. If the
    text ends inside a block, only the complete part counts. Blocks that merely call what an earlier block defines are
    usage examples. For one answer, the block that defines the most names wins (models build up to the whole program);
    for more, a block may hold several.
    """
    blocks = read_fences(text)
    complaint = ""
    codes: list[str] = []
    for block in _python_blocks(blocks):
        tree = parse_code(block.code)
        if is_placeholder(tree):
            continue
        if answers > 1 or DIVIDER.search(block.code):
            inside = answers_in(block.code, block.closed)
        else:
            code = before_the_cut(block.code) or (block.code if block.closed else "")
            inside = [code] if code else []
        codes += inside
        if not block.closed and tree is None:
            complaint = "unclosed code fence"
    if not blocks:
        codes = bare(text, answers)
    codes = [without_checks(code) for code in _without_examples(codes) if not is_placeholder(parse_code(code))]
    if answers == 1 and codes:
        if len(codes) > 1:
            codes = [max(codes, key=lambda code: len(defined_names(parse_code(code))))]  # max keeps the first of equals
        complaint = ""
    return codes, complaint or ("" if codes else "no Python code block")


def _python_blocks(blocks: list[Block]) -> list[Block]:
    """The blocks meant as Python. Other languages count only if there is nothing else and they parse."""
    named = any(PYTHON.fullmatch(block.language) for block in blocks)
    kept = []
    for block in blocks:
        meant = PYTHON.fullmatch(block.language) or not (block.language or named)
        possible = not (block.language and named)
        if meant or possible and is_program(parse_code(block.code)):
            kept.append(block)
    return kept


def bare(text: str, answers: int) -> list[str]:
    """Programs written without any fence: the text, its parts between dividers, or the code within prose."""
    codes: list[str] = []
    for part in [text] if parse_code(text) is not None else DIVIDER.split(text, MOST):
        part = part.strip("\n")
        for code in [part] if is_program(parse_code(part)) else _stretches(part):
            codes += answers_in(code, True) if answers > 1 else [code]
    return codes


def _stretches(text: str) -> list[str]:
    """The stretches of lines from one that starts a program to the next that is prose, if they are valid Python."""
    stretches: list[str] = []
    end = 0
    for start in _CODE_START.finditer(text):
        if start.start() < end:
            continue
        prose = PROSE.search(text, start.end())
        end = prose.start() if prose else len(text)
        code = before_the_cut(text[start.start() : end].strip("\n"))
        if is_program(parse_code(code)):
            stretches.append(code)
        if len(stretches) == MOST or not prose:
            break
    return stretches


def _without_examples(codes: list[str]) -> list[str]:
    if len(codes) < 2:
        return codes
    known: set[str] = set()
    kept = []
    for code in codes:
        tree = parse_code(code)
        names = defined_names(tree)
        if names or not (tree and called_names(tree.body) & known):
            kept.append(code)
        known |= names
    return kept
