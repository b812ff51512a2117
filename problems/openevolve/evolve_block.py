"""EVOLVE-BLOCKs: the parts of a program that may change, and an answer put back between their markers.

The markers are OpenEvolve's (openevolve.utils.code_utils), in any comment syntax, a line each.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from problems.contract import BadAddress
from problems.python_syntax import defined_names, parse_python, strip_fence

_MARKER = re.compile(r"^\W*EVOLVE-BLOCK-(START|END)\b|# EVOLVE-BLOCK-(START|END)")


class NotSpliceable(ValueError):
    """An answer that cannot be put back into the program's blocks; the message gives its author the reason."""


@dataclass(frozen=True)
class Regions:
    """A program cut at its markers: `fixed` holds one more piece than `blocks`; marker lines belong to `fixed`."""

    fixed: tuple[tuple[str, ...], ...]
    blocks: tuple[tuple[str, ...], ...]


def _markers(text: str) -> Iterator[tuple[int, bool]]:
    """Its marker lines: the line's index, and whether it begins a block."""
    for number, line in enumerate(text.split("\n")):
        match = _MARKER.search(line) if "EVOLVE-BLOCK-" in line else None
        if match is not None:
            yield number, (match[1] or match[2]) == "START"


@functools.lru_cache(maxsize=16)  # the problem's program, and an answer on its way to its score
def regions(text: str) -> Regions | None:
    """The program's regions, or None if markers are nested or unmatched."""
    fixed: list[tuple[str, ...]] = []
    blocks: list[tuple[str, ...]] = []
    lines = text.split("\n")
    start, inside = 0, False
    for number, opens in _markers(text):
        if opens == inside:
            return None
        if opens:
            fixed.append(tuple(lines[start : number + 1]))
            start = number + 1
        else:
            blocks.append(tuple(lines[start:number]))
            start = number
        inside = opens
    if inside:
        return None
    fixed.append(tuple(lines[start:]))
    return Regions(tuple(fixed), tuple(blocks))


def open_lines(text: str) -> tuple[int, int]:
    """The lines that may change, (first, end): all of them, or those of the first block."""
    markers, lines = list(_markers(text)), text.count("\n") + 1
    first = next((number for number, opens in markers if opens), None)
    if first is None:
        return 0, lines
    return first + 1, next((number for number, opens in markers if number > first and not opens), lines)


def odd_marker(text: str) -> str:
    """The first marker that does not match, in words; "" if all do."""
    opened = 0
    for number, opens in _markers(text):
        if opens and opened:
            return f"the START in line {number + 1} stands inside the block that line {opened} begins"
        if not opens and not opened:
            return f"the END in line {number + 1} ends no block"
        opened = number + 1 if opens else 0
    return f"the START in line {opened} has no END" if opened else ""


def splice(original: str, answer: str) -> str:
    """`original` with the contents of its blocks taken from `answer`; nothing outside them changes.

    - A program without blocks evolves completely: the answer itself.
    - An answer with as many blocks as the program: their contents.
    - An answer without markers, if the program has one block: if it begins and ends with the code outside the block,
      the part between; if it defines no name that is defined outside, all of it.
    Anything else raises NotSpliceable, as does an original whose own markers do not match.
    """
    program = regions(original)
    if program is None:
        raise NotSpliceable("the program's own EVOLVE-BLOCK markers do not match")
    if not program.blocks:
        return answer
    given = regions(answer)
    count = len(program.blocks)
    if given is None or (given.blocks and len(given.blocks) != count):
        actual = "unmatched markers" if given is None else f"{len(given.blocks)} blocks"
        raise NotSpliceable(f"the program has {count} EVOLVE-BLOCK(s) and the answer {actual}; keep every marker line")
    blocks = given.blocks or (_unmarked(program, answer),)
    lines: list[str] = []
    for fixed, block in zip(program.fixed, blocks, strict=False):
        lines += [*fixed, *block]
    return "\n".join([*lines, *program.fixed[-1]])


def splice_answer(original: str, answer: str, language: str) -> str:
    """The same of an answer as a model writes it, perhaps in a code fence of `language`."""
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    given, own = regions(text), regions(original)
    if given is None or own is None or not own.blocks or len(given.blocks) != len(own.blocks):
        text = strip_fence(text, language)  # else its markers show better than a fence what belongs to it
    return splice(original, text)


