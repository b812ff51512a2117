"""What a checkpoint says of its training: the method, and how many answers a rollout gave.

It stands in a file of its own, because config.json is the model's and names its version (vpo.policies.fingerprint).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from problems.contract import BadAddress

TRAINED = "evo.json"


def write_trained(folder: Path, trained: Mapping[str, Any]) -> None:
    (folder / TRAINED).write_text(json.dumps(dict(trained), indent=1) + "\n", encoding="utf-8")


def trained_answers(address: str) -> int | None:
    """m, the answers a rollout of this policy was trained to give; None where nothing says so.

    Known for checkpoints in directories, those that ship among them; a hub's are not asked. Raises BadAddress where
    the file cannot be read.
    """
    if address.startswith("vllm:"):
        address = address.removeprefix("vllm:").partition("?")[0]
    if address.startswith("embedded:"):
        from vpo.embedded import checkpoint_path

        folder = checkpoint_path(address)
    else:
        folder = Path(address).expanduser()
    file = folder / TRAINED
    if not file.is_file():
        return None
    try:
        answers = json.loads(file.read_text(encoding="utf-8")).get("answers")
    except (OSError, ValueError, AttributeError) as error:
        raise BadAddress(f"policy {address!r}: {TRAINED} cannot be read: {error}") from None
    if answers is not None and (not isinstance(answers, int) or answers < 1):
        raise BadAddress(f"policy {address!r}: {TRAINED} says answers {answers!r}, which is no number of answers")
    return answers
