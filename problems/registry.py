"""Problems by address: built-in sets, files and directories, names registered in code, and installed entry points.

    maze:test  maze:test/17  maze:compromise     mazes (`evo problems` lists the sets)
    maze:train/900-999  programs:easy/0-4        a part of a set, both ends included
    programs:shipped  programs:easy/3            programming problems that ship (shipped, easy, medium, hard)
    programs:FILE.jsonl  programs:FILE.jsonl/12  HumanEval, MBPP, EvalPlus, LiveCodeBench or LeetCodeDataset, from 0
    programs:FILE?from=2024-08-01&to=2025-02-01  those of a window of dates
    livecodebench:PATH  livecodebench:PATH/ID    LiveCodeBench as in the VPO paper (problems.programs.sets)
    list:FILE                                    the addresses in a file, one a line (problems.address_list)
    PATH/scorer.py                               a file with score(answer) (problems.custom.scorer_file)
    PATH/directory  PATH/directory/config.yaml   an OpenEvolve problem directory (problems.openevolve.directory)
    PATH/problem.yaml  PATH/directory            a program of one file or several, scored by a command
                                                 (problems.custom.command)
    PATH/directory/program.py                    the same, where several files may be its initial program
    score:NAME                                   a Python function, where the caller gives it (see `given`)
    NAME  NAME:REST                              registered with @problems.register("NAME"), or under the entry point
                                                 group "evo.problems"

What is registered is a Problem, or a class or function that makes one or a list of them. If it takes an argument, it is
called with the text after NAME:. An entry point may also name ProblemSets, a family of sets (problems.plugins.maths).
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from problems.address_list import addresses_in
from problems.close_names import did_you_mean, files_beside
from problems.contract import MEMBERS, BadAddress, Problem, complete_problem
from problems.entry_points import find_entry_points, load_entry_point
from problems.problem_sets import ProblemSets, built_in_sets, describe_set
from problems.sandbox.shared import close_shared_sandbox, set_sandbox_mode, shared_sandbox
from problems.user_path import user_path

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

__all__ = [
    "ProblemSets",
    "close_shared_sandbox",
    "describe_set",
    "describe_sets",
    "given",
    "register",
    "resolve",
    "set_sandbox_mode",
    "shared_sandbox",
]

ENTRY_POINTS = "evo.problems"
_BUILT_IN = ("maze", "programs", "livecodebench", "list")
_PART = re.compile(r"(([^:/]+):.+)/([0-9]+)-([0-9]+)")
_MAZES = ("test", "hard", "compromise", "large", "train", "compromise-train", "large-train")
_PROGRAMS = ("shipped", "easy", "medium", "hard")
_NAMED = (".py", ".yaml", ".yml")
"""Files that are problems by their path alone."""
_registered: dict[str, Any] = {}
_given: ContextVar[Mapping[str, Problem]] = ContextVar("problems given by name", default=MappingProxyType({}))
_Made = TypeVar("_Made")


def register(name: str) -> Callable[[_Made], _Made]:
    """Decorator: `name` is an address of what the decorated class or function makes."""
    if not name or any(mark in name for mark in ":/ "):
        raise ValueError(f"{name!r} cannot be registered: a name has no colon, slash or space")
    if name in (*_BUILT_IN, "score") or isinstance(_find_entry_point(name), ProblemSets):
        raise ValueError(f"{name!r} is built in")

    def remember(made: _Made) -> _Made:
        _registered[name] = made
        return made

    return remember


@contextlib.contextmanager
def given(problems: Iterable[Problem]) -> Iterator[None]:
    """Within the block, and in the tasks and threads that asyncio starts there, each problem's name is its address."""
    token = _given.set({**_given.get(), **{problem.name: problem for problem in problems}})
    try:
        yield
    finally:
        _given.reset(token)


