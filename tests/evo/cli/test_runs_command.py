"""`evo runs` and its verbs, `show`, `best` and `export` of a comparison, and `evo watch`."""

import json
import shutil

import pytest
from sqlalchemy import text
from support.command_line import evo, output, refused
from support.run_records import run_record
from support.stored_rows import stored_answers

from evo.cli import invoke
from evo.cli import watch as command
from evo.cli.watch import format_line
from evo.progress.snapshot import ArmSnapshot, Snapshot
from evo.tui.draw import head
from evo.tui.palette import DARK
from evo.ui.pages import RunPages
from islands.store import Store
from islands.types import Totals

DB = "sqlite:///evo.db"
LONG = "a-run-whose-name-is-rather-long"
FEW = ["maze:test", "--limit", "2", "--iterations", "3", "--plain"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    file = tmp_path_factory.mktemp("made") / "evo.db"
    arms = ["--arm", "a=scripted:random-route", "--arm", "b=scripted:mutate", "--baseline", "none", "--seeds", "1"]
    given = [*FEW, "--db", f"sqlite:///{file}"]
    assert invoke(["compare", *given, *arms, "--name", "cmp", "--processes", "1"]) == 0
    assert invoke(["run", *given, "--policy", "scripted:mutate", "--name", LONG]) == 0
    return file


@pytest.fixture
def compared(made, here):
    shutil.copy(made, here)


def test_names_are_whole_at_80_columns_and_piped(compared, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with Store.open(DB) as store:
        reason = "because of a reason that takes more characters than a narrow terminal has room for in one line of it"
        store.finish_run(store.run("cmp/a/s0").id, "failed", reason)
    lines = evo(capsys, "runs")[1].splitlines()
    assert [line.split()[0] for line in lines[1:3]] == [LONG, "cmp"]
    assert "maze:test (2)" in lines[2] and "2 arms: a, b" in lines[2] and "1 done, 1 failed" in lines[2]
    assert f"cmp/a/s0 failed: {reason}" in lines
    assert "…" not in "".join(lines) + evo(capsys, "show", LONG)[1]


def test_a_comparison_is_shown_by_its_name_and_exported_run_by_run(compared, here, capsys):
    code, out, _ = evo(capsys, "show", "cmp")
    assert code == 0 and "cmp: 2 arms, 2 problems, 1 seed" in out and "evo show cmp/a/s0" in out
    assert " tokens in 0:0" in evo(capsys, "show", "cmp/a/s0")[1].splitlines()[2]
    shown = json.loads(evo(capsys, "show", "cmp", "--json")[1])
    assert [run["name"] for run in shown["runs"]] == ["cmp/a/s0", "cmp/b/s0"] and "arms" in shown
    assert evo(capsys, "export", "cmp", "-o", "cmp.jsonl")[0] == 0
    rows = [json.loads(line) for line in (here / "cmp.jsonl").read_text().splitlines()]
    assert [row["run"] for row in rows] == ["cmp/a/s0"] * 6 + ["cmp/b/s0"] * 6
    assert len({row["id"] for row in rows}) == 12


def test_the_best_of_a_comparison_is_that_of_all_its_runs(compared, capsys):
    of_runs = {run: json.loads(evo(capsys, "best", run, "--json")[1]) for run in ("cmp/a/s0", "cmp/b/s0")}
    for index, row in enumerate(json.loads(evo(capsys, "best", "cmp", "--json")[1])):
        assert row["fitness"] == max(rows[index]["fitness"] for rows in of_runs.values())
        assert {k: v for k, v in row.items() if k != "run"} == of_runs[row["run"]][index]
        assert evo(capsys, "show", "cmp", str(row["candidate"]))[0] == 0
    assert "by cmp/" in evo(capsys, "best", "cmp")[1]


def test_runs_are_deleted_when_that_was_said(compared, capsys):
    code, _, told = evo(capsys, "runs", "delete", "cmp")
    assert code == 2 and "--yes" in told and "2 runs with 12 iterations" in told
    assert evo(capsys, "runs", "delete", "nothing", "--yes")[0] == 2
    assert len(json.loads(evo(capsys, "runs", "--json")[1])) == 3
    assert evo(capsys, "runs", "--db", DB, "delete", "cmp", "--yes")[:2] == (0, "deleted 2 runs with 12 iterations\n")
    assert [run["name"] for run in json.loads(evo(capsys, "runs", "--json")[1])] == [LONG]


def test_runs_are_renamed(compared, capsys):
    assert evo(capsys, "runs", "rename", "cmp", "other")[0] == 0
    assert evo(capsys, "runs", "rename", LONG, "short")[0] == 0
    assert evo(capsys, "show", "other")[0] == evo(capsys, "resume", "short", "--iterations", "4", "--plain")[0] == 0
    for old, new, why in (
        ("other/a/s0", "x", "is a run of the comparison other"),
        ("short", "other", "has something named other already"),
        ("short", "a@b", "is no name for a run"),
    ):
        assert why in refused(capsys, "runs", "rename", old, new)


@pytest.mark.long
def test_where_a_trained_policy_was_saved_is_said_and_kept(here, capsys):
    train = ["--rollouts", "2", "--train", "vpo", "--train-every", "2"]
    code, out, _ = evo(capsys, "run", *FEW, *train, "--name", "learns")
    assert code == 0
    (place,) = json.loads(evo(capsys, "show", "learns", "--json")[1])["checkpoints"]
    assert f"the trained policy: {place}" in out and f"checkpoints: {place}" in evo(capsys, "show", "learns")[1]
    assert evo(capsys, "run", *FEW, "--policy", place)[0] == 0
    assert place in evo(capsys, "runs", "delete", "learns", "--yes")[1]


def test_a_search_that_trains_chooses_its_rollouts_and_says_that_nothing_was_trained(here, capsys):
    with pytest.warns(UserWarning, match="using --rollouts 4"):
        code, out, _ = evo(capsys, "run", *FEW, "--train", "vpo", "--name", "short")
    assert code == 0 and "nothing was trained: a step takes 16 iterations" in out
    assert json.loads(evo(capsys, "show", "short", "--json")[1])["config"]["rollouts"] == 4


def test_a_candidate_that_a_run_lacks_is_answered_by_those_it_has(compared, capsys):
    has = json.loads(evo(capsys, "best", LONG, "--json")[1])[0]["candidate"]
    code, _, said = evo(capsys, "show", LONG, "99999")
    assert code == 2 and f"no candidate 99999; its best ones are {has}, " in said


def answers():
    return [(row[0], *row[1:5], *row[6:]) for row in stored_answers(DB)]


def test_a_deleted_run_of_a_comparison_is_searched_again(compared, capsys):
    """It waits in its place among the arms, and the resume finds the same answers."""
    before = answers()
    assert evo(capsys, "runs", "delete", "cmp/a/s0", "--yes")[:2] == (
        0,
        "deleted 1 run with 6 iterations\nevo resume cmp searches cmp/a/s0 again\n",
    )
    shown = json.loads(evo(capsys, "runs", "--json")[1])
    assert {run["name"]: (run["status"], run["groups"]) for run in shown if run["comparison"]} == {
        "cmp/b/s0": ("done", 6),
        "cmp/a/s0": ("waiting", 0),
    }
    assert evo(capsys, "show", "cmp")[0] == 0 and "1 waiting" in evo(capsys, "runs")[1]
    code, out, _ = evo(capsys, "resume", "cmp", "--plain")
    assert code == 0 and "nothing to do" not in out
    assert answers() == before
    assert list(json.loads(evo(capsys, "show", "cmp", "--json")[1])["arms"]) == ["a", "b"]
    assert evo(capsys, "runs", "delete", "cmp/a/s0", "cmp/b/s0", "--yes")[1] == "deleted 2 runs with 12 iterations\n"


def test_runs_that_verify_another_are_not_the_users(compared, capsys):
    for name in ("cmp/a/s0", LONG):
        assert evo(capsys, "verify", name, "--no-tune", "--sample", "--json")[0] == 0
    own = ["cmp/b/s0", "cmp/a/s0", LONG]

    def listed(*options):
        return {run["name"] for run in json.loads(evo(capsys, "runs", *options, "--json")[1])}

    assert listed() == set(own)
    assert listed("--all") == {*own, "cmp/a/s0-sampled", f"{LONG}-sampled"}
    table = evo(capsys, "runs")[1]
    assert "sampled" not in table and "sampled" in evo(capsys, "runs", "--all")[1]
    page = RunPages(DB).page().body.decode()
    assert LONG in page and "sampled" not in page
    assert evo(capsys, "watch", "--once")[2] == f"watching {LONG}\n"
    assert "did you mean a-run" in refused(capsys, "show", LONG[:-1])
    # what is made for a run goes with it
    assert evo(capsys, "runs", "rename", LONG, "short")[0] == evo(capsys, "runs", "rename", "cmp", "other")[0] == 0
    assert listed("--all") == {"other/a/s0", "other/b/s0", "short", "short-sampled", "other/a/s0-sampled"}
    before = answers()
    assert evo(capsys, "verify", "short", "--no-tune", "--sample", "--json")[0] == 0
    assert answers() == before, "it is the same verification"
    assert evo(capsys, "runs", "delete", "short", "--yes")[1].startswith("deleted 2 runs with ")
    assert evo(capsys, "runs", "delete", "other/a/s0", "--yes")[1].startswith("deleted 2 runs with ")
    assert listed("--all") == {"other/a/s0", "other/b/s0"}


def finish(db, status="done", name="run"):
    summary = {"answers": 32, "seconds": 4.0, "errors": {"format": 2}}
    with Store.open(db) as store:
        store.finish_run(store.run(name).id, status, summary=summary if name == "run" else None)


def test_one_picture_and_without_a_terminal_a_line(small, capsys):
    finish(small)
    shown = output(capsys, "watch", "run", "--db", small, "--once")
    assert "the run has ended" in shown and "60/60 iterations" in shown and "solve rate" in shown
    assert "\x1b" not in shown and max(map(len, shown.splitlines())) <= 100 and shown.splitlines()[-1].strip()
    (line,) = output(capsys, "watch", "run", "--db", small).splitlines()
    assert "1 done" in line and "60/60 iterations" in line and "failed (not eight digits " in line


def test_a_run_whose_process_was_killed_has_stopped(small, capsys):
    with Store.open(small) as store, store.lease(store.run("run").id), store.begin() as tx:
        owner = json.loads(tx.connection.execute(text("select owner from runs")).scalar_one())
        tx.connection.execute(text("update runs set owner = :o"), {"o": json.dumps({**owner, "start": "another"})})
    assert "its process died" in output(capsys, "watch", "run", "--db", small, "--once").splitlines()[0]
    assert "its process died; evo resume continues it" in output(capsys, "watch", "run", "--db", small)
    (row,) = json.loads(output(capsys, "runs", "--json", "--db", small))
    assert row["status"] == "interrupted" and "its process died" in row["reason"]


def test_plain_lines_go_on_while_it_runs(small, capsys, monkeypatch):
    from evo.cli.live import PLAIN_SECONDS

    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            finish(small, "interrupted")

    monkeypatch.setattr(command.time, "sleep", pause)
    lines = output(capsys, "watch", "run", "--db", small, "--plain").splitlines()
    assert len(lines) == 4 and "1 running" in lines[0] and "1 interrupted" in lines[3]
    assert pauses == [PLAIN_SECONDS] * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "did you mean run"),
        (["run", "--against", "nobody", "--once"], "no arm nobody"),
        (["run", "--db", "sqlite:///none.db", "--once"], "the file does not exist"),
    ],
)
def test_bad_input_is_one_line(small, capsys, arguments, said):
    assert said in refused(capsys, "watch", "--db", small, *arguments)


