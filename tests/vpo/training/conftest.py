"""All training tests run on one thread."""

import pytest


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Every test here, without naming it."""
