"""The command line as a user meets it: what it prints, where, and with which exit code."""

import json
import signal
import subprocess
import sys
import time

import pytest
from support.child_processes import begin, wait_for_groups
from support.command_line import evo

from evo.cli import COMMANDS, invoke
from evo.cli.demo import MAZES
from islands.names import hide_password

RUN = ["--policy", "scripted:random-route", "--iterations", "6", "--limit", "3", "--seed", "1", "--plain"]


@pytest.fixture
def finished(here, capsys):
    code, out, err = evo(capsys, "run", "maze:test", "--name", "first", *RUN)
    assert code == 0, err
    return out


def test_a_run_ends_with_a_summary_and_what_to_do_next(finished):
    assert "Done: run first" in finished
    assert "18 iterations" in finished
    assert "maze:test/2" in finished
    assert "evo show first" in finished


def test_every_listing_speaks_json(finished, capsys):
    runs = json.loads(evo(capsys, "runs", "--json")[1])
    assert [run["name"] for run in runs] == ["first"]
    assert (runs[0]["groups"], runs[0]["problems"], runs[0]["policy"]) == (18, 3, "scripted:random-route")
    shown = json.loads(evo(capsys, "show", "first", "--json")[1])
    assert shown["groups"] == 18
    assert [p["iterations"] for p in shown["problems"]] == [6, 6, 6]
    best = json.loads(evo(capsys, "best", "first", "--json")[1])
    assert [row["problem"] for row in best] == ["maze:test/0", "maze:test/1", "maze:test/2"]
    assert set(best[0]["rewards"]) == {"completion", "gold", "diamond", "safety"}
    problems = json.loads(evo(capsys, "problems", "maze:test", "--limit", "2", "--json")[1])
    assert [p["name"] for p in problems] == ["maze:test/0", "maze:test/1"]
    sets = json.loads(evo(capsys, "problems", "--json")[1])
    assert {"maze:test", "maze:hard", "programs:shipped"} <= {row["name"] for row in sets}


def test_run_json_is_one_object_on_stdout(here, capsys):
    code, out, _ = evo(capsys, "run", "maze:test", "--json", *RUN)
    summary = json.loads(out)
    assert code == 0
    assert summary["groups"] == 18
    assert summary["outcome"] == "done"


def test_a_candidate_is_shown_with_its_vector_lineage_and_difference(finished, capsys):
    with_parent = None
    for row in json.loads(evo(capsys, "best", "first", "--json")[1]):
        detail = json.loads(evo(capsys, "show", "first", str(row["candidate"]), "--json")[1])
        assert detail["lineage"][0]["candidate"] == row["candidate"]
        assert detail["fitness"] == row["fitness"]
        with_parent = row["candidate"]
    code, out, _ = evo(capsys, "show", "first", str(with_parent))
    assert code == 0
    for word in ("fitness", "completion", "lineage", "iteration"):
        assert word in out


