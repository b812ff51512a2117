"""What tests of several packages share: an empty PostgreSQL database on a server that the session starts, one thread
for small models, and how two workers share the files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
hypothesis.settings.load_profile("untimed")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is loaded, here and in the processes of tests
sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup; the processes of tests take a hang-up as others do
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a script's background job; its children would never stop
    signal.signal(signal.SIGINT, signal.default_int_handler)

from support.postgres import NoPostgres, PostgresServer  # noqa: E402

LONGEST = (
    # with the tests marked `long`, where they run in the same session
    *("evo/cluster", "docs", "evo/search/test_kill", "evo/training", "vpo/training"),
    *("evo/pipelines", "evo/tui/test_real_terminal", "vpo/chain", "evo/report", "evo/cli", "vpo/policies"),
    *("evo/search", "problems/test_sandbox", "vpo", "islands", "evo"),
)
"""Beginnings of the paths of files, those that take the most time first: what ends last should be short."""


CLUSTERS = ("tests/evo/cluster/test_cluster.py", "tests/evo/cluster/")
"""Beginnings of the paths of files that share a Ray cluster: two clusters, so that two workers can wait for them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(tests).as_posix()
        return next((i for i, beginning in enumerate(LONGEST) if path.startswith(beginning)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files to each worker unless --dist says otherwise: a file's servers and models are made once."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            """The files that share a cluster are taken for one."""
            return next((path for path in CLUSTERS if nodeid.startswith(path)), super()._split_scope(nodeid))

    config.option.loadscopereorder = False  # by the number of tests, which says little
    return Files(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of this worker. Without one the tests fail: skipping would hide a broken half of the product."""
    try:
        server = PostgresServer.start()
    except NoPostgres as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture
def postgres_address(postgres: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with postgres.database() as address:
        yield address


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two threads of a small model wait for each other most of the time where other tests run beside them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class SmallDisk:
    """A file system of the test's own, to be full or read-only: mounted by a call with its size, as in "4m"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, size: str) -> Path:
        self.folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(self.folder)])
        if mounted.returncode:
            pytest.skip("no file system can be mounted here")
        return self.folder

    def change(self, options: str) -> None:
        """Mounted again with these options, as ro or another size."""
        subprocess.run(["mount", "-o", f"remount,{options}", "none", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """disk("4m") mounts a file system of that size in the test's folder; disk.change("ro") makes it read-only."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    made = SmallDisk(tmp_path / "disk")
    yield made
    if made.folder.is_mount():
        subprocess.run(["umount", "--lazy", str(made.folder)], check=True)  # what failed may still hold a file open


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[EntryPoint], None]:
    """Adds entry points to those of installed packages for the length of the test. All others stay: what the product
    remembers of them must be right for the tests that follow."""
    added: list[EntryPoint] = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [*entry_points(group=group), *(point for point in added if point.group == group)],
    )
    return added.append
