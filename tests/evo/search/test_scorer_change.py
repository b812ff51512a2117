"""A scorer that was edited between a run and its resume, and seeds that no answer could be made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from support.command_line import evo, refused
from support.completion_server import completion_server

from evo.errors import BadInput
from islands.runs import scorer_changes
from islands.store import Store
from problems.contract import Score

TABLES = {
    "candidates": "id, text, rewards, fitness, features, measures, feedback, error, generation",
    "prompt_groups": "problem_id, sequence, best, best_fitness, born, repeats, errors",
    "problems": "name, status, solved_sequence, best, best_fitness, dimensions, fingerprint",
}


@pytest.fixture
def edited(digits):
    """The same problem with another scorer: what was best is worst, other answers fail, and 9 solves."""

    class Edited(digits):
        def score(self, answer):
            old = super().score(answer)
            if old.error or answer.startswith("3"):
                return Score.failure(2, "no", "starts with 3")
            return Score(
                (1 - old.rewards[0], old.rewards[0]),
                1 - old.fitness,
                {**old.features, "first": float(answer[0])},
                "edited",
            )

        def fingerprint(self):
            return "e" * 16

    return Edited


def rows(db, name="run"):
    """What scores decide, table by table."""
    with Store.open(db, read_only=True) as store, store.read() as connection:
        run = store.run(name).id
        found = {}
        for table, columns in TABLES.items():
            own = "id" if table == "problems" else "problem_id"
            query = f"SELECT {columns} FROM {table} WHERE {own} IN (SELECT id FROM problems WHERE run_id = {run})"
            found[table] = list(map(tuple, connection.execute(text(f"{query} ORDER BY 1, 2"))))
        return found


def changes(db):
    with Store.open(db, read_only=True) as store:
        found = scorer_changes(store, store.run("run").id)
    return [(change.problem, change.before, change.after) for change in found]


def test_a_changed_scorer_is_refused_and_nothing_is_written(search_with, digits, edited, digits_policy, db):
    search_with([digits("a"), digits("b")], digits_policy(), db, iterations=5)
    before = rows(db)
    with pytest.raises(BadInput, match="the scorer of b has changed.*--start run.*--accept-change"):
        search_with([digits("a"), edited("b")], digits_policy(), db, resume=True, iterations=9)
    assert rows(db) == before and changes(db) == []
    assert search_with([digits("a"), digits("b")], digits_policy(), db, resume=True, iterations=6).status.groups == 12


def test_an_accepted_change_is_on_record_and_keeps_the_old_scores(search_with, digits, edited, digits_policy, db):
    search_with([digits("a")], digits_policy(), db, iterations=5)
    before = rows(db)["candidates"]
    again = lambda **more: search_with([edited("a")], digits_policy(), db, resume=True, **more)  # noqa: E731
    again(iterations=9, accept_change=True)
    assert rows(db)["candidates"][: len(before)] == before
    assert changes(db) == [("a", digits("a").fingerprint(), "e" * 16)]
    again(iterations=10)
    assert len(changes(db)) == 1


def test_an_edited_scorer_file_as_a_user_meets_it(here, capsys):
    score = "def score(answer):\n    return {'length': min(1.0, len(answer) / 400) * FACTOR}\n"
    scorer = f"isolated = False\nseed_answer = 'ab'\n{score}"
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.1"))
    searched = ["run", "length.py", "--policy", "scripted:mutate", "--iterations", "6", "--name", "r", "--json"]
    first = json.loads(evo(capsys, *searched)[1])["problems"][0]["best"]
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.9"))
    assert "--start r" in refused(capsys, "resume", "r", "--iterations", "9", "--plain")
    assert "no run named x" in refused(capsys, *searched[:-3], "--start", "x")
    code, out, err = evo(capsys, *searched[:-3], "--name", "again", "--start", "r", "--iterations", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["problems"][0]["best"] >= 9 * first * (1 - 1e-9), "the old best is a seed"
    mazes = ["run", "maze:hard/0-1", "--policy", "scripted:mutate", "--iterations", "1", "--name", "m", "--json"]
    assert evo(capsys, *mazes)[0] == 0
    assert "it searched maze:hard/0" in refused(capsys, *searched[:-3], "--start", "m")
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.5"))
    assert evo(capsys, "resume", "r", "--accept-change", "--iterations", "7", "--json")[0] == 0
    lines = [line for line in evo(capsys, "show", "r")[1].splitlines() if "the scorer of" in line]
    assert len(lines) == 1 and lines[0].endswith("; accepted, older scores were kept")


def test_a_planned_run_of_a_comparison_takes_no_other_scorer_than_its_others(here, capsys):
    file = here / "goal.py"
    file.write_text("isolated = False\nseed_answer = '5'\ndef score(answer):\n    return -abs(float(answer) - 3)\n")
    arms = ("--arm", "a=scripted:mutate", "--arm", "b=scripted:mutate", "--baseline", "none", "--seeds", "1")
    assert evo(capsys, "compare", "goal.py", *arms, "--iterations", "3", "--name", "c", "--processes", "1")[0] == 0
    assert evo(capsys, "runs", "delete", "c/b/s0", "--yes")[0] == 0
    file.write_text(file.read_text().replace("3)", "2)"))
    code, _, err = evo(capsys, "resume", "c", "--processes", "1")
    assert code == 2 and "evo: run c/a/s0: the scorer of " in err and "has changed since the search" in err

    def statuses():
        return {run["name"]: run["status"] for run in json.loads(evo(capsys, "runs", "--json")[1])}

    assert statuses() == {"c/a/s0": "done", "c/b/s0": "waiting"}
    assert evo(capsys, "resume", "c", "--processes", "1", "--accept-change")[0] == 0
    assert statuses() == {"c/a/s0": "done", "c/b/s0": "done"}


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
