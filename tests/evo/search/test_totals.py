"""What a search reports: figures in words, the machine, and totals that are the sums of what is committed."""

import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sqlalchemy import text
from support.command_line import evo
from support.completion_server import hosted_server, scripted
from support.island_samples import group
from support.stored_rows import committed_groups
from test_kill import exit_code, forked

import evo as api
from evo.cli.outcome import describe_metrics
from evo.progress.model import Progress
from evo.provenance import describe_machine, source_commit
from evo.report.tables import comparison_dict
from evo.runs.finish import summarize_run
from evo.search.status import SearchStatus, clock
from evo.search.stop import FINISHED, INTERRUPT, Stop, StopReason
from islands.runs import run_totals
from islands.store import Store
from islands.types import FORMAT, GroupSums, Totals
from problems.scoring import error_kind
from problems.types import Usage


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
    few = ("--limit", "1", "--answers", "1", "--iterations", "4", "--name", "one", "--plain")
    with (
        hosted_server(scripted(after="cut")) as server,
        pytest.warns(UserWarning, match="replies hold no answer: .*cut at the token limit; raise --max-new-tokens"),
    ):
        _, out, _ = evo(capsys, "run", "programs:easy", "--policy", f"{server.address}?n=off", *few)
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
    for written in ("first", "last", " \n", ""):
        made.count(group(SimpleNamespace(id=1), 0, [], text=written), sums)
    assert made.reply == "last"


def test_a_resumed_run_keeps_both_machines_and_each_once():
    other, here = {"cpu": "other", "cores": 64}, {"cpu": "this", "cores": 2}
    status = SearchStatus(run="run", problem_runs=[], machines=[here])
    status.carry({"machines": [other, here]}, Totals())
    assert status.metrics()["machines"] == [other, here]
    status.carry({}, Totals())
    assert status.metrics()["machines"] == [other, here]


SETTINGS = ["--rollouts", "2", "--answers", "2", "--islands", "3", "--seed", "3", "--plain"]
COST = 0.125


@pytest.fixture
def hosted(digits_policy):
    """A policy behind a server: it keeps token ids to itself, counts usage and costs money. It often repeats itself."""

    class Hosted(digits_policy):
        def _rollout(self, prompt, i, answers, seed):
            rollout = super()._rollout(prompt, i, answers, seed % 7)
            rng = np.random.default_rng([seed, prompt.stream, i])
            words = [f"{rng.integers(0, 40):08d}" if rng.random() < 0.9 else "nonsense" for _ in range(answers)]
            words = words[: 1 + int(rng.integers(0, 2))]
            written = "\n".join(f"<answer_{j + 1}>{word}</answer_{j + 1}>" for j, word in enumerate(words))
            nothing = np.zeros(0, np.int32)
            usage = Usage(11 if i == 0 else 0, 17, COST)
            return replace(rollout, text=written, token_ids=nothing, logprobs=nothing, prompt_ids=nothing, usage=usage)

    return Hosted


def counted(db, name):
    """The totals of a run that its rows alone tell, by other queries than the product's."""

    def number(query):
        with Store.open(db, read_only=True) as store:
            return store.scalar(text(query).bindparams(name=name)) or 0  # type: ignore[arg-type]

    joined = "prompt_groups g JOIN runs ON runs.id = g.run_id JOIN rollouts r ON r.group_id = g.id"
    answers = number(f"SELECT count(*) FROM {joined} JOIN answers a ON a.rollout_id = r.id WHERE runs.name = :name")
    asked = number(f"SELECT sum(g.answers) FROM {joined} WHERE runs.name = :name")
    rollouts = number(f"SELECT count(*) FROM {joined} WHERE runs.name = :name")
    empty = "NOT EXISTS (SELECT 1 FROM answers a WHERE a.rollout_id = r.id)"
    own = "candidates c JOIN problems p ON p.id = c.problem_id JOIN runs ON runs.id = p.run_id"
    new = f"SELECT count(*) FROM {own} WHERE runs.name = :name AND c.group_id IS NOT NULL"
    return {
        "groups": number(
            "SELECT count(*) FROM prompt_groups g JOIN runs ON runs.id = g.run_id WHERE runs.name = :name"
        ),
        "answers": answers,
        "missing_answers": asked - answers,
        "repeats": answers - number(new),
        "tokens": 17 * rollouts,
        "prompt_tokens": 11 * rollouts // 2,
        "cost": COST * rollouts,
        "failed": number(f"{new} AND c.error IS NOT NULL"),
        "unread": number(f"SELECT count(*) FROM {joined} WHERE runs.name = :name AND {empty}"),
    }


