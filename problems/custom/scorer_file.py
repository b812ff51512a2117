"""A user's own scoring function: one small Python file.

    def score(answer):                       # -> {"name": number, ...}, or one number
        return {"short": 1 / (1 + len(answer)), "polite": float("please" in answer)}

What `score` may return: a number; a mapping of names to numbers, among which `fitness` or `combined_score` is the
fitness, `feedback` a text for the next prompt, `features` a mapping for the archive, `error` a text that fails the
answer; a mapping with `rewards` (a list, or a mapping) in place of the names; or a problems.Score.

What else the file may define: `statement` and `seed_answer` (texts, or functions without arguments), `objectives` (else
the names that the seed's score has, sorted, without timings), `directions` (a mapping from objective to "max" or "min",
see problems.directions), `target`, `answer_format`, `weights` (a mapping from objective to weight, or a list; the
fitness is then the weighted mean), and three that are read before the file runs, so they must be written
out as plain values: `timeout` (seconds per answer, 30), `readable` (files or folders it reads, relative to its own) and
`isolated` (False for a trusted scorer that needs the network; it then runs unconfined, and so does any answer that it
executes). Instead of `score`, the file may define `problem`, an object with the methods of problems.Problem, or a class
`Problem` of which one is made.

The file runs out of process, each call in a fork of its own. Whose fault a failure is:
- `score` runs out of time or memory, or dies: the answer's, since a scorer commonly executes answers.
- `score` raises a ValueError whose class is named AnswerError (problems.AnswerError will do): the answer's.
- Any other exception, a missing or an additional name, a number that is not finite: a ScorerFault naming the file.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.contract import ANSWER_FORMATS, BadAddress, Problem, Score, ScorerFault
from problems.custom.scorer_value import ScorerShape, check_weights, clip, numbers, objective_names
from problems.directions import check_directions, choose_objectives, describe_directions, warn_of_objectives
from problems.fingerprint import files_below, files_fingerprint, files_named_by
from problems.sandbox.contract import EvaluatorSpec, Limits
from problems.scorer_process import SHIMS, ScorerProcess

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

_ROOT = Path(__file__).parents[2]
TIMEOUT = 30.0


class AnswerError(ValueError):
    """Raised by a user's score(): the answer is at fault; the message becomes its feedback."""


