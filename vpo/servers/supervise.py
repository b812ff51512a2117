"""Runs a program in a separate process group, and ends the group when the pipe to this process's standard input closes
(also where its owner was killed) or a SIGTERM comes.

    python supervise.py PROGRAM ARGUMENTS
"""

import os
import signal
import subprocess
import sys
import threading
import time

CLOSE_SECONDS = 20.0
"""From the signal that asks the group to end to the one that ends it."""


def main() -> None:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def end() -> None:
        os.killpg(child.pid, signal.SIGTERM)
        time.sleep(CLOSE_SECONDS)
        os.killpg(child.pid, signal.SIGKILL)

    def end_with_the_owner() -> None:
        sys.stdin.buffer.read()
        end()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end, daemon=True).start())
    threading.Thread(target=end_with_the_owner, daemon=True).start()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    os.killpg(child.pid, signal.SIGKILL)  # what it left behind
    code = child.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
