"""A run named `one` that a test's own directory holds, as `evo show` reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evo.cli import invoke


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert invoke(["show", "one", "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))
