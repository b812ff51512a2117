"""The command line as a user meets it: what it prints, where, with which exit code; and the examples."""

import itertools
import json
import signal
import time
from pathlib import Path

import pytest
from support.child_processes import begin, wait_for_groups
from support.command_line import evo
from support.completion_server import completion_server

from evo.cli import invoke
from evo.cli.demo import describe_outcome
from evo.cli.show import _free_name
from islands.names import format_db_option
from problems import resolve
from problems.redaction import redact

RUN = ["--policy", "scripted:random-route", "--iterations", "6", "--limit", "3", "--seed", "1", "--plain"]


def test_a_run_ends_with_a_summary_is_shown_written_and_resumed(here, capsys):
    code, out, err = evo(capsys, "run", "maze:test", "--name", "first", *RUN)
    assert code == 0, err
    assert all(text in out for text in ("Done: run first", "18 iterations", "maze:test/2", "evo show first"))
    best = json.loads(evo(capsys, "best", "first", "--json")[1])[-1]
    code, out, _ = evo(capsys, "show", "first", str(best["candidate"]))
    assert code == 0 and all(word in out for word in ("fitness", "completion", "lineage", "iteration"))
    assert evo(capsys, "best", "first", "-o", "all.jsonl")[0] == evo(capsys, "export", "first", "-o", "t.jsonl")[0] == 0
    assert [len((here / name).read_text().splitlines()) for name in ("all.jsonl", "t.jsonl")] == [3, 18]
    assert not list(here.glob("*.partial"))
    code, out, _ = evo(capsys, "best", "first", "-o", "answers/")
    assert code == 0 and "3 answers, one file each" in out
    assert {path.name for path in (here / "answers").iterdir()} == {f"maze_test_{i}.txt" for i in range(3)}
    code, _, err = evo(capsys, "best", "first", "-o", "one.txt")
    assert code == 2 and "3 answers" in err
    code, out, _ = evo(capsys, "resume", "first", "--iterations", "9", "--plain")
    assert code == 0 and "27 iterations" in out
    assert evo(capsys, "resume", "first")[:2] == (
        0,
        "first is done: there is nothing to do. To search further: evo resume first --iterations N\n",
    )
    code, out, err = evo(capsys, "resume", "first", "--iterations", "4", "--plain")
    assert (code, out) == (2, "")
    assert err.strip() == ("evo: run first has already spent 9 iterations per problem; --iterations 4 is less")


def test_files_of_answers_have_names_of_their_own():
    taken = set()
    alike = [_free_name(name, ".txt", taken) for name in ("d/a b.py", "d/a_b.py", "D/A_B.py")]
    assert len({name.lower() for name in alike}) == 3


def test_a_password_is_neither_printed_nor_stored():
    command = "evo run maze:test --db postgresql+psycopg://me:s3cret@host:5432/evo --name a"
    assert redact(command) == command.replace("s3cret", "***")
    for plain in ("sqlite:///evo.db", "postgresql+psycopg://me@host/evo", "evo run a --policy openai:m@http://h:1/v1"):
        assert redact(plain) == plain
    assert format_db_option("sqlite:///my runs/evo.db") == " --db 'sqlite:///my runs/evo.db'"


def test_a_faulty_scorer_stops_its_problem_and_is_said_where_it_is_looked_at(here, capsys):
    (here / "faulty.py").write_text("seed_answer = 'ab'\ndef score(answer):\n    return {'length': float('nan')}\n")
    both = ("faulty.py", "maze:test/0", "--policy", "scripted:mutate", "--iterations", "8", "--plain")
    code, out, err = evo(capsys, "run", *both)
    assert code == 1 and "faulty.py" in err and "nan" in err and "8/8" in out, "the other problem went on"
    (here / "faulty.py").write_text("def score(answer):\n    raise RuntimeError('broken scorer')\n")
    code, _, err = evo(capsys, "problems", "faulty.py")
    assert code == 1 and "broken scorer" in err and err.count("\n") == 1


