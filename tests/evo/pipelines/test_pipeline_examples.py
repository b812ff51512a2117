"""The pipelines that ship as examples are sound: every key, address and reference, as a dry run finds them."""

import json
from pathlib import Path

import pytest
from support.command_line import evo

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
SAMPLE = EXAMPLES.parent / "livecodebench"


READS = {
    "livecodebench": {"vpo-alone": ["grpo-alone", "vpo"], "search": ["vpo-alone", "grpo", "vpo"]},
    "maze": {"hard": ["grpo", "vpo"]},
    "operators": {
        "improve": ["failures"],
        "vpo": ["first-try", "improve", "failures"],
        "grpo": ["first-try", "improve", "failures"],
    },
    "programs": {"evolve": ["vpo"], "after": ["vpo", "before"]},
    "rounds": {"search-2": ["improve-1"], "improve-2": ["search-1", "search-2", "improve-1"]},
    "traces": {"vpo": ["search"], "again": ["vpo"]},
}
"""What each example's stages read, where that is its point."""
KINDS = {
    "livecodebench": ["train", "train", "evaluate", "evaluate", "compare", "report"],
    "maze": ["train", "train", "evaluate", "evaluate", "compare", "report"],
}


def test_there_are_no_others():
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(READS)


@pytest.mark.parametrize("name", READS)
def test_a_dry_run_finds_every_key_address_and_reference(here, capsys, name):
    if name == "livecodebench":
        (here / "livecodebench").symlink_to(SAMPLE)
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
