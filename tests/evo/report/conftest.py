"""A made-up comparison in a database, and finished searches of a problem whose answers may hold anything."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from sqlalchemy import update

from bench.report import made_up
from evo.report import plot
from islands.db.schema import Run
from islands.db.store import Store
from problems.contract import Problem, Score

HOSTILE = (
    "</pre></script><script>fetch('http://evil.example/')</script><img src=x onerror=alert(1)> "
    "</style>\"'><svg/onload=alert(2)> {{ 7 * 7 }} \x1b[31m\x08\u202e\ud800 $\\frac{1}{2}$ &lt;"
)


class AnyTextProblem(Problem):
    """Every answer counts: the longer the better, up to the target."""

    objectives, inline = ("length", "<i>&vowels"), True

    def __init__(self, name="any/<b>0</b>", target=0.9):
        self.name, self.target = name, target

    def statement(self):
        return "Write."

    def seed_answer(self):
        return "a"

    def score(self, answer):
        size = min(1.0, len(answer) / 400)
        vowels = sum(letter in "aeiou" for letter in answer) / max(1, len(answer))
        return Score((size, vowels), size, {"size": float(len(answer))}, feedback=HOSTILE)


@pytest.fixture
def any_text():
    return AnyTextProblem


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The address of a database with a comparison `made-up`: 3 arms (one is grpo) x 2 seeds x 5 problems x 12."""
    address = f"sqlite:///{tmp_path_factory.mktemp('made') / 'runs.db'}"
    made_up(address, problems=5, iterations=12, arms=3, seeds=2)
    return address


@pytest.fixture(scope="session")
def page_for():
    """page_for(address, name) -> the Report and its page."""

    def made_for(address, name):
        from evo.report.page import page_of
        from evo.report.report import report_of

        with Store.open(address, read_only=True) as store:
            report = report_of(store, name)
        return report, page_of(report)

    return made_for


@pytest.fixture(scope="session")
def finished(made, page_for):
    """The Report of the made-up comparison, and its page."""
    return page_for(made, "made-up")


@pytest.fixture
def coarse(monkeypatch):
    """Pictures in few pixels without an even layout, at a third of the time: everything is drawn all the same."""

    def plain(*, figsize, layout):
        return Figure(figsize=figsize)

    monkeypatch.setattr(plot, "Figure", plain)
    monkeypatch.setattr(plot, "DPI", 20)


@pytest.fixture
def as_comparison():
    """as_comparison(address, {run name: (arm, seed)}): put runs together as one comparison named `both`."""

    def put_together(address, runs):
        with Store.open(address) as store, store.begin() as tx:
            for name, (arm, seed) in runs.items():
                tx.connection.execute(
                    update(Run).where(Run.c.name == name).values(comparison="both", arm=arm, seed=seed, status="done")
                )

    return put_together
