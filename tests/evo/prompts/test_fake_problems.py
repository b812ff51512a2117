"""The problems that tests of the search make up keep the contract of real ones."""

import pytest
from support.python_problem import PythonProblem

from evo.testing import ProblemContract


class TestDigits(ProblemContract):
    answers = ("01234567", "0123456x")
    solution = "99999999"

    @pytest.fixture(autouse=True)
    def _made(self, digits):
        self.made = digits(target=1.0)

    def problem(self):
        return self.made


class TestPython(ProblemContract):
    def problem(self):
        return PythonProblem()