def _unmarked(program: Regions, answer: str) -> tuple[str, ...]:
    if len(program.blocks) != 1:
        raise NotSpliceable(
            f"the program has {len(program.blocks)} EVOLVE-BLOCKs and the answer no markers; keep every marker line"
        )
    before, after = program.fixed[0][:-1], program.fixed[1][1:]
    between = _between(tuple(answer.split("\n")), before, after)
    if between is not None:
        return between
    repeated = sorted(_definitions("\n".join((*before, *after))) & _definitions(answer))
    if repeated:
        raise NotSpliceable(
            f"the answer has no EVOLVE-BLOCK markers and defines {', '.join(repeated)}, which stands outside the block "
            "and may not change; write the markers, or only the block's content"
        )
    return tuple(answer.strip("\n").split("\n"))


def _between(lines: tuple[str, ...], before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...] | None:
    """The answer's lines between the fixed parts; None if it does not begin and end with them.

    Spaces at line ends and blank lines at the seams make no difference.
    """
    head, tail, body = _trimmed(before), _trimmed(after), _trimmed(lines)
    if (not head and not tail) or len(body) < len(head) + len(tail):
        return None
    end = len(body) - len(tail)
    compared = [line.rstrip() for line in body]
    if compared[: len(head)] != [h.rstrip() for h in head] or compared[end:] != [t.rstrip() for t in tail]:
        return None
    return _trimmed(body[len(head) : end])


def _trimmed(lines: tuple[str, ...]) -> tuple[str, ...]:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


def _definitions(code: str) -> set[str]:
    """Top-level functions and classes (and, in Python, variables); by pattern if it does not parse."""
    tree = parse_python(code)
    if tree is None:
        return set(re.findall(r"^(?:def|class|fn|func|function|struct)\s+(\w+)", code, re.MULTILINE))
    conditional = any(isinstance(node, ast.If) for node in tree.body)
    return {*defined_names(code), *(["the `if` block at its end"] if conditional else [])}


LANGUAGES = {".py": "python", ".rs": "rust", ".cpp": "cpp", ".c": "c", ".js": "javascript", ".java": "java", ".r": "r"}
LANGUAGES |= {".go": "go", ".ts": "typescript", ".jl": "julia", ".sh": "bash", ".cu": "cuda"}
EVALUATOR = "evaluator.py"


def initial_program(folder: Path, suffix: str) -> Path:
    """The one `initial_program.*` or `initial_prompt.*`; else the one file with EVOLVE-BLOCKs; else the one with a name
    that begins with `initial_`; else the one program next to evaluator.py. Among several, the one with the config's
    suffix. BadAddress, with the files to choose from, if none or several fit."""
    if not folder.is_dir():
        raise BadAddress(f"{folder} is no directory")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != EVALUATOR and not p.name.startswith("."))
    named = [p for p in files if p.stem in ("initial_program", "initial_prompt")]
    if not named and (folder / "initial_program").is_dir():
        raise BadAddress(f"{folder}/initial_program is a folder; write its files as one initial_program.txt")
    marked = [] if named else [p for p in files if evolves(p)]
    begun = [p for p in files if p.stem.startswith("initial_")]
    code = [p for p in files if p.suffix.lower() in (*LANGUAGES, suffix)]
    candidates = next((group for group in (named, marked, begun, code) if group), [])
    candidates = [p for p in candidates if p.suffix == suffix] or candidates
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise BadAddress(f"{folder} has no initial_program.*, and no other program next to {EVALUATOR}")
    names = ", ".join(p.name for p in candidates)
    raise BadAddress(
        f"{folder} has {len(candidates)} files that may be its initial program ({names}); name it: {candidates[0]}"
    )


def evaluator_of(folder: Path) -> Path | None:
    """Its evaluator.py, in the folder or in `evaluator/` (as SkyDiscover has it); None without one."""
    return next((place for place in (folder / EVALUATOR, folder / "evaluator" / EVALUATOR) if place.is_file()), None)


def is_initial_program(path: Path) -> bool:
    """Whether a file next to an evaluator is a program, rather than a scorer or a file of tasks."""
    if evaluator_of(path.parent) is None or path.suffix == ".jsonl":
        return False
    return path.suffix != ".py" or evolves(path) or not is_scorer(path)


def evolves(path: Path) -> bool:
    """Whether the file has EVOLVE-BLOCKs. One of more than a megabyte is data."""
    try:
        blocks = regions(path.read_text(encoding="utf-8")) if path.stat().st_size < 1 << 20 else None
    except (OSError, UnicodeDecodeError):
        return False
    return blocks is not None and bool(blocks.blocks)


def language_of(program: Path) -> str:
    """The language's name, as OpenEvolve's prompts write it, by the file's suffix."""
    return LANGUAGES.get(program.suffix.lower(), program.suffix.lstrip(".") or "text")


def is_scorer(path: Path) -> bool:
    """Whether the file defines the names of a scorer file (problems.custom.scorer_file)."""
    try:
        return "score" in defined_names(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
