import json

import pytest
from sqlalchemy import text
from support.command_line import refused
from support.run_records import run_record

from evo.cli import invoke
from evo.cli import watch as command
from evo.cli.watch import format_line
from evo.progress.snapshot import ArmSnapshot, Snapshot
from evo.tui.draw import head
from evo.tui.palette import DARK
from islands.store import Store
from islands.types import Totals


@pytest.fixture
def db(small):
    return small


def finish(db, status="done", name="run"):
    summary = {"answers": 32, "seconds": 4.0, "errors": {"format": 2}}
    with Store.open(db) as store:
        store.finish_run(store.run(name).id, status, summary=summary if name == "run" else None)


def test_one_picture_and_without_a_terminal_a_line(db, capsys):
    finish(db)
    assert invoke(["watch", "run", "--db", db, "--once"]) == 0
    shown = capsys.readouterr().out
    assert "the run has ended" in shown and "60/60 iterations" in shown and "solve rate" in shown
    assert "\x1b" not in shown and max(map(len, shown.splitlines())) <= 100 and shown.splitlines()[-1].strip()
    assert invoke(["watch", "run", "--db", db]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "1 done" in line and "60/60 iterations" in line and "failed (not eight digits " in line


def test_a_run_whose_process_was_killed_has_stopped(db, capsys):
    with Store.open(db) as store, store.lease(store.run("run").id), store.begin() as tx:
        owner = json.loads(tx.connection.execute(text("select owner from runs")).scalar_one())
        tx.connection.execute(text("update runs set owner = :o"), {"o": json.dumps({**owner, "start": "another"})})
    assert invoke(["watch", "run", "--db", db, "--once"]) == 0
    assert "its process died" in capsys.readouterr().out.splitlines()[0]
    assert invoke(["watch", "run", "--db", db]) == 0
    assert "its process died; evo resume continues it" in capsys.readouterr().out
    assert invoke(["runs", "--json", "--db", db]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "interrupted" and "its process died" in row["reason"]


def test_plain_lines_go_on_while_it_runs(db, capsys, monkeypatch):
    from evo.cli.live import PLAIN_SECONDS

    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            finish(db, "interrupted")

    monkeypatch.setattr(command.time, "sleep", pause)
    assert invoke(["watch", "run", "--db", db, "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
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
def test_bad_input_is_one_line(db, capsys, arguments, said):
    assert said in refused(capsys, "watch", "--db", db, *arguments)


def test_a_run_that_has_not_begun_is_waited_for(db, capsys, monkeypatch):
    def begin(_seconds):
        add_runs(db, "later")
        finish(db, "failed", "later")

    monkeypatch.setattr(command.time, "sleep", begin)
    assert invoke(["watch", "later", "--db", db, "--plain"]) == 0
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


def test_without_a_name_it_takes_the_newest_that_runs_else_the_newest(db, capsys, tmp_path):
    def chosen(db):
        with Store.open(db, read_only=True) as store:
            return command.choose_run(store), capsys.readouterr().err

    finish(db)
    assert chosen(db) == ("run", "watching run\n")
    add_runs(db, "both/a/s0", "both/b/s0", comparison="both")
    add_runs(db, "later")
    finish(db, "failed", "later")
    name, said = chosen(db)
    assert name == "both" and "running" in said
    for name in ("both/a/s0", "both/b/s0"):
        finish(db, name=name)
    assert chosen(db)[0] == "later"
    assert invoke(["watch", "--db", db, "--once"]) == 0 and "later" in capsys.readouterr().out
    empty = f"sqlite:///{tmp_path}/empty.db"
    Store.open(empty).close()
    assert "evo run maze:test" in refused(capsys, "watch", "--db", empty)
