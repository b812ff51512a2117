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


WATCHER = """
import os
class Watcher:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")
watcher = Watcher()
"""
"""It says so when it is dropped, by what a process has to its very end."""


def ended(script):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(("ending", "code"), [("return 130", 130), ("raise RuntimeError('a bug')", 1)])
def test_everything_due_is_done_and_no_module_is_taken_apart(ending, code):
    """Which is what takes the time: an object that would say so when it is dropped says nothing."""
    done = ended(WATCHER + SCRIPT.format(ending=ending))
    assert (done.returncode, done.stdout.splitlines()) == (code, SAID)
    assert ("Traceback" in done.stderr and "a bug" in done.stderr) == ("bug" in ending)


def test_an_object_of_a_module_that_is_taken_apart_says_so():
    assert ended(WATCHER).stdout.splitlines() == ["taken apart"]
