"""Python programs out of a model's text: code fences closed or not, tags and separators inside them, bare code."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from dataclasses import dataclass
from functools import lru_cache

_OPENING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`{]*)[ \t]*([^`]*)$")
_ONE_LINE = re.compile(r"^[ \t]*`{3,}(?:python|py)[\d.]*[ \t]+(.+?)`{3,}[ \t]*$", re.IGNORECASE)
_LATE_OPENING = re.compile(r"(?m)(?<=[^\s`~])[ \t]*(`{3,}(?:python|py)[\d.]*)[ \t]*$", re.IGNORECASE)
_GLUED_TAG = re.compile(r"(?m)^([ \t]*`{3,})[ \t]*(</?[a-z]\w*>)", re.IGNORECASE)
_PYTHON = re.compile(r"(?:python|py)[\d.]*", re.IGNORECASE)
_DIVIDER = re.compile(r"^[ \t]*(?:-{3,}|</?[a-z]+[\s_#-]*\d*>)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_CODE_START = re.compile(r"^(?:async def |def |class |import \w|from [\w.]+ import |@\w)", re.MULTILINE)
_LOOKS_LIKE_CODE = re.compile(
    r"^(?:(?:async|def|class|import|from|if|elif|else|for|while|return|with|try|except|finally)\b|[@#]|[\w.]+\s*[=(\[:])"
)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Block:
    """A fenced stretch of text. language: as written; closed: False where the text ended inside it."""

    language: str
    code: str
    closed: bool


def programs(text: str, answers: int) -> tuple[list[str], str]:
    """The Python programs in `text`, in order, and what was wrong with those left out ("" for nothing).

    A closed block counts even where it is not valid Python: that is the answer's own fault, and its score says so. One
    that the text ended in counts only if it is. Blocks that merely call what an earlier block defines are usage
    examples. For one answer the block that defines most names wins (models build up to the whole program); for more, a
    block that defines a name again and again holds several.
    """
    blocks = fenced(text)
    complaint = ""
    found: list[str] = []
    for block in _python_blocks(blocks):
        tree = parsed(block.code)
        if tree is not None and not tree.body:
            continue  # comments alone: the layout repeated from the prompt
        if block.closed or tree is not None:
            found.append(block.code)
        else:
            complaint = "unclosed code fence"
    if not blocks:
        found = bare(text)
    if answers > 1:
        found = [version for code in found for version in _versions(code)]
    found = _without_examples(found)
    if answers == 1 and len(found) > 1:
        found = [max(found, key=lambda code: len(_defined(parsed(code))))]  # max keeps the first of equals
    return found, complaint or ("" if found else "no Python code block")


def fenced(text: str) -> list[Block]:
    """Every fenced block, in order; one that holds several answers (divided by tags or `---`) comes back as several.

    A bare fence right after a stretch of valid Python closes a block whose opening fence was left out.
    """
    lines = _GLUED_TAG.sub(r"\1\n\2", _LATE_OPENING.sub(r"\n\1", text)).split("\n")
    blocks: list[Block] = []
    i = outside = 0  # outside: the first line since the last block
    while i < len(lines):
        if single := _ONE_LINE.match(lines[i]):
            blocks.append(Block("python", single[1], True))
            outside = i + 1
        elif opening := _OPENING.match(lines[i]):
            before = "\n".join(lines[outside:i]).strip("\n")
            if not opening[2] and not opening[3] and _is_program(parsed(before)):
                blocks.append(Block("", before, True))
                i = outside = i + 1
                continue
            mark, language, rest = opening[1], opening[2], opening[3]
            start = i + 1
            first = [rest] if rest and _PYTHON.fullmatch(language) else []
            end, last, closed = _end_of_block(lines, start, mark, first)
            body = textwrap.dedent("\n".join(first + lines[start:end] + last)).strip("\n")
            if not language and _PYTHON.fullmatch(body.partition("\n")[0].strip()):
                body = body.partition("\n")[2]  # the language slipped onto the first line, where it parses as a name
            blocks += [Block(language, piece, closed) for piece in _pieces(body)]
            # An opening fence that ended the block is the next one's first line
            i = end - 1 if end < len(lines) and _opens_python(lines[end]) and not last else end
            outside = i + 1
        i += 1
    return blocks


def _end_of_block(lines: list[str], start: int, mark: str, first: list[str]) -> tuple[int, list[str], bool]:
    """(the line that ends the block, what code stands on that line, whether the block was closed).

    Fences inside a docstring do not end it: where the code up to the first fence is not valid Python and up to one of
    the next few is, that one is the end.
    """
    ends: list[tuple[int, list[str]]] = []
    for i in range(start, len(lines)):
        stripped = lines[i].strip()
        if stripped and set(stripped) == {mark[0]} and len(stripped) >= len(mark):
            ends.append((i, []))
        elif stripped.endswith(mark) and not _OPENING.match(lines[i]):
            ends.append((i, [lines[i].rstrip()[: -len(mark)]]))
        elif _opens_python(lines[i]):
            ends.append((i, []))
        if len(ends) == 4:
            break
    for i, last in ends if len(ends) > 1 else []:
        if parsed(textwrap.dedent("\n".join(first + lines[start:i] + last))) is not None:
            return i, last, True
    return (*ends[0], True) if ends else (len(lines), [], False)


def _opens_python(line: str) -> bool:
    opening = _OPENING.match(line)
    return bool(opening and _PYTHON.fullmatch(opening[2]))


def _pieces(body: str) -> list[str]:
    """One body, or the answers in it where dividers stand between them. Valid Python is never divided."""
    if not _DIVIDER.search(body) or parsed(body) is not None:
        return [body] if body.strip() else []
    pieces = [piece.strip("\n") for piece in _DIVIDER.split(body) if piece.strip()]
    return [piece for piece in pieces if parsed(piece) is not None] or pieces[:1]


def _python_blocks(blocks: list[Block]) -> list[Block]:
    """Those that are meant as Python. Other languages count only where nothing else is there and they parse."""
    named = any(_PYTHON.fullmatch(block.language) for block in blocks)
    kept = []
    for block in blocks:
        meant = _PYTHON.fullmatch(block.language) or not (block.language or named)
        possible = not (block.language and named)
        if meant or possible and _is_program(parsed(block.code)):
            kept.append(block)
    return kept


def bare(text: str) -> list[str]:
    """Programs written without any fence: the text, its parts between dividers, or code before and after prose."""
    found = []
    for part in [text] if parsed(text) is not None else _DIVIDER.split(text):
        part = part.strip("\n")
        if _is_program(parsed(part)):
            found.append(part)
        elif (start := _CODE_START.search(part)) and (code := _without_prose_after(part[start.start() :])):
            found.append(code)
    return found


def _without_prose_after(code: str) -> str | None:
    """`code` less its last paragraphs where those are prose; None where no such cut makes it valid Python."""
    paragraphs = re.split(r"\n[ \t]*\n", code)
    while paragraphs:
        kept = "\n\n".join(paragraphs)
        if _is_program(parsed(kept)):
            return kept
        if paragraphs[-1][:1].isspace() or _LOOKS_LIKE_CODE.match(paragraphs[-1]):
            return None
        paragraphs.pop()
    return None


def _versions(code: str) -> list[str]:
    """The programs of a block in which one function or class is defined several times, where only the last would count.

    What stands before its first definition (imports, helpers) belongs to each of them.
    """
    tree = parsed(code)
    definitions = [node for node in tree.body if isinstance(node, _DEFINITIONS)] if tree else []
    names = [node.name for node in definitions]
    name = next((name for name in names if names.count(name) > 1), None)
    if name is None or any(node.decorator_list for node in definitions if node.name == name):
        return [code]
    lines = code.split("\n")
    starts = [node.lineno - 1 for node in definitions if node.name == name]
    for i, start in enumerate(starts):
        while start and (not lines[start - 1].strip() or lines[start - 1].startswith("#")):
            start -= 1  # its comments come with it
        starts[i] = start
    before = lines[: starts[0]]
    return [
        "\n".join(before + lines[start:end]).strip("\n")
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]


def _without_examples(found: list[str]) -> list[str]:
    if len(found) < 2:
        return found
    defined: set[str] = set()
    kept = []
    for code in found:
        tree = parsed(code)
        names = _defined(tree)
        calls = {node.func.id for node in ast.walk(tree) if _calls_name(node)} if tree else set()  # type: ignore[attr-defined]
        if names or not calls & defined:
            kept.append(code)
        defined |= names
    return kept


def _calls_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _defined(tree: ast.Module | None) -> set[str]:
    """Functions and classes at the top level."""
    return {node.name for node in tree.body if isinstance(node, _DEFINITIONS)} if tree else set()


def _is_program(tree: ast.Module | None) -> bool:
    """Whether it does anything: "Sure" and "x, y" are valid Python too."""
    return tree is not None and any(
        not isinstance(node, ast.Expr) or isinstance(node.value, (ast.Call, ast.Await)) for node in tree.body
    )


@lru_cache(maxsize=32)  # one text's blocks are looked at more than once
def parsed(code: str) -> ast.Module | None:
    """Its syntax tree, or None. Deep nesting and odd characters in hostile code end as None too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
