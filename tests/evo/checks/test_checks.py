"""Each check on a scorer that has the fault and on one that has not, and `evo check` as it is typed."""

import json

import numpy as np
import pytest
from support.command_line import evo, refused

from evo.checks.soundness import (
    check_contract,
    check_cost,
    check_determinism,
    check_objectives,
    check_seed,
    check_steps,
    check_trivial,
    check_values,
)
from evo.checks.subject import Outcome, Subject
from problems import Problem, Score, resolve

GRADED = """\
def score(answer):
    word = answer.strip()
    return {"letters": len(set(word)) / 26, "a": word.count("a") / 9}
"""


@pytest.fixture
def subject_of(tmp_path):
    """subject_of(code of a scorer file) -> Subject"""

    def make(code, seed="abcd", **settings):
        file = tmp_path / "scorer.py"
        file.write_text(f"seed_answer = {seed!r}\n{code}")
        return Subject(resolve(str(file))[0], **{"mutants": 16, **settings})

    return make


class Vectors(Problem):
    """Names objectives; what it scores is given by the test."""

    execution = "never"

    def __init__(self, *objectives, target=None, **given):
        self.name, self.objectives, self.target = "vectors", objectives, target
        self.__dict__.update(given)

    def statement(self):
        return "Numbers."

    def score(self, answer):
        raise AssertionError("nothing is scored here")


def scored(problem, *rows, fitness=None, seconds=1.0):
    """A Subject that has asked for answers of these rewards."""
    subject = Subject(problem)
    for place, row in enumerate(rows):
        value = fitness[place] if fitness else sum(row) / len(row)
        subject.asked.append(Outcome(str(place), Score(tuple(row), value), "", seconds))
    subject.mutants = list(subject.asked)
    return subject


def levels(findings):
    return {finding.check: finding.level for finding in findings}


def test_a_scorer_that_fails_on_its_seed(subject_of):
    assert check_seed(subject_of("def score(answer):\n    return 1 / 0\n")).level == "finding"
    sound = check_seed(subject_of(GRADED))
    assert sound.level == "ok" and "letters 0.1538, a 0.1111" in sound.summary, sound.summary
    assert "ends at once" in check_seed(subject_of(f"target = 0.1\n{GRADED}")).summary


@pytest.mark.parametrize(
    "then", ["raise KeyError(answer)", "return {'x': float('nan')}", "return {'x': float('inf')}", "return {'y': 1.0}"]
)
def test_a_scorer_that_fails_on_some_answers(subject_of, then):
    subject = subject_of(f"def score(answer):\n    if answer != 'abcd':\n        {then}\n    return {{'x': 1.0}}\n")
    faults = next(iter(check_values(subject)))
    assert faults.level == "finding" and "fails on 3" in faults.summary, faults.summary


def test_a_scorer_that_fails_on_a_few_answers_is_no_fault_since_a_search_scores_them(subject_of):
    subject = subject_of("def score(answer):\n    return {'x': 1 / len(answer.split('`')[0])}\n")
    faults = next(iter(check_values(subject)))
    assert faults.level == "note" and "fails on 4 of" in faults.summary, faults.summary
    assert set(levels(check_values(subject_of(GRADED))).values()) == {"ok"}


def test_scores_below_zero():
    def negative(*rows):
        subject = scored(Vectors("x", "y"), *rows)
        subject.ask_all = lambda answers: []
        return {finding.check: finding for finding in check_values(subject)}["negative"]

    found = negative((-1.0, 2.0), (3.0, 1.0))
    assert found.level == "finding" and found.details == ("x: down to -1",)
    assert negative((1.0, 2.0), (3.0, 1.0)).level == "ok"


def test_a_problem_that_breaks_the_contract_of_a_problem(subject_of):
    assert check_contract(subject_of(GRADED)).level == "ok"
    drawn = iter(range(99))
    finding = check_contract(Subject(Vectors("x", "x", statement=lambda: f"Task {next(drawn)}")))
    broken = [line.partition(":")[0] for line in finding.details]
    assert finding.level == "finding" and broken == [
        *("it has every member", "its texts stay the same", "its fingerprint is sixteen digits and stays"),
    ], broken


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "level", "told"),
    [
        ("import os\ndef score(answer):\n    return {'x': 1 + os.urandom(1)[0]}\n", "finding", "several scores"),
        ("def score(answer):\n    return {'x': 1.0 + hash('evo') % 1000}\n", "finding", "with another hash seed"),
        (GRADED, "ok", "4 answers 10 times"),
    ],
    ids=["random", "hash", "graded"],
)
def test_whether_a_scorer_is_deterministic(subject_of, body, level, told):
    finding = check_determinism(subject_of(body), "auto")
    assert finding.level == level and told in finding.summary, finding.summary


def test_a_scorer_that_remembers_earlier_answers(monkeypatch):
    seen = set()

    def score(answer):
        new = answer not in seen
        seen.add(answer)
        return Score((1.0 + new,), 1.0 + new)

    monkeypatch.setattr("evo.checks.soundness.score_elsewhere", lambda *asked: [])
    finding = check_determinism(Subject(Vectors("x", seed_answer=lambda: "abcd", score=score), mutants=16), "auto")
    assert finding.level == "finding" and "something is left over" in finding.summary


@pytest.mark.parametrize(("seconds", "timeout", "level"), [(1.0, 1.5, "finding"), (1.0, 10.0, "ok"), (1.0, None, "ok")])
def test_a_time_out_that_does_not_fit(seconds, timeout, level):
    subject = scored(Vectors("x", timeout=timeout), (1.0,), seconds=seconds)
    assert check_cost(subject).level == level


