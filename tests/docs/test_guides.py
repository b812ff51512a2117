"""The guide for hosted models leads to its end, and the page of OpenEvolve names the keys that are read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from snippets import ROOT, commands_of, evo_arguments, read_snippets
from support.completion_server import completion_server

import evo.prompts.openevolve  # noqa: F401 - openevolve.config without the rest of that package
from evo.cli import invoke
from problems.openevolve.config import _HONOURED, OF_MODELS, OF_THE_SERVER

SCORER = "seed_answer = 'abba'\ndef score(answer):\n    return {'length': min(len(answer), 30) / 30}\n"
SEARCH = ["palindromes.py", "--policy", "scripted:mutate", "--seed", "1", "--plain", "--json"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("palindromes.py").write_text(SCORER)


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
            assert code == 0, line
            followed += 1
        assert followed == 8 and server.requests[-1]["max_tokens"] >= 4096
    shown = capsys.readouterr().out
    assert "cost" in shown and "EVOLVE-BLOCK" in shown and Path("first.html").exists()


PAGE = (ROOT / "docs/tutorial/openevolve.md").read_text()
SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")
OURS = {"target", "objectives", "directions", "readable"}


def rows(section: str) -> dict[str, str]:
    """Each key of a section's table, "" for the table of the file's top level, and its counterpart."""
    heading = f"### {section}" if section else "## Keys of config.yaml"
    text = PAGE.partition(f"\n{heading}\n")[2]
    cells = [line.split(" | ") for line in re.split(r"^##", text, flags=re.M)[0].splitlines() if line.startswith("| `")]
    return {key: right for left, right in cells for key in re.findall(r"`(\w+)`", left)}


def test_the_keys_that_are_read_are_those_that_the_page_claims():
    claimed = {
        f"{section}.{key}".removeprefix(".")
        for section in ("", *SECTIONS)
        for key, ours in rows(section).items()
        if ours.startswith(("the same", "read and", "only as"))
    }
    models = {f"llm.{key}" for key in (*OF_MODELS, *OF_THE_SERVER, "name", "weight")}
    assert claimed == _HONOURED.keys() - OURS | models
    assert all(f"`{key}`" in PAGE for key in OURS)
