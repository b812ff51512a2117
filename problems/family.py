"""Problem families: all problems whose addresses begin with one name and a colon, such as `maze:test/3`.

A package adds a family with an entry point of the group "evo.problems", whose name is the family's:

    [project.entry-points."evo.problems"]
    knots = "my_package.knots:KNOTS"

    class Knots(ProblemFamily):
        name = "knots"
        def resolve(self, rest, limit, sandbox): return [KnotProblem(...)]
        def sets(self): return [ProblemSet("knots:small", "knots of up to 9 crossings", 84)]

    KNOTS = Knots()

`knots:small/0-9` is then a part of a set, `evo problems` lists it, and a mistyped name is answered with a known one.
The built-in families are written the same way (problems.registry.BUILT_IN); those below evo/plugins are installed
by entry points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from problems.address import did_you_mean
from problems.contract import BadAddress, Problem

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
