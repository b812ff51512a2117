"""One block that holds several answers, split: at dividers, at numbered headings, at names defined again."""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import islice

from vpo.chain.fences import MOST
from vpo.chain.syntax import (
    DEFINITIONS,
    bound_names,
    called_names,
    defined_names,
    first_line,
    is_program,
    parse_code,
    read_names,
)

_MOST = 64
"""Programs that are looked for in one block."""

DIVIDER = re.compile(r"(?im)^[ \t]*+(?:-{3,}+|</?[a-z]++[\s_#-]*+\d*+>)[ \t]*+$")

_WORD = r"(?:program|solution|version|answer|approach|option|method|alternative|variant|implementation|attempt)"
_PLACE = r"(?:[ \t]*+[#_-]?+[ \t]*+\d{1,2}+|[ \t]++(?:one|two|three|four|five))\b"
_ORDINAL = r"(?:the[ \t]++)?(?:first|second|third|fourth|fifth|last)[ \t]++"
_HEADING = re.compile(
    # a comment may have any text after "program 2"; any other line must hold little else, or it may be code
    rf"(?im)^(?:#++[ \t]*+(?:\*\*)?(?:{_WORD}{_PLACE}|{_ORDINAL}{_WORD}\b|p[ \t]?\d\b)[^\n]*+|"
    rf"(?:\*\*)?{_WORD}{_PLACE}[ \t]*+:?(?:\*\*)?:?[ \t]*+)$"
)
PROSE = re.compile(
    r"(?m)^(?!(?:async|def|class|import|from|if|elif|else|for|while|return|with|try|except|finally|assert|print)\b|"
    r"[@#)\]}\"']|[\w.]++\s*+(?:[=(\[,]|[-+*/|&]=|:[^\n=]*+=))\S"
)
_USAGE = re.compile(r"(?:print\b|assert\b|#|if __name__\b|\w++ ?\()")


def answers_in(code: str, whole: bool) -> list[str]:
    """The programs in one block, in order; the block itself if it holds one.

    whole: the block was closed. If the text ended inside it, a last program that was cut is left out, and so is a usage
    example; [] if there is no program before the cut.
    """
    if (
        DIVIDER.search(code) and parse_code(code) is None
    ):  # valid Python is never divided by these: they may be in a string
        pieces = [piece.strip("\n") for piece in DIVIDER.split(code, MOST) if piece.strip()]
        programs = [version for piece in pieces for version in _under_headings(piece)]
        return [piece for piece in programs if parse_code(piece) is not None] or (pieces[:1] if whole else [])
    programs = _under_headings(code)
    if programs == [code] and (clean := before_the_cut(code)):
        programs = _under_headings(clean)
    return programs if whole else [program for program in programs if parse_code(program) is not None]


def before_the_cut(code: str) -> str:
    """The complete part of code that was cut, or that runs into prose: all of it if it parses; else without its last
    lines, if those are prose, a usage example, or the beginning of another version of the code before them; else "".
    """
    if parse_code(code) is not None:
        return code
    lines = code.split("\n")
    starts = [i for i, line in enumerate(lines) if line[:1].strip() and line[0] not in ")]}#"]
    for i in reversed(starts[-8:]):
        kept = "\n".join(lines[:i])
        if parse_code(kept) is None:
            continue
        names = defined_names(parse_code(kept))
        begun = set(re.findall(r"(?m)^(?:async[ \t]++)?(?:def|class)[ \t]++(\w++)", "\n".join(lines[i:])))
        usage = not begun and (_USAGE.match(lines[i]) or PROSE.match(lines[i]))
        return kept.strip("\n") if names and (usage or begun and begun <= names) else ""
    return ""


def _under_headings(code: str) -> list[str]:
    """The programs under comments such as "# program 2", else the versions of a name that is defined repeatedly.

    Headings divide only if the parts under them are versions of one thing: each defines a common name, or none defines
    anything and each is a program.
    """
    headings = list(islice(_HEADING.finditer(code), _MOST))
    edges = [0, *(heading.start() for heading in headings), len(code)]
    pieces = [code[a:b].strip("\n") for a, b in zip(edges, edges[1:], strict=False)]
    pieces = [_without_heading(piece) for piece in pieces if piece.strip()]
    pieces = [before_the_cut(piece) or piece for piece in pieces]
    trees = [parse_code(piece) for piece in pieces]
    counted = Counter(name for tree in trees for name in defined_names(tree))
    common = {name for name, times in counted.items() if times > 1}
    scripts = not counted and sum(map(is_program, trees)) > 1 and all(map(is_program, trees[1:]))
    if len(pieces) < 2 or not (common or scripts):
        return _versions(code)
    programs: list[str] = []
    above: list[str] = []  # the code before the first heading is shared by all
    imports: dict[str, str] = {}  # so are imports of earlier parts, if they are used
    for piece, tree in zip(pieces, trees, strict=True):
        if tree is None or not tree.body or _enough(programs, code):
            continue
        if defined_names(tree) & common if common else programs or is_program(tree):
            needed = read_names(tree.body) - {name for node in tree.body for name in bound_names(node)} | {"*"}
            lent = dict.fromkeys(imports[name] for name in imports if name in needed)
            programs += _versions("\n".join([*above, *lent, piece]))
            imports |= {name: ast.unparse(node) for node in tree.body if _imports(node) for name in bound_names(node)}
        elif not programs:
            above.append(piece)
    return programs or [code]


def _imports(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _without_heading(piece: str) -> str:
    """A heading that is not a comment is not Python either."""
    line, _, rest = piece.partition("\n")
    return rest if _HEADING.fullmatch(line) and not line.startswith("#") else piece


def _versions(code: str) -> list[str]:
    """The programs of a block in which one function or class is defined several times, of which Python keeps only the
    last.

    Code before the first definition (imports, helpers) belongs to each of them; code between two belongs to the one
    that uses it.
    """
    tree = parse_code(code)
    definitions = [node for node in tree.body if isinstance(node, DEFINITIONS)] if tree else []
    counted = Counter(node.name for node in definitions)
    name = next((node.name for node in definitions if counted[node.name] > 1), None)
    if tree is None or name is None or any(node.decorator_list for node in definitions if node.name == name):
        return [code]
    lines = code.split("\n")
    places = [i for i, node in enumerate(tree.body) if isinstance(node, DEFINITIONS) and node.name == name][:_MOST]
    starts = []
    for number, place in enumerate(places):
        first = place
        while number and first - 1 > places[number - 1]:
            node, earlier = tree.body[first - 1], tree.body[places[number - 1]]
            names = bound_names(node)
            if not names or names & read_names([earlier]) or not names & read_names(tree.body[first : place + 1]):
                break
            if called_names([node]) & {name}:
                break  # its assignments are results of the version before
            first -= 1
        start = first_line(tree.body[first])
        while start and (not lines[start - 1].strip() or lines[start - 1].startswith("#")):
            start -= 1  # its comments come with it
        starts.append(start)
    before = lines[: starts[0]]
    programs: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if _enough(programs, code):
            break
        programs.append("\n".join(before + lines[start:end]).strip("\n"))
    return programs


def _enough(programs: list[str], code: str) -> bool:
    """Whether the programs and their shared code have grown far beyond the block, as happens only with hostile ones."""
    return sum(map(len, programs)) > 4 * len(code) + 20_000
