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
SCRIPT = (
    "import json, sys\n"
    "from evo.cli import invoke\n"
    "code = invoke(sys.argv[2:])\n"
    "json.dump([code, [name for name in {heavy!r} if name in sys.modules]], open(sys.argv[1], 'w'))\n"
)
pytestmark = pytest.mark.long  # each test starts processes that have next to nothing

FEW = ["maze:test", "--limit", "2", "--plain"]


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help", "run"], ("torch", "transformers", "sqlalchemy", "numpy", "openevolve", "pydantic")),
        (["run", *FEW, "--iterations", "2", "--policy", "scripted:mutate"], HEAVY + SPARED),
        (["run", "{valley}", "--iterations", "2", "--policy", "scripted:mutate", "--plain"], HEAVY + SPARED),
        (["evaluate", *FEW, "--answers-total", "3", "--policy", "scripted:random-route"], HEAVY),
        (
            ["compare", *FEW, "--iterations", "2", "--seeds", "1", "--processes", "1"]
            + ["--arm", "a=scripted:random-route", "--arm", "b=scripted:mutate"],
            HEAVY,
        ),
    ],
    ids=lambda given: given[0] + " " + given[1],
)
def test_a_search_that_samples_from_no_model_here_loads_no_more_than_it_needs(here, pytestconfig, arguments, heavy):
    valley = str(pytestconfig.rootpath / "examples" / "valley")
    assert loaded(here, [argument.format(valley=valley) for argument in arguments], heavy) == []


def test_numpy_starts_no_threads_and_what_a_command_starts_may():
    script = (
        "import os, sys; from evo.cli import invoke; invoke(['run', '--help']); "
        "print('numpy' in sys.modules, len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    for given, threads in (({}, "1 None"), ({"OPENBLAS_NUM_THREADS": "2"}, f"{min(2, os.cpu_count() or 1)} 2")):
        plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**plain, **given})
        assert done.stdout.splitlines()[-1] == f"True {threads}", done.stderr


@pytest.mark.parametrize("engine", ["vllm", "someone"])
def test_a_search_whose_policy_is_a_server_loads_no_engine(here, engine):
    """With a server that gives token ids and log-probabilities, and with one that does not."""
    with completion_server(engine=engine) as server:
        # no reply is a program, so the code is 1
        assert loaded(here, ["run", *FEW, "--iterations", "2", "--policy", server.address], code=1) == []


def loaded(here, command, heavy=HEAVY, *, code=0, before=""):
    """Which of the heavy packages a process has loaded when its command has ended."""
    with subprocess.Popen(
        [sys.executable, "-c", before + SCRIPT.format(heavy=heavy), "loaded.json", *command],
        cwd=here,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        _, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    ended, found = json.loads((here / "loaded.json").read_text())
    assert ended == code, err
    return found


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["run", "nosuch"], ("sqlalchemy",)),
        (["run", "maze:test", "--policy", "./nowhere"], ("sqlalchemy",)),
        (["run", "maze:test", "--policy", "embedded:nothing"], ("sqlalchemy",)),
        (["run", "maze:test", "--name", "taken"], ()),
        (["run", "maze:test", "--db", "nonsense"], ()),
        (["run", "maze:test", "--db", "postgresql://me@localhost:1/evo"], ()),
        (["compare", "maze:test", "--arm", "embedded:base", "--db", "sqlite:///nowhere/evo.db"], ()),
        (["compare", "maze:test", "--arm", "embedded:nothing"], ()),
        (["evaluate", "maze:test", "--policy", "embedded:nothing"], ()),
        (["train", "vpo", "maze:train"], ()),
        (["train", "vpo", "maze:train", "--policy", "embedded:nothing", "-o", "new"], ()),
        (["train", "vpo", "maze:nothing", "-o", "new"], ()),
        (["train", "--resume", "nothing"], ()),
    ],
    ids=" ".join,
)
def test_bad_input_is_answered_before_a_library_is_loaded(here, command, heavy):
    assert invoke(["run", *FEW, "--iterations", "1", "--policy", "scripted:mutate", "--name", "taken"]) == 0
    assert loaded(here, command, (*HEAVY, *heavy), code=2) == []
    assert not (here / "new").exists()


def test_the_lines_of_a_plain_run_load_no_statistics(here):
    """A line for every arm is read and printed, and nothing that makes curves, intervals or verdicts is loaded."""
    hasten = "import evo.cli.live\nevo.cli.live.PLAIN_SECONDS = 0.0\n"
    command = ["run", *FEW, "--iterations", "20", "--policy", "scripted:mutate?latency=0.02"]
    assert loaded(here, command, ("scipy", "evo.progress.model"), before=hasten) == ["evo.progress.model"]
