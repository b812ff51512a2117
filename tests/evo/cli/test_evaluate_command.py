"""`evo evaluate` as a user meets it."""

import json
import signal
import warnings

import pytest
from support.child_processes import begin
from support.command_line import evo, refused

FIGURES = {"best@1", "best@3", "best@10", "best@30", "solve@1", "solve@30", "diversity", "diversity_valid", "E_w[best]"}
QUICK = ["evaluate", "maze:test", "--policy", "scripted:random-route", "--limit", "12", "--plain"]


def measured(capsys, *arguments):
    code, out, err = evo(capsys, *QUICK, "--json", *arguments)
    assert code == 0, err
    return json.loads(out)


def test_json_has_the_figures_their_intervals_and_where_they_come_from_and_a_table_is_for_people(here, capsys):
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
    code, out, _ = evo(capsys, *QUICK, "--seeds", "2")
    assert code == 0
    assert out.startswith("scripted:random-route on maze:test\n")
    assert {line.split()[0] for line in out.splitlines() if line.strip()} >= FIGURES
    assert "seed 1" in out
    assert "12 problems x 30 answers in chains of 3, temperature 1, seeds 0, 1" in out


def test_options_of_the_address_are_put_on_record_and_those_without_use_are_named(here, capsys):
    few = ("evaluate", "maze:test", "--limit", "1", "--answers-total", "3", "--policy")
    policy = "scripted:random-route?temperature=0.7&top_p=0.5&max_tokens=99"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "in chains of 3, temperature 0.7, seed 0" in evo(capsys, *few, policy, "--temperature", "2")[1]
    record = json.loads(evo(capsys, *few, policy, "--json")[1])
    assert (record["temperature"], record["top_p"], record["max_new_tokens"]) == (0.7, 0.5, 99)
    with pytest.warns(UserWarning, match=r"\?fresh changes nothing here"):
        assert evo(capsys, *few, "scripted:random-route?fresh=0.5")[0] == 0


def test_two_evaluations_are_compared_problem_by_problem(here, capsys):
    (here / "always.txt").write_text("RRDD\n---\nDDRR\n---\nUULL\n")
    measured(capsys, "-o", "random.json")
    written = json.loads((here / "random.json").read_text())
    assert [row["problem"] for row in written["per_problem"]] == [f"maze:test/{i}" for i in range(12)]
    code, out, _ = evo(capsys, *QUICK, "--against", "random.json")
    ours = "scripted:random-route"
    assert code == 0
    assert f"best@30: no difference shown ({ours} - {ours} (random.json) = +0.000; 0 of 12 problems differ" in out
    arguments = [*QUICK, "--policy", "scripted:fixed=always.txt", "--against", "random.json"]
    code, out, _ = evo(capsys, *arguments)
    assert "diversity: scripted:fixed=always.txt - scripted:random-route = -" in out
    record = json.loads(evo(capsys, *arguments, "--json")[1])
    difference = record["against"]["differences"]["diversity"]
    assert record["against"]["policy"] == "scripted:random-route"
    assert difference["shown"]
    assert difference["mean"] == pytest.approx(record["diversity"] - written["diversity"])


def test_bad_input_is_one_line_and_exit_code_2(here, capsys):
    (here / "text.json").write_text("best@30 was good")
    (here / "list.json").write_text('{"per_problem": [{"problem": ["maze:test/0"]}]}')
    measured(capsys, "--limit", "3", "--answers-total", "6", "-o", "other.json")
    changed = json.loads((here / "other.json").read_text())
    changed["per_problem"][1]["target"] = 0.1
    (here / "changed.json").write_text(json.dumps(changed))
    for arguments, named in (
        ("-o nowhere/x.json", "nowhere"),
        ("-o .", "is a directory"),
        ("--against missing.json", "missing.json"),
        ("--against text.json", "not JSON"),
        ("--against list.json", "evo evaluate -o"),
        ("--against other.json", "has no maze:test/3"),
        ("--limit 2 --against other.json", "has maze:test/2, which is not"),
        ("--limit 3 --against other.json", "6 answers a problem there, 30 here"),
        ("--limit 3 --answers-total 6 --against changed.json", "another target"),
    ):
        assert named in refused(capsys, *QUICK, *arguments.split())


def test_a_problem_left_out_is_named_and_the_exit_code_is_1(here, capsys):
    (here / "faulty.py").write_text(
        "statement = 'x'\nseed_answer = 'ab'\nobjectives = ('length',)\n"
        "def score(answer):\n    return {'length': float('nan')}\n"
    )
    (here / "always.txt").write_text("RRDD\n---\nUU\n")
    arguments = ["--policy", "scripted:fixed=always.txt", "--answers", "2", "--answers-total", "2", "--json"]
    code, out, err = evo(capsys, "evaluate", "faulty.py", "maze:test/0", *arguments)
    assert code == 1 and json.loads(out)["problems"] == 1
    assert "nan" in err.splitlines()[-1] and "faulty.py is left out" in err.splitlines()[-1]


def test_a_dead_policy_is_exit_code_1(here, capsys):
    code, out, err = evo(capsys, *QUICK, "--policy", "scripted:broken", "-o", "x.json")
    assert code == 1
    assert err.startswith("evo: scripted:broken is out of order")
    assert not (here / "x.json").exists()


def test_an_interrupt_is_one_line_and_exit_code_130(here):
    process = begin(*QUICK, "--policy", "scripted:random-route?latency=600", "-o", "x.json", PYTHONUNBUFFERED="1")
    try:
        assert process.stdout.readline().startswith("scripted:random-route")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == "evo: interrupted; nothing was written\n"
    assert not list(here.iterdir())


@pytest.mark.long
def test_the_embedded_base_is_as_good_as_its_card_says(here, capsys):
    """Its card: completion .86, best@1 .40, best@3 .52 on all 100 mazes; these are 20 of them, 12 answers each."""
    arguments = ["evaluate", "maze:test", "--limit", "20", "--answers-total", "12", "--json"]
    record = json.loads(evo(capsys, *arguments)[1])
    assert record["mean[completion]"] == pytest.approx(0.86, abs=0.12)
    assert record["best@1"] == pytest.approx(0.40, abs=0.06)
    assert record["best@3"] == pytest.approx(0.52, abs=0.05)
    assert record["written"] > 0.95
