"""Fingerprints: 16 hexadecimal digits that change with anything that affects a problem's scores.

They depend only on contents, never on a machine, a path or a time. A run keeps them, so that a scorer or data file
that is edited between a run and its resume is noticed.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from problems.python_syntax import parse_source

_SKIPPED_FOLDERS = ("__pycache__", "openevolve_output")
_PIPELINE = (".lock", "pipeline.json")
"""The files of a folder that `evo pipeline` writes. It holds results, which change as scores are made."""


def fingerprint_of(*parts: object) -> str:
    """The first 16 digits of a SHA-256 over `parts`: bytes as they are, anything else as JSON with sorted keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=repr).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def code_fingerprint(problem: Any, kind: type) -> str:
    """The fingerprint of the source file of a class written in code, and of the problem's texts and target."""
    try:
        source = Path(inspect.getsourcefile(kind) or "").read_bytes()
    except (OSError, TypeError):
        source = b""  # a class typed into an interpreter
    texts = problem.statement(), problem.seed_answer(), problem.answer_format
    return fingerprint_of(source, problem.objectives, problem.target, *texts)


def files_fingerprint(folder: Path, files: Iterable[Path], *parts: object) -> str:
    """The fingerprint of `files`, by their paths relative to `folder` and their contents, and of `parts`."""
    contents: list[object] = []
    for name, file in sorted((os.path.relpath(file, folder), file) for file in set(files)):
        contents += [Path(name).as_posix(), file.read_bytes()]
    return fingerprint_of(*contents, *parts)


def files_below(folder: Path) -> Iterator[Path]:
    """Every file in `folder` and its subfolders, except hidden ones, byte code and the output of OpenEvolve and of
    pipelines."""
    for place, folders, names in os.walk(folder):
        if Path(place) != folder and set(_PIPELINE) <= set(names):
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        for name in names:
            file = Path(place, name)
            if not name.startswith(".") and file.is_file():
                yield file


def files_at(places: Iterable[str | Path]) -> set[Path]:
    """The files among the places, and all files below the folders."""
    return {f for place in map(Path, places) for f in ([place] if place.is_file() else files_below(place))}


def files_named_by(code: Iterable[Path], folder: Path) -> set[Path]:
    """`code` itself and the files of `folder` that it can use: modules next to it that it imports (and the files that
    those name), and every file whose suffix, name or folder is written in it.

    The whole folder would be too much: a run's database, reports and exports are often next to the scorer.
    """
    files: set[Path] = set()
    pending = list(code)
    others = list(files_below(folder))
    while pending:
        file = pending.pop()
        if file in files:
            continue
        files.add(file)
        if file not in code and file.suffix != ".py":
            continue  # data names nothing
        text = file.read_bytes().decode("utf-8", "replace")
        pending += _imported(text, (file.parent, folder))
        pending += [other for other in others if _named(other.relative_to(folder), text)]
    return files


def _named(path: Path, text: str) -> bool:
    mark = path.suffix if path.suffix not in ("", ".py") else path.name
    words = [f"{re.escape(mark)}", *(rf"\b{re.escape(part)}" for part in path.parts[:-1])]
    return re.search(rf"(?:{'|'.join(words)})\b", text) is not None


def _imported(text: str, places: Iterable[Path]) -> Iterator[Path]:
    """Modules and packages of `places` that the text imports."""
    try:
        tree = parse_source(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            words.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            words.update([(node.module or "").partition(".")[0], *(a.name for a in node.names if node.level)])
    for place in places:
        for word in words - {""}:
            if (place / f"{word}.py").is_file():
                yield place / f"{word}.py"
            elif (place / word).is_dir():
                yield from (file for file in files_below(place / word) if file.suffix == ".py")
