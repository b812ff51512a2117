"""The screen on a real pseudo-terminal: what it shows, what signals and Ctrl-C do, and that the terminal is given back
as it was, whatever happens."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console
from terminal_program import ENTERED, LEFT, Program

from evo.tui.terminal import can_show
from islands.runs import newest_sequence
from islands.store import Store

pytestmark = pytest.mark.long


@pytest.fixture
def program():
    programs = []

    def start(*arguments, **options):
        programs.append(Program(*arguments, **options))
        return programs[-1]

    yield start
    for one in programs:
        one.close()


@pytest.fixture
def searched(tmp_path, search_with, digits, digits_policy):
    """The address of a database with a finished run named `run`."""
    db = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a", target=0.9), digits("b", target=0.9)], digits_policy(), db, iterations=12)
    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "done")
    return db


def test_what_cannot_show_a_screen(tmp_path):
    with open(tmp_path / "file", "w") as file:
        assert not can_show(Console(file=file, force_terminal=True))  # said to be one, but a file
        assert not can_show(Console(file=file))


def test_watching(program, searched):
    one = program("-m", "evo", "watch", "run", "--db", searched, fresh=True)
    one.until(b"reading run")  # before anything was read
    one.until(b"the run has ended", b"quit")
    one.forget()
    one.resize(40, 130)
    one.until(b"last improvements")
    for keys, text in (
        (b"?", b"Keys"),
        (b"x", b"last improvements"),
        (b"\r", b"candidate"),
        (b"\x1b", b"problems"),
        (b"\x1b[<0;3;27M\x1b[<0;3;27m", b"\xe2\x96\xb8"),  # a click on a row
    ):
        one.forget()
        one.type(keys)
        one.until(text)
    one.type(b"q")
    assert one.ended() == 0
    one.given_back()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, b"\x03"], ids=str)
def test_signals_give_the_terminal_back(program, searched, how):
    one = program("-m", "evo", "watch", "run", "--db", searched)
    one.until(b"the run has ended")
    one.type(how) if isinstance(how, bytes) else os.kill(one.process.pid, how)
    assert one.ended() == 130
    one.given_back()


@pytest.mark.parametrize("name", ["rum"])
def test_a_mistyped_name_is_one_line(program, searched, name):
    one = program("-m", "evo", "watch", name, "--db", searched)
    assert one.ended() == 2
    after = one.given_back().decode()
    assert "did you mean run" in after and "Traceback" not in after


def test_a_database_that_goes_away_is_one_line(program, searched):
    one = program("-c", "import evo.tui.shown as s; s.FAULT_SECONDS = 1.0; from evo.cli import main; "
                  f"main(['watch', 'run', '--db', {searched!r}])")  # fmt: skip
    one.until(b"the run has ended")
    Path(searched.removeprefix("sqlite:///")).unlink()
    assert one.ended() == 2
    after = one.given_back().decode()
    assert "the file is gone" in after and "Traceback" not in after


BROKEN = "import evo.tui.pages as p; p.Pages.draw = lambda *_: 1 / 0; "


def test_a_screen_that_breaks_gives_the_terminal_back(program, searched):
    one = program("-c", f"{BROKEN}from evo.cli import main; main(['watch', 'run', '--db', {searched!r}])")
    assert one.ended() != 0
    assert b"ZeroDivisionError" in one.given_back()


RUN = ("run", "maze:test", "--limit", "2", "--policy", "scripted:mutate?latency=0.05", "--name", "live")


def live(program, tmp_path, *more, iterations="100000", script="", **options):
    arguments = [*RUN, "--iterations", iterations, "--db", f"sqlite:///{tmp_path}/live.db", *more]
    return program("-c", f"{script}\nfrom evo.cli import main; main({arguments!r})", **options)


def stored(tmp_path):
    """(status, groups) of the run."""
    with Store.open(f"sqlite:///{tmp_path}/live.db", read_only=True) as store:
        run = store.run("live")
        with store.read() as connection:
            return run.status, newest_sequence(connection, run.id) + 1


GATES = """
import asyncio, pathlib, time
import evo.search.resources as resources
from vpo.policies.scripted import ScriptedPolicy

