"""evo import, evo export --openevolve and evo resume --policy, as a user meets them; and OpenEvolve going on itself."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import evo

from evo.report.load import read_run
from islands.db.store import Store

PROGRAM = """# EVOLVE-BLOCK-START
def value():
    return {value}
# EVOLVE-BLOCK-END
"""
EVALUATOR = """
import importlib.util

def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    value = float(program.value())
    return {"height": 1 / (1 + abs(value - 50)), "even": float(value % 2 == 0), "combined_score": value / 100}
"""
CONFIG = """
max_iterations: 30
diff_based_evolution: false
database: {num_islands: 3, population_size: 50}
evaluator: {cascade_evaluation: false, parallel_evaluations: 1, timeout: 20}
prompt: {system_message: "Find the value."}
"""


@pytest.fixture
def hill(here: Path) -> Path:
    """An OpenEvolve directory with an evaluator that costs nothing."""
    folder = here / "hill"
    folder.mkdir()
    (folder / "initial_program.py").write_text(PROGRAM.format(value=1))
    (folder / "evaluator.py").write_text(EVALUATOR)
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def program(i: int, value: Any, parent: int | None, island: int, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"p{i}", "code": PROGRAM.format(value=value), "language": "python",
        "generation": 0 if parent is None else 1, "parent_id": None if parent is None else f"p{parent}",
        "timestamp": 1000.0 + i, "iteration_found": i,
        "metrics": metrics, "metadata": {"island": island}, "changes_description": "", "complexity": 0.0,
        "diversity": 0.0, "prompts": None, "artifacts_json": None, "artifact_dir": None, "embedding": None,
    }  # fmt: skip


def metrics(value: float) -> dict[str, float]:
    return {"height": 1 / (1 + abs(value - 50)), "even": float(value % 2 == 0), "combined_score": value / 100}


def save(folder: Path, programs: list[dict[str, Any]]) -> Path:
    (folder / "programs").mkdir(parents=True)
    for one in programs:
        (folder / "programs" / f"{one['id']}.json").write_text(json.dumps(one))
    islands = [[p["id"] for p in programs if p["metadata"]["island"] == i] for i in range(2)]
    record = {"islands": islands, "last_iteration": 9, "archive": ["p1"], "best_program_id": "p1", "feature_stats": {}}
    (folder / "metadata.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def climbed(here: Path) -> Path:
    """A checkpoint of the hill, in an output folder."""
    programs = [
        program(0, 1, None, 0, metrics(1)),
        program(1, 60, 0, 1, metrics(60)),
        program(2, 40, 1, 1, metrics(40)),
        program(3, "broken", 0, 0, {"error": 0.0}),
    ]
    save(here / "output" / "checkpoints" / "checkpoint_9", programs)
    return here / "output"


def loaded(path: Path, islands: int = 3) -> Any:
    from openevolve.config import DatabaseConfig
    from openevolve.database import ProgramDatabase

    database = ProgramDatabase(DatabaseConfig(num_islands=islands, random_seed=None))
    database.load(str(path))
    return database


def refused(capsys: Any, *arguments: str) -> str:
    """The one line that a command is refused with."""
    code, out, err = evo(capsys, *arguments)
    lines = [line for line in err.splitlines() if "warning" not in line]
    assert (code, out, len(lines)) == (2, "", 1), (code, out, err)
    return lines[0]


def test_a_checkpoint_is_imported_looked_at_and_gone_on_with(hill, climbed, here, capsys):
    code, out, err = evo(capsys, "import", "output", "--problem", "hill", "--name", "climb", "--json")
    assert code == 0, err
    assert json.loads(out) == {
        "schema": 1,
        "run": "climb", "problem": "hill", "programs": 4, "candidates": 4, "failed": 1, "groups": 3, "repeats": 0,
        "copies": 0, "orphans": 0,
    }  # fmt: skip
    (run,) = json.loads(evo(capsys, "runs", "--json")[1])
    assert (run["name"], run["status"], run["policy"], run["groups"]) == ("climb", "done", "openevolve", 3)
    (top,) = json.loads(evo(capsys, "best", "climb", "--json")[1])
    assert top["fitness"] == 0.6 and top["rewards"]["height"] == 1 / 11 and "return 60" in top["answer"]
    shown = json.loads(evo(capsys, "show", "climb", str(top["candidate"]), "--json")[1])
    assert shown["openevolve"] == [{"id": "p1", "iteration": 1}] and shown["policy_version"] == "openevolve"
    assert "OpenEvolve's program p1, iteration 1" in evo(capsys, "show", "climb", str(top["candidate"]))[1]
    assert evo(capsys, "export", "climb", "-o", "traces.jsonl")[0] == 0
    assert [json.loads(line)["island"] for line in Path("traces.jsonl").read_text().splitlines()] == [1, 1, 0]
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        (search,) = read_run(store, store.run("climb")).searches  # what evo report draws
    assert (search.born.tolist(), search.at.tolist(), len(search.line(top["candidate"]))) == (
        [-1, 0, 1, 2],
        [0, 1, 2],
        2,
    )
    assert "name the policy that continues it: evo resume climb --policy P" in refused(
        capsys, "resume", "climb", "--plain"
    )
    more = ["--policy", "scripted:mutate", "--answers", "1", "--rollouts", "2", "--iterations", "9", "--plain"]
    code, out, err = evo(capsys, "resume", "climb", *more)
    assert code == 0 and "9 iterations" in out, err
    shown = json.loads(evo(capsys, "show", "climb", "--json")[1])
    assert (shown["groups"], shown["answers"], shown["config"]["policy"]) == (9, 3 + 6 * 2, "scripted:mutate")
    assert [version["version"] for version in shown["versions"]] == ["openevolve", "scripted:mutate"]
    assert evo(capsys, "resume", "climb", "--iterations", "10", "--plain")[0] == 0, "the policy is the run's now"
    assert evo(capsys, "export", "climb", "--openevolve", "back")[0] == 0
    database = loaded(Path("back/checkpoints/checkpoint_16"))
    assert database.last_iteration == 9 + 7 and {"p0", "p1", "p2", "p3"} < set(database.programs)
    assert database.programs["p2"].metrics == metrics(40) and len(database.islands) == 3


def test_an_import_that_nothing_was_added_to_is_exported_as_it_was(hill, climbed, capsys):
    assert evo(capsys, "import", "output", "--problem", "hill", "--name", "climb")[0] == 0
    code, out, err = evo(capsys, "export", "climb", "--openevolve", "checkpoint_here")
    assert code == 0 and "4 programs" in out, err
    before = climbed / "checkpoints" / "checkpoint_9"
    for file in ("metadata.json", *(f"programs/p{i}.json" for i in range(4))):
        assert json.loads(Path("checkpoint_here", file).read_text()) == json.loads((before / file).read_text())


def test_what_has_no_score_is_scored_in_the_sandbox_when_asked(hill, climbed, capsys):
    checkpoint = climbed / "checkpoints" / "checkpoint_9"
    for name, changed in (("p1", {}), ("p2", {"height": 0.5, "combined_score": 0.123})):
        file = checkpoint / "programs" / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "metrics": changed}))
    told = refused(capsys, "import", "output", "--problem", "hill")
    assert "1 of 4 programs have no score" in told and "program p1 has no metrics" in told and "--score missing" in told
    assert Path("evo.db").exists() is False
    assert evo(capsys, "import", "output", "--problem", "hill", "--name", "some", "--score", "missing")[0] == 0
    (top,) = json.loads(evo(capsys, "best", "some", "--json")[1])
    assert (top["fitness"], top["rewards"]["even"]) == (0.6, 1.0)
    shown = json.loads(evo(capsys, "show", "some", "3", "--json")[1])
    assert shown["rewards"] == {"height": 0.5, "even": 0.0}, "OpenEvolve's word, a metric not measured counts 0"
    assert evo(capsys, "import", "output", "--problem", "hill", "--name", "all", "--score", "all")[0] == 0
    shown = json.loads(evo(capsys, "show", "all", "7", "--json")[1])
    assert shown["fitness"] == 0.4 and shown["rewards"]["even"] == 1.0
    assert json.loads(evo(capsys, "show", "all", "8", "--json")[1])["error"].startswith("evaluate: NameError")


def test_wrong_imports_are_refused_in_one_line_and_write_nothing(hill, climbed, here, capsys):
    checkpoint = climbed / "checkpoints" / "checkpoint_9"
    for file in (checkpoint / "programs").iterdir():
        one = json.loads(file.read_text())
        save(here / "other", []) if not (here / "other").exists() else None
        one["metrics"] = {"width": 1.0, "combined_score": 0.1}
        (here / "other" / "programs" / file.name).write_text(json.dumps(one))
    told = refused(capsys, "import", "other", "--problem", "hill")
    assert "whose file is missing: p1" in told or "another problem" in told
    record = json.loads((checkpoint / "metadata.json").read_text())
    (here / "other" / "metadata.json").write_text(json.dumps(record))
    told = refused(capsys, "import", "other", "--problem", "hill")
    assert "a checkpoint of another problem: its metrics (combined_score, width)" in told and "even, height" in told
    assert "there is no such folder" in refused(capsys, "import", "nowhere", "--problem", "hill")
    assert "no checkpoint of OpenEvolve" in refused(capsys, "import", "hill", "--problem", "hill")
    assert "a checkpoint has one" in refused(capsys, "import", "output", "--problem", "maze:test")
    assert "there is no problem" in refused(capsys, "import", "output", "--problem", "nothing")
    assert "another problem" in refused(capsys, "import", "output", "--problem", "maze:test/0")
    assert "Missing option '--problem'" in refused(capsys, "import", "output")
    (checkpoint / "programs" / "p2.json").write_text('{"id": "p2", "co')
    assert "p2.json: not whole" in refused(capsys, "import", "output", "--problem", "hill")
    assert not Path("evo.db").exists()


def test_a_taken_name_is_refused_before_anything_is_scored(hill, climbed, capsys, monkeypatch):
    assert evo(capsys, "import", "output", "--problem", "hill", "--name", "climb")[0] == 0
    monkeypatch.setattr("evo.openevolve.import_run.score_missing", None)
    told = refused(capsys, "import", "output", "--problem", "hill", "--name", "climb", "--score", "all")
    assert "has something named climb already" in told


def test_a_run_of_several_problems_gives_a_checkpoint_of_each(here, capsys):
    searched = ["--policy", "scripted:random-route", "--iterations", "5", "--limit", "3", "--plain", "--name", "mazes"]
    assert evo(capsys, "run", "maze:test", *searched)[0] == 0
    code, out, err = evo(capsys, "export", "mazes", "--openevolve", "all", "--plain")
    assert code == 0, err
    assert sorted(path.name for path in Path("all").iterdir()) == ["0-0", "1-1", "2-2"]
    assert "maze:test/2" in out and out.count("checkpoint_5: ") == 3
    assert evo(capsys, "export", "mazes", "--openevolve", "one", "--problem", "maze:test/1", "--plain")[0] == 0
    database = loaded(Path("one/checkpoints/checkpoint_5"), 5)
    assert {p.metadata["evo"]["objectives"][0] for p in database.programs.values()} == {"completion"}
    code, out, err = evo(capsys, "import", "all/1-1", "--problem", "maze:test/1", "--name", "again")
    assert code == 0, err
    first, again = (json.loads(evo(capsys, "best", name, "--json")[1]) for name in ("mazes", "again"))
    assert (again[0]["answer"], again[0]["fitness"]) == (first[1]["answer"], first[1]["fitness"])
    more = ["--policy", "scripted:random-route", "--iterations", "30", "--plain"]
    assert evo(capsys, "resume", "again", *more)[0] == 0


def test_wrong_exports_and_resumes_are_refused_in_one_line(here, capsys):
    searched = ["--policy", "scripted:random-route", "--iterations", "3", "--limit", "2", "--plain", "--name", "mazes"]
    assert evo(capsys, "run", "maze:test", *searched)[0] == 0
    assert "name the output" in refused(capsys, "export", "mazes")
    assert "name the output" in refused(capsys, "export", "mazes", "-o", "a.jsonl", "--openevolve", "b")
    assert "goes with --openevolve" in refused(capsys, "export", "mazes", "-o", "a.jsonl", "--problem", "x")
    told = refused(capsys, "export", "mazes", "--openevolve", "b", "--problem", "maze:test/7")
    assert "no problem of mazes; it has maze:test/0, maze:test/1" in told
    assert "has 2 problems" in refused(capsys, "export", "mazes", "--openevolve", "checkpoint_1")
    assert "has no run named maze" in refused(capsys, "export", "maze", "--openevolve", "b")
    assert evo(capsys, "export", "mazes", "--openevolve", "b", "--plain")[0] == 0
    assert "it is there already" in refused(capsys, "export", "mazes", "--openevolve", "b", "--plain")
    for flag, value in (("--answers", "2"), ("--rollouts", "2")):
        assert "keeps its rollouts and answers" in refused(capsys, "resume", "mazes", flag, value, "--plain")


class Author:
    """A model of OpenEvolve that answers at once, each time with a higher value."""

    asked = 100

    def __init__(self) -> None:
        self.model = "author"  # OpenEvolve reads it from the instance's own attributes

    async def generate(self, prompt: str, **_: Any) -> str:
        return await self.generate_with_context("", [{"role": "user", "content": prompt}])

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:
        Author.asked += 1
        return f"```python\n{PROGRAM.format(value=Author.asked)}\n```"


def author(_: Any) -> Author:
    return Author()


def test_openevolve_itself_goes_on_from_an_export_and_its_work_comes_back(hill, here, capsys):
    """Ours, then OpenEvolve's controller with --checkpoint, then ours again."""
    from openevolve.config import LLMModelConfig, load_config
    from openevolve.controller import OpenEvolve

    searched = ["--policy", "scripted:mutate", "--answers", "1", "--iterations", "6", "--plain", "--name", "ours"]
    assert evo(capsys, "run", "hill", *searched)[0] == 0
    assert evo(capsys, "export", "ours", "--openevolve", "out", "--plain")[0] == 0
    config = load_config(hill / "config.yaml")
    config.llm.models = config.llm.evaluator_models = [LLMModelConfig(name="author", init_client=author)]
    config.checkpoint_interval, config.log_level = 2, "ERROR"
    controller = OpenEvolve(
        str(hill / "initial_program.py"), str(hill / "evaluator.py"), config, output_dir=str(here / "theirs")
    )
    asyncio.run(controller.run(iterations=4, checkpoint_path="out/checkpoints/checkpoint_6"))
    ours = loaded(Path("out/checkpoints/checkpoint_6"))
    assert set(ours.programs) < set(controller.database.programs)
    new = {id: p for id, p in controller.database.programs.items() if id not in ours.programs}
    written = [p for p in new.values() if not p.metadata.get("migrant")]
    assert len(written) == 4 and {p.iteration_found for p in written} == {7, 8, 9, 10}
    assert all(p.parent_id in controller.database.programs for p in written)
    assert controller.database.get_best_program().metrics["combined_score"] > 1
    newest = max((here / "theirs" / "checkpoints").iterdir(), key=lambda path: int(path.name.split("_")[1]))
    code, out, err = evo(capsys, "import", str(newest), "--problem", "hill", "--name", "returned", "--json")
    assert code == 0, err
    assert json.loads(out)["programs"] == len(loaded(newest).programs)
    (top,) = json.loads(evo(capsys, "best", "returned", "--json")[1])
    assert top["fitness"] == pytest.approx(controller.database.get_best_program().metrics["combined_score"])
    shutil.rmtree(here / "theirs")
