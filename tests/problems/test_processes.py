"""Temporary folders: held while their process lives, removed by the next one where it was killed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from problems import temp_dirs
from problems.shims.user_file import defer


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temp_dirs._sweep.cache_clear()
    yield tmp_path
    temp_dirs._sweep.cache_clear()


def held_elsewhere(place):
    """A process that holds a folder with a file in it: (process, folder)."""
    code = (
        "import sys, time\nfrom problems import temp_dirs\nfolder = temp_dirs.make('x')\n"
        "open(folder + '/file', 'w').close()\nprint(folder, flush=True)\ntime.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_there_until_it_is_released(place):
    folder = temp_dirs.make("x")
    assert Path(folder).parent == place and Path(folder).stat().st_mode & 0o777 == 0o700
    temp_dirs.release(folder)
    temp_dirs.release(folder)
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_and_what_lives_stays(place):
    dead, left = held_elsewhere(place)
    living, kept = held_elsewhere(place)
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert left.is_dir()
        own = temp_dirs.make("y")
        assert sorted(path.name for path in place.iterdir()) == sorted([kept.name, Path(own).name])
        assert (kept / "file").exists()
    finally:
        living.kill()
        living.wait()
        for process in (dead, living):
            process.stdout.close()


def test_other_folders_and_links_are_not_touched(place, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (place / "evo-sandbox-old").mkdir()
    (place / f"{temp_dirs.PREFIX}link").symlink_to(other)
    temp_dirs.release(temp_dirs.make("x"))
    assert other.is_dir() and (place / "evo-sandbox-old").is_dir()


def test_a_folder_that_another_removes_while_it_is_made_is_made_again(place, monkeypatch):
    usual, made = tempfile.mkdtemp, []

    def taken(**named):
        folder = usual(**named)
        made.append(folder)
        if len(made) == 1:
            Path(folder).rmdir()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    folder = temp_dirs.make("x")
    assert len(made) == 2 and folder == os.path.realpath(made[1])
    temp_dirs.release(folder)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a deferred package, which counts in sys.modules["counter"].runs how often its __init__ ran."""
    name = "deferred_sample"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(
        "import counter\ncounter.runs += 1\nfrom deferred_sample.inner import two\nthree = two + 1\n"
    )
    (tmp_path / name / "inner.py").write_text("two = 2\n")
    (tmp_path / "counter.py").write_text("runs = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    defer(name)
    yield name
    for loaded in [module for module in sys.modules if module.split(".")[0] in (name, "counter")]:
        del sys.modules[loaded]


def test_a_module_inside_is_imported_alone_and_an_attribute_loads_the_whole_once(package):
    counter, inner = importlib.import_module("counter"), importlib.import_module(f"{package}.inner")
    assert inner.two == 2 and counter.runs == 0
    space = {}
    exec(f"from {package} import three", space)
    assert space["three"] == sys.modules[package].three == 3 and counter.runs == 1
    with pytest.raises(AttributeError, match="four"):
        _ = sys.modules[package].four


def test_one_that_fails_to_load_says_so_every_time(package, tmp_path):
    (tmp_path / package / "__init__.py").write_text("import nothing_of_that_name\n")
    module = importlib.import_module(package)
    for _ in range(2):
        with pytest.raises(ImportError, match="nothing_of_that_name"):
            _ = module.three
    assert importlib.import_module(f"{package}.inner").two == 2


def test_one_that_is_not_installed_is_missing_as_ever():
    defer("nothing_of_that_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        importlib.import_module("nothing_of_that_name")
