"""A pipeline's file: what is wrong with it is one line that names the stage and the key, before anything is
written."""

import json
from pathlib import Path

import pytest
from support.command_line import evo, refused
from support.rows import yaml_rows

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


def test_references_are_replaced_wherever_they_stand(here):
    several = 'policy: "embedded:base,${vpo}?temperature=0.7,${base}?fresh=1", iterations'
    text = GOOD.replace('policy: "${vpo}", iterations', several)
    text = text.replace("problems: [maze:hard], limit: 3", 'problems: ["${alone}?solve@10=0"]')
    stages = read_pipeline(written(text)).stages
    assert stages["found"].reads == ("alone", "vpo", "base")
    result = {"vpo": "DIR/policies/vpo", "base": "B", "alone": "DIR/alone.json", "arms": "p-arms"}.__getitem__
    found = replace_references(stages["found"].given, result)
    assert found["policy"] == "embedded:base,DIR/policies/vpo?temperature=0.7,B?fresh=1"
    assert found["problems"] == ["list:DIR/alone.json?solve@10=0"] and found["rollouts"] == 2
    arms = replace_references(stages["arms"].given, result)["arms"]
    assert arms == {"guess": {"policy": "scripted:random-route"}, "vpo": {"policy": "DIR/policies/vpo"}}
    assert replace_references(stages["page"].given, result) == {"run": "p-arms/vpo/s0"}


def test_a_dry_run_prints_the_plan_and_writes_nothing(here, capsys):
    code, out, err = evo(capsys, "pipeline", written(GOOD), "--dry-run")
    assert (code, err) == (0, "")
    assert [path.name for path in here.iterdir()] == ["p.yaml"]
    for part in ("run evo-p-arms", "evo-p/policies/vpo", "waiting"):
        assert part in out


@pytest.mark.parametrize("row", yaml_rows(__file__, "bad files"))
def test_a_bad_file_is_one_line_and_nothing_is_written(here, capsys, row):
    for more in ((), ("--dry-run",)):
        assert row["said"] in refused(capsys, "pipeline", written(row["text"]), *more)
        assert [path.name for path in here.iterdir()] == ["p.yaml"]


def test_bad_arguments_are_one_line(here, capsys):
    (here / "taken").mkdir()
    (here / "taken" / "thesis.tex").touch()
    for arguments, said in (
        (["-o", "taken"], "-o taken: holds other files"),
        (["-o", "p.yaml"], "-o p.yaml: is a file"),
        (["--db", "sqlite:///nowhere/x.db"], "there is no directory nowhere"),
    ):
        assert said in refused(capsys, "pipeline", written(GOOD), *arguments)
    assert refused(capsys, "pipeline", "none.yaml") == "evo: none.yaml: No such file or directory\n"
    assert sorted(path.name for path in here.iterdir()) == ["p.yaml", "taken"]


EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
READS = yaml_rows(__file__, "reads")
"""What each example's stages read, where that is its point."""
KINDS = yaml_rows(__file__, "kinds")


def test_there_are_no_others():
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(READS)


@pytest.mark.parametrize("name", READS)
def test_a_dry_run_finds_every_key_address_and_reference(here, capsys, name):
    if name == "livecodebench":
        (here / "livecodebench").symlink_to(EXAMPLES.parent / "livecodebench")
    elif name == "operators":
        rows = ({"text": f"Return {i}.", "code": "", "test_list": [f"assert f() == {i}"]} for i in range(974))
        (here / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = set(here.iterdir())
    code, out, err = evo(capsys, "pipeline", str(EXAMPLES / f"{name}.yaml"), "--dry-run", "--json")
    assert code == 0, err
    assert set(here.iterdir()) == given, "nothing is written"
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    assert {stage: stages[stage]["reads"] for stage in READS[name]} == READS[name]
    assert [stage["kind"] for stage in stages.values()] == KINDS.get(name, [stage["kind"] for stage in stages.values()])
