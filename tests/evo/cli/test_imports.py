"""A process of evo: what it loads, how it ends, and what it prints where not every character can be shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import refused
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


ENDING_SCRIPT = """
import atexit, threading, time
import evo.cli

def command(argv):
    print("from the command")
    atexit.register(print, "registered by it")
    threading.Thread(target=lambda: (time.sleep(0.3), print("from a thread that goes on"))).start()
    {ending}

evo.cli.invoke = command
evo.cli.main([])
"""
SAID = ["from the command", "from a thread that goes on", "registered by it"]


WATCHER = """
import os
class Watcher:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")
watcher = Watcher()
"""
"""It says so when it is dropped, by what a process has to its very end."""


def ended(script):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(("ending", "code"), [("return 130", 130), ("raise RuntimeError('a bug')", 1)])
def test_everything_due_is_done_and_no_module_is_taken_apart(ending, code):
    """Which is what takes the time: an object that would say so when it is dropped says nothing."""
    done = ended(WATCHER + ENDING_SCRIPT.format(ending=ending))
    assert (done.returncode, done.stdout.splitlines()) == (code, SAID)
    assert ("Traceback" in done.stderr and "a bug" in done.stderr) == ("bug" in ending)


def test_an_object_of_a_module_that_is_taken_apart_says_so():
    assert ended(WATCHER).stdout.splitlines() == ["taken apart"]


ROOT = Path(__file__).resolve().parents[3]
NAME = "läufe ☃ 雪"
SCORER = """
statement = "Schreibe viele Schneemänner ☃ 雪"
seed_answer = "☃ ä"

def score(answer):
    return {"schnee☃": answer.count("☃") / 10, "länge": min(1.0, len(answer) / 50)}
"""
SEARCH = ("--policy", "scripted:mutate", "--iterations", "2", "--plain")
COMMANDS = [
    ["run", "müßig ☃.py", *SEARCH, "--name", NAME],
    ["compare", "müßig ☃.py", "--arm", "a=scripted:mutate", "--iterations", "1", "--seeds", "1", "--name", "雪",
     "--plain"],
    ["runs"],
    ["show", NAME],
    ["show", NAME, "1"],
    ["best", NAME],
    ["best", NAME, "-o", "best ☃.txt"],
    ["export", NAME, "-o", "traces ☃.jsonl"],
    ["report", NAME, "-o", "seite ☃.html"],
    ["watch", NAME, "--plain", "--once"],
    ["problems", "müßig ☃.py"],
    ["problems"],
    ["run", "--help"],
]  # fmt: skip
CHILD = """
import json, sys
from evo.cli import main
codes = []
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except SystemExit as ended:
        codes.append(ended.code)
open("codes.json", "w").write(json.dumps(codes))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}], ids=str
)
def test_every_command_prints_what_it_can(tmp_path, environment):
    folder = tmp_path / "ünï ☃"
    folder.mkdir()
    (folder / "müßig ☃.py").write_text(SCORER, encoding="utf-8")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHONIO"))}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(COMMANDS)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**plain, "PYTHONPATH": str(ROOT), **environment},
    ) as child:  # fmt: skip
        out, err = child.communicate(timeout=300)
    printed = out + err
    assert b"Traceback" not in printed and b"UnicodeEncodeError" not in printed, printed[-2000:]
    assert json.loads((folder / "codes.json").read_text()) == [0] * len(COMMANDS), printed[-2000:]
    assert b"Done" in out and b"Schreibe viele Schneem" in out
    traces = (folder / "traces ☃.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(traces) == 2 and NAME in (folder / "seite ☃.html").read_text(encoding="utf-8")
    assert "☃" in (folder / "best ☃.txt").read_text(encoding="utf-8")


def test_an_argument_in_no_known_encoding_is_one_line(here, capsys):
    for arguments in (["run", "m\udcfc.py"], ["runs", "--db", "sqlite:///m\udcfc.db"], ["show", "m\udcfc"]):
        error = refused(capsys, *arguments)
        assert "'m\\udcfc" in error.replace("sqlite:///", "") and "is not UTF-8 text" in error
