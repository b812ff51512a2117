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
import atexit
import contextlib
import ctypes
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.postgres import PostgresServer  # noqa: E402

# -- what is killed ----------------------------------------------------------------------------------------------------

WARM = (
    *(f"evo.cli.{name}" for name in ("run", "compare", "evaluate", "pipeline", "report", "export")),
    *("psycopg", "islands.store", "evo.runs.start", "vpo.policies.scripted", "numpy.random"),
    *("pygments.lexers.html", "pygments.lexers.python", "problems.registry", "vpo.chain.parsing", "scipy.stats"),
)
MODELS = (
    *("torch", "torch._dynamo.config", "vpo.hf.policy", "transformers.models.llama.modeling_llama", "peft"),
    *("transformers.models.qwen2.modeling_qwen2", "evo.cli.policy", "vpo.training.trainer"),
)
HERE = Path(__file__).resolve().parent
SCORER = HERE / "soak_scorer.py"


@dataclass(frozen=True)
class Kind:
    """One kind of work.

    words: of the command that begins it; kills: how many an episode gets; groups: that it commits in all
    start, loop: seconds of processor that starting up takes, and that a kill in the loop may come after it
    unlogged: what scores are processes of its own, whose answers are not noted
    targets: weights of killing the command alone, one of its processes alone, all at once
    """

    name: str
    words: tuple[str, ...]
    kills: int
    groups: int
    start: float = 0.15
    loop: float = 0.3
    targets: tuple[int, int, int] = (1, 0, 0)
    resume_words: tuple[str, ...] = ()
    unlogged: bool = False

    def commands(self, seed: int, db: str) -> tuple[list[str], list[str]]:
        common = ["--db", db, "--plain"]
        begin = [*self.words, "--name", "soak", "--seed", str(seed), *common]
        return begin, ["resume", "soak", *self.resume_words, *common]

    def begun(self, runs: Collection[str]) -> bool:
        """Whether its run is on record, or one of its comparison."""
        return "soak" in runs or (self.words[0] == "compare" and len(runs) > 0)


SMALL = ("--rollouts", "2", "--answers", "2", "--islands", "3")
COMPARISON = (
    "compare", "maze:test", "--limit", "2", "--arm", "a=scripted:random-route", "--arm", "b=scripted:classic",
    "--baseline", "none", "--seeds", "2", "--iterations", "100", "--answers", "2",
)  # fmt: skip
ONE, TWO = ("--processes", "1"), ("--processes", "2")
KINDS = {
    one.name: one
    for one in (
        Kind(
            "search",
            ("run", "maze:test", "--limit", "3", "--policy", "scripted:random-route", "--iterations", "300", *SMALL),
            kills=30,
            groups=900,
            start=0.12,
            loop=0.15,
        ),
        Kind(
            "scorer",
            ("run", str(SCORER), "--policy", "scripted:mutate", "--iterations", "400", *SMALL),
            kills=24,
            groups=400,
            start=0.4,
            loop=0.3,
            targets=(2, 3, 2),
        ),
        Kind("compare", (*COMPARISON, *ONE), kills=16, groups=800, loop=0.2, resume_words=ONE),
        Kind(
            "workers",
            (*COMPARISON, *TWO),
            kills=4,
            groups=800,
            start=2.5,
            loop=1.0,
            targets=(2, 2, 1),
            resume_words=TWO,
            unlogged=True,
        ),
        Kind(
            "train",
            (
                "run", "maze:test", "--limit", "2", "--policy", "embedded:base", "--iterations", "12",
                "--rollouts", "2", "--answers", "2", "--train", "vpo", "--train-every", "3",
                "--lr", "0.0003", "--device", "cpu",
            ),
            kills=6,
            groups=24,
            start=1.0,
            loop=3.0,
        ),
    )
}  # fmt: skip


def warm_up(kinds: Sequence[str]) -> None:
    """Import what lives need, once, in the process that they are forks of."""
    models = (*MODELS, "evo.training.colocated") if "train" in kinds else ()
    for name in (*WARM, *models):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


# -- one life ----------------------------------------------------------------------------------------------------------

