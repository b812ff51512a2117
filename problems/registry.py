"""Problems by address: built-in sets, files and directories, names registered in code, and installed entry points.

    maze:test  maze:test/17  maze:compromise     mazes (`evo problems` lists the sets)
    maze:train/900-999  programs:easy/0-4        a part of a set, both ends included
    programs:shipped  programs:easy/3            programming problems that ship (shipped, easy, medium, hard)
    programs:FILE.jsonl  programs:FILE.jsonl/12  HumanEval, MBPP or LiveCodeBench, from 0
    programs:FILE?from=2024-08-01&to=2025-02-01  the problems of a window of dates
    livecodebench:PATH  livecodebench:PATH/ID    LiveCodeBench as in the VPO paper (problems.programs.sets)
    list:FILE                                    the addresses in a file, one per line (problems.address)
    PATH/scorer.py                               a file with score(answer) (problems.custom.scorer_file), or one that a
                                                 plug-in claims (entry points "evo.files")
    PATH/directory  PATH/directory/config.yaml   an OpenEvolve problem directory (problems.openevolve.directory)
    PATH/problem.yaml  PATH/directory            a program of one file or several, scored by a command
                                                 (problems.custom.command)
    PATH/directory/program.py                    the same, if several files may be its initial program
    score:NAME                                   a Python function, if the caller gives it (see `given`)
    NAME  NAME:REST                              an entry point of the group "evo.problems", as the families in
                                                 evo/plugins are

It names a ProblemFamily, a Problem, or a class or function that makes one or a list of them, and that is called with
REST if it takes an argument.

A family is all problems whose addresses begin with one name and a colon, such as `maze:test/3`. A package adds one with
an entry point of the group "evo.problems", whose name is the family's:

    [project.entry-points."evo.problems"]
    knots = "my_package.knots:KNOTS"

    class Knots(ProblemFamily):
        name = "knots"
        def resolve(self, rest, limit, sandbox): return [KnotProblem(...)]
        def sets(self): return [ProblemSet("knots:small", "knots of up to 9 crossings", 84)]

    KNOTS = Knots()

`knots:small/0-9` is then a part of a set, `evo problems` lists it, and a mistyped name is answered with a known one.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from problems.address import addresses_in, did_you_mean, files_beside, split_range, user_path
from problems.contract import BadAddress, Problem
from problems.entry_points import find_entry_points, load_entry_point
from problems.sandbox import shared_sandbox

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

Sandboxes = Callable[[], "Sandbox"]
"""Opens the sandbox in which answers are executed."""


@dataclass(frozen=True)
class ProblemSet:
    """A set of problems as `evo problems` lists it.

    name: its address
    count: how many problems it has; None if counting would mean making them
    objectives: the names of the reward vector's components
    """

    name: str
    description: str
    count: int | None = None
    objectives: Sequence[str] = ()
    source: str = ""
    licence: str = ""


def chosen(stem: str, index: str | None, total: int, limit: int | None) -> range:
    """The places of STEM/INDEX among `total` problems, or of the first `limit` of STEM. Raises BadAddress."""
    if index is None:
        return range(total)[:limit]
    if not index.isdecimal() or int(index) >= total:
        raise BadAddress(f"{stem}/{index} names no problem; {stem}/0 to {stem}/{total - 1} do")
    return range(int(index), int(index) + 1)


def unknown_set(address: str, known: Sequence[str], more: str = "") -> BadAddress:
    """The error of an address that names no set. more: what works too"""
    return BadAddress(f"there is no set {address}{did_you_mean(address, known)}; there are {', '.join(known)}{more}")


class ProblemFamily:
    """Base class of a family. Subclasses define `name`, `resolve` and `sets`; the rest has a default.

    name: the text before the colon
    reads_files: `NAME:FILE` is an address too
    example: the address of one problem that resolves without files or network; "" if there is none
    """

    name: str
    reads_files: bool = False
    example: str = ""

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> Sequence[Problem]:
        """The problems that `NAME:rest` names, at most the first `limit`. Raises BadAddress in one line."""
        raise NotImplementedError

    def sets(self) -> Sequence[ProblemSet]:
        """The named sets, in the order in which they are listed."""
        return ()


ENTRY_POINTS = "evo.problems"
BUILT_IN = {
    "maze": "problems.maze.sets:MAZES",
    "programs": "problems.programs.sets:PROGRAMS",
    "livecodebench": "problems.programs.sets:LIVECODEBENCH",
    "list": "problems.registry:LISTS",
}
"""The families of this package which load when they are first named."""
_NAMED = (".py", ".yaml", ".yml")
"""Files that are problems by their path only."""
_given: ContextVar[Mapping[str, Problem]] = ContextVar("problems given by name", default=MappingProxyType({}))


@contextlib.contextmanager
def given(problems: Iterable[Problem]) -> Iterator[None]:
    """Within the block, and in the tasks and threads that asyncio starts there, each problem's name is its address."""
    token = _given.set({**_given.get(), **{problem.name: problem for problem in problems}})
    try:
        yield
    finally:
        _given.reset(token)


