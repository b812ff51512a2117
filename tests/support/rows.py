"""Rows of parametrised tests, in a YAML file beside them: test_x.yaml of test_x.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def _tables(file: str) -> dict[str, Any]:
    return dict(yaml.safe_load(Path(file).with_suffix(".yaml").read_text(encoding="utf-8")))


def yaml_rows(file: str, name: str) -> Any:
    """The rows of a test, by the name that they have there, or a mapping. file: the test's own"""
    return _tables(file)[name]