def shown(db, name, capsys):
    """The totals of a run in every place that shows them: place -> Totals.as_dict()."""
    with Store.open(db, read_only=True) as store:
        progress = Progress.open(store, name)
        (arm,) = comparison_dict(progress)["arms"].values()
        found = {"screen": progress.snapshot().arms[0].totals.as_dict(), "comparison": arm}
    found["api"] = dict(api.load_run(name, db=db).summary)
    code, out, _ = evo(capsys, "show", name, "--db", db, "--json")
    assert code == 0
    of_show = json.loads(out)
    found["show"], found["the summary of show"] = of_show, of_show["summary"]
    keys = Totals().as_dict()
    return {place: {key: totals[key] for key in keys} for place, totals in found.items()}


def assert_committed(db, name, capsys):
    places = shown(db, name, capsys)
    for place, totals in places.items():
        assert totals == places["screen"], f"{place} disagrees with the screen"
    totals, truth = places["screen"], counted(db, name)
    errors = Counter(totals.pop("errors"))
    assert truth.pop("unread") == errors.pop(FORMAT, 0) and truth.pop("failed") == errors.total()
    assert {key: totals[key] for key in truth} == truth
    code, out, _ = evo(capsys, "show", name, "--db", db)
    counts = f"{truth['groups']:,} iterations, {truth['answers']:,} answers, {truth['tokens']:,} tokens"
    assert code == 0 and counts in out
    return truth


def test_after_a_kill_every_place_shows_what_is_committed(tmp_path, digits, hosted, capsys, monkeypatch):
    monkeypatch.setattr("evo.search.core.SUMMARY_SECONDS", 1e9)  # the last report is behind when it is killed
    file = tmp_path / "evo.db"
    db = f"sqlite:///{file}"
    Store.open(db).close()
    problems = [digits("a"), digits("b")]
    arguments = ["run", "x", "--db", db, "--name", "killed", "--iterations", "500", *SETTINGS]
    pid = forked(arguments, problems, hosted(delay=0.005))
    until = time.monotonic() + 60
    while committed_groups(file) < 30 and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    assert exit_code(pid) == -signal.SIGKILL
    truth = assert_committed(db, "killed", capsys)
    assert truth["repeats"] > 0 and truth["missing_answers"] > 0
    with Store.open(db, read_only=True) as store:
        assert store.run("killed").summary["groups"] < truth["groups"]

    # a resume counts on from there, and its own report agrees
    resumed = ["resume", "killed", "--db", db, "--plain", "--iterations", str(truth["groups"])]
    assert exit_code(forked(resumed, problems, hosted())) == 0
    after = assert_committed(db, "killed", capsys)
    assert after["groups"] == 2 * truth["groups"] and after["cost"] == 4 * COST * truth["groups"]


def test_a_search_reports_what_it_committed(tmp_path, search_with, digits, hosted, capsys):
    """Also with answers that repeat within a group, or one that was committed after they were scored."""
    db = f"sqlite:///{tmp_path}/evo.db"
    launched = search_with([digits("a")], hosted(jitter=0.01), db, iterations=60, rollouts=2, parallel=12)
    reported = summarize_run(launched, "done", "", Stop(StopReason.FINISHED))
    with Store.open(db) as store:
        store.finish_run(launched.run.id, "done", summary=reported)
        assert run_totals(store, launched.run.id).as_dict() == {key: reported[key] for key in Totals().as_dict()}
    assert_committed(db, "run", capsys)
