"""A user's scorer of any kind as a Problem: its declarations, its scores, and who is at fault in a failure.

It runs in another process, each call in a separate fork (problems.sandbox.pool). The kinds differ in how they are
loaded: a file (scorer_file), a function (scorer_function), a command (command), an OpenEvolve evaluator
(problems.openevolve.directory).
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from problems.apart import AnswerCalls
from problems.contract import ANSWER_FORMATS, BadAddress, Problem, Score, ScorerFault, clip, finite
from problems.objectives import (
    Objective,
    describe_directions,
    fitness_objective,
    is_lower,
    measure_objectives,
    score_values,
)
from problems.python_syntax import defined_names
from problems.redaction import redact_known, redact_strings
from problems.sandbox.contract import CaseOutcome, EvaluatorSpec, Limits, SandboxFault
from problems.weights import order_weights

if TYPE_CHECKING:
    from problems.sandbox.pool import Evaluator, Sandbox


ROOT = Path(__file__).parents[2]
"""The folder from which problems.* is imported, in the scorer's process too."""
SHIMS = ROOT / "problems" / "shims"
"""Files that a sandbox worker loads in front of a user's."""
LIMITS = Limits(memory=4 << 30, output=16 << 20, file=256 << 20, scratch=256 << 20, processes=64)
TIMEOUT = 30.0
"""Seconds per answer if the user sets none."""
SCORER_OPTIONS = ("timeout", "readable", "isolated")
"""The declarations of a scorer that are read before it runs."""
DECLARED = ("statement", "seed_answer", "objectives", "target", "answer_format", "weights", "directions")
"""Its other declarations."""
RESERVED = ("fitness", "combined_score", "feedback", "features", "error", "rewards")
"""Keys of a score that are no objectives."""
MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CONNECTION = re.compile(r"^\w*(Connect\w*|URLError|gaierror)\b|\[Errno 1\]|\[Errno -\d\]|name resolution")
"""In the words of sockets, urllib, requests, httpx and clients of models."""
_FITNESS = ("fitness", "combined_score")
_NOTHING = "score() returned None; it must return numbers by name, or one number"


class Failed(Exception):
    """The answer's failure, reported by the scorer or by a limit."""


