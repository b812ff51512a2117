"""A short name for a set of weights, so that a rollout's policy version means the same on every machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from vpo.policies.checkpoint import ADAPTER_CONFIG

_WHOLE = 64 << 20
_SLICES = 64
_SLICE = 64 << 10
_NO_WEIGHT = ("base_model_name_or_path", "revision", "peft_version", "inference_mode", "auto_mapping", "task_type")
"""Keys of an adapter's config that change no weight. Its base has a fingerprint of its own, and lies elsewhere on
another machine."""


def fingerprint(source: str, config: Any = None) -> str:
    """8 hexadecimal digits: of the files of a directory, or of a hub model's commit.

    Weights files up to 64 MiB are hashed whole, larger ones by their size, their first MiB, and 64 slices spread over
    the rest: training moves every tensor, so that is enough to tell versions apart without reading gigabytes.
    """
    folder = Path(source)
    digest = hashlib.blake2b(digest_size=4)
    commit = getattr(config, "_commit_hash", None)
    if not folder.is_dir():
        digest.update(str(commit or source).encode())
        return digest.hexdigest()
    names = ("config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja")
    weights = [file for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)]
    if (folder / ADAPTER_CONFIG).is_file():
        digest.update(_scale_of(folder / ADAPTER_CONFIG))
    for file in sorted([*(folder / name for name in names), *weights]):
        if file.is_file():
            digest.update(file.name.encode())
            _add(digest, file)
    return digest.hexdigest()


def _scale_of(file: Path) -> bytes:
    """What an adapter's config says of how its weights are added to the base. peft writes names in any order."""
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    kept = {
        key: sorted(value, key=str) if isinstance(value, list) else value
        for key, value in said.items()
        if key not in _NO_WEIGHT
    }
    return json.dumps(kept, sort_keys=True).encode()


def _add(digest: Any, file: Path) -> None:
    size = file.stat().st_size
    digest.update(size.to_bytes(8, "little"))
    with file.open("rb") as stream:
        if size <= _WHOLE:
            digest.update(stream.read())
            return
        digest.update(stream.read(1 << 20))
        for i in range(_SLICES):
            stream.seek(size * (i + 1) // (_SLICES + 1))
            digest.update(stream.read(_SLICE))
