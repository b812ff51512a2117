"""The least problem whose answers are Python."""

from problems.contract import Problem, Score


class PythonProblem(Problem):
    name, objectives, target, answer_format = "p", ("case_1",), 1.0, "python"

    def statement(self):
        return "Write f."

    def seed_answer(self):
        return "def f(): pass"

    def score(self, answer):
        return Score((1.0,), 1.0)