SPREAD = np.random.default_rng(0).uniform(0.1, 1.0, (20, 3))
FLAT = np.column_stack([SPREAD[:, :2], np.full(20, 0.5)])
SAME = np.column_stack([SPREAD[:, 0], 2 * SPREAD[:, 0], 5 * SPREAD[:, 0] + 1])


def objective_findings(problem, rows):
    return {finding.check: finding for finding in check_objectives(scored(problem, *rows))}


@pytest.mark.parametrize(
    ("names", "rows", "check", "level"),
    [
        *((("x", "y", "z"), SPREAD, check, "ok") for check in ("constant", "collinear", "direction")),
        (("x", "y", "z"), FLAT, "constant", "finding"),
        (("x", "y", "z"), [*FLAT, (0.0, 0.0, 0.0)], "constant", "note"),  # a mutant that achieves nothing
        (("x", "y", "z"), np.column_stack([SPREAD[:, :2], SPREAD[:, 0]]), "collinear", "note"),  # two of three
        (("x",), SPREAD[:, :1], "collinear", "note"),  # there is one alone
        (("x", "y"), SPREAD[:3, :2], "objectives", "skipped"),  # too few that achieve anything
        (("x", "loss"), SPREAD[:, :2], "direction", "finding"),
    ],
)
def test_what_values_and_names_of_objectives_say(names, rows, check, level):
    assert objective_findings(Vectors(*names, directions={}), rows)[check].level == level


def test_objectives_that_are_one_and_the_same():
    finding = objective_findings(Vectors("x", "y", "z"), SAME)["collinear"]
    assert finding.level == "finding" and "nothing to win" in finding.summary
    assert finding.details[1] == "x   1.00   1.00   1.00"
    declared = Vectors("x", "loss", directions={"loss": "min"})
    assert objective_findings(declared, SPREAD[:, :2])["direction"].level == "ok"


def test_answers_that_do_nothing_and_score_high(subject_of):
    short = "def score(answer):\n    return {'brevity': 1 / (1 + len(answer))}\n"
    finding = check_trivial(subject_of(short))
    assert finding.level == "finding" and "empty answer" in finding.summary
    assert check_trivial(subject_of(f"target = 1.0\n{GRADED}")).level == "ok"
    poor = "def score(answer):\n    return {'x': 0.4 if answer == '[]' else 0.1}\n"
    assert check_trivial(subject_of(poor)).level == "note"  # the seed earns nothing: no evidence
    assert check_trivial(subject_of(f"target = 0.4\n{poor}")).level == "finding"


def test_a_fitness_without_steps():
    problem = Vectors("x", target=1.0)
    assert check_steps(scored(problem, (0.0,), (1.0,), (0.0,))).level == "finding"
    assert check_steps(scored(problem, (0.0,), (0.5,), (1.0,))).level == "ok"
    assert check_steps(scored(problem, (0.0,), (0.0,))).level == "note"  # nothing moved: no evidence
    assert check_steps(scored(problem, (0.5,), (0.5,))).level == "finding"  # every answer the same
    still = scored(Vectors("x", "y"), (0, 1.0), (1.0, 0), (0.5, 0.5))
    assert check_steps(still).level == "note"  # of the mean


SOUND = """\
statement = "Letters."
seed_answer = "abcd"
target = 1.0

def score(answer):
    word = answer.strip()
    if not word.isalpha():
        return {"error": "letters only"}
    return {"letters": len(set(word)) / 26, "a": min(1.0, word.count("a") / 9)}
"""


@pytest.fixture
def scorer(here):
    (here / "scorer.py").write_text(SOUND)
    return "scorer.py"


@pytest.mark.long
def test_a_sound_scorer(capsys, scorer):
    code, out, err = evo(capsys, "check", scorer, "--plain", "--mutants", "16")
    assert code == 0 and "no fault found" in out and err == "", out + err
    for check in ("seed", "values", "deterministic", "time", "collinear", "trivial", "steps", "process"):
        assert f" {check} " in out, out


@pytest.mark.long
def test_a_faulty_scorer(capsys, here, scorer):
    (here / scorer).write_text(SOUND.replace('"a": min', '"loss": min'))
    code, out, _ = evo(capsys, "check", scorer, "--json", "--mutants", "16")
    (report,) = json.loads(out)
    assert report["skipped"] == ["process"]
    faults = [finding["check"] for finding in report["findings"] if finding["level"] == "finding"]
    assert code == 1 and not report["sound"] and faults == ["direction"], faults


def test_a_policy_is_no_option_of_a_check(capsys, here):
    assert "--policy" in refused(capsys, "check", "maze:test/1", "--policy", "scripted:mutate")


def test_a_maze(capsys, here):
    code, out, _ = evo(capsys, "check", "maze:test/1", "--plain", "--mutants", "16")
    assert code == 0 and out.count("no fault found") == 1 and "never executed" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "seed_answer = 'abcd'\ndef score(answer):\n    return {'x': len(set(answer)), 'y': answer.count('a')}\n",
            "process",
        ),
        ("isolated = False\n" + SOUND, ""),
    ],
)
def test_what_was_not_tried_is_in_the_conclusion(capsys, here, text, told):
    (here / "scorer.py").write_text(text)
    _, out, _ = evo(capsys, "check", "scorer.py", "--plain", "--mutants", "16")
    last = out.strip().splitlines()[-1]
    assert (f"no fault found; not tried: {told} (" in last) == bool(told), out
    assert ("could cheat: process" in last) != bool(told)
