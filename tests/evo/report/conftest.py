"""Reports of the made-up comparison, and a problem whose answers may hold anything."""

from __future__ import annotations

import pytest
from hostile_text import HOSTILE, AnyTextProblem
from matplotlib.figure import Figure

from evo.report import plot
from islands.store import Store


@pytest.fixture
def any_text():
    return AnyTextProblem


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


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
