"""What docs/guides/json.md promises to programs that drive `evo`, and the guide for hosted models followed to its
end against a server of the tests."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snippets import ROOT, commands_of, evo_arguments, read_snippets
from support.child_processes import begin, wait_for_groups
from support.completion_server import completion_server

from evo.cli import invoke

SCORER = "seed_answer = 'abba'\ndef score(answer):\n    return {'length': min(len(answer), 30) / 30}\n"
SEARCH = ["palindromes.py", "--policy", "scripted:mutate", "--seed", "1", "--plain", "--json"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("palindromes.py").write_text(SCORER)


def evo(*arguments: str) -> tuple[int, Any, str]:
    """(exit code, the JSON of standard output or None, standard error) of a process, as an agent sees it."""
    ended = subprocess.run([sys.executable, "-m", "evo", *arguments], capture_output=True, text=True, timeout=240)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout.strip() else None, ended.stderr


@pytest.mark.long
def test_an_agent_runs_reads_and_resumes_by_json_and_exit_codes() -> None:
    code, summary, _ = evo("run", *SEARCH, "--iterations", "8", "--name", "mine")
    assert code == 0 and summary["answers"] > 0 and summary["problems"][0]["best"] > 0
    code, shown, _ = evo("show", "mine", "--json")
    assert code == 0 and shown["problems"] and {"tokens", "cost"} <= shown.keys()
    code, best, _ = evo("best", "mine", "--json")
    assert code == 0 and best
    code, runs, _ = evo("runs", "--json")
    assert code == 0 and [run["name"] for run in runs] == ["mine"]
    code, _, said = evo("run", *SEARCH, "--iterations", "8", "--name", "mine")
    assert code == 2 and said.count("\n") == 1 and "mine" in said
    assert evo("run", *SEARCH, "--iterations", "many")[0] == 2
    code, more, _ = evo("resume", "mine", "--iterations", "12", "--plain", "--json")
    assert code == 0 and more["groups"] > summary["groups"]


def test_a_signal_ends_with_130_and_a_kill_is_resumed(tmp_path: Path) -> None:
    slow = [word.replace("mutate", "mutate?latency=0.05") for word in SEARCH]
    child = begin("run", *slow, "--iterations", "300", "--name", "cut", cwd=tmp_path)
    wait_for_groups(child, 3, tmp_path / "evo.db")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 130
    child = begin("resume", "cut", "--plain", "--json", cwd=tmp_path)
    wait_for_groups(child, 12, tmp_path / "evo.db")
    child.kill()
    child.communicate(timeout=120)
    assert invoke(["resume", "cut", "--max-answers", "200", "--plain", "--json"]) == 0


@pytest.mark.long
def test_the_guide_for_hosted_models_leads_to_a_best_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ten commands, with the server of the tests in place of the hosted model and fewer iterations."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-123456")
    program = (ROOT / "examples/valley/initial_program.py").read_text()
    reply = f"```python\n{program.replace('0.', '0.1', 1)}\n```"
    block = next(one for one in read_snippets(ROOT / "docs/guides/engines.md") if "evo doctor" in one.text)
    followed = 0
    with completion_server(engine="openai", text=reply) as server:
        for words in commands_of(block.text):
            arguments = evo_arguments(words)
            if arguments is None:
                continue
            line = shlex.join(arguments).replace("openai:gpt-4o-mini", server.address)
            line = line.replace("examples/valley", str(ROOT / "examples/valley"))
            line = line.replace("--iterations 20", "--iterations 3").replace("--iterations 200", "--iterations 5")
            arguments = shlex.split(line)
            code = invoke(arguments + (["--plain"] if arguments[0] in ("run", "resume") else []))
            assert code == (1 if arguments[0] == "check" else 0), line  # this scorer can be cheated
            followed += 1
        assert followed == 8 and server.requests[-1]["max_tokens"] >= 4096
    shown = capsys.readouterr().out
    assert "cost" in shown and "EVOLVE-BLOCK" in shown and Path("first.html").exists()
