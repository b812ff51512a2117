"""`evo evaluate` as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import warnings

import pytest
from support.command_line import evo
from support.warm_processes import Forked

FIGURES = {"best@1", "best@3", "best@10", "best@30", "solve@1", "solve@30", "diversity", "diversity_valid", "E_w[best]"}
QUICK = ["evaluate", "maze:test", "--policy", "scripted:random-route", "--limit", "12", "--plain"]


def measured(capsys, *arguments):
    code, out, err = evo(capsys, *QUICK, "--json", *arguments)
    assert code == 0, err
    return json.loads(out)


def test_json_has_the_figures_their_intervals_and_where_they_come_from(here, capsys):
    record = measured(capsys, "--seeds", "2", "--seed", "4")
    assert record.keys() >= FIGURES
    assert record["intervals"].keys() >= FIGURES
    for name in FIGURES:
        low, high = record["intervals"][name]
        assert low <= record[name] <= high
    assert (record["policy"], record["problems"], record["seeds"]) == ("scripted:random-route", 12, [4, 5])
    assert (record["answers"], record["answers_total"], record["temperature"]) == (3, 30, 1.0)
    assert [one["seed"] for one in record["per_seed"]] == [4, 5]
    assert record["tokens"] > 0
    assert record["command"].startswith("evo")
    assert record["commit"]
    assert not list(here.iterdir()), "no file, no database"


def test_the_same_command_gives_the_same_figures(here, capsys):
    first, again, other = (measured(capsys, "--answers-total", "6", "--seed", seed) for seed in "001")
    assert [first[name] for name in FIGURES & first.keys()] == [again[name] for name in FIGURES & first.keys()]
    assert first["diversity"] != other["diversity"]
    assert "best@10" not in first
    assert "best@6" in first


def test_a_table_for_people(here, capsys):
    code, out, _ = evo(capsys, *QUICK, "--seeds", "2")
    assert code == 0
    assert out.startswith("scripted:random-route on maze:test\n")
    assert {line.split()[0] for line in out.splitlines() if line.strip()} >= FIGURES
    assert "seed 1" in out
    assert "12 problems x 30 answers in chains of 3, temperature 1, seeds 0, 1" in out


def test_options_of_the_address_are_what_is_put_on_record(here, capsys):
    policy = "scripted:random-route?temperature=0.7&top_p=0.5&max_tokens=99"
    arguments = ("evaluate", "maze:test", "--limit", "1", "--answers-total", "3", "--policy", policy)
    _, out, _ = evo(capsys, *arguments, "--temperature", "2")
    assert "in chains of 3, temperature 0.7, seed 0" in out
    record = json.loads(evo(capsys, *arguments, "--json")[1])
    assert (record["temperature"], record["top_p"], record["max_new_tokens"]) == (0.7, 0.5, 99)


def test_options_that_an_evaluation_has_no_use_for_are_named(here, capsys):
    arguments = ["evaluate", "maze:test", "--limit", "1", "--answers-total", "1", "--plain", "--policy"]
    with pytest.warns(UserWarning, match=r"\?fresh and \?prefill change nothing here"):
        assert evo(capsys, *arguments, "scripted:random-route?fresh=0.5&prefill=0.2")[0] == 0
    with warnings.catch_warnings(record=True) as said:
        assert evo(capsys, *arguments, "scripted:random-route?temperature=1")[0] == 0
    assert not [one for one in said if "change nothing" in str(one.message)]


def test_two_evaluations_are_compared_problem_by_problem(here, capsys):
    (here / "always.txt").write_text("RRDD\n---\nDDRR\n---\nUULL\n")
    measured(capsys, "-o", "random.json")
    written = json.loads((here / "random.json").read_text())
    assert [row["problem"] for row in written["per_problem"]] == [f"maze:test/{i}" for i in range(12)]
    code, out, _ = evo(capsys, *QUICK, "--against", "random.json")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith(("best@30: ", "diversity: "))]
    ours = "scripted:random-route"
    assert lines == [
        f"{name}: no difference shown ({ours} - {ours} (random.json) = +0.000 [0.000, 0.000], p = 1.00)"
        for name in ("best@30", "diversity")
    ]

    arguments = [*QUICK, "--policy", "scripted:fixed=always.txt", "--against", "random.json"]
    code, out, _ = evo(capsys, *arguments)
    assert "diversity: scripted:fixed=always.txt - scripted:random-route = -" in out
    record = json.loads(evo(capsys, *arguments, "--json")[1])
    difference = record["against"]["differences"]["diversity"]
    assert record["against"]["policy"] == "scripted:random-route"
    assert difference["shown"]
    assert difference["mean"] == pytest.approx(record["diversity"] - written["diversity"])


def test_programs_have_as_many_objectives_as_test_cases(here, capsys):
    from problems.registry import resolve

    problems = resolve("programs:easy", limit=2)
    (here / "answers.txt").write_text("def nothing():\n    return 0\n---\nthis is no program\n")
    arguments = ["--policy", "scripted:fixed=answers.txt", "--answers", "2", "--answers-total", "3", "--json"]
    code, out, _ = evo(capsys, "evaluate", "programs:easy", "--limit", "2", *arguments, "-o", "p.json")
    assert code == 0
    rows = json.loads((here / "p.json").read_text())["per_problem"]
    assert [row["objectives"] for row in rows] == [list(problem.objectives) for problem in problems]
    record = json.loads(out)
    assert (record["best@3"], record["solve@3"], record["valid"]) == (0, 0, 0)
    assert record["answer_errors"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "maze:test"),
        (["maze:tset"], "maze:test"),
        (["maze:test", "--answers-total", "0"], "--answers-total"),
        (["maze:test", "--seeds", "0"], "--seeds"),
        (["maze:test", "--policy", "embedded:nothing"], "embedded:nothing"),
        (["maze:test", "--answers", "6"], "1 to 5"),
        (["programs:easy", "--policy", "embedded:base"], "only understands mazes"),
        ([*QUICK[1:], "-o", "nowhere/x.json"], "nowhere"),
        ([*QUICK[1:], "-o", "."], "is a directory"),
        ([*QUICK[1:], "--against", "missing.json"], "missing.json"),
        ([*QUICK[1:], "--against", "text.json"], "not JSON"),
        ([*QUICK[1:], "--against", "list.json"], "evo evaluate -o"),
        ([*QUICK[1:], "--against", "other.json"], "has no maze:test/3"),
        ([*QUICK[1:], "--limit", "2", "--against", "other.json"], "has maze:test/2, which is not"),
        ([*QUICK[1:], "--limit", "3", "--against", "other.json"], "6 answers a problem there, 30 here"),
        ([*QUICK[1:], "--limit", "3", "--answers-total", "6", "--against", "changed.json"], "another target"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(here, capsys, arguments, named):
    (here / "text.json").write_text("best@30 was good")
    (here / "list.json").write_text('{"per_problem": [{"problem": ["maze:test/0"]}]}')
    measured(capsys, "--limit", "3", "--answers-total", "6", "-o", "other.json")
    changed = json.loads((here / "other.json").read_text())
    changed["per_problem"][1]["target"] = 0.1
    (here / "changed.json").write_text(json.dumps(changed))
    code, out, err = evo(capsys, "evaluate", *arguments)
    assert code == 2, (out, err)
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert named in err


def test_a_problem_left_out_is_named_and_the_exit_code_is_1(here, capsys):
    (here / "faulty.py").write_text(
        "statement = 'x'\nseed_answer = 'ab'\nobjectives = ('length',)\n"
        "def score(answer):\n    return {'length': float('nan')}\n"
    )
    (here / "always.txt").write_text("RRDD\n---\nUU\n")
    arguments = ["--policy", "scripted:fixed=always.txt", "--answers", "2", "--answers-total", "2", "--json"]
    code, out, err = evo(capsys, "evaluate", "faulty.py", "maze:test/0", *arguments)
    assert code == 1
    assert json.loads(out)["problems"] == 1
    assert "nan" in err.splitlines()[-1]
    assert "faulty.py is left out" in err.splitlines()[-1]
    code, out, err = evo(capsys, "evaluate", "faulty.py", *arguments)
    assert (code, out) == (1, "")
    assert len([line for line in err.splitlines() if line.startswith("evo: ")]) == 1


def test_a_dead_policy_is_exit_code_1(here, capsys):
    code, out, err = evo(capsys, *QUICK, "--policy", "scripted:broken", "-o", "x.json")
    assert code == 1
    assert err.startswith("evo: scripted:broken is out of order")
    assert not (here / "x.json").exists()


def test_an_interrupt_is_one_line_and_exit_code_130(here):
    process = Forked(
        [sys.executable, "-m", "evo", *QUICK, "--policy", "scripted:random-route?latency=600", "-o", "x.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout.readline().startswith("scripted:random-route")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == "evo: interrupted; nothing was written\n"
    assert not list(here.iterdir())


def test_the_embedded_base_is_as_good_as_its_card_says(here, capsys):
    """Its card: completion .86, best@1 .40, best@3 .52 on all 100 mazes; these are 20 of them, 12 answers each."""
    arguments = ["evaluate", "maze:test", "--limit", "20", "--answers-total", "12", "--json"]
    record = json.loads(evo(capsys, *arguments)[1])
    assert record["mean[completion]"] == pytest.approx(0.86, abs=0.12)
    assert record["best@1"] == pytest.approx(0.40, abs=0.06)
    assert record["best@3"] == pytest.approx(0.52, abs=0.05)
    assert record["written"] > 0.95
