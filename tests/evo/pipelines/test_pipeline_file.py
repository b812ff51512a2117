"""A pipeline's file: what is wrong with it is one line that names the stage and the key, before anything is
written."""

import json
from pathlib import Path

import pytest
import yaml
from support.command_line import evo, refused

from evo.pipelines.file import read_pipeline, replace_references

GOOD = Path(__file__).with_name("good.yaml").read_text()


def written(text, name="p.yaml"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def test_stages_in_order_with_what_they_read(here):
    stages = read_pipeline(written(GOOD)).stages
    assert list(stages) == ["base", "vpo", "alone", "found", "arms", "page"]
    assert [stage.kind for stage in stages.values()] == ["train", "train", "evaluate", "search", "compare", "report"]
    assert [stage.reads for stage in stages.values()] == [(), ("base",), ("vpo",), ("vpo",), ("vpo",), ("arms",)]


def test_a_reference_is_replaced_wherever_it_stands(here):
    arms = read_pipeline(written(GOOD)).stages["arms"].given
    assert replace_references(arms, {"vpo": "DIR/policies/vpo"}.get)["arms"] == {
        "guess": {"policy": "scripted:random-route"},
        "vpo": {"policy": "DIR/policies/vpo"},
    }
    assert replace_references({"run": "${arms}/vpo/s0", "n": 1}, {"arms": "here-arms"}.get) == {
        "run": "here-arms/vpo/s0",
        "n": 1,
    }


def test_several_policies_of_a_search_are_references_each_with_their_options(here):
    asked = "embedded:base, ${vpo}?temperature=0.7,${base}?fresh=1"
    found = read_pipeline(written(GOOD.replace('policy: "${vpo}", iterations', f'policy: "{asked}", iterations')))
    found = found.stages["found"]
    assert found.reads == ("vpo", "base")
    given = replace_references(found.given, {"vpo": "V", "base": "B"}.get)
    assert given["policy"] == "embedded:base,V?temperature=0.7,B?fresh=1"


def test_a_filter_of_an_evaluation_stands_for_problems(here):
    text = GOOD.replace("problems: [maze:hard], limit: 3", 'problems: ["${alone}?solve@10=0"]')
    pipeline = read_pipeline(written(text))
    found = pipeline.stages["found"]
    assert found.reads == ("alone", "vpo")
    given = replace_references(found.given, {"vpo": "V", "alone": "DIR/alone.json"}.get)
    assert given["problems"] == ["list:DIR/alone.json?solve@10=0"] and given["policy"] == "V"


def test_a_dry_run_prints_the_plan_and_writes_nothing(here, capsys):
    code, out, err = evo(capsys, "pipeline", written(GOOD), "--dry-run")
    assert (code, err) == (0, "")
    assert [path.name for path in here.iterdir()] == ["p.yaml"]
    for part in ("run evo-p-arms", "evo-p/policies/vpo", "waiting"):
        assert part in out
    code, out, _ = evo(capsys, "pipeline", "p.yaml", "--dry-run", "--json", "--from", "arms", "--db", "sqlite:///x.db")
    assert code == 2 and not out  # what it reads was never done
    code, out, _ = evo(capsys, "pipeline", "p.yaml", "--dry-run", "--json", "--only", "base", "--only", "vpo")
    assert [stage["chosen"] for stage in json.loads(out)["stages"]] == [True] * 2 + [False] * 4
    assert [path.name for path in here.iterdir()] == ["p.yaml"]


@pytest.mark.parametrize("row", yaml.safe_load(Path(__file__).with_name("bad_files.yaml").read_text()))
def test_a_bad_file_is_one_line_and_nothing_is_written(here, capsys, row):
    for more in ((), ("--dry-run",)):
        assert row["said"] in refused(capsys, "pipeline", written(row["text"]), *more)
        assert [path.name for path in here.iterdir()] == ["p.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "x"], "--only x: there is no such stage; there are base, vpo"),
        (["--from", "x"], "--from x: there is no such stage"),
        (["--only", "vpo", "--from", "vpo"], "cannot go together"),
        (["--only", "vpo"], "stage vpo reads base, which is not done and not chosen"),
        (["-o", "taken"], "-o taken: holds other files"),
        (["-o", "p.yaml"], "-o p.yaml: is a file"),
        (["--db", "sqlite:///nowhere/x.db"], "there is no directory nowhere"),
    ],
)
def test_bad_arguments_are_one_line(here, capsys, arguments, said):
    (here / "taken").mkdir()
    (here / "taken" / "thesis.tex").touch()
    assert said in refused(capsys, "pipeline", written(GOOD), *arguments)
    assert sorted(path.name for path in here.iterdir()) == ["p.yaml", "taken"]


def test_no_file(here, capsys):
    code, _, err = evo(capsys, "pipeline", "none.yaml")
    assert code == 2 and err == "evo: none.yaml: No such file or directory\n"
