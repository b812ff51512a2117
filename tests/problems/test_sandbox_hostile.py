"""Hostile programs, each followed on the same worker by a good one that must be scored right."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.sandbox.child import syscalls
from problems.sandbox.contract import Limits, Program
from problems.sandbox.isolation import probe
from problems.sandbox.pool import Sandbox

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "hostile"))
TABLE = importlib.import_module("table")
PROGRAMS = [
    program
    for name in ("endless", "greedy", "nosy", "violent", "forging")
    for program in importlib.import_module(name).PROGRAMS
]
sys.path.remove(str(HERE / "hostile"))

GOOD = Program(
    """
import fractions, heapq, json, numpy, os, random, sys
def good(n):
    print("hello", n)
    return [n, sum(range(n)), float(numpy.sum(numpy.arange(n))), json.loads(json.dumps([n])), os.listdir("."),
            type(random.random()) is float, str(fractions.Fraction(n, 4)), heapq.nsmallest(1, [n, 1]),
            os.getcwd() == HOME]
HOME = os.getcwd()
""",
    ("good(6)", "good(7)"),
)
EXPECTED = [[6, 15, 15.0, [6], [], True, "3/2", [1], True], [7, 21, 21.0, [7], [], True, "7/4", [1], True]]


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    reason = probe(request.param)
    if reason is not None:
        pytest.skip(f"{request.param} cannot be had here: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVO_TEST_SECRET", "secret")
        with Sandbox.open(request.param, workers=1) as opened:
            # what is looked for by the program that searches memory passes through the same worker first
            marked = Program("def f(x): return x\n", ("f('expected-' + 'elsewhere')", "f(['expected-elsewhere'])"))
            opened.run(marked)
            yield opened


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "secret.txt"
    path.write_text("secret")
    path.chmod(0o666)
    path.parent.chmod(0o777)
    return path


def filled(code: str, secret: Path) -> str:
    """The program with {name} of a system call, {secret}, {repository} and {home} put in."""
    places = {"secret": str(secret), "repository": str(HERE.parents[1]), "home": str(Path.home())}

    def place(match: re.Match[str]) -> str:
        name = match.group(1)
        return places.get(name) or str(syscalls.number(name))

    known = {*places, *re.findall(r"(\w+):\d+:", " ".join(v for k, v in vars(syscalls).items() if type(v) is str))}
    return re.sub(r"\{(\w+)\}", lambda m: place(m) if m.group(1) in known else m.group(0), code)


@pytest.mark.parametrize("hostile", PROGRAMS, ids=lambda item: item.name.replace(" ", "-").replace("/", "-"))
def test_hostile_then_good(sandbox: Sandbox, hostile, secret: Path) -> None:
    limits = Limits(**hostile.limits)
    program = Program(filled(hostile.code, secret), hostile.cases, hostile.mode, TABLE.SETUP)
    outcomes = sandbox.run(program, limits)
    assert len(outcomes) == len(hostile.cases)
    allowed = hostile.landlock if hostile.landlock and sandbox.mode == "landlock" else hostile.status
    for outcome in outcomes:
        assert outcome.status in allowed, outcome
        assert hostile.message in outcome.message
        assert len(outcome.message) <= 4000 + 100
        if outcome.status == "ok" and hostile.values is not None:
            assert outcome.value in hostile.values
        elif outcome.status == "ok" and len(hostile.status) == 1:
            assert outcome.value == hostile.value
    assert secret.read_text() == "secret" and secret.stat().st_mode & 0o777 == 0o666
    good = sandbox.run(GOOD, Limits())
    assert [outcome.status for outcome in good] == ["ok", "ok"], good
    assert [outcome.value for outcome in good] == EXPECTED
    assert [outcome.stdout for outcome in good] == ["hello 6\n", "hello 7\n"]


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 60
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_no_process_of_ours_is_left() -> None:
    """After the pools above closed. Only this process's own children are looked at."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this kernel does not list children")
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children.read_text().split()]
    ours = (
        b"resource_tracker",
        b"forkserver",
        b"warm_processes.py",
    )  # the last: the session's
    commands = [one for one in commands if not any(name in part for part in one for name in ours)]
    assert not [one for one in commands if Path(one[0].decode()).name.startswith(("bwrap", "python"))]
