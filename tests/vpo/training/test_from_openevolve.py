"""The steps of docs/tutorial/openevolve.md: OpenEvolve's trace, a small model trained on it, the search continued."""

import json
import shutil
from pathlib import Path

import pytest
from support.command_line import evo

SCORER = 'seed = "ab"\n\ndef score(answer):\n    return {"combined_score": answer.count("a") / 9}\n'


@pytest.mark.usefixtures("one_thread")
def test_a_model_learns_from_a_trace_and_continues_the_search(here, capsys, qwen2):
    shutil.copytree(qwen2, "model")
    config = json.loads(Path("model/config.json").read_text())  # the fixture's models read 512 bytes
    Path("model/config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    Path("scorer.py").write_text(SCORER)
    codes = ["ab", "aab", "aaab"]
    records = [
        {
            "iteration": n,
            "parent_id": str(n - 1),
            "child_id": str(n),
            "parent_code": codes[n - 1],
            "child_code": codes[n],
        }
        | {"parent_metrics": {"combined_score": n / 9}, "child_metrics": {"combined_score": (n + 1) / 9}}
        for n in (1, 2)
    ]
    Path("trace.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    steps = [
        ["import", "trace.jsonl", "--problem", "scorer.py", "--name", "traced"],
        [
            "train",
            "improve",
            "--from-traces",
            "traced",
            "--policy",
            "model",
            "--lora-rank",
            "2",
            "--steps",
            "1",
            "-o",
            "op",
        ],
        [
            "run",
            "scorer.py",
            "--start",
            "traced",
            "--policy",
            "op",
            "--iterations",
            "1",
            "--rollouts",
            "2",
            "--name",
            "on",
        ],
        ["best", "on", "--json"],
    ]
    outs = [evo(capsys, *step, *["--plain"] * (step[0] in ("train", "run"))) for step in steps]
    assert [code for code, *_ in outs] == [0, 0, 0, 0], outs
    assert "2 improvements" in outs[1][1] and json.loads(outs[3][1])[0]["answer"] == "aaab"
