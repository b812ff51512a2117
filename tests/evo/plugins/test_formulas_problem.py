"""`formula:` as problems, the generated sets, canonical forms, and `scripted:gp`."""

import hashlib
import json

import numpy as np
import pytest
from support.command_line import evo
from support.rows import yaml_rows

from evo.plugins.formulas import parse_formula
from evo.plugins.formulas.laws import generated
from evo.plugins.formulas.operator import generate as breed
from evo.testing import PolicyContract, ProblemContract
from problems import BadAddress, resolve
from problems.types import Prompt
from vpo.policies.address import PolicySettings, parse_address
from vpo.policies.scripted import load_scripted


class TestFeynman(ProblemContract):
    answers = ("m_0/sqrt(1 - v**2/c**2)", "1.0*m_0*v", "log(-m_0)", "y = m_0")
    solution = "m_0/(1.0 - v**2/c**2)**0.5"

    def problem(self):
        return resolve("formula:feynman")[5]


class TestGP(PolicyContract):
    prompts = tuple(
        Prompt(f"Find a formula that gives y from the variables x1, x2.\n{i}", "", stream=100 + i, shown=("1.0*x1*x2",))
        for i in range(4)
    )

    def open_policy(self):
        return load_scripted(parse_address("scripted:gp"), PolicySettings())


class TestGenerated(ProblemContract):
    def problem(self):
        return resolve("formula:test?noise=0.01/7")[0]


def test_constants_are_fitted_before_they_are_scored():
    (problem,) = resolve("formula:feynman/21")  # m*g*z is far from it; q*v*B*sin(theta)/p has a constant of 1
    law = problem.law
    exact = problem.score(law.text)
    assert exact.fitness >= problem.target and min(exact.rewards[:-1]) == 1.0
    scaled = problem.score(f"7.5*({law.text})")
    assert scaled.fitness >= problem.target and "Fitted: 1.0*" in scaled.feedback.replace("0.999999", "1.0")
    weak = problem.score(problem.seed_answer())
    assert weak.fitness < problem.target and weak.error is None and "region_1" in weak.feedback


def test_answers_that_read_alike_are_one_and_faults_of_an_answer_are_scores():
    (problem,) = resolve("formula:train/0")
    alike = ("1.0*x1 + 1.0", "1.0*x1+1.0", "y = (1.0 * x1) + 1.0")
    assert {problem.canonical(text) for text in alike} == {"1.0*x1 + 1.0"}
    assert problem.canonical("1.0*x1 + 2") == problem.canonical("1.0*x1+2") != "1.0*x1 + 1.0"
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


def test_gp_changes_the_fitted_parent():
    user = "from the variables x1, x2.\n# Answer to improve\nFeedback: Fitted: 2.5*x1 + x2\n1.0*x1 + x2"
    children = breed(Prompt(user, "", 0, shown=("1.0*x1 + x2", "sin(x2)")), "text", 50, 12345)
    assert len(set(children)) > 25 and any("2.5" in child for child in children)
    assert all(parse_formula(child, ("x1", "x2")).size <= 60 for child in children)


@pytest.mark.parametrize(("address", "text", "said"), yaml_rows(__file__, "bad addresses"))
def test_addresses_that_name_nothing_say_so_in_one_line(here, address, text, said):
    (here / "t.csv").write_text(text)
    with pytest.raises(BadAddress, match=said) as caught:
        resolve(address)
    assert len(str(caught.value).splitlines()) == 1


def test_a_search_solves_without_a_model(here, capsys):
    arguments = ["--policy", "scripted:gp", "--iterations", "40", "--rollouts", "4", "--answers", "1", "--seed", "1"]
    code, out, _ = evo(capsys, "run", "formula:small/17", *arguments, "--json")
    assert code == 0 and json.loads(out)["problems"][0]["best"] >= 0.5
