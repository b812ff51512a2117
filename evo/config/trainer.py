"""The trainer's settings as they are stored; they are declared in vpo.training.config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def complete_trainer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were stored, with what they leave unsaid: before there was a scale, training ran at the plain
    one, and a resumed run goes on with it."""
    return {"scale": "plain", **values}
