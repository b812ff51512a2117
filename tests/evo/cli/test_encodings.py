"""Outputs that cannot show every character: nothing fails for it, and files are UTF-8 all the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import refused

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
