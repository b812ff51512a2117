import json
from types import SimpleNamespace

import pytest
from support.command_line import evo
from support.island_samples import group

from evo.cli.outcome import describe_metrics
from evo.provenance import describe_machine, source_commit
from evo.search.status import SearchStatus, clock
from evo.search.stop import FINISHED, INTERRUPT, Stop, StopReason
from islands.store import Store
from islands.types import GroupSums, Totals
from problems.scoring import error_kind


def status(problem_runs=3, done=5):
    shown = [SimpleNamespace(iterations=20, committed=done, solved=False, stop=None) for _ in range(problem_runs)]
    shown[0].solved = True
    made = SearchStatus(run="calm-lake", problem_runs=shown)
    made.groups = problem_runs * done
    made.answers, made.tokens = 45, 900
    return made


def test_figures_come_from_the_status():
    made = status()
    made.errors.update(["timeout", "timeout", "format"])
    made.repeats = 7
    described = describe_metrics(made.metrics())
    assert "2 answers failed (timeout 2)" in described and "1 unreadable reply" in described
    assert "7 repeats" in described and "waiting for the model 0% of the time" in described
    made.asks_models = False
    assert not {"tokens", "model"} & set(describe_metrics(made.metrics()).replace("/", " ").split())


def test_times_errors_and_stops_in_words():
    assert [clock(s) for s in (5, 65, 3723, 200_000)] == ["0:05", "1:05", "1:02:03", "2d 07:33"]
    kinds = ("SyntaxError: invalid syntax (line 3)", "evaluate: SystemExit: bad", "evaluate_stage2: SystemExit: 3")
    assert [error_kind(text) for text in kinds] == ["SyntaxError", "SystemExit", "SystemExit"]
    assert len(error_kind("x" * 300)) <= 40
    stops = (FINISHED, INTERRUPT, Stop(StopReason.FAILED, "no score"), Stop(StopReason.BUDGET, "budget of 3 answers"))
    assert [str(stop) for stop in stops] == ["", "interrupted", "failed: no score", "budget of 3 answers"]


def test_replies_that_the_token_limit_cut_are_said_to_be(here, capsys):
    asked = ["--policy", "embedded:base?max_tokens=1", "--answers", "1", "--iterations", "4"]
    with pytest.warns(UserWarning, match="replies hold no answer: cut at the token limit; raise --max-new-tokens"):
        _, out, _ = evo(capsys, "run", "maze:hard", "--limit", "1", *asked, "--name", "one", "--plain")
    assert "replies without an answer (" in out and "cut at the token limit)" in out and "unreadable" not in out
    assert "cut at the token limit: " in evo(capsys, "show", "one")[1]


def test_the_machine_is_described_without_naming_anyone():
    found = describe_machine()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] >= 1 and found["cpu"] and found["memory_gib"] > 0.1
    assert found["commit"] == source_commit() and set(found["versions"]) >= {"evo", "python", "numpy"}
    assert not {"host", "node", "user"} & set(found)


def test_a_run_keeps_it_from_its_first_group_on(search_with, digits, digits_policy, tmp_path):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    search_with([digits()], digits_policy(), address, iterations=2)
    with Store.open(address, read_only=True) as store:
        assert store.run("run").summary["machines"] == [describe_machine()]


def test_the_reply_that_a_search_without_answers_shows_is_the_newest_one_with_a_text():
    made, sums = status(), GroupSums(0, 0, 0, 1, 7, 5, 0.0, 0.0, {}, None, None)
    for text in ("first", "last", " \n", ""):
        made.count(group(SimpleNamespace(id=1), 0, [], text=text), sums)
    assert made.reply == "last"


def test_a_resumed_run_keeps_both_machines_and_each_once():
    other, here = {"cpu": "other", "cores": 64}, {"cpu": "this", "cores": 2}
    status = SearchStatus(run="run", problem_runs=[], machines=[here])
    status.carry({"machines": [other, here]}, Totals())
    assert status.metrics()["machines"] == [other, here]
    status.carry({}, Totals())
    assert status.metrics()["machines"] == [other, here]
