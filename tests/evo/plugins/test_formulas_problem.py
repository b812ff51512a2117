"""`formula:` as problems, the generated sets, canonical forms, and `scripted:gp`."""

import asyncio
import hashlib
import json

import numpy as np
import pytest
from click.testing import CliRunner

from evo.cli import invoke
from evo.cli.show import best as best_command
from evo.config.run import PromptConfig
from evo.plugins.formulas import parse
from evo.plugins.formulas.evaluation import evaluate
from evo.plugins.formulas.laws import generated
from evo.plugins.formulas.operator import generate as breed
from evo.plugins.formulas.writing import to_latex, to_python, to_sympy
from evo.prompts.registry import open_format
from evo.search.score import AnswerScores, score_rollouts
from evo.testing import PolicyContract, ProblemContract
from islands.types import Selection
from problems import BadAddress, resolve
from problems.types import Prompt, Rollout
from vpo.policies.address import PolicySettings, parse_address
from vpo.policies.scripted import load_scripted

NAMES = ("a", "b", "c")


class TestFeynman(ProblemContract):
    answers = ("m_0/sqrt(1 - v**2/c**2)", "1.0*m_0*v", "log(-m_0)", "y = m_0")
    solution = "m_0/(1.0 - v**2/c**2)**0.5"

    def problem(self):
        return resolve("formula:feynman")[5]


class TestSmall(ProblemContract):
    def problem(self):
        return resolve("formula:small/3")[0]


class TestGenerated(ProblemContract):
    def problem(self):
        return resolve("formula:test?noise=0.01/7")[0]


class TestGP(PolicyContract):
    prompts = tuple(
        Prompt(f"Find a formula that gives y from the variables x1, x2.\n{i}", "", stream=100 + i, shown=("1.0*x1*x2",))
        for i in range(4)
    )

    def open_policy(self):
        return load_scripted(parse_address("scripted:gp"), PolicySettings())


def test_constants_are_fitted_before_they_are_scored():
    (problem,) = resolve("formula:feynman/21")  # m*g*z is far from it; q*v*B*sin(theta)/p has a constant of 1
    law = problem.law
    exact = problem.score(law.text)
    assert exact.fitness >= problem.target and min(exact.rewards[:-1]) == 1.0
    scaled = problem.score(f"7.5*({law.text})")
    assert scaled.fitness >= problem.target and "Fitted: 1.0*" in scaled.feedback.replace("0.999999", "1.0")
    weak = problem.score(problem.seed_answer())
    assert weak.fitness < problem.target and weak.error is None and "region_1" in weak.feedback


def test_an_answer_that_reads_as_its_parent_costs_no_evaluation():
    (problem,) = resolve("formula:train/0")
    prompt_format = open_format(problem, "chat", PromptConfig(), 1)
    texts = ["1.0*x1 + 1.0", "<answer_1>1.0*x1+1.0</answer_1>", "y = (1.0 * x1) + 1.0", "1.0*x1 + 2", "1.0*x1+2"]
    rollouts = [Rollout(text, np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32)) for text in texts]

    async def score():
        scorer = Counting()
        scores = AnswerScores(problem, scorer)
        await scores.score(problem.seed_answer())
        scored = await score_rollouts(prompt_format, rollouts, scores)
        return scorer.texts, [rollout.answers[0].score.fitness for rollout in scored]

    evaluated, fitness = asyncio.run(score())
    assert evaluated == [problem.canonical(text) for text in ("1.0*x1 + 1.0", "1.0*x1 + 2")]
    assert len(set(fitness[:3])) == len(set(fitness[3:])) == 1


class Counting:
    """A scorer that keeps what it evaluates."""

    def __init__(self):
        self.texts = []

    async def score(self, problem, answers):
        self.texts += answers
        return [(problem.score(answer), 0.0) for answer in answers]


def test_faults_of_an_answer_are_scores():
    (problem,) = resolve("formula:small/0")
    for answer in ("import os", "log(x1 - 5)", "x9", "1/0*x1"):
        score = problem.score(answer)
        assert score.error and score.fitness == 0 and not any(score.rewards)


