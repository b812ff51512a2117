"""The problem that tests of the report make up keeps the contract of real ones."""

import pytest

from evo.testing import ProblemContract


class TestAnyText(ProblemContract):
    answers = ("aeiou",)
    solution = "a" * 400

    @pytest.fixture(autouse=True)
    def _made(self, any_text):
        self.made = any_text()

    def problem(self):
        return self.made
