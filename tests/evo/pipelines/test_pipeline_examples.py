"""The pipelines that ship as examples are sound: every key, address and reference, as a dry run finds them."""

import json
from pathlib import Path

import yaml

from evo.cli import invoke

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
NAMES = ("livecodebench", "maze", "operators", "programs", "rounds", "traces")
SAMPLE = EXAMPLES.parent / "livecodebench"


def plan(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = invoke(["pipeline", str(EXAMPLES / f"{name}.yaml"), "--dry-run", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert not list(tmp_path.iterdir())
    return {stage["name"]: stage for stage in json.loads(out)["stages"]}


def test_there_are_no_others():
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(NAMES)


def test_mazes_are_trained_for_then_searched(capsys, tmp_path, monkeypatch):
    stages = plan("maze", capsys, tmp_path, monkeypatch)
    assert [stage["kind"] for stage in stages.values()] == ["train"] * 2 + ["evaluate"] * 2 + ["compare", "report"]
    assert stages["hard"]["reads"] == ["grpo", "vpo"]


def test_programs_are_evolved_with_a_hub_model(capsys, tmp_path, monkeypatch):
    stages = plan("programs", capsys, tmp_path, monkeypatch)
    assert stages["evolve"]["reads"] == ["vpo"] and stages["after"]["reads"] == ["vpo", "before"]
    settings = yaml.safe_load((EXAMPLES / "programs.yaml").read_text())["stages"]
    assert settings["vpo"]["train"]["policy"] == "Qwen/Qwen2.5-Coder-0.5B-Instruct"


def test_a_policy_learns_from_traces(capsys, tmp_path, monkeypatch):
    stages = plan("traces", capsys, tmp_path, monkeypatch)
    assert stages["vpo"]["reads"] == ["search"]
    assert stages["again"]["reads"] == ["vpo"]


def test_rounds_of_improve_learn_from_the_searches_of_all_rounds(capsys, tmp_path, monkeypatch):
    stages = plan("rounds", capsys, tmp_path, monkeypatch)
    assert stages["search-2"]["reads"] == ["improve-1"]
    assert stages["improve-2"]["reads"] == ["search-1", "search-2", "improve-1"]


def test_what_neither_solves_of_livecodebench_is_searched(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "livecodebench").symlink_to(SAMPLE)
    code = invoke(["pipeline", str(EXAMPLES / "livecodebench.yaml"), "--dry-run", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    kinds = ["train", "train", "evaluate", "evaluate", "compare", "report"]
    assert [stage["kind"] for stage in stages.values()] == kinds
    assert stages["vpo-alone"]["reads"] == ["grpo-alone", "vpo"]
    assert stages["search"]["reads"] == ["grpo", "vpo", "vpo-alone"]


def test_a_model_learns_to_improve_programs_from_what_it_failed_at(capsys, tmp_path, monkeypatch):
    rows = ({"text": f"Return {i}.", "code": "", "test_list": [f"assert f() == {i}"]} for i in range(974))
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    code = invoke(["pipeline", str(EXAMPLES / "operators.yaml"), "--dry-run", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert stages["improve"]["reads"] == ["failures"]
    assert stages["vpo"]["reads"] == stages["grpo"]["reads"] == ["first-try", "improve", "failures"]
