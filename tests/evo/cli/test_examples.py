"""Problems of examples/ that no page runs, as they stand there."""

from pathlib import Path

import pytest

from evo.cli import invoke

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("example", ["valley", "scorers/short_primes.py", "two_files"])
def test_examples_run(here, capsys, example):
    path = str(ROOT / "examples" / example)
    assert invoke(["run", path, "--policy", "scripted:mutate", "--answers", "1", "--iterations", "4", "--plain"]) == 0
    assert "4/4" in capsys.readouterr().out
