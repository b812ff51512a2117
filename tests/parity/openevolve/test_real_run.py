"""A run of OpenEvolve itself, with migrations, against a server that edits; then `evo import` of what it wrote.

The checkpoint and the trace must give each program the parent, fitness, prompt and reply that OpenEvolve has for it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from openevolve.utils.metrics_utils import get_fitness_score
from support.command_line import evo
from support.completion_server import completion_server

from islands.groups import read_groups
from islands.openevolve import find_newest
from islands.store import Store

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

PROGRAM = "# EVOLVE-BLOCK-START\nX = 1\n# EVOLVE-BLOCK-END\n"
LOAD = "def load(path):\n    names = {}\n    exec(open(path).read(), names)\n    return names['X']\n\n\n"
EVALUATORS = {
    "combined": "def evaluate(path):\n    x = load(path)\n"
    "    return {'combined_score': x / 1000, 'calls': 3 * x, 'even': x % 2 == 0, 'note': 'seen'}\n",
    "mean": "def evaluate(path):\n    x = load(path)\n    return {'a': x / 1000, 'b': 0.5, 'slow': x > 500}\n",
    "cascade": "def evaluate(path):\n    return evaluate_stage1(path)\n\n\n"
    "def evaluate_stage1(path):\n    return {'a': load(path) / 1000, 'ok': True, 'error': 0.0}\n\n\n"
    "def evaluate_stage2(path):\n    x = load(path)\n    return {'b': 1.0 if x % 3 else [][x], 'calls': x}\n",
}
ITERATIONS = 24


def edited(body: dict[str, Any], number: int) -> str:
    """A reply that gives X another number."""
    current = re.findall(r"(?m)^X = \d+$", body["messages"][-1]["content"])[-1]
    new = 2 + 389 * number % 997  # never the same again
    return f"I try {new}.\n<<<<<<< SEARCH\n{current}\n=======\nX = {new}\n>>>>>>> REPLACE"


def run_openevolve(folder: Path, evaluator: str, url: str) -> Path:
    (folder / "evaluator.py").write_text(LOAD + evaluator)
    (folder / "initial_program.py").write_text(PROGRAM)
    config = {
        "max_iterations": ITERATIONS, "checkpoint_interval": ITERATIONS, "random_seed": 3, "log_level": "ERROR",
        "llm": {"primary_model": "tiny", "api_base": f"{url}/v1", "api_key": "k"},
        "database": {"num_islands": 3, "migration_interval": 2, "migration_rate": 0.5},
        "evaluator": {"max_retries": 0, "cascade_thresholds": [0.2], "parallel_evaluations": 1},
        "evolution_trace": {"enabled": True, "include_code": True},
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "openevolve.cli", "initial_program.py", "evaluator.py", "--config", "config.yaml"]
    ended = subprocess.run([*command, "--output", "out"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (folder / "out" / "checkpoints").is_dir(), ended.stderr[-2000:]
    return folder / "out"


def imported(name: str) -> dict[str, dict[str, Any]]:
    """What the run holds of each program, by its code."""
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        groups = [group for _, group in read_groups(store, store.run(name).id)]
    texts = {answer.candidate: answer.text for group in groups for answer in group.all_answers()}
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        (answer,) = group.all_answers()
        found.setdefault(
            answer.text,
            {
                "parent": None if group.parent is None else texts.get(group.parent, PROGRAM),
                "fitness": pytest.approx(answer.score.fitness),
                "user": group.prompt.user,
                "reply": group.rollouts[0].rollout.text,
            },
        )
    return found


@pytest.mark.parametrize("kind", EVALUATORS)
def test_an_import_holds_what_openevolve_wrote(here: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    folder = here / "project"
    folder.mkdir()
    with completion_server(text=edited) as server:
        output = run_openevolve(folder, EVALUATORS[kind], server.url)
    rows = [json.loads(line) for line in (output / "evolution_trace.jsonl").read_text().splitlines()]
    known = {row["child_id"]: row["child_code"] for row in rows}
    assert len(rows) >= ITERATIONS // 2
    copies = [row for row in rows if row["parent_id"] not in known and row.get("parent_code") in known.values()]
    assert copies, "no child of a migrated copy in this run"
    checkpoint = find_newest(output)
    stored = [json.loads(file.read_text()) for file in (checkpoint / "programs").glob("*.json")]
    sources: list[tuple[str, Path, dict[str, Any]]] = []
    of_trace: dict[str, Any] = {}
    for row in rows:
        wanted = {
            # a row of a parent that was removed by then has no code of it
            "parent": row.get("parent_code") or known.get(row["parent_id"]),
            "fitness": get_fitness_score(row["child_metrics"], []),
            "user": row["prompt"]["user"], "reply": row["llm_response"],
        }  # fmt: skip
        of_trace.setdefault(row["child_code"], wanted)
    sources.append(("trace", output / "evolution_trace.jsonl", of_trace))
    codes = {program["id"]: program["code"] for program in stored}
    codes |= {p["parent_id"]: p["code"] for p in stored if p["metadata"].get("migrant")}  # of originals removed too
    originals = {p["id"]: p for p in stored if not p["metadata"].get("migrant") and p["parent_id"]}
    of_checkpoint: dict[str, Any] = {}
    for program in sorted(originals.values(), key=lambda one: one["timestamp"]):
        (asked,) = program["prompts"].values()
        wanted = {
            "parent": codes.get(program["parent_id"]), "fitness": get_fitness_score(program["metrics"], []),
            "user": asked["user"], "reply": asked["responses"][0],
        }  # fmt: skip
        of_checkpoint.setdefault(program["code"], wanted)
    sources.append(("checkpoint", output, of_checkpoint))
    for name, path, wanted in sources:
        status, _, err = evo(capsys, "import", str(path), "--problem", "project", "--name", name)
        assert status == 0, err
        found = imported(name)
        for code, expected in wanted.items():
            if code != PROGRAM:
                assert found[code] == expected, (name, code)
        best = max(get_fitness_score(program["metrics"], []) for program in stored)
        (top,) = json.loads(evo(capsys, "best", name, "--json")[1])
        assert top["fitness"] == pytest.approx(best)
