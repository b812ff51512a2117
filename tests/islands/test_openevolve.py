"""OpenEvolve's checkpoints and traces become finished runs: grown by OpenEvolve itself, read, scored, stored."""

from __future__ import annotations

import gzip
import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from openevolve.config import DatabaseConfig
from openevolve.database import Program, ProgramDatabase
from support.command_line import evo

from islands.errors import BadCheckpoint
from islands.groups import read_groups
from islands.openevolve import OpenEvolveProgram, find_newest, read_programs, score_of
from islands.store import Store
from problems.contract import Problem, Score

logging.getLogger("openevolve").setLevel(logging.ERROR)


class Weighed(Problem):
    """Two objectives."""

    name, objectives, target, answer_format = "weighed", ("speed", "accuracy"), 0.9, "python"

    def statement(self) -> str:
        return "Improve the program."

    def score(self, answer: str) -> Score:
        raise AssertionError


SCORER = """
def score(answer: str) -> dict[str, float]:
    return {"speed": min(1.0, len(answer) / 100), "accuracy": 0.5}
"""


def code(i: int) -> str:
    return f"def run(x):\n    return x + {i}  # größer\n"


def metrics_of(i: int) -> dict[str, Any]:
    if i % 10 == 7:
        return {"error": 0.0, "timeout": True}
    return {"speed": i / 100, "accuracy": 1 - i / 100, "combined_score": i / 50, "note": "text"}


def grown(folder: Path, programs: int = 40) -> Path:
    """A search as OpenEvolve's controller makes it: children of sampled parents, failures, repeats, artifacts, logged
    prompts and migrations."""
    random.seed(0)  # OpenEvolve draws from the module's own generator
    database = ProgramDatabase(
        DatabaseConfig(num_islands=4, population_size=45, archive_size=12, migration_interval=4, log_prompts=True)
    )
    database.add(Program(id="start", code=code(0), metrics=metrics_of(0), iteration_found=0, timestamp=0.0))
    for i in range(1, programs):
        parent, _ = database.sample_from_island(i % 4)
        child = Program(
            id=f"{i:04x}-ö", code=code(i if i % 9 else max(1, i - 5)), parent_id=parent.id,
            generation=parent.generation + 1, metrics=metrics_of(i), timestamp=float(i),
        )  # fmt: skip
        database.add(child, iteration=i, target_island=i % 4)
        if i % 3 == 0:
            database.store_artifacts(child.id, {"stderr": f"Zeile {i}"})
        if i % 4:
            asked = {"system": "You improve programs.", "user": f"Improve this:\n{parent.code}"}
            database.log_prompt(child.id, "full_rewrite_user", asked, [f"```python\n{child.code}\n```"])
        database.increment_island_generation(i % 4)
        if database.should_migrate():
            database.migrate_programs()
    database.save(str(folder / "checkpoints" / "checkpoint_40"), programs)
    return folder


