"""Every total that anything shows is the sum of what is committed: after a kill, after a resume, after an upgrade."""

import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text
from support.command_line import evo
from support.stored_rows import committed_groups
from test_kill import exit_code, forked

import evo as api
from evo.progress.model import Progress
from evo.report.tables import comparison_dict
from evo.runs.finish import summarize_run
from evo.search.stop import Stop, StopReason
from islands.runs import run_totals
from islands.store import Store
from islands.types import FORMAT, Totals
from problems.types import Usage

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