class ScorerProblem(Problem):
    """A scorer in its process.

    The seed is scored once when the problem is made: this gives the objectives, and shows at once a scorer that cannot
        score its seed. That fault is raised when the problem is scored, so that others in the run continue.
    """

    _UNSEEN = 'a scorer can only read its own file: name the other files that it needs, as in `readable = ["."]`'

    def __init__(
        self,
        where: str,
        spec: EvaluatorSpec,
        sandbox: Callable[[], Sandbox],
        options: ScorerOptions,
        declared: Mapping[str, Any] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """where: what faults begin with, a file or a function; declared: takes precedence over what the scorer's
        process says of it"""
        self.where, self._spec, self._sandbox, self._limits = where, spec, sandbox, limits
        self._lock = threading.Lock()
        self._opened: tuple[Sandbox, Evaluator] | None = None
        self._declared = dict(declared or {})
        self.timeout: float | None = options.timeout
        self.execution = "shared" if options.isolated else "unconfined"
        self._readable = options.readable
        self.objectives: tuple[str, ...] = ("score",)
        self._target: float | None = None
        self._own_weights: Mapping[str, float] | None = None
        self._left_out: tuple[str, ...] = ()
        self._statement = self._seed_text = ""
        self._seed: Callable[[ScorerProblem], Score] | None = None
        self._further: list[str] = []
        self.holds_out = False
        try:
            self._learn()
        except ScorerFault as fault:
            self.fault = fault

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {', '.join(self.objectives)})"

    def statement(self) -> str:
        """The scorer's statement, else that there is a score to raise."""
        about = self._statement or f"Write an answer that scores well on: {', '.join(self.objectives)}."
        return "\n\n".join(filter(None, (about, describe_directions(self.metrics))))

    def seed_answer(self) -> str:
        """The scorer's seed, "" without one."""
        return self._seed_text

    def further_seeds(self) -> list[str]:
        """The other answers of a list `seed_answer`."""
        return list(self._further)

    def score(self, answer: str) -> Score:
        """Call the scorer. Raises ScorerFault naming it, the line and the value if it fails by itself."""
        self._raise_own_fault()
        if why := self._refusal(answer):
            return Score.failure(len(self.objectives), why)
        if self._seed is not None and answer == self._seed_text:
            return self._seed(self)
        return self._measured("score", answer)

    def score_seed(self) -> Score:
        """Score the seed as if it were new."""
        self._raise_own_fault()
        return self._measured("score", self._seed_text)

    def score_held_out(self, answer: str) -> Score:
        """By `held_out` of the scorer: the names that `score` gives, or such results, one a case, for their mean."""
        cases = self.score_held_out_cases(answer)
        if len(cases) == 1:
            return cases[0]
        rewards, values = (
            tuple(fmean(column) for column in zip(*rows, strict=True))
            for rows in ([case.rewards for case in cases], [case.values for case in cases if case.error is None])
        )
        return Score(rewards, fmean(case.fitness for case in cases), values=values)

    def score_held_out_cases(self, answer: str) -> list[Score]:
        self._raise_own_fault()
        try:
            value = self._value("held_out", answer)
            return [self._score_of(case) for case in (value if isinstance(value, list | tuple) and value else [value])]
        except Failed as failure:
            return [self._failure(str(failure))]

    def _raise_own_fault(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _refusal(self, answer: str) -> str:
        """Why an answer is not even tried; "" if it is."""
        return ""

    def _measured(self, function: str, answer: str) -> Score:
        try:
            return self._score_of(self._value(function, answer))
        except Failed as failure:
            return self._failure(str(failure))

    def _failure(self, reason: str) -> Score:
        return Score.failure(len(self.objectives), " ".join(reason.split())[:300], reason)

    def _score_of(self, value: Any) -> Score:
        """What `score` returned as a Score. Raises ScorerFault if names do not fit or a number is not finite."""
        if reason := failure_in(value, self.objectives):
            return self._failure(reason)
        if value is None:
            raise ScorerFault(f"{self.where}: {_NOTHING}")
        given = {k: v for k, v in numbers(value, self.objectives).items() if k not in self._left_out}
        if set(given) != set(self.objectives):
            raise ScorerFault(
                f"{self.where}: score() returned {clip(value)} with the names {', '.join(given) or '(none)'}; the "
                f"objectives are {', '.join(self.objectives)}"
            )
        extra = value if isinstance(value, dict) else {}
        reported = None if "error" in self.objectives else extra.get("error")
        if isinstance(reported, int | float) and not isinstance(reported, bool):
            raise ScorerFault(
                f"{self.where}: score() returned error = {clip(reported)}; it must be the text of a fault; give an "
                f"objective another name, or name it in directions or objectives"
            )
        named = {**given, **{key: extra[key] for key in _FITNESS if extra.get(key) is not None}}
        features = extra.get("features") or {}
        if not isinstance(features, dict):
            raise ScorerFault(f"{self.where}: score() returned features = {clip(features)}, not numbers by name")
        for name, number in {**named, **features}.items():
            if finite(number) is None:
                raise ScorerFault(f"{self.where}: score() returned {name} = {clip(number)}; it must be a finite number")
        values = {name: float(number) for name, number in given.items()}
        rewards, own = score_values(self.objectives, self.metrics, values)
        counted = {**named, **dict(zip(self.objectives, rewards, strict=True))}
        fitness = next((float(counted[key]) for key in _FITNESS if key in named), None)
        if fitness is None:
            weights = [one.weight for one in self.metrics]
            fitness = sum(w * r for w, r in zip(weights, rewards, strict=True)) / sum(weights)
        feedback = str(extra.get("feedback") or "")
        if reported:
            return Score.failure(len(self.objectives), " ".join(str(reported).split()), feedback)
        score = Score(rewards, fitness, {str(k): float(v) for k, v in features.items()}, feedback, None, own)
        return score.check(self)  # a sum of finite numbers need not be

    # -- what the scorer declares, and the score of its seed ------------------------------------------------------

    def _learn(self) -> None:
        """Take over what the scorer declares, and score its seed. Raises ScorerFault."""
        try:
            described = self._call("describe")
        except Failed as failure:
            raise ScorerFault(f"{self.where}: {failure} while it was loaded") from None
        self._raise_fault(described)
        declared = Declared.read(self.where, {**described, **self._declared})
        self._statement, self.answer_format, self._target = declared.statement, declared.answer_format, declared.target
        self.holds_out = declared.held_out
        seed, *self._further = declared.seeds
        self._seed_text = self.canonical(seed) if seed else ""
        value = None
        if declared.objectives is None:
            then = ", so the objectives are unknown; define `objectives`, or a seed_answer that can be scored"
            value = self._seed_value(then)
        elif "min" in declared.directions.values() and seed:
            with contextlib.suppress(ScorerFault):  # raised again when it is scored
                value = self._seed_value()
        metrics, self._left_out, self._own_weights = objectives_of(self.where, declared, value)
        self.directions = declared.directions
        self._take(metrics)
        warn_of_objectives(self.where, self.objectives, self._left_out, self.directions)
        if value is not None:
            self._seed = lambda problem: problem._score_of(value)  # also of a copy under other weights
            score = self._seed(self)  # it may be at fault
            if low := [name for name, reward in zip(self.objectives, score.rewards, strict=True) if reward < 0]:
                told = f"{self.where}: {', '.join(low)} of the seed is below 0, which is the score of a failed answer; "
                advice = f'return it with the other sign, and directions = {{"{low[0]}": "min"}}'
                warnings.warn(told + advice, stacklevel=5)

    def _take(self, metrics: tuple[Objective, ...]) -> None:
        self.metrics, self.objectives, self.target = metrics, tuple(one.name for one in metrics), self._target
        if self.target is not None and is_lower(metrics):
            self.target = fitness_objective(metrics).reward(self.target)

    def target_under(self, weights: Sequence[float]) -> float | None:
        """The declared target, if these are the scorer's own weights, for which it was declared."""
        if self._target is None or self._own_weights is None:
            return None
        own = order_weights(self.objectives, self._own_weights, self.where)
        if not all(map(math.isclose, own, weights)):
            return None
        alone = len(self.metrics) == 1 and self.metrics[0].lower
        return self.metrics[0].reward(self._target) if alone else self._target

    def restore(self, objectives: Sequence[Objective]) -> None:
        """Those of other names are not taken over."""
        mine = {one.name: one for one in self.metrics}
        if set(mine) != {one.name for one in objectives}:
            return
        self._take(tuple(replace(mine[one.name], scale=one.scale, seed=one.seed) for one in objectives))
        if not is_lower(objectives):  # also of a run from before these were kept
            self.target = self._target

    def _seed_value(self, then: str = "") -> Any:
        """The seed's score as the scorer gives it. Raises ScorerFault if the seed fails. then: the consequence"""
        value, reason = None, ""
        try:
            value = self._value("score", self._seed_text)
            reason = failure_in(value)
        except Failed as failure:
            reason = str(failure) or "no reason is known"
        if reason:
            raise ScorerFault(f"{self.where}: the seed answer itself fails ({reason}){then}{self._remedy(reason)}")
        if value is None:
            raise ScorerFault(f"{self.where}: {_NOTHING}")
        return value

    # -- its process -----------------------------------------------------------------------------------------------

    def _value(self, function: str, answer: Any) -> Any:
        """What `score` or `held_out` returned. Raises Failed, ScorerFault."""
        reply = self._call(function, answer)
        if "answer_error" in reply:
            raise Failed(str(reply["answer_error"]))
        self._raise_fault(reply)
        return reply["value"]

    def _call(self, function: str, *arguments: Any) -> Any:
        outcome = self._run(function, *arguments)
        if outcome.status == "ok":
            return outcome.value
        if outcome.status == "error":
            raise ScorerFault(f"{self.where}: {function}(): {outcome.message}")
        limit = f" (timeout is {self.timeout:g} s)" if outcome.status == "timeout" else ""
        raise Failed(f"{outcome.message or outcome.status}{limit}")

    def _run(self, function: str, *arguments: Any, timeout: float | None = None) -> CaseOutcome:
        """Call a function of the shim in front of the scorer, with a sandbox for its `evo.call`. Thread-safe. Raises
        ScorerFault if the scorer cannot be loaded."""
        seconds = timeout or self.timeout or TIMEOUT
        with self._lock:
            sandbox = self._sandbox()
            if self._opened is None or self._opened[0] is not sandbox:
                try:
                    self._opened = sandbox, sandbox.evaluator(self._spec, self._limits)
                except SandboxFault as error:
                    raise ScorerFault(f"{self.where} cannot be loaded: {error}") from error
            evaluator = self._opened[1]
        with AnswerCalls(sandbox, seconds) as calls:
            outcome = evaluator.call(function, *arguments, timeout=seconds, host_call=calls)
        if self._spec.isolated and sandbox.mode != "none":
            return outcome
        # it has the environment of this process, and its texts are stored and shown to models
        return replace(outcome, value=redact_strings(outcome.value), message=redact_known(outcome.message))

    def _raise_fault(self, reply: Mapping[str, Any]) -> None:
        if "fault" in reply:
            fault = str(reply["fault"])
            raised = ScorerFault(f"{self._at(reply.get('line'))}: {fault}{self._remedy(fault)}")
            if (missing := reply.get("missing")) and missing in defined_names(self._seed_text):
                raised.of_answer = f"the answer defines no {missing}"
            elif "of_answer" in reply:
                raised.of_answer = str(reply["of_answer"])
            raise raised

    def _remedy(self, raised: str) -> str:
        """What to do if a package is missing, or if the sandbox refused a connection or a file; else ""."""
        if missing := MISSING.search(raised):
            package = missing[1].partition(".")[0]
            if not any(Path(self._spec.folder, package + end).exists() for end in ("", ".py")):
                return f"; install it into this Python: {sys.executable} -m pip install {package}"
        if not self._spec.isolated:
            return ""
        if _CONNECTION.search(raised):
            return "; the sandbox has no network: if you trust the scorer, set isolated = False"
        return f"; {self._UNSEEN}" if missing or raised.startswith(("FileNotFoundError", "PermissionError")) else ""

    def _at(self, line: int | None) -> str:
        """The place of a fault."""
        return f"{self.where}, line {line}" if line else self.where


@dataclass(frozen=True)
class Declared:
    """What a scorer declares. seeds: at least one text, "" for none; objectives: None for those of the seed's score"""

    statement: str
    seeds: Sequence[str]
    objectives: tuple[str, ...] | None
    target: float | None
    answer_format: str
    weights: Any
    directions: Mapping[str, str]
    groups: Mapping[str, str]
    held_out: bool

    @classmethod
    def read(cls, where: str, about: Mapping[str, Any]) -> Declared:
        """Raises ScorerFault, which begins with `where`, for a value of another kind."""

        def check(name: str, fits: bool, due: str) -> None:
            if not fits:
                raise ScorerFault(f"{where}: {name} is {clip(about[name])}{due}")

        statement, seeds, target = about["statement"], about["seed_answer"], about["target"]
        names, directions = about["objectives"], about["directions"] or {}
        seeds = seeds if isinstance(seeds, list | tuple) else [seeds]
        check("statement", isinstance(statement, str | None), ", not text")
        check("seed_answer", all(isinstance(text, str | None) for text in seeds), ", not text")
        form = about["answer_format"] or "text"
        check("answer_format", form in ANSWER_FORMATS, f"; it is {' or '.join(ANSWER_FORMATS)}")
        check("target", isinstance(target, int | float | None) and not isinstance(target, bool), ", not a number")
        maps = isinstance(directions, Mapping) and all(item in ("max", "min") for item in directions.values())
        check("directions", maps, '; it must map names of metrics to "max" or "min"')
        listed = isinstance(names, list | tuple) and bool(names) and all(isinstance(name, str) for name in names)
        check("objectives", names is None or listed, ", not a list of names")
        return cls(
            statement or "",
            [text or "" for text in seeds] or [""],
            None if names is None else tuple(names),
            finite(target),  # one beyond all numbers is none
            form,
            about["weights"],
            {str(name): item for name, item in directions.items()},
            about.get("groups") or {},
            bool(about.get("held_out")),
        )


def objectives_of(
    where: str, declared: Declared, seed: Any
) -> tuple[tuple[Objective, ...], tuple[str, ...], dict[str, float] | None]:
    """(the objectives, the seed's other numbers, the weights for which the target is declared: None if the scorer gives
    the fitness). seed: its score, None if it is unknown. Raises ScorerFault."""
    names, others, directions = declared.objectives, tuple[str, ...](), declared.directions
    if names is None:
        measured = tuple(numbers(seed, tuple(directions)))
        if not measured:
            raise ScorerFault(f"{where}: score() returned {clip(seed)}, which holds no number")
        weighed = declared.weights if isinstance(declared.weights, dict) else ()
        names = choose_objectives(measured, (*directions, *weighed))
        others = tuple(name for name in measured if name not in names)
    if unknown := sorted(set(directions) - set(names)):
        raise ScorerFault(f"{where}: directions names {', '.join(unknown)}; the objectives are {', '.join(names)}")
    weights = check_weights(where, declared.weights, names)
    values = {} if seed is None else {k: finite(v) for k, v in numbers(seed, names).items()}
    beside = {key for key in _FITNESS if isinstance(seed, dict) and seed.get(key) is not None}
    whole = beside <= set(names)
    metrics = measure_objectives(names, directions, values, whole)
    own = tuple(replace(one, weight=weights[one.name], group=declared.groups.get(one.name)) for one in metrics)
    return own, others, weights if whole else None


def failure_in(value: Any, objectives: Sequence[str] = ()) -> str:
    """Why the answer failed, if a score reports that it did: it has an error's text, and lacks a number or has one
    that is not finite; else ""."""
    if not isinstance(value, dict) or not isinstance(value.get("error"), str) or "error" in objectives:
        return ""
    given, features = numbers(value, objectives), value.get("features")
    beside = [value[key] for key in _FITNESS if value.get(key) is not None]
    measured = [*given.values(), *beside, *(features.values() if isinstance(features, dict) else ())]
    sound = given and set(objectives) <= set(given) and None not in map(finite, measured)
    if sound or (given and not value["error"].strip()):
        return ""
    return "\n".join(filter(None, (value["error"], str(value.get("feedback") or "")))) or "error"


def numbers(value: Any, objectives: Sequence[str] = ()) -> dict[str, Any]:
    """The objectives' values in the result of score(); {} if it has none. A list goes by `objectives` in order."""
    if not isinstance(value, dict):
        return {objectives[0] if len(objectives) == 1 else "score": value}
    rewards = value.get("rewards")
    if isinstance(rewards, dict):
        return {str(name): number for name, number in rewards.items()}
    if isinstance(rewards, list | tuple):
        names = objectives if len(objectives) == len(rewards) else [f"reward_{n}" for n in range(1, len(rewards) + 1)]
        return dict(zip(names, rewards, strict=True))
    plain = {str(key): item for key, item in value.items() if key not in RESERVED or key in objectives}
    return plain or {key: value[key] for key in reversed(_FITNESS) if key in value}


def check_weights(where: str, weights: Any, objectives: Sequence[str]) -> dict[str, float]:
    """`weights` by the names of the objectives, 1 each by default."""
    if weights is None:
        return dict.fromkeys(objectives, 1.0)
    if isinstance(weights, dict):
        if unknown := sorted(map(str, set(weights) - set(objectives))):
            raise ScorerFault(
                f"{where}: weights names {', '.join(unknown)}; the objectives are {', '.join(objectives)}"
            )
        weights = [weights.get(name, 0.0) for name in objectives]
    fits = isinstance(weights, list | tuple) and len(weights) == len(objectives)
    if not fits or not all(finite(w) is not None and w >= 0 for w in weights):
        raise ScorerFault(f"{where}: weights is {clip(weights)}, not {len(objectives)} numbers of at least 0")
    if sum(weights) <= 0:
        raise ScorerFault(f"{where}: weights sum to 0")
    return {name: float(w) for name, w in zip(objectives, weights, strict=True)}


class ScorerOptions(NamedTuple):
    """timeout: seconds per answer; isolated: not trusted; readable: whole paths"""

    timeout: float
    isolated: bool
    readable: tuple[str, ...]


def checked_options(where: str, folder: Path, options: Mapping[str, Any]) -> ScorerOptions:
    """The given SCORER_OPTIONS, with `readable` relative to `folder`. Raises BadAddress, which begins with `where`."""
    timeout, isolated = options.get("timeout", TIMEOUT), options.get("isolated", True)
    readable = options.get("readable", ())
    if isinstance(readable, str):
        readable = (readable,)
    if isinstance(timeout, bool) or finite(timeout) is None or timeout <= 0:
        raise BadAddress(f"{where}: timeout is {timeout!r}, not a number of seconds")
    if not isinstance(isolated, bool):
        raise BadAddress(f"{where}: isolated is {isolated!r}, not True or False")
    if not isinstance(readable, list | tuple) or not all(isinstance(item, str) for item in readable):
        raise BadAddress(f"{where}: readable is {readable!r}, not a list of paths")
    paths = [(folder / item).resolve() for item in readable]
    for item in paths:
        if not item.exists():
            raise BadAddress(f"{where}: readable names {item}, which does not exist")
    return ScorerOptions(float(timeout), isolated, tuple(map(str, paths)))


def python_spec(target: Path, options: ScorerOptions, **environment: str) -> EvaluatorSpec:
    """A process for the scorer in a file of Python or a pickled function."""
    readable = (str(target), str(ROOT / "problems"), str(ROOT / "evo" / "__init__.py"), *options.readable)
    return EvaluatorSpec(
        str(SHIMS / "python_scorer.py"),
        readable=readable,
        isolated=options.isolated,
        folder="" if "EVO_SCORER_PICKLE" in environment else str(target.parent),
        environment={**environment, "PYTHONPATH": str(ROOT)},
    )


_TIMINGS = {"time", "runtime", "walltime", "duration", "elapsed", "seconds", "sec", "secs", "ms", "us", "ns", "latency"}
_LOWER = _TIMINGS | {
    *("error", "errors", "err", "rmse", "mse", "mae", "loss", "perplexity", "regret", "penalty", "violation"),
    *("violations", "lag", "cost", "overhead"),
}
_HIGHER = {
    *("score", "accuracy", "efficiency", "reward", "quality", "improvement", "inverse", "fitness", "bonus", "rate"),
    *("reduction", "saved", "speedup"),
}


def suggests_lower(name: str) -> bool:
    """Whether a metric by this name is commonly better when lower: `error`, `val_loss`, `meanLag`, `total_ms`."""
    words = _words(name)
    return bool(words & _LOWER) and not words & _HIGHER


@functools.lru_cache(maxsize=256)  # of the same few names after every evaluation
def is_timing(name: str) -> bool:
    """Whether a metric by this name measures time: `eval_time`, `latency`, `total_ms`."""
    words = _words(name)
    return bool(words & _TIMINGS) and not words & _HIGHER


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()))


def choose_objectives(names: Sequence[str], asked: Iterable[str]) -> tuple[str, ...]:
    """`names` without the timings that were not requested; all of them if no other name is left."""
    wanted = set(asked)
    return tuple(name for name in names if name in wanted or not is_timing(name)) or tuple(names)


def warn_of_objectives(
    file: str, objectives: Iterable[str], timings: Sequence[str], directions: Mapping[str, str], where: str = ""
) -> None:
    """Warn of timings that are not objectives, and of objectives whose names suggest a direction that no one declared.
    file: the scorer's; where: directions are declared, if not there"""
    if timings:
        warnings.warn(f"{file}: {', '.join(timings)}: timings, no objectives unless named", stacklevel=6)
    if names := [name for name in objectives if name not in directions and suggests_lower(name)]:
        example = ", ".join(f'{name}: "min"' for name in names)
        doubt = f"higher counts as better in {', '.join(names)}; if lower is, declare directions: {{{example}}}"
        warnings.warn(f"{file}: {doubt}{where}", stacklevel=6)
