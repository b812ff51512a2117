"""A user's scoring function: one small Python file.

    def score(answer):                       # -> {"name": number, ...}, or one number
        return {"short": 1 / (1 + len(answer)), "polite": float("please" in answer)}

`score` may return: a number; a mapping of names to numbers, among which `fitness` or `combined_score` is the
fitness, `feedback` a text for the next prompt, `features` a mapping for the archive, `error` a text that fails the
answer; a mapping with `rewards` (a list, or a mapping) instead of the names; or a problems.Score.

The file may also define: `statement` and `seed_answer` (texts, or functions without arguments; a list of seeds is where
a search starts), `objectives` (else the names that the seed's score has, sorted, without timings), `directions` (a
mapping from objective to "max" or "min", see problems.custom.scorer_problem), `target`, `answer_format`, `weights` (a
mapping from objective to weight, or a list; the fitness is then the weighted mean), and three that are read before the
file runs, so they must be written out as plain values: `timeout` (seconds per answer, 30), `readable` (files or folders
it reads, relative to its own) and `isolated` (False for a trusted scorer that needs the network or a GPU; it then runs
unconfined, and so does any answer that it executes). `score` may be a coroutine function. `held_out(answer)` returns
the same names as `score`, by cases that steer no search: `evo best` reports them.

A name that is near one of these, and that nothing in the file reads, is refused: a misspelt `directions` would let the
search go the wrong way.

The file runs in another process, each call in a separate fork. Who is at fault in a failure:
- `score` runs out of time or memory, or dies: the answer's, since a scorer commonly executes answers.
- `score` raises a ValueError whose class is named AnswerError (problems.AnswerError will do), or an exception out of
  code that it executed from a text or from a file that it wrote: the answer's.
- Any other exception, a missing or an additional name, a number that is not finite: a ScorerFault naming the file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.address import did_you_mean
from problems.apart import AnswerError as AnswerError
from problems.contract import BadAddress
from problems.custom.scorer_problem import (
    DECLARED,
    SCORER_OPTIONS,
    ScorerOptions,
    ScorerProblem,
    checked_options,
    python_spec,
)
from problems.fingerprint import files_at, files_fingerprint, files_named_by
from problems.python_syntax import parse_source, read_globals

if TYPE_CHECKING:
    from problems.sandbox.contract import EvaluatorSpec
    from problems.sandbox.pool import Sandbox


NEAR = 0.8
"""How like a declaration an unread name must be for a misspelling (difflib): `target` and `target_date` have .71."""


class ScorerFileProblem(ScorerProblem):
    """The file as a Problem."""

    declarations: tuple[str, ...] = (*SCORER_OPTIONS, *DECLARED, "held_out")
    """That the file may define, in addition to what scores."""

    def __init__(self, path: Path, sandbox: Callable[[], Sandbox]) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        check_names(self.path, self.declarations)
        options = checked_options(self.name, self.path.parent, read_literals(self.path))
        super().__init__(self.name, self.process(options), sandbox, options)

    def process(self, options: ScorerOptions) -> EvaluatorSpec:
        """Of the file."""
        return python_spec(self.path, options, EVO_SCORER_FILE=self.name)

    def fingerprint(self) -> str:
        """The fingerprint of the file, of all that `readable` names, and of the files that it can use in its folder."""
        places = {*map(Path, self._readable), *([] if self._spec.isolated else [self.path.parent])}
        around = {place for place in places if place.is_dir() and self.path.is_relative_to(place)}
        files = {self.path, *files_at(places - around)}.union(*(files_named_by([self.path], place) for place in around))
        return files_fingerprint(self.path.parent, files)


def check_names(path: Path, known: Sequence[str]) -> None:
    """Raise BadAddress for a name at the top level of the file that looks like one of `known`, which is not there, and
    that nothing in the file reads: what a user needs for himself is read."""
    tree, read = _parse(path)
    defined: dict[str, int] = {}  # the line of each name's last definition
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defined[node.name] = node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    left = [name for name in known if name not in defined]
    for name, line in defined.items():
        if name in read or name in known or name.startswith("_"):
            continue
        if hint := did_you_mean(name.lower(), left, most=1, like=NEAR):  # also for DIRECTIONS
            raise BadAddress(f"{path}:{line}: nothing reads {name}{hint}")


def read_literals(path: Path, wanted: Iterable[str] = SCORER_OPTIONS) -> dict[str, Any]:
    """The plain values of these names as the file writes them, without running it. Raises BadAddress."""
    tree, _ = _parse(path)
    values: dict[str, Any] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for name in set(wanted).intersection(target.id for target in targets if isinstance(target, ast.Name)):
            try:
                values[name] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError):
                raise BadAddress(f"{path}:{node.lineno}: {name} must be written out as a plain value") from None
    return values


def _parse(path: Path) -> tuple[ast.Module, frozenset[str]]:
    """Its tree, and the names that it reads."""
    try:
        text = path.read_text(encoding="utf-8")
        return parse_source(text), read_globals(text)
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    except SyntaxError as error:
        raise BadAddress(f"{path}, line {error.lineno} is not Python: {error.msg}") from None
    except ValueError as error:
        raise BadAddress(f"{path} is not Python: {error}") from None