PR_SET_CHILD_SUBREAPER = 36
SCORED = "EVO_SOAK_SCORED"
"""Names the file that a life adds to what it scores: problem and text of the answer, hashed."""
POLL_SECONDS = 0.004


def become_subreaper() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def answer_key(problem: str, text: str) -> str:
    return blake2b(f"{problem}\0{text}".encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    found = children(pid)
    for one in found:  # grows meanwhile
        found += children(one)
    return found


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return ""


def cpu_seconds(pid: int) -> float:
    """Processor time of a whole process; 0 for one that is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


class Life:
    """`evo ARGUMENTS` in a session of its own.

    folder: its working directory; what it writes is in folder/out and folder/err, its temporary files in folder/tmp
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.arguments, self.folder = list(arguments), folder
        self.code: int | None = None
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        (folder / "tmp").chmod(0o777)  # evaluations run as users of their own
        self.scored_file = folder / "scored"
        self.scored_file.write_text("")
        own = {"TMPDIR": str(folder / "tmp"), SCORED: str(self.scored_file), "OMP_NUM_THREADS": "1"}
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(self.arguments, folder, own)

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self, seconds: float) -> int | None:
        until = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return self.code

    def work(self, seconds: float, patience: float) -> None:
        """Until it has used so much more processor time with all that it started, or ended, or `patience` is over. The
        processor's time, so that a kill falls into the same part of the work on a busy machine."""
        until, begun = time.monotonic() + patience, self._used()
        while self.poll() is None and time.monotonic() < until and self._used() - begun < seconds:
            time.sleep(POLL_SECONDS)

    def _used(self) -> float:
        return cpu_seconds(self.pid) + sum(map(cpu_seconds, descendants(self.pid)))

    def kill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    def scored(self) -> list[str]:
        return self.scored_file.read_text().split()


def orphans_after(known: set[int], seconds: float) -> list[tuple[int, str]]:
    """What of all that was begun is still there after `seconds`, (pid, command line); it is ended. Those that ended in
    time are reaped. known: processes that are meant to be there."""
    until = time.monotonic() + seconds
    while left := _reap(known):
        if time.monotonic() > until:
            found = [(pid, words_of(pid)) for root in left for pid in [root, *descendants(root)]]
            for pid, _ in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
            _reap(known)
            return found
        time.sleep(0.02)
    return []


def _reap(known: set[int]) -> list[int]:
    """Our children that still run, but for those that are known."""
    left = []
    for pid in children(os.getpid()):
        if pid in known:
            continue
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                left.append(pid)
    return left


