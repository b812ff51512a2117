"""What a user wrote wrong is told in one line: of addresses, files, rows and scorers (mistyped.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from problems import BadAddress, ScorerFault, resolve
from problems.weights import parse_weights

GROUPS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("mistyped.yaml").read_text(encoding="utf-8"))
SAMPLE = str(Path(__file__).parents[2] / "examples" / "livecodebench")


@pytest.mark.parametrize(
    ("group", "text", "says"),
    [
        pytest.param(group, *row, id=f"{name}-{n}")
        for name, group in GROUPS.items()
        for n, row in enumerate(group["rows"])
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, monkeypatch, group, text, says):
    def filled(form: str) -> str:
        return form.replace("TEXT", text).replace("{sample}", SAMPLE)

    for name, content in group.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(filled(content))
    monkeypatch.chdir(tmp_path)
    if "skips" in group:
        with pytest.warns(UserWarning, match=f"skipped: cannot be judged here: .*{says}"):
            assert resolve(group["address"]) == []
        return
    with pytest.raises(ScorerFault if "fault" in group else BadAddress, match=says) as told:
        if "weights" in group:
            parse_weights(text)
        elif "weighted" in group:
            resolve(group["weighted"])[0].weighted(text)
        else:
            problems = resolve(filled(group["address"]))
            assert "fault" in group, "the address itself is refused"
            problems[0].score(problems[0].canonical(group.get("answer", "x")))
    assert "\n" not in str(told.value)
