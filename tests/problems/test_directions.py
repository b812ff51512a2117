"""Lower-is-better metrics: declared, warned of, and always handed over so that higher is better."""

import warnings

import pytest

from problems import resolve
from problems.custom.scorer_problem import doubts, is_timing, reward_of, suggests_lower

PROGRAM = "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"


@pytest.mark.parametrize("name", ["error", "val_loss", "lag", "meanLag", "total_ms", "eval_time", "RMSE", "error_rate"])
def test_names_that_suggest_lower(name):
    assert suggests_lower(name) == (name != "error_rate")
    assert is_timing(name) == (name in ("total_ms", "eval_time"))


@pytest.mark.parametrize(
    "name", ["accuracy", "time_score", "speed", "timeliness", "terror", "speedup_ms", "loss_reduction"]
)
def test_names_that_do_not(name):
    assert not suggests_lower(name) and not is_timing(name)


def test_a_minimised_metric_is_a_reward_that_falls_and_stays_above_a_failures():
    values = [-1e6, -1.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 1e12]
    rewards = [reward_of(value, "min") for value in values]
    assert rewards == sorted(set(rewards), reverse=True) and min(rewards) > 0
    assert reward_of(0.0, "min") == 1.0 and reward_of(3.0, "max") == reward_of(3.0, None) == 3.0


@pytest.fixture
def scorer(tmp_path):
    def write(text):
        (tmp_path / "scorer.py").write_text(text)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            (problem,) = resolve(str(tmp_path / "scorer.py"))
        return problem, [str(warning.message) for warning in told]

    return write


@pytest.fixture
def directory(tmp_path):
    def write(metrics, config=""):
        (tmp_path / "initial_program.py").write_text(PROGRAM)
        (tmp_path / "evaluator.py").write_text(
            f"def evaluate(path):\n    n = len(open(path).read())\n    return {metrics}\n"
        )
        (tmp_path / "config.yaml").write_text(config)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            (problem,) = resolve(str(tmp_path))
        return problem, [str(warning.message) for warning in told]

    return write


ERROR = "def score(answer):\n    return {'error': float(len(answer)), 'size': 1.0}\ndirections = {'error': 'min'}\n"


def test_a_scorer_declares_a_direction(scorer):
    problem, told = scorer(ERROR)
    assert problem.fault is None and told == [] and problem.objectives == ("error", "size")
    assert problem.score("abc").rewards == (0.25, 1.0) and problem.score("abc").error is None
    assert problem.score("a").fitness > problem.score("abc").fitness > 0
    assert "Lower is better in error" in problem.statement()
    problem, told = scorer("directions = {'score': 'min'}\ndef score(answer):\n    return len(answer)\n")
    assert problem.score("abc").fitness == 0.25 and told == []


def test_a_scorer_whose_name_suggests_lower_is_warned_of(scorer):
    problem, told = scorer("def score(answer):\n    return {'loss': 1.0, 'size': 2.0}\n")
    assert problem.score("a").rewards == (1.0, 2.0), "a guess changes nothing"
    (line,) = told
    assert "higher counts as better in loss" in line and 'directions: {loss: "min"}' in line and "\n" not in line
    assert scorer("directions = {'loss': 'max'}\ndef score(answer):\n    return {'loss': 1.0}\n")[1] == []
    assert doubts(("size",), {}) == ""


def test_timings_of_a_scorer_are_objectives_only_where_they_are_named(scorer):
    body = "def score(answer):\n    return {'eval_time': 3.0, 'size': 2.0}\n"
    problem, told = scorer(body)
    assert problem.objectives == ("size",) and problem.score("a").rewards == (2.0,)
    assert len(told) == 1 and "eval_time: timings" in told[0]
    for named in ("objectives = ['eval_time', 'size']\n", "weights = {'eval_time': 1, 'size': 1}\n"):
        assert scorer(named + body)[0].objectives == ("eval_time", "size")
    problem, told = scorer("directions = {'eval_time': 'min'}\n" + body)
    assert problem.score("a").rewards == (0.25, 2.0) and told == []
    assert scorer("def score(answer):\n    return {'runtime': 3.0}\n")[0].objectives == ("runtime",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("directions = {'size': 'low'}", "it must map names"),
        ("directions = ['size']", "it must map names"),
        ("directions = {'other': 'min'}", "directions names other; the objectives are size"),
    ],
)
def test_a_wrong_declaration_is_a_fault_that_names_the_file(scorer, line, says):
    problem, _ = scorer(line + "\ndef score(answer):\n    return {'size': 2.0}\n")
    assert says in str(problem.fault) and "scorer.py" in str(problem.fault)


def test_a_directory_declares_directions_in_its_config(directory):
    problem, told = directory("{'error': 3.0, 'gain': 2.0, 'eval_time': 9.0}", "directions: {error: min}\n")
    assert problem.fault is None and problem.objectives == ("error", "gain")
    assert problem.score(PROGRAM).rewards == (0.25, 2.0) and problem.score(PROGRAM).fitness == 1.125
    assert len(told) == 1 and "eval_time: timings, no objectives unless named" in told[0]
    assert "Lower is better in error" in problem.statement()


def test_a_directory_names_its_objectives_in_its_config(directory):
    problem, told = directory("{'lag': 3.0, 'gain': 2.0, 'eval_time': 9.0}", "objectives: [eval_time, gain]\n")
    assert problem.objectives == ("eval_time", "gain") and len(told) == 1 and "in eval_time" in told[0]
    problem, _ = directory("{'gain': 2.0}", "objectives: [other]\n")
    assert "no metric named other; there are gain" in str(problem.fault)
    problem, told = directory("{'lag': 3.0, 'gain': 2.0}")
    assert problem.score(PROGRAM).rewards == (2.0, 3.0) and "higher counts as better in lag" in told[0]


def test_a_combined_score_to_be_lowered(directory):
    problem, _ = directory("{'combined_score': float(n)}", "directions: {combined_score: min}\n")
    longer = problem.canonical("x = 1111\n")
    assert 0 < problem.score(longer).fitness < problem.score(PROGRAM).fitness < 1
