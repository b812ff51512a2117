"""A seed that no answer could be made from, and one that its scorer fails, are reported before a model is paid."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import evo
from support.completion_server import completion_server

EVALUATOR = """
def evaluate(path):
    names = {}
    exec(open(path).read(), names)
    if names["X"] < 3:
        return {"combined_score": 0.0, "error": "X is too small"}
    return {"combined_score": 1 / names["X"]}
"""
BLOCK = "# EVOLVE-BLOCK-START\nX = 4.0\n# EVOLVE-BLOCK-END\n"


def directory(program: str, config: str = "", evaluator: str = EVALUATOR) -> Path:
    folder = Path("directory")
    folder.mkdir()
    (folder / "evaluator.py").write_text(evaluator)
    (folder / "initial_program.py").write_text(program)
    (folder / "config.yaml").write_text(config)
    return folder


LONG = BLOCK + "# " + "x" * 16_000 + "\n"


@pytest.mark.parametrize(
    ("program", "config", "said"),
    [
        (LONG, "", "has 16051 characters, and answers may have 10000: set max_code_length: 40000 in config.yaml"),
        (LONG, "max_solution_length: 16000", "has 16051 characters, and answers may have 16000"),
        (BLOCK.replace("# EVOLVE-BLOCK-END\n", ""), "", "the START in line 1 has no END"),
        (BLOCK + "    # EVOLVE-BLOCK-END", "", "the END in line 4 ends no block"),
        ("# EVOLVE-BLOCK-START\n" + BLOCK, "", "the START in line 2 stands inside the block that line 1 begins"),
    ],
)
def test_a_seed_that_would_be_refused_as_an_answer_ends_in_one_line(here, capsys, program, config, said):
    directory(program, config)
    with completion_server() as server:
        status, out, err = evo(
            capsys, "run", "directory", "--policy", server.address, "--iterations", "8", "--answers", "1", "--plain"
        )
        assert status == 2 and said in err.splitlines()[-1] and not server.books.charges, err
    assert not Path("evo.db").exists()
    status, out, _ = evo(capsys, "check", "directory")
    assert status == 1 and said in out and "comment" not in out and "random changes" not in out


@pytest.mark.parametrize(
    ("program", "config"),
    [
        (LONG, "max_solution_length: 20000"),  # SkyDiscover's name
        (LONG, "max_code_length: 20000"),
        ("if True:\n" + BLOCK.replace("#", "    #").replace("X", "    X"), ""),
        (BLOCK + BLOCK.replace("# ", "#"), ""),
    ],
)
def test_other_seeds_are_searched(here, capsys, program, config):
    directory(program, config)
    arguments = ["run", "directory", "--policy", "scripted:mutate", "--iterations", "2", "--answers", "1", "--plain"]
    assert evo(capsys, *arguments)[0] == 0


def test_a_seed_that_the_scorer_fails_stops_a_search_by_a_model(here, capsys):
    directory(BLOCK.replace("4.0", "1.0"))
    good = Path("good.py")
    good.write_text(BLOCK.replace("4.0", "5.0"))
    with completion_server(text=f"```python\n{BLOCK}```") as server:
        arguments = ["run", "directory", "--policy", server.address, "--iterations", "2", "--answers", "1", "--plain"]
        status, _, err = evo(capsys, *arguments)
        assert status == 2 and not server.books.charges
        assert "the seed answer fails: X is too small" in err.splitlines()[-1] and "--start-anyway" in err
        assert not Path("evo.db").exists()
        assert evo(capsys, *arguments, "--start-anyway")[0] == 0 and len(server.books.charges) > 2
        assert evo(capsys, *arguments, "--start", "good.py")[0] == 0  # it starts from an answer that is scored
    arguments[3] = "scripted:mutate"  # it costs nothing, and may find its way
    assert "iterations" in evo(capsys, *arguments)[1]


def test_a_scorer_file_too(here, capsys):
    Path("scorer.py").write_text(
        "objectives, seed_answer = ['score'], 'x'\n\n\ndef score(answer):\n"
        "    return {'score': float('nan'), 'error': 'no unit'} if answer == 'x' else 1.0\n"
    )
    with completion_server() as server:
        arguments = ["run", "scorer.py", "--policy", server.address, "--iterations", "2", "--answers", "1", "--plain"]
        status, _, err = evo(capsys, *arguments)
        assert status == 2 and "the seed answer fails: no unit" in err and not server.books.charges