def test_a_checkpoint_is_a_finished_run_with_parents_scores_and_prompts(here, capsys):
    Path("scorer.py").write_text(SCORER)
    programs = {program.id: program for program in read_programs(grown(here / "out"))}
    order = list(programs)
    known = {id: program.parent for id, program in programs.items() if program.parent in programs}
    assert all(order.index(parent) < order.index(id) for id, parent in known.items()) and len(known) > 8
    status, out, err = evo(capsys, "import", "out", "--problem", "scorer.py", "--name", "first", "--json")
    assert status == 0, err
    counts = json.loads(out)
    assert counts["programs"] == len(programs) and counts["groups"] == len(programs) - 1 and counts["repeats"] > 0
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        run = store.run("first")
        (problem,) = store.problems(run.id)
        assert (run.status, problem.status, problem.best_fitness) == ("done", "done", max(
            program.metrics.get("combined_score", 0) for program in programs.values()
        ))  # fmt: skip
        groups = [group for _, group in read_groups(store, run.id)]
    answers = {group.rollouts[0].answers[0].candidate: group for group in groups}
    for group in groups:
        (answer,) = group.rollouts[0].answers
        program = next(each for each in programs.values() if each.code == answer.text)
        assert (answer.score.error is not None) == ("timeout" in program.metrics)
        if group.parent in answers:
            assert answers[group.parent].rollouts[0].answers[0].text in {each.code for each in programs.values()}
    assert any(group.prompt.user.startswith("Improve this") for group in groups)
    assert any("Zeile" in group.rollouts[0].answers[0].score.feedback for group in groups)
    (best,) = json.loads(evo(capsys, "best", "first", "--json")[1])
    assert best["fitness"] == problem.best_fitness
    assert "imports are not continued" in evo(capsys, "resume", "first", "--plain")[2]
    assert "has something named first already" in evo(
        capsys, "import", "out", "--problem", "scorer.py", "--name", "first", "--score", "all"
    )[2]  # fmt: skip


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_trace_is_a_run_too(here, capsys, name):
    Path("scorer.py").write_text(SCORER)
    rows = [
        dict(
            iteration=i, timestamp=float(i), parent_id="p0" if i < 3 else "p1", child_id=f"p{i}", parent_code=code(0),
            child_code=code(i), parent_metrics=metrics_of(0), child_metrics=metrics_of(i), island_id=i % 2,
            prompt={"system": "s", "user": f"u{i}"}, llm_response=f"r{i}",
        )
        for i in range(1, 5)
    ]  # fmt: skip
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    Path(name).write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    programs = read_programs(Path(name))
    assert [(program.id, program.parent) for program in programs] == [
        ("p0", None), ("p1", "p0"), ("p2", "p0"), ("p3", "p1"), ("p4", "p1"),
    ]  # fmt: skip
    assert (programs[2].user, programs[2].reply, programs[1].island) == ("u2", "r2", 1)
    status, out, err = evo(capsys, "import", name, "--problem", "scorer.py", "--json")
    assert status == 0 and json.loads(out)["groups"] == 4, err
    Path("bare.jsonl").write_text(json.dumps({k: v for k, v in rows[0].items() if not k.endswith("_code")}))
    assert "set include_code: true" in evo(capsys, "import", "bare.jsonl", "--problem", "scorer.py")[2]


def test_the_children_of_a_migrated_copy_are_the_programs_children(tmp_path):
    """A trace has no row of the copy: S has the child A, A migrates as A', and A' has the child B."""
    rows = [
        dict(parent_id="s", parent_code="0", child_id="a", child_code="1", prompt={"user": "of s"}, llm_response="1!"),
        dict(parent_id="a'", parent_code="1", child_id="b", child_code="2", prompt={"user": "of a"}, llm_response="2!"),
        dict(parent_id="a'", parent_code="1", child_id="c", child_code="3", prompt={"user": "of a"}, llm_response="3!"),
        dict(parent_id="s'", parent_code="0", child_id="d", child_code="4", prompt={"user": "of s"}, llm_response="4!"),
    ]  # fmt: skip
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps({**row, "timestamp": i}) + "\n" for i, row in enumerate(rows)))
    programs = read_programs(file)
    assert [(one.id, one.parent, one.user, one.reply) for one in programs] == [
        ("s", None, "", ""), ("a", "s", "of s", "1!"), ("b", "a", "of a", "2!"), ("c", "a", "of a", "3!"),
        ("d", "s", "of s", "4!"),
    ]  # fmt: skip


def program(metrics: dict[str, Any], feedback: str = "") -> OpenEvolveProgram:
    return OpenEvolveProgram("p", "x", None, 0, 0.0, metrics, feedback)


