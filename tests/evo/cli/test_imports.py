"""What a command does not need is not imported: torch and transformers take seconds to load, and what a short search
has no use for takes longer to load than the search."""

import json
import os
import subprocess
import sys

import pytest
from support.completion_server import completion_server

from evo.cli import invoke

HEAVY = ("torch", "transformers", "matplotlib", "vllm")
SPARED = (
    "alembic",
    "openai",
    "scipy",
    "evo.comparison",
    "evo.evaluation",
    "evo.progress",
    "evo.runs.resume",
    "evo.training",
    "evo.tui.app",
    "problems.custom.scorer_file",
    "textual",
    "vpo.servers.address",
)
"""Beside HEAVY, what a plain search that trains nothing does without, on a new database too."""
SCRIPT = """
import json, sys
from evo.cli import invoke
for command, code, heavy in json.loads(sys.argv[1]):
    ended = invoke(command)
    assert (ended, [name for name in heavy if name in sys.modules]) == (code, []), command
"""
FEW = ["maze:test", "--limit", "2", "--plain"]
MUTATE = ["--iterations", "2", "--policy", "scripted:mutate"]


def assert_spared(here, *steps, before=""):
    """A process that does (command, exit code, packages) one after another: what one loads the next ones have."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = [sys.executable, "-c", before + SCRIPT, json.dumps(steps)]
    done = subprocess.run(child, cwd=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_that_sample_from_no_model_here_load_no_more_than_they_need(here, pytestconfig):
    """The servers are one with log-probabilities and one without; no reply is a program, so their code is 1."""
    valley = str(pytestconfig.rootpath / "examples" / "valley")
    arms = ["--arm", "a=scripted:random-route", "--arm", "b=scripted:mutate", "--iterations", "2", "--seeds", "1"]
    with completion_server(engine="vllm") as vllm, completion_server(engine="someone") as someone:
        assert_spared(
            here,
            (["--help", "run"], 0, ("torch", "transformers", "sqlalchemy", "numpy", "openevolve", "pydantic")),
            (["run", *FEW, *MUTATE], 0, HEAVY + SPARED),
            (["run", valley, *MUTATE, "--plain"], 0, HEAVY + SPARED),
            (["evaluate", *FEW, "--answers-total", "3", "--policy", "scripted:random-route"], 0, HEAVY),
            (["compare", *FEW, *arms, "--processes", "1"], 0, HEAVY),
            *((["run", *FEW, "--iterations", "2", "--policy", one.address], 1, HEAVY) for one in (vllm, someone)),
        )


def test_bad_input_is_answered_before_a_library_is_loaded(here):
    assert invoke(["run", *FEW, *MUTATE, "--name", "taken"]) == 0
    first = (*HEAVY, "sqlalchemy")
    assert_spared(
        here,
        (["run", "nosuch"], 2, first),
        (["run", "maze:test", "--policy", "./nowhere"], 2, first),
        (["run", "maze:test", "--policy", "embedded:nothing"], 2, first),
        (["run", "maze:test", "--name", "taken"], 2, HEAVY),
        (["run", "maze:test", "--db", "nonsense"], 2, HEAVY),
        (["run", "maze:test", "--db", "postgresql://me@localhost:1/evo"], 2, HEAVY),
        (["compare", "maze:test", "--arm", "embedded:base", "--db", "sqlite:///nowhere/evo.db"], 2, HEAVY),
        (["compare", "maze:test", "--arm", "embedded:nothing"], 2, HEAVY),
        (["evaluate", "maze:test", "--policy", "embedded:nothing"], 2, HEAVY),
        (["train", "vpo", "maze:train"], 2, HEAVY),
        (["train", "vpo", "maze:train", "--policy", "embedded:nothing", "-o", "new"], 2, HEAVY),
        (["train", "vpo", "maze:nothing", "-o", "new"], 2, HEAVY),
        (["train", "--resume", "nothing"], 2, HEAVY),
    )
    assert not (here / "new").exists()


def test_the_lines_of_a_plain_run_load_no_statistics(here):
    """A line for every arm is read and printed, and nothing that makes curves, intervals or verdicts is loaded."""
    hasten = "import evo.cli.live\nevo.cli.live.PLAIN_SECONDS = 0.0\n"
    command = ["run", *FEW, "--iterations", "20", "--policy", "scripted:mutate?latency=0.02"]
    out = assert_spared(here, (command, 0, ("scipy",)), before=hasten)
    assert "1 running" in out


pytestmark = pytest.mark.long


def test_numpy_starts_no_threads_and_what_a_command_starts_may():
    script = (
        "import os, sys; from evo.cli import invoke; invoke(['run', '--help']); "
        "print('numpy' in sys.modules, len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    for given, threads in (({}, "1 None"), ({"OPENBLAS_NUM_THREADS": "2"}, f"{min(2, os.cpu_count() or 1)} 2")):
        plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**plain, **given})
        assert done.stdout.splitlines()[-1] == f"True {threads}", done.stderr
