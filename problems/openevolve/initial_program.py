"""Finds the initial program of an OpenEvolve directory: OpenEvolve gets its name, a directory must be searched."""

from __future__ import annotations

import ast
from pathlib import Path

from problems.contract import BadAddress
from problems.openevolve.evolve_block import regions
from problems.python_syntax import parse_source

LANGUAGES = {".py": "python", ".rs": "rust", ".cpp": "cpp", ".c": "c", ".js": "javascript", ".java": "java", ".r": "r"}
LANGUAGES |= {".go": "go", ".ts": "typescript", ".jl": "julia", ".sh": "bash", ".cu": "cuda"}
EVALUATOR = "evaluator.py"


def initial_program(folder: Path) -> Path:
    """The one `initial_program.*`; else the one file with EVOLVE-BLOCKs; else the one program next to evaluator.py.
    BadAddress, with the files to choose from, if none or several fit."""
    if not folder.is_dir():
        raise BadAddress(f"{folder} is no directory")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != EVALUATOR and not p.name.startswith("."))
    code = [p for p in files if p.suffix.lower() in LANGUAGES]
    named = [p for p in files if p.stem in ("initial_program", "initial_prompt") and p.suffix != ".pyc"]
    marked = [p for p in files if evolves(p)]
    candidates = next((group for group in (named, marked, code) if group), [])
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
    """Whether a file has the name of its directory's initial program, rather than of a scorer."""
    if not path.with_name(EVALUATOR).is_file() or path.suffix.lower() not in LANGUAGES:
        return False
    return path.suffix != ".py" or evolves(path) or not is_scorer(path)


def evolves(path: Path) -> bool:
    """Whether the file has EVOLVE-BLOCKs."""
    try:
        blocks = regions(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False
    return blocks is not None and bool(blocks.blocks)


def language_of(program: Path) -> str:
    """The language's name, as OpenEvolve's prompts write it, by the file's suffix."""
    return LANGUAGES.get(program.suffix.lower(), program.suffix.lstrip(".") or "text")


def is_scorer(path: Path) -> bool:
    """Whether the file defines the names of a scorer file (problems.custom.scorer_file)."""
    try:
        body = parse_source(path.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return False
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = {t.id for node in body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
    return bool({"score", "Problem"} & defined or {"score", "problem"} & assigned)
