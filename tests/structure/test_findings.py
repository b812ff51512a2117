"""findings/: each script is listed with the versions that it pins."""

from __future__ import annotations

import re

import pytest
from modules import ROOT

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_pins_its_packages_and_is_listed(script):
    text = script.read_text(encoding="utf-8")
    packages = re.findall(r"pip\" install -qq --disable-pip-version-check (.+)", text)[0].split()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", package) for package in packages)
    versions = ", ".join(package.replace("==", " ") for package in packages)
    listed = (ROOT / "findings" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [row for row in listed if row.startswith(f"| [{script.stem}]({script.name}) |")]
    assert len(rows) == 1 and f"| {versions} |" in rows[0]


def test_every_row_has_a_script():
    listed = re.findall(r"^\| \[([\w-]+)\]", (ROOT / "findings" / "README.md").read_text(encoding="utf-8"), re.M)
    assert listed == [script.stem for script in SCRIPTS]
