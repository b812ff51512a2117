"""Temporary folders: held while their process lives, removed by the next one where it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from problems import temp_dirs


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
