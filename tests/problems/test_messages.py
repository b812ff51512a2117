"""What a user wrote wrong is told in one line: of addresses, files, rows and scorers (mistyped.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from problems import BadAddress, ScorerFault, resolve

GROUPS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("mistyped.yaml").read_text(encoding="utf-8"))
SAMPLE = str(Path(__file__).parents[2] / "examples" / "livecodebench")


@pytest.mark.parametrize(
    ("group", "row"),
    [
        pytest.param(GROUPS[name], row, id=f"{name}-{n}")
        for name in GROUPS
        for n, row in enumerate(GROUPS[name]["rows"])
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, monkeypatch, group, row):
    def filled(text: str) -> str:
        return text.replace("TEXT", row["text"]).replace("{sample}", SAMPLE)

    for name, text in group["files"].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(filled(text))
    monkeypatch.chdir(tmp_path)
    raises = ScorerFault if group.get("fault") else BadAddress
    with pytest.raises(raises, match=row["says"]) as told:
        problems = resolve(filled(group["address"]))
        assert group.get("fault"), "the address itself is refused"
        problems[0].score(problems[0].canonical(group.get("answer", "x")))
    assert "\n" not in str(told.value)
