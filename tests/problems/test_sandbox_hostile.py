"""Hostile programs, each followed on the same worker by a good one that must be scored right."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from problems.sandbox.contract import Limits, Program
from problems.sandbox.pool import Sandbox, probe

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "hostile"))
TABLE = importlib.import_module("table")
PROGRAMS = sum(TABLE.read_programs().values(), [])
GENERATED = importlib.import_module("families").generate()
SAMPLE = GENERATED[::11]
"""`python -m bench.hostile` runs them all."""
sys.path.remove(str(HERE / "hostile"))


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    reason = probe(request.param)
    if reason is not None:
        pytest.skip(f"{request.param} is not available here: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVO_TEST_SECRET", "secret")
        with Sandbox(request.param, workers=1) as opened:
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


@pytest.mark.parametrize(
    "hostile", [*PROGRAMS, *SAMPLE], ids=lambda item: item.name.replace(" ", "-").replace("/", "-")
)
def test_hostile_then_good(sandbox: Sandbox, hostile, secret: Path) -> None:
    places = {"secret": str(secret), "repository": str(HERE.parents[1]), "home": str(Path.home())}
    assert TABLE.find_faults(hostile, TABLE.run(sandbox, hostile, places), sandbox.mode) == []
    assert secret.read_text() == "secret" and secret.stat().st_mode & 0o777 == 0o666
    assert TABLE.find_faults_of_good(sandbox.run(TABLE.GOOD, Limits())) == []


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 60
    assert len(GENERATED) >= 300
    assert len({program.name for program in [*PROGRAMS, *GENERATED]}) == len(PROGRAMS) + len(GENERATED)