def resolve(address: str, limit: int | None = None, sandbox: Callable[[], Sandbox] | None = None) -> list[Problem]:
    """The problems that an address names, at most the first `limit`.

    sandbox: where hostile code runs; by default the process's own, opened when a problem first needs it
    Raises BadAddress, one line with what would work. A custom scorer's own fault is told when it scores.
    """
    if limit is not None and limit < 1:
        raise BadAddress(f"a limit of {limit} leaves no problems")
    if (problem := _given.get().get(address)) is not None:
        return [problem]
    source = sandbox or shared_sandbox
    part = _PART.fullmatch(address)
    if part and (part[2] in _BUILT_IN or isinstance(_find_named(part[2]), ProblemSets)):
        first, last = int(part[3]), int(part[4])
        if first > last:
            raise BadAddress(f"{address!r} goes from {first} down to {last}; {part[1]}/{last}-{first} names that part")
        whole = resolve(part[1], last + 1, sandbox)
        if len(whole) <= last:
            raise BadAddress(f"{address!r} is no part of {part[1]}, which has problems 0 to {len(whole) - 1}")
        return whole[first:][:limit]
    kind, colon, rest = address.partition(":")
    found: list[Any]
    if kind == "maze" and colon:
        from problems.maze import problem_set

        found = list(problem_set(address, limit))
    elif kind == "programs" and colon:
        found = _programs(rest, limit, source)
    elif kind == "livecodebench" and colon:
        from problems.programs.sets import from_livecodebench, parse_place

        found = list(from_livecodebench(parse_place(kind, rest), source, limit))
    elif kind == "list" and colon:
        found = [problem for one in addresses_in(rest) for problem in resolve(one, sandbox=sandbox)]
    elif kind == "score" and colon:
        raise BadAddress(
            f"{address} is a function that was given in Python, and has to be given again: "
            f'evo.resume("RUN", score={rest}) in Python goes on with its run'
        )
    elif isinstance(made := _find_named(kind), ProblemSets) and colon:
        found = list(made.load(rest, limit, source))
    elif made is not None and not isinstance(made, ProblemSets):
        found = _make(kind, made, rest if colon else None)
    else:
        found = [_at_path(address, source)]
    return found[:limit]


def describe_sets() -> list[dict[str, Any]]:
    """Every named set: name, count (None where only making it would tell), objectives, description, source, licence."""
    sets = built_in_sets()
    for name, made in sorted(_registered.items()):
        sets.append(describe_set(name, _first_line(made), None))
    for name in sorted(set(find_entry_points(ENTRY_POINTS)) - set(_registered)):
        made = _find_entry_point(name)
        if isinstance(made, ProblemSets):
            sets += made.describe()
        elif made is not None:
            sets.append(describe_set(name, f"entry point {ENTRY_POINTS}", None))
    return sets


def _programs(rest: str, limit: int | None, sandbox: Callable[[], Sandbox]) -> list[Any]:
    from problems.programs.sets import SUFFIXES, from_file, load_shipped, parse_place

    name, slash, index = rest.partition("/")
    if name in _PROGRAMS:
        found = load_shipped(name, sandbox)
        if not slash:
            return found[:limit]
        chosen = index.split(",")
        if not all(one.isdecimal() and int(one) < len(found) for one in chosen):
            raise BadAddress(
                f"programs:{rest} names no problem; programs:{name}/0 to programs:{name}/{len(found) - 1} do"
            )
        return [found[int(one)] for one in chosen][:limit]
    place = parse_place("programs", rest)
    if user_path(place.path).is_file() and all(index.isdecimal() for index in place.chosen):
        return list(from_file(place, sandbox, limit))
    if place.path.endswith(SUFFIXES) or any(f"{suffix}/" in rest for suffix in SUFFIXES):
        raise BadAddress(f"programs:{rest}: there is no such file")
    known = [f"programs:{name}" for name in _PROGRAMS]
    hint = did_you_mean(f"programs:{rest}", known)
    raise BadAddress(f"there is no set programs:{rest}{hint}; there are {', '.join(known)} and programs:FILE.jsonl")


