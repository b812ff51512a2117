"""Addresses: what they name, and one line for those that name nothing."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from problems.contract import BadAddress
from vpo.languages.contract import checkpoint_path
from vpo.policies.registry import load_policy


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "is not an address"),
        ("two words", "is not an address"),
        ("http://host/model", "is not an address"),
        ("embeded:base", "is not an address"),
        ("embedded:nothing", "ships with this version"),
        ("embedded:../base", "ships with this version"),
        ("openai:model@http://127.0.0.1:9", "cannot be reached"),
        ("scripted:", "does not exist"),
        ("scripted:mutant", "does not exist"),
        ("scripted:mutate?speed=1", "unknown option speed"),
        ("scripted:mutate?latency=soon", "option latency"),
        ("scripted:mutate?latency=-1", "option latency"),
        ("scripted:mutate?temperature=hot", "option temperature"),
        ("embedded:base?speed=1", "unknown option speed"),
        ("scripted:fixed=/nowhere/answers.txt", "cannot be read"),
        ("/nowhere/model", "no such directory"),
        ("./nowhere", "no such directory"),
        ("a/b/c", "no such directory"),
    ],
)
def test_a_bad_address_is_one_line(address: str, message: str) -> None:
    with pytest.raises(BadAddress, match=message) as caught:
        load_policy(address)
    assert "\n" not in str(caught.value)


def test_a_directory_that_is_no_checkpoint_is_named(tmp_path) -> None:
    with pytest.raises(BadAddress, match="no config.json"):
        load_policy(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadAddress, match="cannot be loaded") as caught:
        load_policy(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_unknown_device_or_dtype_is_refused(llama) -> None:
    with pytest.raises(BadAddress, match="device"):
        load_policy(str(llama), device="abacus")
    with pytest.raises(BadAddress, match="dtype"):
        load_policy(str(llama), dtype="decimal")


def test_a_prompt_format_from_another_version_is_refused(llama, tmp_path) -> None:
    import json
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(llama, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "evo_dialect": "klingon"}))
    with pytest.raises(BadAddress, match="klingon"):
        load_policy(str(folder))


def test_the_version_follows_the_weights(llama, tmp_path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / "copy"
    shutil.copytree(llama, folder)

    def version() -> str:
        policy = load_policy(str(folder))
        asyncio.run(policy.close())
        return policy.version

    before = version()
    assert before == version()
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][0, 0] += 1e-3
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert before != version()


def test_the_bare_name_of_a_policy_that_ships_is_answered_with_its_address():
    with pytest.raises(BadAddress, match="embedded:vpo ships with the package"):
        load_policy("vpo")


def test_the_default_temperature_is_the_models_own(tmp_path):
    assert load_policy("embedded:base").temperature == 1.0
    assert load_policy("embedded:edit-solve").temperature == 0.8
    assert load_policy("embedded:edit-solve", temperature=1.0).temperature == 1.0
    assert load_policy("embedded:edit-solve?temperature=1.3", temperature=0.5).temperature == 1.3
    assert load_policy("scripted:mutate").temperature == 1.0
    folder = tmp_path / "model"
    shutil.copytree(checkpoint_path("edit-solve"), folder)
    (folder / "generation_config.json").unlink()  # a checkpoint need not have one
    assert load_policy(str(folder)).temperature == 1.0