def test_targets_are_numbers_that_people_read(capsys):
    for number, target in ((1, "0.75"), (19, "0.8333")):
        assert f"target {target}\n" in evo(capsys, "problems", f"maze:hard/{number}")[1]


def test_two_interrupts_stop_at_once_with_everything_committed(here, capsys):
    arguments = ["run", "maze:test", "--limit", "4", "--iterations", "100000", "--name", "long", "--plain"]
    process = begin(*arguments, "--policy", "scripted:random-route?latency=0.05", cwd=here)
    wait_for_groups(process, 0, here / "evo.db")
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in out + err, err
    assert json.loads(evo(capsys, "runs", "--json")[1])[0]["groups"] > 0


def test_what_demo_and_the_hard_mazes_are_is_said_as_it_is(capsys):
    solved = {"grpo": 0.5, "vpo": 0.75}
    for ahead, end in ((True, "VPO is ahead"), (False, "VPO is behind"), (None, "no difference is shown")):
        assert describe_outcome({"problems": 2, "weightings_solved": solved, "vpo_ahead": ahead}) == (
            "asked afterwards for 100 trade-offs on each of 2 mazes, the policy trained by VPO has the best route for "
            f"75%, the one trained by GRPO for 50%: {end}"
        )
    assert invoke(["problems"]) == 0
    assert "misses in 600 tries" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("value", "seed", "earns", "direction"),
    [
        ("-abs(x - 3)", "1", True, "max"),  # the best is 0
        ("abs(x - 3)", "1", True, "min"),
        ("-1 - abs(x - 3)", "1", True, "max"),  # the best is negative
        ("abs(x - 3)", "3", False, "min"),  # the seed is the best, and 0
        ("-1 - abs(x - 3)", "3", False, "max"),
    ],
)
def test_what_was_earned_is_measured_from_the_seed_and_not_from_0(here, capsys, value, seed, earns, direction):
    text = f"isolated = False\nseed_answer = '{seed}'\ndirections = {{'d': '{direction}'}}\n"
    (here / "near.py").write_text(f"{text}def score(answer):\n    x = float(answer)\n    return {{'d': {value}}}\n")
    (here / "reply.txt").write_text("3" if earns else "4")
    run = ["run", "near.py", "--policy", "scripted:fixed=reply.txt", "--answers", "1", "--iterations", "2", "--plain"]
    out = evo(capsys, *run)[1]
    assert ("nothing was earned" not in out) == earns, out


def test_a_search_that_earned_nothing_says_so(here, capsys):
    flat = "isolated = False\nseed_answer = 'a'\ndef score(answer):\n    return 1.0 if answer == 'a' else 0.5\n"
    (here / "flat.py").write_text(flat)
    run = ["run", "flat.py", "--policy", "scripted:mutate", "--iterations", "8", "--name", "flat", "--plain"]
    assert "nothing was earned" in evo(capsys, *run)[1]
    with pytest.warns(UserWarning, match="10 answers in a row repeat others: random edits need"):
        code, out, _ = evo(capsys, *run[:2], "--policy", "scripted:echo", "--iterations", "12", "--json")
    unscored = json.loads(out)["unscored"]
    reasons = {"a repeat of an answer that the search had": 11, "no <answer_1> tag": 1}  # one prompt shows no parent
    assert code == 1 and unscored["reasons"] == reasons
    assert "<answer_1>" in unscored["reply"]
    failing = "seed_answer = 'a'\ndef score(answer):\n    return 1.0 if answer == 'a' else {'error': 'b'}\n"
    (here / "none.py").write_text(failing)
    few = ["--policy", "scripted:fixed=none.py", "--answers", "1", "--iterations", "3", "--plain"]
    code, out, err = evo(capsys, "run", "none.py", *few)
    assert code == 1 and "  1 x b\n  a reply: <answer_1>seed_answer = 'a'" in out
    assert "evo: no answer was scored but those at the start: random edits need a seed_answer" in err
    with pytest.warns(UserWarning):
        assert "nothing was earned" not in evo(capsys, "run", "maze:test", "--name", "m", *RUN)[1]


ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("example", ["valley", "scorers/short_primes.py", "two_files"])
def test_examples_run(here, capsys, example):
    path = str(ROOT / "examples" / example)
    assert invoke(["run", path, "--policy", "scripted:mutate", "--answers", "1", "--iterations", "4", "--plain"]) == 0
    assert "4/4" in capsys.readouterr().out