def resolve(address: str, limit: int | None = None, sandbox: Sandboxes | None = None) -> list[Problem]:
    """The problems that an address names, at most the first `limit`.

    sandbox: where hostile code runs; by default the process's own, opened when a problem first needs it
    Raises BadAddress, one line with valid alternatives. A custom scorer's fault shows when it scores.
    """
    if limit is not None and limit < 1:
        raise BadAddress(f"a limit of {limit} leaves no problems")
    if (problem := _given.get().get(address)) is not None:
        return [problem]
    kind, colon, rest = address.partition(":")
    made = _find_named(kind)
    if isinstance(made, ProblemFamily) and colon:
        if part := split_range(rest):
            place, first, last = part
            return _part_of(f"{kind}:{place}", first, last, limit, sandbox)
        problems = list(made.resolve(rest, limit, sandbox or shared_sandbox))
    elif kind == "score" and colon:
        raise BadAddress(
            f"{address} is a function that was given in Python, and has to be given again: "
            f'evo.resume("RUN", score={rest}) in Python continues its run'
        )
    elif made is not None and not isinstance(made, ProblemFamily):
        problems = _make(kind, made, rest if colon else None)
    else:
        problems = [_at_path(address, sandbox or shared_sandbox)]
    return problems[:limit]


def families() -> list[ProblemFamily]:
    """Every family that can be named here: the built-in ones, then those of entry points by name."""
    loaded = []
    for name in _names():
        with contextlib.suppress(BadAddress):  # describe_sets shows the fault
            loaded.append(_find_named(name))
    return [made for made in loaded if isinstance(made, ProblemFamily)]


def is_of_package(address: str) -> bool:
    """Whether an address names problems of this package, which no file of the user's makes or changes."""
    made = _find_named(address.partition(":")[0])
    ours = type(made).__module__.partition(".")[0] in ("problems", "evo")
    return isinstance(made, ProblemFamily) and ours and not made.reads_files


def describe_sets() -> list[dict[str, Any]]:
    """Every named set as a dict of ProblemSet's fields, then every other name."""
    rows: list[ProblemSet] = []
    for name in _names():
        try:
            made = _find_named(name)
        except BadAddress as error:
            rows.append(ProblemSet(name, str(error)))
            continue
        if isinstance(made, ProblemFamily):
            rows += made.sets()
        else:
            rows.append(ProblemSet(name, (inspect.getdoc(made) or "").partition("\n")[0]))
    return [{**asdict(row), "objectives": list(row.objectives)} for row in rows]


def _part_of(whole: str, first: int, last: int, limit: int | None, sandbox: Sandboxes | None) -> list[Problem]:
    part = f"'{whole}/{first}-{last}'"
    if first > last:
        raise BadAddress(f"{part} goes from {first} down to {last}; {whole}/{last}-{first} names that part")
    problems = resolve(whole, last + 1, sandbox)
    if len(problems) <= last:
        raise BadAddress(f"{part} is no part of {whole}, which has problems 0 to {len(problems) - 1}")
    return problems[first:][:limit]


def _names() -> list[str]:
    """Every name that may come before a colon: the built-in ones first."""
    return [*BUILT_IN, *sorted(find_entry_points(ENTRY_POINTS).keys() - set(BUILT_IN))]


def _find_named(name: str) -> Any | None:
    """The object of a name, here or of an entry point; None for an unknown name."""
    point = BUILT_IN.get(name) or find_entry_points(ENTRY_POINTS).get(name)
    return None if point is None else load_entry_point(point, name)


class _Lists(ProblemFamily):
    """`list:FILE`: the addresses in a file, one a line."""

    name = "list"
    reads_files = True

    def resolve(self, rest: str, limit: int | None, sandbox: Sandboxes) -> list[Problem]:
        found: list[Problem] = []
        for address in addresses_in(rest):
            found += resolve(address, None if limit is None else limit - len(found), sandbox)
            if len(found) == limit:
                break
        return found


LISTS = _Lists()