def test_best_answers_are_written_as_asked(finished, here, capsys):
    assert evo(capsys, "best", "first", "-o", "all.jsonl")[0] == 0
    rows = [json.loads(line) for line in (here / "all.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    assert evo(capsys, "best", "first", "-o", "answers/")[0] == 0
    assert {path.name for path in (here / "answers").iterdir()} == {f"maze_test_{i}.txt" for i in range(3)}
    code, _, err = evo(capsys, "best", "first", "-o", "one.txt")
    assert code == 2
    assert "3 problems" in err


def test_each_best_answer_has_its_own_file(tmp_path, search_with, digits, digits_policy, capsys):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    names = ("d/a b.py", "d/a_b.py", "D/A_B.py")
    search_with([digits(name) for name in names], digits_policy(), address, iterations=2)
    code, out, _ = evo(capsys, "best", "run", "--db", address, "-o", str(tmp_path / "answers") + "/")
    assert code == 0 and "3 answers, one file each" in out
    assert len(list((tmp_path / "answers").iterdir())) == 3


def test_export_has_one_record_per_group_with_what_a_trainer_needs(finished, here, capsys):
    assert evo(capsys, "export", "first", "-o", "t.jsonl")[0] == 0
    rows = [json.loads(line) for line in (here / "t.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in rows}) == 18
    assert "Parquet was removed" in evo(capsys, "export", "first", "-o", "t.parquet")[2]
    assert "--openevolve was removed" in evo(capsys, "export", "first", "--openevolve", "out")[2]
    for row in rows:
        assert {"problem", "island", "parent", "policy_version", "prompt", "rollouts"} <= set(row)
        for rollout in row["rollouts"]:
            assert (
                len(rollout["answers"]) == len(rollout["rewards"]) == len(rollout["fitness"]) == len(rollout["errors"])
            )
            assert len(rollout["token_ids"]) == len(rollout["logprobs"])
    assert not list(here.glob("*.partial"))


def test_resume_goes_on_and_says_so(finished, capsys):
    code, out, _ = evo(capsys, "resume", "first", "--iterations", "9", "--plain")
    assert code == 0
    assert "27 iterations" in out
    assert evo(capsys, "resume", "first")[:2] == (
        0,
        "first is done: there is nothing to do. To search further: evo resume first --iterations N\n",
    )
    code, out, err = evo(capsys, "resume", "first", "--iterations", "4", "--plain")
    assert (code, out) == (2, "")
    assert err.strip() == ("evo: run first has already spent 9 iterations per problem; --iterations 4 is less")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "no problem named"),
        (["run", "maze:tset"], "maze:test"),
        (["run", "maze:test/100"], "100"),
        (["run", "nowhere/scorer.py"], "nowhere/scorer.py"),
        (["run", "maze:test", "--policy", "embedded:nothing"], "embedded:nothing"),
        (["run", "maze:test", "--policy", "no such model"], "no such model"),
        (["run", "maze:test", "--policy", "scripted:nobody"], "nobody"),
        (["run", "programs:easy", "--policy", "embedded:base"], "only understands mazes"),
        (["run", "maze:test", "--answers", "0"], "--answers"),
        (["run", "maze:test", "--answers", "three"], "three"),
        (["run", "maze:test", "--iterations", "-4"], "-4"),
        (["run", "maze:test", "--config", "missing.yaml"], "missing.yaml"),
        (["run", "maze:test", "--frobnicate"], "--frobnicate"),
        (["run", "maze:test", *RUN, "--db", "mysql://x/y"], "mysql"),
        (["run", "maze:test", *RUN, "--db", "evo.db"], "sqlite:///FILE"),
        (["run", "maze:test", *RUN, "--db", "sqlite:////nowhere/at/all/evo.db"], "/nowhere/at/all"),
        (["run", "maze:test", *RUN, "--db", "postgresql+psycopg://u:secret@127.0.0.1:1/x"], "127.0.0.1"),
        (["resume", "nobody", "--db", "sqlite:///missing.db"], "missing.db"),
        (["show", "nobody", "--db", "sqlite:///missing.db"], "missing.db"),
        (["export", "nobody", "-o", "x.csv"], "x.csv"),
        (["searhc"], "searhc"),
        (["problems", "programs:missing.jsonl"], "missing.jsonl"),
        (["pretrain", "go", "-o", "x"], "python -m vpo.languages.pretrain"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(here, capsys, arguments, named):
    code, out, err = evo(capsys, *arguments)
    assert code == 2, (out, err)
    assert len(err.strip().splitlines()) == 1, err
    assert named in err
    assert "Traceback" not in err
    assert "secret" not in err


@pytest.mark.parametrize("command", [["resume"], ["show"], ["best"], ["export", "-o", "x.jsonl"]])
def test_an_unknown_run_is_named_with_those_there_are(finished, capsys, command):
    code, _, err = evo(capsys, command[0], "frist", *command[1:])
    assert code == 2
    assert "frist" in err
    assert "did you mean first" in err
    assert len(err.strip().splitlines()) == 1


def test_a_password_is_neither_printed_nor_stored():
    command = "evo run maze:test --db postgresql+psycopg://me:s3cret@host:5432/evo --name a"
    assert hide_password(command) == command.replace("s3cret", "***")
    for plain in ("sqlite:///evo.db", "postgresql+psycopg://me@host/evo", "evo run a --policy openai:m@http://h:1/v1"):
        assert hide_password(plain) == plain


def test_nothing_is_left_behind_by_a_run_that_never_was(here, capsys):
    for policy in ("embedded:nothing", "scripted:nobody"):
        assert evo(capsys, "run", "maze:test", "--policy", policy)[0] == 2
    assert not (here / "evo.db").exists()


def test_a_second_run_of_one_name_is_refused_and_the_first_kept(finished, capsys):
    code, _, err = evo(capsys, "run", "maze:test", "--name", "first", *RUN)
    assert code == 2
    assert "first" in err
    assert json.loads(evo(capsys, "runs", "--json")[1])[0]["groups"] == 18


def test_a_dead_policy_is_a_failure_of_ours_with_its_reason(here, capsys):
    code, out, err = evo(
        capsys, "run", "maze:test", "--policy", "scripted:broken", "--limit", "1", "--name", "dead", "--plain"
    )
    assert code == 1
    assert err.strip().startswith("evo: the policy scripted:broken cannot answer")
    assert json.loads(evo(capsys, "runs", "--json")[1])[0]["status"] == "failed"


def test_a_faulty_scorer_stops_its_problem_and_the_exit_code_says_so(here, capsys):
    (here / "faulty.py").write_text(
        "statement = 'x'\nseed_answer = 'ab'\nobjectives = ('length',)\n"
        "def score(answer):\n    return {'length': float('nan')}\n"
    )
    code, out, err = evo(
        capsys, "run", "faulty.py", "maze:test/0", "--policy", "scripted:mutate", "--iterations", "8", "--plain"
    )
    assert code == 1
    assert "faulty.py" in err
    assert "nan" in err
    assert "8/8" in out, "the other problem went on"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    code, out, _ = evo(capsys, command, "--help")
    assert code == 0
    assert out.startswith("Usage: evo " + command)


def test_help_needs_none_of_the_heavy_packages():
    code = (
        "import sys; from evo.cli import invoke; invoke(['--help']); "
        "heavy = {'torch', 'transformers', 'sqlalchemy', 'numpy', 'openevolve', 'pydantic'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def started(here, *extra):
    arguments = ["run", "maze:test", "--limit", "4", "--iterations", "100000", "--name", "long", "--plain"]
    process = begin(*arguments, "--policy", "scripted:random-route?latency=0.05", *extra, cwd=here)
    wait_for_groups(process, 0, here / "evo.db")
    return process


def test_an_interrupt_finishes_what_is_in_flight_and_exits_130(here, capsys):
    process = started(here)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted: run long" in out
    assert "evo resume long" in out
    (run,) = json.loads(evo(capsys, "runs", "--json")[1])
    assert run["status"] == "interrupted"
    assert evo(capsys, "resume", "long", "--max-answers", str(run["groups"] * 3 + 30), "--plain")[0] == 0


def test_two_interrupts_stop_at_once_with_everything_committed(here, capsys):
    process = started(here)
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert json.loads(evo(capsys, "runs", "--json")[1])[0]["groups"] > 0


def test_a_run_in_progress_cannot_be_resumed_by_another_process(here, capsys):
    process = started(here)
    try:
        code, _, err = evo(capsys, "resume", "long", "--plain")
        assert code == 2
        assert len(err.strip().splitlines()) == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


PALINDROMES = """
statement = "Write a long palindrome in lower-case letters."
seed_answer = "abba"

def score(answer):
    word = answer.strip()
    if not word.isalpha():
        return {"error": "letters only"}
    return {"palindrome": float(word == word[::-1]), "length": min(len(word), 30) / 30}
"""


def test_a_search_of_ones_own_problem_gets_somewhere_without_a_model(here, capsys):
    """No policy is named, no network and no model are there: answers get better, and what searched is said."""
    (here / "mine.py").write_text(PALINDROMES)
    with pytest.warns(UserWarning, match="using scripted:mutate"):
        assert invoke(["run", "mine.py", "--iterations", "40", "--plain", "--name", "mine", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    (problem,) = summary["problems"]
    assert summary["policy"] == "scripted:mutate" and problem["best"] > 0.7  # the seed has 0.57


def test_a_policy_that_only_understands_mazes_says_what_would_work(here, capsys):
    (here / "mine.py").write_text(PALINDROMES)
    assert invoke(["run", "mine.py", "--policy", "embedded:base"]) == 2
    told = capsys.readouterr().err
    assert "only understands mazes" in told and "scripted:mutate" in told and told.count("\n") == 1


def test_a_scorer_at_fault_is_said_where_its_problem_is_looked_at(here, capsys):
    (here / "faulty.py").write_text("def score(answer):\n    raise RuntimeError('broken scorer')\n")
    assert invoke(["problems", "faulty.py"]) == 1
    told = capsys.readouterr().err
    assert "broken scorer" in told and told.count("\n") == 1


def test_targets_are_numbers_that_people_read(here, capsys):
    assert invoke(["problems", "maze:hard/1"]) == 0
    assert "target 0.75\n" in capsys.readouterr().out
    assert invoke(["problems", "maze:hard/19"]) == 0
    assert "target 0.8333\n" in capsys.readouterr().out


def test_a_search_that_trains_chooses_a_group_by_itself(here, capsys):
    few = ["maze:train", "--limit", "1", "--iterations", "1", "--plain", "--train", "vpo", "--json"]
    with pytest.warns(UserWarning, match="using --rollouts 4"):
        assert invoke(["run", *few, "--name", "learns"]) == 0
    capsys.readouterr()
    assert invoke(["show", "learns", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["rollouts"] == 4


def test_what_demo_and_the_hard_mazes_are_is_said_as_it_is(capsys):
    assert MAZES.describe({"problems": 2, "solved": {"random": 0.0, "model": 1.0}, "model_ahead": True}) == (
        "on 2 mazes the model solved 100% and random edits 0%, so the model helps"
    )
    assert MAZES.describe({"problems": 3, "solved": {"random": 0.5, "model": 0.25}, "model_ahead": None}) == (
        "on 3 mazes the model solved 25% and random edits 50%, so no difference is shown"
    )
    assert invoke(["problems"]) == 0
    assert "misses in 600 tries" in " ".join(capsys.readouterr().out.split())