class ScorerFileProblem(Problem):
    """The file as a Problem.

    The seed is scored once when the problem is made: it tells the objectives, and a scorer that cannot score its own
    seed is found out at once. That fault is raised when the problem is scored, so that others in the run go on.
    """

    def __init__(self, path: Path, sandbox: Callable[[], Sandbox]) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        options = _literals(self.path)
        self._timeout, self._isolated, self._readable = _checked_options(self.path, options)
        spec = EvaluatorSpec(
            str(SHIMS / "plain_scorer.py"),
            readable=(str(self.path), str(_ROOT / "problems"), *self._readable),
            isolated=self._isolated,
            environment={"EVO_SCORER_FILE": str(self.path), "PYTHONPATH": str(_ROOT)},
        )
        limits = Limits(memory=4 << 30, output=16 << 20, file=256 << 20, scratch=256 << 20, processes=64)
        self._process = ScorerProcess(self.path, spec, limits, sandbox)
        self.objectives: tuple[str, ...] = ("score",)
        self._statement, self._seed_text, self._own_canonical = "", "", False
        self._shape = ScorerShape(self.path, self.objectives)
        self._seed: Score | None = None
        try:
            self._learn()
        except ScorerFault as fault:
            self.fault = fault

    def __repr__(self) -> str:
        return f"ScorerFileProblem({self.name!r}, {', '.join(self.objectives)})"

    def statement(self) -> str:
        """What the file says, else that there is a score to raise."""
        about = self._statement or f"Write an answer that scores high on: {', '.join(self.objectives)}."
        return "\n\n".join(filter(None, (about, describe_directions(self.objectives, self._shape.directions))))

    def seed_answer(self) -> str:
        """The file's seed, "" without one."""
        return self._seed_text

    def fingerprint(self) -> str:
        """Of the file, of all that `readable` names, and of what it can use in its own folder."""
        files = {self.path}
        own = [] if self._isolated else [self.path.parent]
        for place in (*map(Path, self._readable), *own):
            if place.is_file():
                files.add(place)
            elif self.path.is_relative_to(place):
                files |= files_named_by([self.path], place)
            else:
                files.update(files_below(place))
        return files_fingerprint(self.path.parent, files)

    def canonical(self, answer: str) -> str:
        """Python out of its fence, text stripped; or what the file's Problem object makes of it."""
        if self._own_canonical:
            try:
                outcome = self._process.call("canonical", answer, timeout=self._timeout)
            except ScorerFault:
                return answer
            return outcome.value if outcome.status == "ok" and isinstance(outcome.value, str) else answer
        return super().canonical(answer)

    def score(self, answer: str) -> Score:
        """Ask the file. Raises ScorerFault naming it, the line and the value where it fails by itself."""
        if self.fault is not None:
            raise self.fault
        if self._seed is not None and answer == self._seed_text:
            return self._seed
        value = self._asked(answer)
        if isinstance(value, Failed):
            return Score.failure(len(self.objectives), " ".join(value.reason.split())[:300], value.reason)
        return self._shape.score(value)

    # -- the first look at the file ------------------------------------------------------------------------------

    def _learn(self) -> None:
        about = self._call("describe")
        if isinstance(about, Failed):
            raise ScorerFault(f"{self.path}: {about.reason} while it was loaded")
        self._raise_fault(about, "")
        self._statement = _text(self.path, "statement", about["statement"])
        self._seed_text = _text(self.path, "seed_answer", about["seed_answer"])
        self._own_canonical = bool(about["canonical"])
        self.answer_format = about["answer_format"] or "text"
        if self.answer_format not in ANSWER_FORMATS:
            raise ScorerFault(
                f"{self.path}: answer_format is {self.answer_format!r}; it is {' or '.join(ANSWER_FORMATS)}"
            )
        target = about["target"]
        if target is not None and (isinstance(target, bool) or not isinstance(target, int | float)):
            raise ScorerFault(f"{self.path}: target is {target!r}, not a number")
        self.target = None if target is None else float(target)
        self._seed_text = self.canonical(self._seed_text) if self._seed_text else ""
        declared, weights = about["objectives"], about["weights"]
        try:
            directions = check_directions(about["directions"])
        except ValueError as error:
            raise ScorerFault(f"{self.path}: {error}") from None
        if declared is not None:
            if not declared or not all(isinstance(name, str) for name in declared):
                raise ScorerFault(f"{self.path}: objectives is {declared!r}, not a list of names")
            self._shaped(tuple(declared), (), weights, directions)
            return
        value = self._asked(self._seed_text)
        if isinstance(value, Failed):
            raise ScorerFault(
                f"{self.path}: the seed answer itself fails ({value.reason}), so its score tells no objectives; define "
                "`objectives`, or a seed_answer that can be scored"
            )
        names = objective_names(self.path, value, tuple(directions))
        kept = choose_objectives(names, (*directions, *(weights if isinstance(weights, dict) else ())))
        self._shaped(kept, tuple(name for name in names if name not in kept), weights, directions)
        self._seed = self._shape.score(value)

    def _shaped(
        self, names: tuple[str, ...], left_out: tuple[str, ...], weights: Any, directions: dict[str, str]
    ) -> None:
        """Take these as the objectives."""
        if unknown := sorted(set(directions) - set(names)):
            raise ScorerFault(
                f"{self.path}: directions names {', '.join(unknown)}; the objectives are {', '.join(names)}"
            )
        self.objectives = names
        self._shape = ScorerShape(self.path, names, check_weights(self.path, weights, names), directions, left_out)
        warn_of_objectives(str(self.path), names, left_out, directions)

    def _asked(self, answer: str) -> Any:
        told = self._call("score", answer)
        if isinstance(told, Failed):
            return told
        if "answer_error" in told:
            return Failed(str(told["answer_error"]))
        self._raise_fault(told, f" for an answer of {len(answer)} characters")
        value = told["value"]
        if isinstance(value, dict) and isinstance(value.get("error"), str) and not numbers(value):
            return Failed("\n".join(filter(None, (value["error"], str(value.get("feedback") or "")))))
        if value is None:
            raise ScorerFault(f"{self.path}: score() returned None; it must return numbers by name, or one number")
        return value

    # -- the worker ----------------------------------------------------------------------------------------------

    def _call(self, function: str, *arguments: Any) -> Any:
        outcome = self._process.call(function, *arguments, timeout=self._timeout)
        if outcome.status == "ok":
            return outcome.value
        if outcome.status == "error":
            raise ScorerFault(f"{self.path}: {function}(): {outcome.message}")
        limit = f" (timeout is {self._timeout:g} s)" if outcome.status == "timeout" else ""
        return Failed(f"{outcome.message or outcome.status}{limit}")

    def _raise_fault(self, told: Mapping[str, Any], when: str) -> None:
        if "fault" in told:
            line = f", line {told['line']}" if told.get("line") else ""
            hint = ""
            if str(told["fault"]).startswith(("ModuleNotFoundError", "FileNotFoundError", "PermissionError")):
                hint = '; a scorer sees its own file alone: name what else it needs, as in `readable = ["."]`'
            raise ScorerFault(f"{self.path}{line}: {told['fault']}{when}{hint if self._isolated else ''}")


class Failed:
    """The answer's own failure, told by the scorer or by a limit."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _text(path: Path, name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise ScorerFault(f"{path}: {name} is {clip(value)}, not text")
    return value or ""


def _literals(path: Path) -> dict[str, Any]:
    """`timeout`, `readable` and `isolated` as the file writes them, without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read {path}: {error}") from None
    except (SyntaxError, ValueError) as error:
        raise BadAddress(f"{path} is not Python: {error}") from None
    found: dict[str, Any] = {}
    for node in tree.body:
        names = [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
        for name in {"timeout", "readable", "isolated"}.intersection(names):
            assert isinstance(node, ast.Assign)
            try:
                found[name] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError):
                raise BadAddress(f"{path}:{node.lineno}: {name} must be written out as a plain value") from None
    return found


def _checked_options(path: Path, options: Mapping[str, Any]) -> tuple[float, bool, tuple[str, ...]]:
    timeout, isolated = options.get("timeout", TIMEOUT), options.get("isolated", True)
    readable = options.get("readable", ())
    if isinstance(readable, str):
        readable = (readable,)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise BadAddress(f"{path}: timeout is {timeout!r}, not a number of seconds")
    if not isinstance(isolated, bool):
        raise BadAddress(f"{path}: isolated is {isolated!r}, not True or False")
    if not isinstance(readable, list | tuple) or not all(isinstance(item, str) for item in readable):
        raise BadAddress(f"{path}: readable is {readable!r}, not a list of paths")
    found = [(path.parent / item).resolve() for item in readable]
    for item in found:
        if not item.exists():
            raise BadAddress(f"{path}: readable names {item}, which does not exist")
    return float(timeout), isolated, tuple(map(str, found))