def _at_path(address: str, sandbox: Sandboxes) -> Problem:
    from problems.openevolve.directory import OpenEvolveProblem
    from problems.openevolve.evolve_block import EVALUATOR, evaluator_of, is_initial_program, is_scorer

    path = user_path(address)
    try:
        is_file, is_folder = path.is_file(), bool(address) and path.is_dir()
    except (OSError, ValueError):  # a name too long, a null character
        is_file = is_folder = False
    if is_folder and evaluator_of(path) is not None:
        return OpenEvolveProblem(path, sandbox)
    from problems.custom.command import FILE, CommandProblem, is_command_file  # what such a directory does without
    from problems.custom.scorer_file import ScorerFileProblem

    if is_folder and (path / FILE).is_file():
        return CommandProblem(path / FILE, sandbox)
    if is_folder:
        _refuse_folder(address, path)
    if is_file and path.suffix in (".yaml", ".yml"):
        command = is_command_file(path)
        return (
            CommandProblem(path, sandbox) if command else OpenEvolveProblem(path.parent, sandbox, config=path.resolve())
        )
    if is_file and path.name == EVALUATOR:
        above = path.resolve().parents[1]
        return OpenEvolveProblem(above if evaluator_of(above) == path.resolve() else path.parent, sandbox)
    if is_file and is_initial_program(path):
        own = [file.name for file in path.parent.glob("initial_program.*")] == [path.name]
        return OpenEvolveProblem(path.parent, sandbox, program=None if own else path.resolve())
    if is_file and path.suffix == ".py":
        claimant = None if is_scorer(path) else _claimant(path)
        return (claimant or partial(ScorerFileProblem, path))(sandbox)
    if is_file and path.suffix == ".jsonl":
        raise BadAddress(f"{address} is a file of tasks; programs:{address} names its problems")
    if is_file:
        raise BadAddress(f"{address} is no Python file with score(answer), and no OpenEvolve directory")
    beside = [file for file in files_beside(address) if file.endswith(_NAMED) or Path(file).is_dir()]
    hint = did_you_mean(address, [*(row["name"] for row in describe_sets()), *beside], like=0.5)
    raise BadAddress(
        f"there is no problem {address!r}; `evo problems` lists the sets, and a path to a scorer file or an OpenEvolve "
        f"directory works too{hint}"
    )


def _claimant(path: Path) -> Callable[[Sandboxes], Problem] | None:
    """What opens a Python file that a plug-in claims: an entry point of "evo.files" has claims(path, code) and
    open(path, code, sandbox)."""
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # the scorer file says so
    readers = [load_entry_point(point, name) for name, point in find_entry_points("evo.files").items()]
    return next((partial(reader.open, path, code) for reader in readers if reader.claims(path, code)), None)


def _refuse_folder(address: str, folder: Path) -> NoReturn:
    """BadAddress for a directory that is not a problem: its contents, and the address of a problem in it."""
    from problems.openevolve.evolve_block import is_scorer

    place = address.rstrip("/")
    scorers = [f"{place}/{path.name}" for path in sorted(folder.glob("*.py")) if is_scorer(path) or _claimant(path)]
    tasks = [f"programs:{place}/{path.name}" for path in sorted(folder.glob("*.jsonl"))]
    what = "holds no evaluator.py (as OpenEvolve's directories do) and no problem.yaml"
    if len(scorers) > 1:
        named = " ".join(scorers) if len(scorers) < 4 else f"{place}/*.py"
        raise BadAddress(f"{address} {what}, but {len(scorers)} scorers; name them all: {named}")
    if usable := [*scorers, *tasks]:
        raise BadAddress(f"{address} {what}; did you mean {' or '.join(usable[:3])}?")
    raise BadAddress(f"{address} {what}; a problem can also be a file with score(answer)")


def _make(name: str, made: Any, rest: str | None) -> list[Problem]:
    takes = False
    with contextlib.suppress(TypeError, ValueError):  # no function, or one without a signature
        parameters = inspect.signature(made).parameters.values()
        takes = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if rest is not None and not takes:
        raise BadAddress(f"{name} takes nothing after a colon, so {name}:{rest} names no problem")
    if isinstance(made, Problem):
        return [made]
    if not callable(made):
        raise BadAddress(f"{name} is a {type(made).__name__}, no problem and nothing that makes one")
    found = made(rest) if takes and rest is not None else made()
    problems = list(found) if isinstance(found, Iterable) else [found]
    for item in problems:
        if not isinstance(item, Problem):
            raise BadAddress(f"{name} made a {type(item).__name__}, which is no problem: subclass problems.Problem")
    return problems
