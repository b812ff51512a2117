"""Problems chosen by evaluations: the command, the stage, and a whole pipeline that searches what it chose."""

import json
from pathlib import Path

import pytest
from warm_processes import Forked, in_place_of_subprocess

from evo import command_process
from evo.cli import invoke
from islands.db.store import Store

SAMPLE = Path(__file__).parents[3] / "examples" / "livecodebench"


@pytest.fixture(autouse=True)
def forked_stages(monkeypatch):
    monkeypatch.setattr(command_process, "subprocess", in_place_of_subprocess(Forked))


def evaluation(path, **values):
    rows = [{"problem": name, "best@30": value} for name, value in values.items()]
    path.write_text(json.dumps({"policy": path.stem, "per_problem": rows}))
    return str(path)


def pick(capsys, *arguments):
    code = invoke(["problems", "pick", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_problems_low_in_every_evaluation_are_written(tmp_path, capsys):
    one = evaluation(tmp_path / "one.json", a=0.0, b=0.0, c=0.5, d=0.0, e=0.0)
    two = evaluation(tmp_path / "two.json", e=0.0, d=None, c=0.0, b=0.0, a=0.4)
    out = tmp_path / "hard.txt"
    code, told, _ = pick(capsys, one, two, "-o", out)
    assert code == 0 and f"2 of 4 problems; search them as list:{out}" in told
    assert out.read_text().splitlines() == ["# 2 of 4 problems: best@30 <= 0 in 2 evaluations", "b", "e"]
    pick(capsys, one, two, "-o", out, "--at-most", 0.5, "--limit", 3)
    assert out.read_text().splitlines()[1:] == ["a", "b", "c"]
    code, told, _ = pick(capsys, one, "-o", out, "--json")
    assert json.loads(told) == {"schema": 1, "output": str(out), "problems": ["a", "b", "d", "e"], "of": 5}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["one.json", "-o", "hard.txt"], "no problem of 2 has best@30 <= 0 in every evaluation; the least is 0.2"),
        (["one.json", "-o", "hard.txt", "--metric", "solve@30"], "has no solve@30; it has best@30"),
        (["one.json", "far.json", "-o", "hard.txt"], "no problem is in all of them"),
        (["none.json", "-o", "hard.txt"], "No such file"),
        (["other.json", "-o", "hard.txt"], "has no results"),
        (["text.json", "-o", "hard.txt"], "not JSON"),
        (["one.json", "-o", "none/hard.txt"], "there is no directory"),
    ],
)
def test_what_cannot_be_picked_is_one_line_and_nothing_is_written(tmp_path, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    evaluation(tmp_path / "one.json", a=0.2, b=0.3)
    evaluation(tmp_path / "far.json", z=0.0)
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "text.json").write_text("text")
    code, _, err = pick(capsys, *arguments)
    assert code == 2 and says in err and err.count("\n") == 1
    assert not list(tmp_path.glob("hard*"))


PIPELINE = """
stages:
  one:
    evaluate: &asked
      problems: ["livecodebench:%(sample)s?from=2025-02-01"]
      policy: scripted:mutate
      answers: 1
      answers_total: 3
  two: {evaluate: {<<: *asked, seed: 1}}
  hard: {pick: {evaluations: ["${one}", "${two}"], metric: best@3, at_most: %(at_most)s, limit: 2}}
  search:
    compare:
      problems: ["${hard}"]
      iterations: 2
      seeds: 1
      against: mutate
      baselines: [best-of-n=mutate]
      arms: {mutate: {policy: "scripted:mutate", answers: 1}}
"""


def pipeline(tmp_path, capsys, at_most, *arguments):
    path = tmp_path / "own.yaml"
    path.write_text(PIPELINE % {"sample": SAMPLE, "at_most": at_most})
    code = invoke(["pipeline", str(path), "-o", str(tmp_path / "run"), "--json", *arguments])
    return code, *capsys.readouterr()


@pytest.mark.long
def test_a_pipeline_searches_what_it_picked(tmp_path, capsys):
    code, out, err = pipeline(tmp_path, capsys, 0.9, "--dry-run")
    assert code == 0, err
    planned = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert planned["hard"]["reads"] == ["one", "two"] and "at most 2 of 2 problems" in planned["hard"]["budget"]
    assert planned["search"]["reads"] == ["hard"] and planned["search"]["at_most"] is True
    code, out, err = pipeline(tmp_path, capsys, 0.9)
    assert code == 0, err
    picked = (tmp_path / "run" / "lists" / "hard.txt").read_text().splitlines()[1:]
    assert 1 <= len(picked) <= 2
    with Store.open(f"sqlite:///{tmp_path / 'run' / 'evo.db'}", read_only=True) as store:
        assert {tuple(run.config["problems"]) for run in store.runs()} == {tuple(picked)}
    code, out, err = pipeline(tmp_path, capsys, 0.9)
    assert code == 0 and all(stage["skipped"] for stage in json.loads(out)["stages"]), "it is done once"


def test_nothing_to_pick_ends_the_pipeline_with_the_reason(tmp_path, capsys):
    code, out, err = pipeline(tmp_path, capsys, -1)
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert code == 1 and "has best@3 <= -1 in every evaluation" in stages["hard"]["reason"]
    assert stages["search"]["state"] == "not run"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"${hard}"', '"${one}"'), "this key needs a list of problems; one is a evaluate stage"),
        (('"${one}", "${two}"', '"${one}", "${hard}"'), "a cycle"),
        (('["${one}", "${two}"]', "[]"), "evaluations"),
        (('["${one}", "${two}"]', "[figures.json]"), "one of them at least is a stage of this pipeline"),
    ],
)
def test_a_reference_that_cannot_stand_is_one_line(tmp_path, capsys, change, says):
    path = tmp_path / "own.yaml"
    path.write_text((PIPELINE % {"sample": SAMPLE, "at_most": 0}).replace(*change))
    assert invoke(["pipeline", str(path), "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