GIVEN = {"speed": 0.5, "accuracy": 1, "combined_score": 0.7}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (GIVEN, ((0.5, 1.0), 0.7, None)),
        ({"speed": 0.5, "combined_score": 0.7}, None),
        ({"speed": 0.5, "accuracy": 1.0}, None),
        ({**GIVEN, "accuracy": float("nan")}, ((0, 0), 0, "accuracy is no finite number")),
        ({**GIVEN, "combined_score": 10**400}, ((0, 0), 0, "combined_score is no finite number")),
        ({"error": "ValueError: no"}, ((0, 0), 0, "ValueError: no")),
        ({"error": 0.0, "timeout": True}, ((0, 0), 0, "timeout: OpenEvolve's evaluation took too long")),
        ({"error": 0.0}, ((0, 0), 0, "OpenEvolve's evaluation failed")),
        ({**GIVEN, "error": 0.25}, ((0.5, 1.0), 0.7, None)),
        ({}, None),
    ],
)
def test_metrics_tell_the_score_or_do_not(metrics, expected):
    score = score_of(program(metrics), Weighed())
    assert (None if score is None else (score.rewards, score.fitness, score.error)) == expected


def test_what_has_no_score_is_scored_in_the_sandbox_when_asked(here, capsys):
    Path("scorer.py").write_text(SCORER)
    folder = grown(here / "out", 6) / "checkpoints" / "checkpoint_40"
    file = folder / "programs" / "start.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "metrics": {"speed": 0.1}}))
    told = evo(capsys, "import", "out", "--problem", "scorer.py")[2]
    assert "1 of 5 programs have no score" in told and "--score missing" in told and not Path("evo.db").exists()
    assert evo(capsys, "import", "out", "--problem", "scorer.py", "--name", "some", "--score", "missing")[0] == 0
    assert evo(capsys, "import", "out", "--problem", "scorer.py", "--name", "all", "--score", "all")[0] == 0
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        for name, scored in (("some", {False}), ("all", {True})):
            answers = [group.all_answers()[0] for _, group in read_groups(store, store.run(name).id)]
            assert {answer.score.rewards[1] == 0.5 for answer in answers} == scored


def damaged(folder: Path, what: str) -> None:
    programs = sorted((folder / "programs").iterdir())
    row = json.loads(programs[0].read_text())
    match what:
        case "cut":
            programs[0].write_text('{"id": "p')
        case "missing":
            programs[0].unlink()
        case "record":
            (folder / "metadata.json").write_text("[]")
        case "circle":
            programs[0].write_text(json.dumps({**row, "parent_id": row["id"]}))
        case "island":
            programs[0].write_text(json.dumps({**row, "id": "new", "metadata": {"island": -1}}))
        case _:
            programs[0].write_text(json.dumps({**row, what: 5}))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("cut", "not whole, or no JSON"),
        ("missing", "names a missing program"),
        ("record", "expected keys and values"),
        ("circle", "its own ancestors"),
        ("code", "its code is missing or of a wrong kind"),
        ("metrics", "its metrics is missing or of a wrong kind"),
        ("parent_id", "its parent_id is missing or of a wrong kind"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, what, said):
    folder = grown(tmp_path, 5) / "checkpoints" / "checkpoint_40"
    damaged(folder, what)
    with pytest.raises(BadCheckpoint, match=said) as raised:
        read_programs(tmp_path)
    assert "\n" not in str(raised.value)


def test_wrong_imports_are_refused_in_one_line_and_write_nothing(here, capsys):
    Path("scorer.py").write_text(SCORER)
    Path("other.py").write_text("def score(answer: str) -> dict[str, float]:\n    return {'height': 1.0}\n")
    grown(here / "out", 5)
    for arguments, said in (
        (["out", "--problem", "other.py"], "of another problem: its metrics (accuracy, note, speed)"),
        (["nowhere", "--problem", "scorer.py"], "there is no such folder or file"),
        (["out/checkpoints/checkpoint_40/programs", "--problem", "scorer.py"], "no checkpoint of OpenEvolve"),
        (["out", "--problem", "maze:test"], "an import has one"),
        (["out"], "Missing option '--problem'"),
    ):
        status, out, err = evo(capsys, "import", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1) and said in err, err
    assert not Path("evo.db").exists()


def test_the_newest_checkpoint_of_a_folder_is_taken(tmp_path):
    for number in (9, 10):
        (tmp_path / "checkpoints" / f"checkpoint_{number}").mkdir(parents=True)
    assert find_newest(tmp_path).name == "checkpoint_10"
