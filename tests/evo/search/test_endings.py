"""A search that is asked to end, or whose terminal is gone: in flight is finished, all is committed, resume goes on."""

import os
import pty
import signal

import pytest
from support.child_processes import begin, wait_for_groups
from support.stored_rows import assert_same_run, committed_groups, stored_answers

pytestmark = pytest.mark.long

SEARCH = [
    "maze:test", "--limit", "2", "--policy", "scripted:random-route?latency=0.05", "--rollouts", "2", "--answers", "2",
    "--iterations", "200", "--seed", "3", "--plain",
]  # fmt: skip


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The rows of the search that nobody disturbs."""
    folder = tmp_path_factory.mktemp("calm")
    child = begin("run", *SEARCH, "--name", "x", cwd=folder)
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, out + err
    return stored_answers(f"sqlite:///{folder / 'evo.db'}", "x")


def assert_goes_on(folder, calm):
    assert 0 < committed_groups(folder / "evo.db") < 400
    child = begin("resume", "x", "--plain", cwd=folder)
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, out + err
    assert_same_run(stored_answers(f"sqlite:///{folder / 'evo.db'}", "x"), calm)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_ends_it_with_everything_committed(number, tmp_path, calm):
    child = begin("run", *SEARCH, "--name", "x", cwd=tmp_path)
    wait_for_groups(child, 3, tmp_path / "evo.db")
    child.send_signal(number)
    if number == signal.SIGHUP:
        child.send_signal(number)  # a shell and the kernel may both send it: it never means at once
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, out + err
    assert "Interrupted: run x" in out and "Resume with: evo resume x" in out and "Traceback" not in err
    assert_goes_on(tmp_path, calm)


def test_a_closed_terminal_ends_it_too(tmp_path, calm):
    ours, theirs = pty.openpty()
    child = begin("run", *SEARCH, "--name", "x", cwd=tmp_path, stdout=theirs)
    os.close(theirs)
    wait_for_groups(child, 3, tmp_path / "evo.db")
    os.close(ours)
    child.send_signal(signal.SIGHUP)  # the kernel's, to who the terminal belongs to
    assert child.wait(120) == 130
    assert_goes_on(tmp_path, calm)


def test_nohup_is_obeyed(tmp_path, calm):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a child begins with it
    child = begin("run", *SEARCH, "--name", "x", cwd=tmp_path)
    signal.signal(signal.SIGHUP, before)
    wait_for_groups(child, 3, tmp_path / "evo.db")
    child.send_signal(signal.SIGHUP)
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, out + err
    assert_same_run(stored_answers(f"sqlite:///{tmp_path / 'evo.db'}", "x"), calm)