def test_a_table_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    mass, speed = rng.uniform(1, 2, (2, 40))
    lines = ["mass [kg],speed [m/s],energy [J]"]
    lines += [f"{m},{v},{m * v * v / 2}" for m, v in zip(mass, speed, strict=True)]
    file = tmp_path / "energy.csv"
    file.write_text("\n".join(lines))
    (problem,) = resolve(f"formula:{file}")
    assert "mass [kg]" in problem.statement() and problem.train[0].shape == (2, 30)
    assert problem.score("0.1*mass*speed**2").fitness >= problem.target
    (other,) = resolve(f"formula:{file}?target=mass")
    assert other.names == ("speed", "energy") and other.score("1.0*energy/speed**2").fitness >= other.target


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "has 1 rows of data; at least 8 are needed"),
        ("a,b\n" + "1,2\n" * 20, "the target 'b' is 2 in every row"),
        ("a,b\n" + "1,x\n" * 20, "the target 'b' is text, such as 'x' in line 2"),
        ("a,b\n" + "1,nan\n" * 20, "lack a finite number: b"),
        ("a,a\n" + "1,2\n" * 20, "several columns with the name 'a'"),
    ],
)
def test_unusable_tables_are_named_in_one_line(text, said, tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(BadAddress, match=said) as caught:
        resolve(f"formula:{file}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "address",
    ["formula:nothing", "formula:small/66", "formula:small?target=y", "formula:small?x=1"],
)
def test_addresses_that_name_nothing(address):
    with pytest.raises(BadAddress):
        resolve(address)


def test_noise_is_on_training_rows_only():
    (noisy,), (clean,) = resolve("formula:feynman?noise=0.1/3"), resolve("formula:feynman/3")
    assert np.array_equal(noisy.test[1], clean.test[1])
    added = (noisy.train[1] - clean.train[1]).std() / clean.train[1].std()
    assert 0.08 < added < 0.12


def test_generated_formulas_are_fixed_graded_and_not_published():
    laws = generated("train")[:60]
    for law in laws:
        x, y = law.rows("train", 0)
        assert np.isfinite(y).all() and y.std() > 0 and len(law.rows("test", 0)[1]) == 1000
    sizes = np.array([law.formula.size for law in laws]).reshape(-1, 5).mean(0)
    assert sizes[0] < sizes[1] < sizes[2]
    assert len({law.text for law in laws}) > 55
    chosen = [("test", k) for k in range(100)] + [("train", k) for k in range(0, 10_000, 25)]
    drawn = [(law.text, law.train) for law in (generated(split)[k] for split, k in chosen)]
    assert hashlib.sha256(json.dumps(drawn).encode()).hexdigest().startswith("6eacccac2582"), "the sets have changed"


def test_texts_for_other_programs():
    formula = parse("1.5*a**2/sqrt(b) - exp(-a)*sin(pi*b) + abs(b)**a", NAMES)
    x = np.random.default_rng(0).uniform(1, 2, (3, 9))
    values = evaluate(formula, x)
    space = {}
    exec(to_python(formula, NAMES), space)
    assert np.allclose(space["f"](*x), values)
    sympy = pytest.importorskip("sympy")
    expression = to_sympy(formula, NAMES)
    computed = sympy.lambdify(sympy.symbols(NAMES, real=True), expression)(*x)
    assert np.allclose(computed, values)
    assert "\\frac{1.5 a^{2}}{\\sqrt{b}}" in to_latex(formula, NAMES)


def test_gp_changes_the_fitted_parent():
    user = "from the variables x1, x2.\n# Answer to improve\nFeedback: Fitted: 2.5*x1 + x2\n1.0*x1 + x2"
    children = breed(Prompt(user, "", 0, shown=("1.0*x1 + x2", "sin(x2)")), "text", 50, 12345)
    assert len(set(children)) > 25 and any("2.5" in child for child in children)
    assert all(parse(child, ("x1", "x2")).size <= 60 for child in children)


def test_a_search_through_islands_solves_with_gp(tmp_path):
    database = f"sqlite:///{tmp_path}/evo.db"
    arguments = ["run", "formula:small/17", "--policy", "scripted:gp", "--iterations", "40", "--seed", "1", "--plain"]
    assert invoke([*arguments, "--name", "r", "--db", database]) == 0
    (row,) = json.loads(CliRunner().invoke(best_command, ["r", "--db", database, "--json"]).output)
    assert row["fitness"] >= 0.5


def test_terms_that_a_prompt_marks_are_added_without_a_model(tmp_path, capsys):
    database = f"sqlite:///{tmp_path}/evo.db"
    arguments = ["--policy", "scripted:marks", "--iterations", "20", "--rollouts", "4", "--answers", "1", "--seed", "1"]
    assert invoke(["run", "formula:small/0", *arguments, "--plain", "--name", "r", "--db", database]) == 0
    (row,) = json.loads(CliRunner().invoke(best_command, ["r", "--db", database, "--json"]).output)
    assert row["fitness"] >= 0.5
    capsys.readouterr()
    assert invoke(["run", "maze:test", *arguments, "--db", database, "--plain"]) == 2
    assert "only understands formulas" in capsys.readouterr().err


class TestMarks(PolicyContract):
    def open_policy(self):
        return load_scripted(parse_address("scripted:marks"), PolicySettings())

    @property
    def prompts(self):
        (problem,) = resolve("formula:small/0")
        made = open_format(problem, "formula-edit", PromptConfig(), 1)
        return tuple(made.build(Selection(None, (), ()), stream=100 + i) for i in range(4))
