"""The embedded policies: their addresses and their files."""

import json

import pytest

from problems.contract import BadAddress
from vpo.languages.contract import checkpoint_path, dialect_of, open_dialect, shipped
from vpo.languages.maze import CHECKPOINTS


def test_only_what_ships_has_an_address():
    assert {path.name for path in CHECKPOINTS.iterdir()} == {"base", "edit-solve", "grpo", "vpo"} <= shipped().keys()
    assert checkpoint_path("embedded:base") == checkpoint_path("base") == CHECKPOINTS / "base"
    for name in ("embedded:none", "embedded:", "embedded:../embedded", "embedded:base/.."):
        with pytest.raises(BadAddress, match="embedded:base"):
            checkpoint_path(name)
    with pytest.raises(BadAddress, match="no policy embedded:edit-improve ships with this version; there is"):
        checkpoint_path("edit-improve")


def test_a_folder_without_the_mark_speaks_english(tmp_path):
    assert dialect_of(tmp_path) == "chat"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert dialect_of(tmp_path) == "chat"


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_policy_is_small_and_complete(name):
    folder = checkpoint_path(name)
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    needed = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert needed | {"model.safetensors", "README.md"} <= set(files)
    assert sum(files.values()) <= 12e6
    assert open_dialect(dialect_of(folder)).checkpoints[name] == folder
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings["top_k"] == 0 and settings["do_sample"]  # transformers would cut to the 50 likeliest otherwise