def loading(*arguments, opened=resources.open_policy):
    while not pathlib.Path({load!r}).exists():
        time.sleep(0.05)
    return opened(*arguments)

async def sampling(*arguments, sample=ScriptedPolicy.sample, **named):
    while not pathlib.Path({search!r}).exists():
        await asyncio.sleep(0.05)
    return await sample(*arguments, **named)

resources.open_policy, ScriptedPolicy.sample = loading, sampling
"""
"""The policy is loaded once there is a file `load`, and answers once there is one `search`."""


def test_a_run_is_shown_from_its_beginning_to_its_end(program, tmp_path):
    """The run waits for what is to be seen of it: without that it may be over before a busy machine has painted."""
    load, search = tmp_path / "load", tmp_path / "search"
    one = live(program, tmp_path, iterations="60", script=GATES.format(load=str(load), search=str(search)))
    one.until(ENTERED, b"loading scripted:mutate?latency=0.05 for")
    load.touch()
    one.until(b"stop", b"iterations")
    search.touch()
    assert one.ended(60) == 0
    after = one.given_back()
    assert b"Done" in after and b"evo show live" in after
    assert stored(tmp_path)[0] == "done"


def test_a_terminal_that_lacks_characters_is_written_to_all_the_same(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    one = live(program, tmp_path, "--name", "läufe ☃", fresh=True)
    one.until(b"pause", b"l\xe4ufe ?")
    one.type(b"q")
    assert one.ended() == 130
    after = one.given_back()
    assert b"l\xe4ufe ?" in after and b"Traceback" not in after and b"the live screen failed" not in after


@pytest.mark.parametrize("keys", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_asked_once_it_finishes_what_is_in_flight(program, tmp_path, keys):
    one = live(program, tmp_path)
    one.until(b"pause")
    one.type(keys)
    assert one.ended() == 130
    after = one.given_back()
    said = b" ".join(after.split())
    assert b"Interrupted : run live" in said and b"continue with: evo resume live" in said
    status, groups = stored(tmp_path)
    assert status == "interrupted" and groups > 0
    assert f"{groups} iterations".encode() in said.replace(b",", b"")


def test_asked_twice_it_stops_at_once(program, tmp_path):
    """A scorer that takes its time holds the first Ctrl-C up; the second does not wait for it."""
    scorer = tmp_path / "slow.py"
    scorer.write_text("import time\n\ndef score(answer):\n    time.sleep(25)\n    return 0.0\n")
    db = f"sqlite:///{tmp_path}/live.db"
    one = program("-m", "evo", "run", str(scorer), "--policy", "scripted:echo", "--name", "live", "--iterations", "50",
                  "--db", db)  # fmt: skip
    one.until(ENTERED, b"loading")
    began = time.monotonic()
    one.type(b"\x03")
    time.sleep(0.5)
    one.type(b"\x03")
    assert one.ended(20) in (130, 1)
    assert time.monotonic() - began < 20
    one.given_back()


def test_pausing_holds_the_search_back(program, tmp_path):
    one = live(program, tmp_path)
    one.until(b"pause")
    one.type(b"p")
    one.until(b"paused")
    time.sleep(0.5)
    before = stored(tmp_path)[1]
    time.sleep(0.5)
    assert stored(tmp_path)[1] == before
    one.forget()
    one.type(b"p")
    until = time.monotonic() + 60
    while stored(tmp_path)[1] <= before:  # asked to quit before anything is committed, it may end as it stands
        assert time.monotonic() < until
        one.read()
    one.type(b"q")
    assert one.ended() == 130


def test_a_screen_that_breaks_does_not_end_the_search(program, tmp_path, monkeypatch):
    (tmp_path / "broken_screen.py").write_text(f"{BROKEN}\nfrom evo.tui.live_process import main\n")
    script = f"import sys, evo.tui.screen as s; sys.path.append({str(tmp_path)!r}); s.PROGRAM = 'broken_screen:main'"
    one = live(program, tmp_path, script=script)
    one.until(LEFT)
    goes_on(one, tmp_path)
    assert b"the live screen failed, the search did not: ZeroDivisionError" in one.given_back()


def test_a_screen_that_is_killed_does_not_end_the_search_and_the_terminal_is_given_back(program, tmp_path):
    one = live(program, tmp_path)
    one.until(b"pause")
    (child,) = children_of(one.process.pid, "evo.tui.live_process")
    os.kill(child, signal.SIGKILL)
    goes_on(one, tmp_path)
    assert b"the live screen failed, the search did not" in one.given_back()


def goes_on(one, tmp_path):
    """Groups are committed without a screen too, until a signal ends it in order."""
    before, until = stored(tmp_path)[1], time.monotonic() + 60
    while stored(tmp_path)[1] < before + 5:
        assert time.monotonic() < until
        one.read()
    os.kill(one.process.pid, signal.SIGINT)
    assert one.ended() == 130
    assert stored(tmp_path)[0] == "interrupted"


def test_a_search_that_is_killed_takes_its_screen_with_it(program, tmp_path):
    one = live(program, tmp_path)
    one.until(b"pause")
    (child,) = children_of(one.process.pid, "evo.tui.live_process")
    os.kill(one.process.pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        one.read()
    assert not Path(f"/proc/{child}").exists()
    one.given_back()


WRITER = """
import os, pathlib, threading, time
def write():
    while not pathlib.Path({now!r}).exists():
        time.sleep(0.05)
    os.write(2, b'from C')
    print('from Python')
    pathlib.Path({now!r}).unlink()
