"""The screen in tmux, as a person has it: at 80x24 and at 160x50."""

import os
import shlex
import shutil
import subprocess
import sys
import time

import pytest
from terminal_program import without_size

from islands.store import Store


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 50)])
def test_a_drive_through_the_screen(tmp_path, search_with, digits, digits_policy, pytestconfig, columns, rows):
    db = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits(f"set/{n}", target=0.9) for n in range(30)], digits_policy(), db, iterations=4)
    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "done")
    tmux = ["tmux", "-L", f"evo-test-{os.getpid()}", "-f", "/dev/null"]
    environment = {**without_size(), "PYTHONPATH": str(pytestconfig.rootpath), "TERM": "xterm-256color"}
    command = shlex.join([sys.executable, "-m", "evo", "watch", "run", "--db", db])
    shell = f"{command}; echo left with $?; sleep 100"

    def call(*arguments):
        done = subprocess.run([*tmux, *arguments], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def until(*texts):
        end = time.monotonic() + 30
        while not all(text in (seen := call("capture-pane", "-p")) for text in texts):
            assert time.monotonic() < end, seen
            time.sleep(0.1)
        lines = seen.split("\n")
        assert len(lines) <= rows + 1 and max(map(len, lines)) <= columns
        return lines

    call("new-session", "-d", "-x", str(columns), "-y", str(rows), shell)
    try:
        lines = until("the run has ended", "120/120 iterations", "q Quit")
        assert ("population of" in "\n".join(lines)) == (columns == 160)
        call("send-keys", "/", "2")
        until("12 of 30 · /2")
        call("send-keys", "Enter")
        time.sleep(0.5)
        call("send-keys", "Enter")
        until("fitness", "of 0.9", "esc Back")
        call("send-keys", "Escape")
        until("12 of 30")
        call("send-keys", "Tab")
        until("last improvements")
        call("send-keys", "Tab", "?")
        until("Keys", "problems by name")
        call("send-keys", "Escape")
        until("12 of 30")
        call("send-keys", "q")
        until("left with 0")
    finally:
        subprocess.run([*tmux, "kill-server"], env=environment, check=False)
