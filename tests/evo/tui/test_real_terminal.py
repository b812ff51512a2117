"""The screen on a real pseudo-terminal: what it shows, what signals and Ctrl-C do, and that the terminal is given back
as it was, whatever happens."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from rich.console import Console
from terminal_program import ENTERED, LEFT, Program

from evo.tui.child import can_show
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
def searched(small):
    """The address of a database with a finished run named `run`."""
    with Store.open(small) as store:
        store.finish_run(store.run("run").id, "done")
    return small


def test_what_cannot_show_a_screen(tmp_path):
    with open(tmp_path / "file", "w") as file:
        assert not can_show(Console(file=file, force_terminal=True))  # said to be one, but a file
        assert not can_show(Console(file=file))


def test_watching(program, searched):
    one = program("-m", "evo", "watch", "run", "--db", searched)
    one.until(b"reading run")  # before anything was read
    one.until(b"the run has ended", b"Quit")
    one.forget()
    one.resize(40, 130)
    one.until(b"last improvements")
    for keys, text in ((b"?", b"Keys"), (b"\x1b", b"last improvements"), (b"\r", b"candidate"), (b"\x1b", b"problems")):
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


def test_a_database_that_goes_away_is_one_line(program, searched):
    one = program("-c", "import evo.tui.app as s; s.FAULT_SECONDS = 1.0; from evo.cli import main; "
                  f"main(['watch', 'run', '--db', {searched!r}])")  # fmt: skip
    one.until(b"the run has ended")
    Path(searched.removeprefix("sqlite:///")).unlink()
    assert one.ended() == 2
    after = one.given_back().decode()
    assert "the file is gone" in after and "Traceback" not in after


BROKEN = "import evo.tui.draw as d; d.arms = lambda *_: 1 / 0; "


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


def test_a_run_is_shown_from_its_beginning_to_its_end(program, tmp_path):
    one = live(program, tmp_path, iterations="300")
    one.until(ENTERED, b"loading scripted:mutate?latency=0.05 for", b"iterations")
    assert one.ended(60) == 0
    after = one.given_back()
    assert b"Done" in after and b"evo show live" in after and b"Started" not in after
    assert stored(tmp_path)[0] == "done"


@pytest.mark.parametrize("keys", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_asked_once_it_finishes_what_is_in_flight(program, tmp_path, keys):
    one = live(program, tmp_path)
    one.until(b"answers left")
    one.type(keys)
    assert one.ended() == 130
    after = one.given_back()
    said = b" ".join(after.split())
    assert b"Interrupted : run live" in said and b"Resume with: evo resume live" in said
    status, groups = stored(tmp_path)
    assert status == "interrupted" and groups > 0
    assert f"{groups} iterations".encode() in said.replace(b",", b"")


def test_a_screen_that_breaks_does_not_end_the_search(program, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BROKEN)  # of the child alone, which paints it
    one = live(program, tmp_path, iterations="600", script=f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert one.ended(90) == 0
    after = one.given_back()
    assert b"the screen failed, the search did not: ZeroDivisionError" in after and b"Done" in after
    assert stored(tmp_path)[0] == "done"


def test_a_search_whose_terminal_is_gone_ends_in_order(program, tmp_path):
    one = live(program, tmp_path)
    one.until(b"answers left")
    os.kill(one.process.pid, signal.SIGHUP)
    assert one.ended() == 130 and stored(tmp_path)[0] == "interrupted"


@pytest.mark.parametrize("shown", ["run", "watch"])
def test_a_terminal_that_is_closed_ends_the_screen(program, tmp_path, searched, shown):
    """Answers in flight take seconds, and more is painted until then than Textual's queue holds, whose reader ends at
    its first fault."""
    (tmp_path / "sitecustomize.py").write_text("import textual.drivers._writer_thread as w\nw.MAX_QUEUED_WRITES = 1\n")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sitecustomize"
    if shown == "run":
        one = live(program, tmp_path, "--policy", "scripted:mutate?latency=4", script=path)
        one.until(b"0/200,000")
    else:
        one = program("-c", f"{path}; from evo.cli import main; main(['watch', 'run', '--db', {searched!r}])")
        one.until(b"the run has ended")
    nothing, one.kept = os.pipe()
    os.dup2(nothing, one.master)
    assert one.ended(30) == 130
    assert shown == "watch" or stored(tmp_path)[0] == "interrupted"


def test_a_search_that_is_killed_ends_its_screen(program, tmp_path):
    """The test's program is the shell, whose end would hang up the terminal."""
    command = [sys.executable, "-m", "evo", *RUN, "--iterations", "100000", "--db", f"sqlite:///{tmp_path}/live.db"]
    shell = "import signal, subprocess, time; child = subprocess.Popen({}); signal.signal(signal.SIGUSR1, lambda *_: "
    one = program("-c", shell.format(command) + "child.kill()); child.wait(); time.sleep(3)")
    one.until(b"answers left")
    os.kill(one.process.pid, signal.SIGUSR1)
    assert one.ended() == 0
    one.given_back()


def test_bad_input_is_one_line_and_leaves_the_terminal_as_it_was(program, tmp_path):
    one = program(
        "-m", "evo", "run", "maze:nosuch", "--policy", "scripted:mutate", "--db", f"sqlite:///{tmp_path}/x.db"
    )
    assert one.ended() == 2
    assert b"there is no set maze:" in one.everything and one.modes() == one.before
    assert one.everything.count(ENTERED) == one.everything.count(LEFT)


def test_json_on_stdout_and_the_screen_on_stderr(program, tmp_path):
    out = tmp_path / "out.json"
    redirected = f"import os; os.dup2(os.open({str(out)!r}, os.O_WRONLY | os.O_CREAT), 1)"
    one = live(program, tmp_path, "--json", "--policy", "scripted:mutate", iterations="400", script=redirected)
    assert one.ended(60) == 0
    one.given_back()
    assert json.loads(out.read_text())["outcome"] == "done"
