"""Whether a mode really confines here: a benign program looks at what it is refused."""

from __future__ import annotations

from problems.sandbox.contract import Limits, Program, SandboxFault
from problems.sandbox.pool import Sandbox

_LOOK = """
import os, socket
def refused(what):
    try:
        what()
    except OSError as error:
        return True
    return False
def start():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
def look():
    return {
        "no other process can be signalled": refused(lambda: os.kill(os.getppid(), 0)),
        "no process can be started": refused(start),
        "no socket can be made": refused(lambda: socket.socket()),
        "no file outside can be read": refused(lambda: open("/etc/passwd").close()),
        "no file outside can be written": refused(lambda: open("/dev/shm/evo-sandbox-test", "x").close()),
        "files in scratch can": not refused(lambda: (open("test", "x").close(), os.unlink("test"))),
    }
"""


def refusal(mode: str) -> str | None:
    """Why `mode` is not to be used, or None."""
    sandbox = Sandbox(mode, 1, preload=())
    try:
        (outcome,) = sandbox.run(Program(_LOOK, ("look()",)), Limits(wall_seconds=20.0, cpu_seconds=10.0))
    except SandboxFault as fault:
        return str(fault)
    finally:
        sandbox.close()
    if outcome.status != "ok":
        return f"a program that tried it ended with {outcome.status}: {outcome.message}"
    failed = [claim for claim, holds in outcome.value.items() if not holds]
    return f"it does not hold that {', '.join(failed)}" if failed else None