def test_a_run_that_has_not_begun_is_waited_for(small, capsys, monkeypatch):
    def begin(_seconds):
        add_runs(small, "later")
        finish(small, "failed", "later")

    monkeypatch.setattr(command.time, "sleep", begin)
    assert invoke(["watch", "later", "--db", small, "--plain"]) == 0
    shown = capsys.readouterr()
    assert "1 failed" in shown.out and shown.err.startswith("waiting for later, which has not begun; Ctrl-C ends (")


def snapshot_of(summary=None, name="x", **values):
    return Snapshot(name, (ArmSnapshot("a", (run_record(summary=summary),), **values),), (), None, remaining=61.0)


def test_a_plain_line_is_harmless_and_tells_what_waits_and_what_was_spent():
    line = format_line(snapshot_of(name="x\x1b[2J", groups=1, planned=2), 0.0)
    assert line.isprintable() and "  50%  about 1:10 left  1/2 iterations  1 running" in line
    waiting = format_line(snapshot_of({"in_flight": 140, "sampled_ahead": 37}, planned=350), 0.0)
    assert "37 of 140 iterations in flight sampled" in waiting
    paid, free = (snapshot_of(groups=1, planned=9, totals=Totals(cost=cost)) for cost in (0.01234, 0.0))
    assert "cost 0.0123" in format_line(paid, 0.0) and "cost 0.01234" in head(paid, 120, 0.0, DARK).plain
    assert "cost" not in format_line(free, 0.0) and "cost" not in head(free, 120, 0.0, DARK).plain


def add_runs(db, *names, comparison=None):
    with Store.open(db) as store:
        config = store.run("run").config
        for name in names:
            store.create_run(name, config, command="", seed=0, commit="", comparison=comparison, arm=name)


def test_without_a_name_it_takes_the_newest_that_runs_else_the_newest(small, capsys, tmp_path):
    def chosen(small):
        with Store.open(small, read_only=True) as store:
            return command.choose_run(store), capsys.readouterr().err

    finish(small)
    assert chosen(small) == ("run", "watching run\n")
    add_runs(small, "both/a/s0", "both/b/s0", comparison="both")
    add_runs(small, "later")
    finish(small, "failed", "later")
    name, said = chosen(small)
    assert name == "both" and "running" in said
    for name in ("both/a/s0", "both/b/s0"):
        finish(small, name=name)
    assert chosen(small)[0] == "later"
    assert invoke(["watch", "--db", small, "--once"]) == 0 and "later" in capsys.readouterr().out
    empty = f"sqlite:///{tmp_path}/empty.small"
    Store.open(empty).close()
    assert "evo run maze:test" in refused(capsys, "watch", "--db", empty)
