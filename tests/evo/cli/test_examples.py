"""What the README and examples/ show, run as it stands there."""

import re
from pathlib import Path

import pytest

from evo.cli import invoke

ROOT = Path(__file__).resolve().parents[3]


def test_the_scorer_of_the_readme(here, capsys):
    (code,) = re.findall(r"```python\n(# palindromes\.py.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (here / "palindromes.py").write_text(code)
    arguments = ["run", "palindromes.py", "--policy", "scripted:vary", "--iterations", "5", "--plain"]
    assert invoke(arguments) == 0
    out = capsys.readouterr().out
    assert "5/5" in out
    assert "letters only" in out, "its own fault is counted as the answer's"


@pytest.mark.parametrize("example", ["valley", "scorers/short_primes.py", "two_files"])
def test_examples_run(here, capsys, example):
    path = str(ROOT / "examples" / example)
    assert invoke(["run", path, "--policy", "scripted:mutate", "--answers", "1", "--iterations", "4", "--plain"]) == 0
    assert "4/4" in capsys.readouterr().out
