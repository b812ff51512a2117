"""The steps of docs/tutorial/openevolve.md: OpenEvolve's trace, a small model trained on it, the search continued."""

import json
import shutil
from pathlib import Path

import pytest
from support.command_line import evo

SCORER = 'seed = "ab"\n\ndef score(answer):\n    return {"combined_score": answer.count("a") / 9}\n'
STEPS = """import trace.jsonl --problem scorer.py --name traced
train improve --from-traces traced --policy model --lora-rank 2 --steps 1 -o operator --plain
run scorer.py --start traced --policy operator --iterations 1 --rollouts 2 --name continued --plain
best continued --json"""


@pytest.mark.usefixtures("one_thread")
def test_a_model_learns_from_a_trace_and_continues_the_search(here, capsys, qwen2):
    shutil.copytree(qwen2, "model")
    config = json.loads(Path("model/config.json").read_text())
    Path("model/config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    Path("scorer.py").write_text(SCORER)
    with Path("trace.jsonl").open("w") as trace:
        for n, (before, after) in enumerate([("ab", "aab"), ("aab", "aaab")]):
            record = {"iteration": n + 1, "parent_id": str(n), "parent_code": before, "child_id": str(n + 1)}
            scores = {f"{who}_metrics": {"combined_score": (n + at) / 9} for who, at in (("parent", 1), ("child", 2))}
            print(json.dumps(record | scores | {"child_code": after}), file=trace)
    outs = [evo(capsys, *step.split()) for step in STEPS.splitlines()]
    assert [code for code, *_ in outs] == [0, 0, 1, 0], outs  # a model of random weights earns nothing
    assert "2 improvements" in outs[1][1] and json.loads(outs[3][1])[0]["answer"] == "aaab"
