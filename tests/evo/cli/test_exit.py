"""The process of a command ends early, but not before what is due at its end."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import atexit, threading, time
import evo.cli

def command(argv):
    print("from the command")
    atexit.register(print, "registered by it")
    threading.Thread(target=lambda: (time.sleep(0.3), print("from a thread that goes on"))).start()
    {ending}

evo.cli.invoke = command
evo.cli.main([])
"""
SAID = ["from the command", "from a thread that goes on", "registered by it"]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("return 130", 130), ("raise RuntimeError('a bug')", 1), ("raise SystemExit(1)", 1)],
)
def test_everything_due_is_done_and_the_code_is_the_commands(ending, code):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(ending=ending)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""},
    )
    assert (done.returncode, done.stdout.splitlines()) == (code, SAID)
    assert ("Traceback" in done.stderr and "a bug" in done.stderr) == ("bug" in ending)


def test_modules_are_not_taken_apart():
    """Which is what takes the time: an object that would say so when it is dropped says nothing."""
    script = SCRIPT.format(ending="return 0") + "\n"
    watcher = "class Watcher:\n    def __del__(self):\n        print('taken apart')\nwatcher = Watcher()\n"
    for text, told in ((watcher + script, SAID), (watcher, ["taken apart"])):
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.stdout.splitlines() == told
