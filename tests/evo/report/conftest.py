"""Pages of stored comparisons."""

from __future__ import annotations

import pytest

from evo.progress.model import Progress
from evo.report.page import build_page, content_policy, render
from islands.store import Store


@pytest.fixture(scope="session")
def page_for():
    """page_for(address, name) -> the Page and its HTML."""

    def made_for(address, name, against=None):
        with Store.open(address, read_only=True) as store:
            page = build_page(Progress.open(store, name, against))
        return page, render("page.html.jinja", page=page, state="done", policy=content_policy())

    return made_for


@pytest.fixture(scope="session")
def finished(made, page_for):
    """The Page of the made-up comparison, and its HTML."""
    return page_for(made, "made-up")