def _at_path(address: str, sandbox: Callable[[], Sandbox]) -> Any:
    from problems.openevolve.directory import OpenEvolveProblem
    from problems.openevolve.initial_program import EVALUATOR, is_initial_program

    path = user_path(address)
    try:
        is_file, is_folder = path.is_file(), bool(address) and path.is_dir()
    except (OSError, ValueError):  # a name too long, a null character
        is_file = is_folder = False
    if is_folder and (path / EVALUATOR).is_file():
        return OpenEvolveProblem(path, sandbox)
    from problems.custom.command import FILE, CommandProblem, is_command_file
    from problems.custom.scorer_file import ScorerFileProblem

    if is_folder and (path / FILE).is_file():
        return CommandProblem(path / FILE, sandbox)
    if is_folder:
        _refuse_folder(address, path)
    if is_file and path.suffix in (".yaml", ".yml") and is_command_file(path):
        return CommandProblem(path, sandbox)
    if is_file and path.name != EVALUATOR and is_initial_program(path):
        own = path.stem == "initial_program"
        return OpenEvolveProblem(path.parent, sandbox, program=None if own else path.resolve())
    if is_file and path.suffix == ".py":
        return OpenEvolveProblem(path.parent, sandbox) if path.name == EVALUATOR else ScorerFileProblem(path, sandbox)
    if is_file and path.suffix in (".yaml", ".yml"):
        return OpenEvolveProblem(path.parent, sandbox, config=path.resolve())
    if is_file and path.suffix == ".jsonl":
        raise BadAddress(f"{address} is a file of tasks; programs:{address} names its problems")
    if is_file:
        raise BadAddress(f"{address} is no Python file with score(answer), and no OpenEvolve directory")
    beside = [file for file in files_beside(address) if file.endswith(_NAMED) or Path(file).is_dir()]
    known = [*_set_names(), *_registered, *find_entry_points(ENTRY_POINTS), *beside]
    hint = did_you_mean(address, known, like=0.5)
    raise BadAddress(
        f"there is no problem {address!r}; `evo problems` lists the sets, and a path to a scorer file or an OpenEvolve "
        f"directory works too{hint}"
    )


def _refuse_folder(address: str, folder: Path) -> NoReturn:
    """BadAddress for a directory that is no problem: what it holds instead, and how that is named."""
    from problems.openevolve.initial_program import is_scorer

    place = address.rstrip("/")
    scorers = [f"{place}/{path.name}" for path in sorted(folder.glob("*.py")) if is_scorer(path)]
    tasks = [f"programs:{place}/{path.name}" for path in sorted(folder.glob("*.jsonl"))]
    what = "holds no evaluator.py (as OpenEvolve's directories do) and no problem.yaml"
    if len(scorers) > 1:
        named = " ".join(scorers) if len(scorers) < 4 else f"{place}/*.py"
        raise BadAddress(f"{address} {what}, but {len(scorers)} scorers; name them all: {named}")
    if found := [*scorers, *tasks]:
        raise BadAddress(f"{address} {what}; did you mean {' or '.join(found[:3])}?")
    raise BadAddress(f"{address} {what}; a problem can also be a file with score(answer)")


def _set_names() -> list[str]:
    return [*(f"maze:{name}" for name in _MAZES), *(f"programs:{name}" for name in _PROGRAMS)]


def _find_named(name: str) -> Any | None:
    return _registered[name] if name in _registered else _find_entry_point(name)


def _find_entry_point(name: str) -> Any | None:
    point = find_entry_points(ENTRY_POINTS).get(name)
    return None if point is None else load_entry_point(point, name)


def _make(name: str, made: Any, rest: str | None) -> list[Problem]:
    problem = complete_problem(made)
    takes = problem is None and callable(made) and _takes_argument(made)
    if rest is not None and not takes:
        raise BadAddress(f"{name} takes nothing after a colon, but {name}:{rest} was asked for")
    if problem is not None:
        return [problem]
    if not callable(made):
        raise BadAddress(f"{name} is registered as a {type(made).__name__}, not as a problem or what makes one")
    made = made(rest) if takes and rest is not None else made()
    return [_problem(name, item) for item in (made if isinstance(made, Iterable) else [made])]


def _problem(name: str, made: object) -> Problem:
    problem = complete_problem(made)
    if problem is None:
        missing = ", ".join(member for member in MEMBERS if not hasattr(made, member))
        raise BadAddress(f"{name} made a {type(made).__name__}, which is no problem: it lacks {missing}")
    return problem


def _takes_argument(made: Any) -> bool:
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def _first_line(made: Any) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0]