threading.Thread(target=write, daemon=True).start()
"""


def test_what_is_written_meanwhile_is_held_back(program, tmp_path):
    now = tmp_path / "now"
    one = live(program, tmp_path, script=WRITER.format(now=str(now)))
    one.until(b"pause")
    now.touch()
    until = time.monotonic() + 30
    while now.exists() and time.monotonic() < until:
        one.read()
    one.type(b"q")
    assert one.ended() == 130
    during, after = one.everything[: one.everything.rindex(LEFT)], one.given_back()
    for text in (b"from C", b"from Python"):
        assert text in after and text not in during


def test_suspended_and_continued(program, tmp_path):
    """The kernel does not stop a group that nobody watches over, as this one, at a Ctrl-Z: what stops it is the
    process itself, after its screen has."""
    one = live(program, tmp_path)
    one.until(b"pause")
    one.forget()
    os.kill(one.process.pid, signal.SIGTSTP)
    one.until(LEFT)
    until = time.monotonic() + 5
    while state(one.process.pid) != "T" and time.monotonic() < until:
        time.sleep(0.02)
    assert state(one.process.pid) == "T"
    one.forget()
    os.kill(one.process.pid, signal.SIGCONT)
    one.until(ENTERED, b"pause")
    one.type(b"q")
    assert one.ended() == 130
    one.given_back()


def test_bad_input_is_one_line_and_leaves_the_terminal_as_it_was(program, tmp_path):
    one = program(
        "-m", "evo", "run", "maze:nosuch", "--policy", "scripted:mutate", "--db", f"sqlite:///{tmp_path}/x.db"
    )
    assert one.ended() == 2
    assert b"there is no maze set" in one.everything and one.modes() == one.before
    assert one.everything.count(ENTERED) == one.everything.count(LEFT)


def test_json_on_stdout_and_the_screen_on_stderr(program, tmp_path):
    out = tmp_path / "out.json"
    redirected = f"import os; os.dup2(os.open({str(out)!r}, os.O_WRONLY | os.O_CREAT), 1)"
    one = live(program, tmp_path, "--json", "--policy", "scripted:mutate", iterations="400", script=redirected)
    assert one.ended(60) == 0
    one.given_back()
    assert json.loads(out.read_text())["outcome"] == "done"


def children_of(pid, named):
    """Processes of that parent whose command holds this."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and named in (place / "cmdline").read_bytes().decode():
                found.append(int(place.name))
        except (OSError, ValueError):
            continue
    return found


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