GRID = "[((i % 6 + .5) / 6, (i // 6 + .5) / 6, 1 / 12{}) for i in range(26)]"
LATTICE = "[[sign * (1 << 59) * (i == k) for i in range(11)] for k in range(11) for sign in (-1, 1)]"


@pytest.mark.parametrize(
    ("example", "body", "value"),
    [
        ("circles", f"def pack(): return {GRID.format('')}", 26 / 12),
        ("circles", f"def pack(): return {GRID.format(' + 1e-6')}", 26 / 12),  # shrunk until none overlap
        ("points", "def construct(): return [(i, i * i) for i in range(13)]", 1 / 286),
        ("points", "def construct(): return [(1e-170 * i, 1e-170 * i * i) for i in range(13)]", 1 / 286),
        ("steps", "def heights(): return [1.0] * 50", 2),
        ("steps", "def heights(): return [1e-300] * 49 + [-30.0]", 100 / 49),  # a negative height counts as 0
        ("kissing", f"def vectors(): return {LATTICE}", 22),  # their squares do not fit 64 bits
        ("kissing", "def vectors(): return [[2] * 11, [2] * 11, [0] * 11, [2] * 10 + [1]]", 1),
    ],
)
def test_a_construction_is_measured_exactly(example, body, value):
    (problem,) = resolve(str(ROOT / "examples" / "maths" / f"{example}.py"))
    found = problem.score(body)
    measured = (found.values or found.rewards)[0]
    assert found.error is None and measured == pytest.approx(value, rel=1e-9)
    assert example != "circles" or measured <= value


@pytest.mark.parametrize("number", ["float('nan')", "float('inf')", "None", "1j"])
@pytest.mark.parametrize("example, name", [("circles", "pack"), ("points", "construct"), ("steps", "heights")])
def test_what_is_no_number_fails_the_answer(example, name, number):
    (problem,) = resolve(str(ROOT / "examples" / "maths" / f"{example}.py"))
    assert problem.score(f"def {name}(): return [({number},) * 3] * 26").error


def test_a_prompt_evolves_by_what_the_model_that_it_instructs_replies(here, capsys, monkeypatch):
    """One stub is both models: the one that writes prompts, and the one that knows the labels that its prompt names."""
    words = {"refund": "charge billed money", "delivery": "parcel courier", "other": "? !"}

    asked = itertools.count(1)  # not the server's number: the scorer's questions come in any order

    def reply(body, number):
        system, message = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "customer of a shop" in message:
            return f"<answer_1>One word. {' '.join(list(words)[: 1 + next(asked) % 3])}</answer_1>"
        known = [label for label in words if label in system and any(word in message for word in words[label].split())]
        return known[0] if known else "account"

    with completion_server(text=reply) as server:
        monkeypatch.setenv("TICKETS_URL", server.url)
        monkeypatch.setenv("TICKETS_MODEL", "tiny")
        arguments = ["run", str(ROOT / "examples/prompt/tickets.py"), "--policy", server.address, "--name", "tickets"]
        assert invoke([*arguments, "--answers", "1", "--iterations", "12", "--parallel", "1", "--plain"]) == 0
        capsys.readouterr()
        assert invoke(["best", "tickets", "--json"]) == 0
        (best,) = json.loads(capsys.readouterr().out)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
    assert best["fitness"] == 1 > best["held_out"]["fitness"] > 0.5
    assert any("is other; the model replied 'account'\n<answer_1>\nOne word. refund" in text for text in prompts)