def _live(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """In the fork: what `python -m evo ARGUMENTS` does, and ends as that does. Never returns."""
    code = 98
    try:
        os.setsid()
        os.chdir(folder)
        for number, name, how in ((0, os.devnull, os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            opened = os.open(name, how | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(opened, number)
            os.close(opened)
        os.environ.update(environment)
        tempfile.tempdir = None  # found anew
        sys.argv = ["evo", *arguments]
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _log_scores()
        from evo.cli import invoke

        try:
            code = invoke(arguments)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter ends: threads first
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(code)


def _log_scores() -> None:
    """Every answer that this process scores is noted in the file that SCORED names."""
    from problems import scoring

    judge, log = scoring.checked_score, os.open(os.environ[SCORED], os.O_WRONLY | os.O_APPEND)

    def noted(problem, answer):  # noqa: ANN001, ANN202
        os.write(log, f"{answer_key(problem.name, answer)}\n".encode())
        return judge(problem, answer)

    scoring.checked_score = noted


# -- what a database is held against -----------------------------------------------------------------------------------

GROUPS = """SELECT runs.name, g.sequence, p.name, g.iteration, g.island, g.seed, g.parent_id, t.texts,
r.position, r.text, r.token_ids, a.position, a.candidate_id, a.repeat, c.text, c.rewards, c.fitness, c.error
FROM prompt_groups g JOIN prompts t ON t.group_id = g.id JOIN runs ON runs.id = g.run_id
JOIN problems p ON p.id = g.problem_id LEFT JOIN rollouts r ON r.group_id = g.id
LEFT JOIN answers a ON a.rollout_id = r.id
LEFT JOIN candidates c ON c.id = a.candidate_id ORDER BY runs.name, g.sequence, r.position, a.position"""
STEPS = "SELECT run_id, step, stats, policy_version_id FROM training_steps ORDER BY run_id, step"
TWICE = """SELECT count(*) FROM (SELECT problem_id, identity FROM candidates GROUP BY problem_id, identity
HAVING count(*) > 1) AS doubled"""
HALF = {
    "groups without rollouts": "SELECT count(*) FROM prompt_groups g WHERE NOT EXISTS "
    "(SELECT 1 FROM rollouts r WHERE r.group_id = g.id)",
    "candidates of no group": "SELECT count(*) FROM candidates c WHERE c.sequence >= 0 AND NOT EXISTS "
    "(SELECT 1 FROM prompt_groups g WHERE g.id = c.group_id)",
}


@contextlib.contextmanager
def connected(db: str) -> Iterator[Any]:
    """A plain connection of the driver's own, closed at the end."""
    url = make_url(db)
    if url.drivername == "sqlite":
        connection: Any = sqlite3.connect(f"file:{url.database}?mode=ro", uri=True, timeout=30)
    else:
        import psycopg

        connection = psycopg.connect(
            host=url.query["host"], user=url.username, dbname=url.database, autocommit=True, application_name="soak"
        )
    try:
        yield connection
    finally:
        connection.close()


def rows(db: str, query: str) -> list[Any]:
    """Of one query; none where the database or its tables are not there yet."""
    try:
        with connected(db) as connection:
            return list(connection.execute(query).fetchall())
    except Exception as error:
        if any(words in str(error) for words in ("no such table", "does not exist", "unable to open")):
            return []
        raise


class Snapshot:
    """What was committed: (run, sequence) -> a hash of the whole group; training steps; the answers with a score."""

    def __init__(self, db: str) -> None:
        hashed: dict[tuple[str, int], Any] = {}
        self.known: set[str] = set()
        for row in rows(db, GROUPS):
            digest = hashed.setdefault((row[0], row[1]), blake2b(digest_size=12))
            digest.update(repr(tuple(bytes(v) if isinstance(v, memoryview) else v for v in row)).encode())
            if row[14] is not None:
                self.known.add(answer_key(row[2], row[14]))
        self.groups = {key: digest.hexdigest() for key, digest in hashed.items()}
        self.steps = [tuple(map(str, row)) for row in rows(db, STEPS)]
        self.runs = {name: status for name, status in rows(db, "SELECT name, status FROM runs")}
        self.twice = sum(row[0] for row in rows(db, TWICE))
        self.half = [what for what, query in HALF.items() if sum(row[0] for row in rows(db, query))]

    def faults_after(self, before: Snapshot) -> dict[str, list[str]]:
        """What is wrong with this, which came after `before`: by kind, in words."""
        lost = [f"group {key}" for key, digest in before.groups.items() if self.groups.get(key) != digest]
        lost += [f"step {row[1]}" for row in before.steps if row not in self.steps]
        lost += [f"run {name}" for name in before.runs if name not in self.runs]
        places: dict[str, list[int]] = {}
        for name, sequence in self.groups:
            places.setdefault(name, []).append(sequence)
        gaps = [f"run {name} has a gap" for name, found in places.items() if found != list(range(len(found)))]
        return {"lost": lost, "half": gaps + self.half, "twice": [f"{self.twice} candidates"] if self.twice else []}


def committed(db: str) -> int:
    """How many groups are committed now."""
    return sum(row[0] for row in rows(db, "SELECT count(*) FROM prompt_groups"))


def whole(db: str) -> str:
    """What the database's own check finds wrong; empty for nothing."""
    if make_url(db).drivername != "sqlite":
        return ""
    found = [row[0] for row in rows(db, "PRAGMA integrity_check")]
    return "" if found in (["ok"], []) else "; ".join(found[:3])


# -- episodes ----------------------------------------------------------------------------------------------------------

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
