"""OpenEvolve's own functions and ours on the same inputs.

A case of AREA.yaml gives an input; the results must be equal, or `differs` names the line of the guide's table that
says why they are not, with both results. A line of the table without a case, or one that is not true any more, fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from both_sides import SIDES, documented, rounded

HERE = Path(__file__).parent
GUIDE = HERE.parents[2] / "docs" / "tutorial" / "openevolve.md"
LEAST = 120


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for area in SIDES:
        for name, case in yaml.safe_load((HERE / f"{area}.yaml").read_text(encoding="utf-8")).items():
            yield area, name, case


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_KEY"):
        monkeypatch.setenv(name, "k")


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parity")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("area", "name", "case"), [pytest.param(*one, id=f"{one[0]}: {one[1]}") for one in cases()])
def test_both_give_the_same_or_differ_as_the_guide_says(
    area: str, name: str, case: dict[str, Any], session_folder: Path
) -> None:
    results = []
    for side in SIDES[area]:
        folder = session_folder / f"{area}-{name}-{side.__name__}".replace("/", "-")
        folder.mkdir()
        results.append(side(case, folder))
    theirs, ours = results
    if "differs" in case:
        assert case["differs"] in documented(GUIDE), "the guide's table has no such line"
        assert theirs == rounded(case["openevolve"]) and ours == rounded(case["evo"])
        assert theirs != ours, f"{case['differs']} is no difference any more"
    else:
        assert ours == theirs


def test_the_table_has_a_case_for_each_line_and_the_suite_enough_inputs() -> None:
    given = list(cases())
    used = {case["differs"] for _, _, case in given if "differs" in case}
    assert used == set(documented(GUIDE)) and len(documented(GUIDE)) == len(used)
    assert len(given) >= LEAST and len({(area, name) for area, name, _ in given}) == len(given)
