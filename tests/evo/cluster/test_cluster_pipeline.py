"""A pipeline on a Ray cluster: stages side by side on its nodes, and a record like that of one machine."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from child_processes import begin, wait_until
from stored_rows import assert_same_run, stored_answers
from training_runs import SMALL_POLICY

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")

pytestmark = pytest.mark.long

PIPELINE = """
stages:
  one:
    evaluate: {problems: [maze:test], limit: 3, answers_total: 6, policy: 'scripted:mutate?latency=0.3'}
  two:
    evaluate: {problems: [maze:test], limit: 3, answers_total: 6, policy: 'scripted:random-route?latency=0.3'}
  hard:
    pick: {evaluations: ['${one}', '${two}'], metric: best@3, at_most: 1.0}
  found:
    search: {problems: ['${hard}'], iterations: 3, rollouts: 2, answers: 1, policy: 'scripted:mutate'}
  page:
    report: {run: '${found}'}
"""


def piped(folder: Path, *arguments: str) -> tuple[int, str, str]:
    child = begin("pipeline", "p.yaml", "-o", "out", *arguments, cwd=folder, kind=subprocess.Popen)
    out, err = child.communicate(timeout=300)
    return child.returncode, out, err


def test_stages_side_by_side_leave_the_record_of_one_machine(cluster, postgres_address, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "p.yaml").write_text(PIPELINE)
    assert piped(here)[0] == 0
    code, out, err = piped(there, "--ray", cluster.address, "--db", postgres_address)
    assert code == 0, out + err
    lines = out.splitlines()
    begun = [next(i for i, line in enumerate(lines) if f"] {name}: evaluate" in line) for name in ("one", "two")]
    assert max(begun) < next(i for i, line in enumerate(lines) if ": done in" in line)
    assert "one | on node " in err and "two | on node " in err and "found | " in err
    records = [json.loads((folder / "out" / "pipeline.json").read_text())["stages"] for folder in (here, there)]
    for record in records:
        for stage in record.values():
            del stage["seconds"]
    assert records[0] == records[1]
    figures = [json.loads((folder / "out/evaluations/one.json").read_text())["per_problem"] for folder in (here, there)]
    assert figures[0] == figures[1]
    assert_same_run(stored_answers(postgres_address), stored_answers(f"sqlite:///{here}/out/evo.db"))
    code, out, err = piped(there, "--ray", cluster.address, "--db", postgres_address, "--json")
    assert code == 0 and all(stage["skipped"] for stage in json.loads(out)["stages"])


def test_ctrl_c_reaches_the_nodes_and_the_same_command_goes_on(cluster, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "stages:\n"
        f"  vpo:\n    train: {{method: vpo, problems: ['maze:train/0-3'], policy: '{SMALL_POLICY}', steps: 6, "
        "prompts: 1, rollouts: 2, save_every: 1}\n"
        "  slow:\n    evaluate: {problems: [maze:test], limit: 1, answers_total: 3, "
        "policy: 'scripted:mutate?latency=600'}\n"
    )
    child = begin("pipeline", "p.yaml", "-o", "out", "--ray", cluster.address, cwd=tmp_path, kind=subprocess.Popen)
    checkpoints = tmp_path / "out" / "policies" / "vpo" / "checkpoints"
    wait_until(lambda: any(checkpoints.glob("step-??????")), child, 240)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, out + err
    stages = json.loads((tmp_path / "out" / "pipeline.json").read_text())["stages"]
    assert {stage["state"] for stage in stages.values()} <= {"interrupted", "done"}
    assert stages["slow"]["state"] == "interrupted" and f"--ray {cluster.address}" in out
    code, out, err = piped(tmp_path, "--ray", cluster.address, "--only", "vpo")
    assert code == 0, out + err
    assert (tmp_path / "out" / "policies" / "vpo" / "model.safetensors").is_file()


def test_a_failed_stage_is_told_and_what_reads_it_is_not_begun(cluster, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "stages:\n"
        "  bad:\n    evaluate: {problems: [maze:test], limit: 1, answers_total: 2, policy: './gone'}\n"
        "  reader:\n    pick: {evaluations: ['${bad}']}\n"
    )
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "config.json").write_text("{}")
    code, out, err = piped(tmp_path, "--ray", cluster.address, "--json")
    if code == 2:
        pytest.fail(err)
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert code == 1 and stages["bad"]["state"] == "failed" and stages["reader"]["state"] == "not run"
    assert stages["bad"]["reason"] and "evo: stage bad failed: " in err


def test_a_file_is_no_database_for_searches_on_several_nodes(cluster, tmp_path):
    (tmp_path / "p.yaml").write_text(PIPELINE)
    code, _, err = piped(tmp_path, "--ray", cluster.address)
    assert code == 2 and "is a file of one machine" in err and len(err.splitlines()) == 1
