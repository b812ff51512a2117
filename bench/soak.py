"""kill -9 at random points, again and again: what was committed stays, nothing is scored twice, nothing is left behind.

    python bench/soak.py [--kills 1000] [--state FILE] [--seed 0] [--kinds search,scorer,...]

An episode is one piece of work (a search of mazes, a search with a scorer in the sandbox, a search that trains its
policy, a comparison) in a fresh database, SQLite and PostgreSQL in turn. It
is begun, killed, taken up again by `evo resume`, and so on to its end. Where the kill falls is drawn as processor time
used, in three parts: start-up, the loop, closing. Who is killed is drawn too: the command alone, one of its processes
(sandbox worker, scorer, comparison worker), or all of them at once. Commands are forks of this process, so that
a life costs what it does and not what Python's imports cost.

After every kill: the groups and training steps that were on record are there and unchanged; there is no gap, no half
group, no candidate twice; nothing that was on record is scored again by the next life; no process of the dead is left,
and once the work is through no file. The state is a JSON file of its own, so that a soak can be stopped (Ctrl-C) and
taken up again; an episode that was under way begins anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from soak_kinds import KINDS, Kind, warm_up  # noqa: E402
from soak_life import Life, become_subreaper, descendants, orphans_after  # noqa: E402
from soak_store import Snapshot, committed, rows, whole  # noqa: E402
from support.postgres import PostgresServer  # noqa: E402

GRACE_SECONDS = 90.0
"""A process that outlives the one that began it must be gone by then; comparison workers finish what is in flight."""
LIFE_SECONDS = 300.0
PATIENCE = 60.0
"""Seconds in which a life comes to the point of its kill."""
MOST_FAULTS = 200
"""Faults that are kept in words; all are counted."""


class Soak:
    """The episodes, and what they have come to so far."""

    def __init__(self, state: Path, seed: int, kinds: list[str], folder: Path, databases: list[str]) -> None:
        self.file, self.seed, self.kinds, self.databases = state, seed, kinds, databases
        self.folder = folder
        self.server: PostgresServer | None = None
        self.stopped = False
        self.known: set[int] = set()
        self.state: dict[str, Any] = {"seed": seed, "episodes": 0, "lives": 0, "groups": 0, "scored": 0, "seconds": 0.0}
        self.state |= {"kills": {}, "counts": {}, "faults": [], "commits": []}
        if state.exists():
            self.state |= json.loads(state.read_text())

    @property
    def kills(self) -> int:
        return sum(self.state["kills"].values())

    def save(self) -> None:
        half = self.file.with_suffix(".half")
        half.write_text(json.dumps(self.state, indent=1))
        half.replace(self.file)

    def fault(self, kind: str, episode: str, words: str) -> None:
        counts = self.state["counts"]
        counts[kind] = counts.get(kind, 0) + 1
        print(f"FAULT {kind}: {episode}: {words}", flush=True)
        if len(self.state["faults"]) < MOST_FAULTS:
            self.state["faults"].append({"kind": kind, "episode": episode, "words": words[:1000]})

    def run(self, kills: int) -> None:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if commit.stdout.strip() not in self.state["commits"]:
            self.state["commits"].append(commit.stdout.strip())
        warm_up(self.kinds)
        become_subreaper()
        if "postgresql" in self.databases:
            self.server = PostgresServer.start()
            self.known = {self.server.pid}
        try:
            while self.kills < kills and not self.stopped:
                started = time.monotonic()
                self.episode(self.state["episodes"])
                self.state["episodes"] += 1
                self.state["seconds"] += time.monotonic() - started
                self.save()
        finally:
            if self.server is not None:
                self.server.stop()

    def episode(self, number: int) -> None:
        chance = random.Random(f"{self.seed}.{number}")
        kind = KINDS[self.kinds[number % len(self.kinds)]]
        database = self.databases[number // len(self.kinds) % len(self.databases)]
        folder = self.folder / f"episode-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with self.database(database, folder) as db:
                Episode(self, kind, db, database, folder, chance, number).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def database(self, which: str, folder: Path) -> Iterator[str]:
        if which == "sqlite":
            yield f"sqlite:///{folder / 'soak.db'}"
        else:
            assert self.server is not None
            with self.server.database() as address:
                yield address


class Episode:
    """One piece of work, killed until it has had its kills, then left to end."""

    def __init__(
        self, soak: Soak, kind: Kind, db: str, database: str, folder: Path, chance: random.Random, number: int
    ) -> None:
        self.soak, self.kind, self.db, self.database = soak, kind, db, database
        self.folder, self.chance = folder, chance
        self.name = f"{number} {kind.name} {database}"
        self.seed = number

    def run(self) -> None:
        begin, resume = self.kind.commands(self.seed, self.db)
        before, arguments = Snapshot(self.db), begin
        for life in range(self.kind.kills + 6):
            closing = life >= self.kind.kills - 2
            code, after = self.live(arguments, before, closing, last=life >= self.kind.kills)
            before = after
            if code == 0 or self.soak.stopped:
                break
            arguments = resume if self.kind.begun(after.runs) else begin
        else:
            self.soak.fault("ended", self.name, "is not through after all its kills")
        if not self.soak.stopped:
            self.soak.state["groups"] += len(before.groups)
            self.check_files()

    def live(self, arguments: list[str], before: Snapshot, closing: bool, last: bool) -> tuple[int | None, Snapshot]:
        """One life, with its kill unless it is the last or ends first; its exit code, and what is committed then."""
        life = Life(arguments, self.folder)
        self.soak.state["lives"] += 1
        died = False
        if not last:
            died = self.strike(life, closing)
        code = life.wait(LIFE_SECONDS)
        if code is None:
            self.soak.fault("hung", self.name, f"{arguments} runs after {LIFE_SECONDS:.0f} s: {life.said()[-300:]}")
            life.kill([life.pid, *descendants(life.pid)])
            code = life.wait(10)
        for pid, words in orphans_after(self.soak.known, GRACE_SECONDS):
            self.soak.fault("orphans", self.name, f"process {pid}: {words}")
        self.check_backends()
        after = Snapshot(self.db)
        for what, found in after.faults_after(before).items():
            for words in found:
                self.soak.fault(what, self.name, words)
        if len(after.runs) == 1:  # the arms of a comparison each score for themselves
            scored = set(life.scored())
            for key in before.known & scored:
                self.soak.fault("scored again", self.name, key)
            self.soak.state["scored"] += len(scored)
        said = life.said()
        if "Traceback" in said or (
            not self.soak.stopped and code not in (0, -signal.SIGKILL) and not (code == 1 and died)
        ):
            self.soak.fault("ended", self.name, f"{arguments[0]} ended with {code}: {said[-900:]}")
        return code, after

    def strike(self, life: Life, closing: bool) -> bool:
        """Kill at a random point; whether one of its processes was killed alone, which the command may end by."""
        part = "closing" if closing else self.chance.choices(["start", "loop"], [1, 2])[0]
        target = self.chance.choices(["parent", "child", "all"], self.kind.targets)[0]
        if part == "start":
            life.work(self.chance.uniform(0, self.kind.start), PATIENCE)
        else:
            self.until_under_way(life)
            if part == "closing":
                until = time.monotonic() + 60
                while life.poll() is None and time.monotonic() < until and committed(self.db) < self.kind.groups:
                    time.sleep(0.01)
            life.work(self.chance.uniform(0, 0.05 if part == "closing" else self.kind.loop), PATIENCE)
        if life.poll() is not None:
            return False
        below, died = descendants(life.pid), False
        if target == "child" and below:
            victim = self.chance.choice(below)
            life.kill([victim])
            self.count("child", part)
            died = True
            life.work(self.chance.uniform(0, self.kind.loop), 10.0)
            if life.poll() is not None:
                return died
            target = "parent"
        victims = [life.pid] if target == "parent" else self.chance.sample([life.pid, *below], len(below) + 1)
        if life.poll() is None:
            life.kill(victims)
            self.count("all" if len(victims) > 1 else "parent", part)
        return died

    def until_under_way(self, life: Life) -> None:
        """Until the life has scored something, or has used the time in which others have."""
        until = time.monotonic() + PATIENCE
        begun = time.monotonic()
        while life.poll() is None and time.monotonic() < until and not life.scored_file.stat().st_size:
            if self.kind.unlogged and time.monotonic() - begun > self.kind.start:
                life.work(self.kind.start, PATIENCE)
                return
            time.sleep(0.004)

    def count(self, target: str, part: str) -> None:
        key = f"{self.kind.name}|{self.database}|{target}|{part}"
        self.soak.state["kills"][key] = self.soak.state["kills"].get(key, 0) + 1
        self.soak.save()

    def check_backends(self) -> None:
        """No connection of the dead is left at the server."""
        if self.database != "postgresql":
            return
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'evo' AND datname = current_database()"
        until = time.monotonic() + 20
        while (left := rows(self.db, query)[0][0]) and time.monotonic() < until:
            time.sleep(0.05)
        if left:
            self.soak.fault("orphans", self.name, f"{left} connections of PostgreSQL")

    def check_files(self) -> None:
        """Once the work is through, nothing temporary is left and the database is sound."""
        left = [str(path.relative_to(self.folder)) for path in (self.folder / "tmp").iterdir()]
        left += [str(path.relative_to(self.folder)) for path in self.folder.rglob("*.writing-*")]
        for one in left:
            self.soak.fault("files", self.name, one)
        if fault := whole(self.db):
            self.soak.fault("half", self.name, fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="search,scorer,compare,search,scorer,train,workers")
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evo-soak")
    parser.add_argument("--state", type=Path, help="default: state.json in the folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    state = options.state or options.folder / "state.json"
    soak = Soak(state, options.seed, options.kinds.split(","), options.folder, options.databases.split(","))
    signal.signal(signal.SIGINT, lambda *_: setattr(soak, "stopped", True))
    signal.signal(signal.SIGTERM, lambda *_: setattr(soak, "stopped", True))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    soak.run(options.kills)
    print(json.dumps(soak.state, indent=1))
    sys.exit(bool(soak.state["counts"]))


if __name__ == "__main__":
    main()
