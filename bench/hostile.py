"""Every hostile program through the sandbox, each followed by a good one that must be scored right.

    python -m bench.hostile [--mode bwrap|landlock] [--only WORD] [--json]

The programs are those of tests/problems/hostile: the hand-written ones and the families. They run through Sandbox.run
alone, never outside it. A program is survived where its outcome is one that it may have, the good program after it is
scored right, and none of these saw it: a file that anyone may write, a listening socket of either family, a process of
the same user, the folders for temporary files. What is left of the workers is looked for at the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from problems.sandbox.contract import Limits, Program
from problems.sandbox.isolation import probe
from problems.sandbox.pool import Sandbox

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = ROOT / "tests" / "problems" / "hostile"
SECRET = "secret-of-the-user"


class Witness:
    """What a program that got out would touch: it is all on this machine, and nobody else's."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "secret.txt"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o666)
        folder.chmod(0o777)
        self.sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self.sockets[1].bind(f"\0evo-hostile-{os.getpid()}")
        self.sockets[1].listen()
        for one in self.sockets:
            one.setblocking(False)
        self.process = subprocess.Popen(["sleep", "100000"])
        self.before = self._listed()

    def _listed(self) -> set[str]:
        places = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
        return {str(file) for place in places for file in place.iterdir() if "evil" in file.name}

    def faults(self) -> list[str]:
        found = []
        if self.secret.read_text() != SECRET or self.secret.stat().st_mode & 0o777 != 0o666:
            found.append("the secret file was changed")
        if self.process.poll() is not None:
            found.append("a process of the user's was ended")
        for one in self.sockets:
            try:
                one.accept()
                found.append(f"a connection to {one.getsockname()}")
            except BlockingIOError:
                pass
        return found + [f"left {name}" for name in self._listed() - self.before]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in self.sockets:
            one.close()


def load() -> tuple[Any, dict[str, list[Any]]]:
    """(the table of expectations, programs by family)."""
    sys.path.insert(0, str(HOSTILE))
    try:
        table = importlib.import_module("table")
        generated = [importlib.import_module(name).generate() for name in ("of_the_kernel", "of_resources")]
        return table, {**table.read_programs(), "families": sum(generated, [])}
    finally:
        sys.path.remove(str(HOSTILE))


def run_all(mode: str, only: str = "") -> dict[str, Any]:
    """Tried and survived by family, what failed, and the longest that one took."""
    table, families = load()
    tried: Counter[str] = Counter()
    failed: list[tuple[str, list[str]]] = []
    endings: Counter[str] = Counter()
    longest = (0.0, "")
    os.environ["EVO_TEST_SECRET"] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        witness = Witness(Path(folder))
        places = {"secret": str(witness.secret), "repository": str(ROOT), "home": str(Path.home())}
        try:
            with Sandbox(mode, workers=1) as sandbox:  # type: ignore[arg-type]
                marked = Program("def f(x): return x\n", ("f('expected-' + 'elsewhere')", "f(['expected-elsewhere'])"))
                sandbox.run(marked)
                for family, programs in families.items():
                    for hostile in (one for one in programs if only in one.name):
                        tried[family] += 1
                        begun = time.monotonic()
                        outcomes = table.run(sandbox, hostile, places)
                        longest = max(longest, (time.monotonic() - begun, hostile.name))
                        endings.update(outcome.status for outcome in outcomes)
                        faults = table.find_faults(hostile, outcomes, mode) + witness.faults()
                        faults += table.find_faults_of_good(sandbox.run(table.GOOD, Limits()))
                        if faults:
                            failed.append((hostile.name, faults))
                            print(f"{mode}: {hostile.name}: {faults}", file=sys.stderr, flush=True)
        finally:
            witness.close()
    return {
        "mode": mode,
        "tried": dict(tried),
        "survived": sum(tried.values()) - len(failed),
        "failed": failed,
        "endings": dict(endings),
        "longest_seconds": longest,
        "children_left": _children(),
    }


def _children() -> list[str]:
    """Command lines of this process's children, which should be none by now."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:80] for pid in listed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", action="append", choices=["bwrap", "landlock"])
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    for mode in options.mode or ["bwrap", "landlock"]:
        if (reason := probe(mode)) is not None:
            print(f"{mode} cannot be had here: {reason}")
            continue
        found.append(run_all(mode, options.only))
        if not options.json:
            one = found[-1]
            print(f"{mode}: {sum(one['tried'].values())} tried, {one['survived']} survived; {one['tried']}")
            print(f"  endings {one['endings']}; longest {one['longest_seconds']}; left {one['children_left']}")
            for name, faults in one["failed"]:
                print(f"  {name}: {faults}")
    if options.json:
        print(json.dumps(found))
    sys.exit(any(one["failed"] or one["children_left"] for one in found))


if __name__ == "__main__":
    main()
