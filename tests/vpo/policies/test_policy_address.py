"""One reading of an address: its kind, its model, options that mean the same everywhere; what it names, and one line
for those that name nothing."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file, save_file

from evo.config.run import RunConfig
from evo.search.resources import Resources
from problems.contract import BadAddress
from problems.registry import resolve
from problems.types import Prompt
from vpo.languages.contract import checkpoint_path
from vpo.policies.address import POLICY_ENTRY_POINTS, PolicyAddress, PolicySettings, parse_address, parse_addresses
from vpo.policies.checkpoint import TRAINED, trained_answers
from vpo.policies.registry import policy_at
from vpo.policies.scripted import ScriptedPolicy, echo


@pytest.mark.parametrize(
    ("text", "kind", "model", "options", "short"),
    [
        ("embedded:base", "embedded", "base", (), "base"),
        ("Qwen/Qwen2.5", "transformers", "Qwen/Qwen2.5", (), "Qwen2.5"),
        ("./runs/vpo/?temperature=0.5", "transformers", "./runs/vpo/", (("temperature", "0.5"),), "vpo"),
        ("vllm:embedded:vpo?context=512", "vllm", "embedded:vpo", (("context", "512"),), "vpo"),
        ("openai:a/m@http://h:80/v1?n=off&x=2", "openai", "a/m@http://h:80/v1", (("n", "off"), ("x", "2")), "m"),
        ("scripted:fixed=a.txt", "scripted", "fixed=a.txt", (), "fixed=a.txt"),
        ("embeded:base", "transformers", "embeded:base", (), "base"),
    ],
)
def test_an_address_is_taken_apart(text: str, kind: str, model: str, options: object, short: str) -> None:
    address = parse_address(text)
    assert (address.kind, address.model, address.options, address.short_name) == (kind, model, options, short)
    assert str(address) == text


@pytest.mark.parametrize("plain", ["embedded:base", "scripted:mutate", "{checkpoint}"])
def test_common_options_set_every_kind_of_policy(plain: str, llama) -> None:
    plain = plain.format(checkpoint=llama)
    policy = policy_at(f"{plain}?temperature=0.25&batch=3", temperature=1.0)
    try:
        assert (policy.temperature, policy.batch) == (0.25, 3)
        assert "?" not in policy.version
    finally:
        asyncio.run(policy.close())


@pytest.mark.parametrize("option", ["temperature=-1", "top_p=2", "max_tokens=0", "fresh=2", "threads=none"])
@pytest.mark.parametrize("plain", ["embedded:base", "scripted:mutate", "vllm:some/model", "openai:m@http://h"])
def test_a_wrong_common_option_is_one_line_for_every_kind(plain: str, option: str) -> None:
    with pytest.raises(BadAddress, match=f"option {option.partition('=')[0]}") as caught:
        policy_at(f"{plain}?{option}")
    assert "\n" not in str(caught.value)


def test_operators_have_their_own_options_and_share_a_policy_if_only_their_prompts_differ() -> None:
    problems = resolve("maze:test", limit=1)
    asked = "scripted:mutate?temperature=0.5&fresh=0.25"
    for text in (asked, f"{asked},scripted:mutate?temperature=0.5,scripted:mutate"):
        first, *others = Resources().operators(RunConfig(policy=text), problems)
        assert first.policy.temperature == 0.5 and first.prompt.fresh == 0.25
        assert [one.policy is first.policy for one in others] == [True, False][: len(others)]
        assert [str(address) for address in parse_addresses(text)] == text.split(",")


def load_parrot(address: PolicyAddress, settings: PolicySettings) -> ScriptedPolicy:
    return ScriptedPolicy(f"parrot-{address.model}", echo, temperature=settings.temperature)


def test_an_installed_package_adds_a_kind(install: Callable[[EntryPoint], None]) -> None:
    install(EntryPoint("parrot", f"{__name__}:load_parrot", POLICY_ENTRY_POINTS))
    policy = policy_at("parrot:grey?temperature=0.5")
    assert policy.version == "scripted:parrot-grey" and policy.temperature == 0.5
    (group,) = asyncio.run(policy.sample([Prompt("# Answer to improve\nhello")], rollouts=2, answers=1, seed=0))
    assert len(group) == 2


def test_an_entry_point_that_cannot_be_imported_is_named(install: Callable[[EntryPoint], None]) -> None:
    install(EntryPoint("parrot", "no_such_package:load", POLICY_ENTRY_POINTS))
    with pytest.raises(BadAddress, match="no_such_package:load cannot be loaded"):
        policy_at("parrot:grey")


BAD: dict[str, str] = yaml.safe_load(Path(__file__).with_name("bad_addresses.yaml").read_text())


@pytest.mark.parametrize(("address", "message"), BAD.items())
def test_an_address_that_names_nothing_is_one_line(address: str, message: str, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/bin:/usr/bin")  # without vLLM
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadAddress, match=message) as caught:
        policy_at(address)
    assert "\n" not in str(caught.value) and not re.search("hunter2|sk-very-secret", str(caught.value))


def test_a_directory_that_is_no_checkpoint_is_named(tmp_path) -> None:
    with pytest.raises(BadAddress, match="no config.json"):
        policy_at(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadAddress, match="cannot be loaded") as caught:
        policy_at(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.fixture
def copied(llama, tmp_path) -> Path:
    """A checkpoint to change."""
    return shutil.copytree(llama, tmp_path / "copy")


def test_a_prompt_format_from_another_version_is_refused(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "evo_dialect": "klingon"}))
    with pytest.raises(BadAddress, match="klingon"):
        policy_at(str(copied))


def test_the_version_follows_the_weights(copied: Path) -> None:
    def version() -> str:
        policy = policy_at(str(copied))
        asyncio.run(policy.close())
        return policy.version

    before = version()
    assert before == version()
    weights = load_file(copied / "model.safetensors")
    weights["lm_head.weight"][0, 0] += 1e-3
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert before != version()


def test_the_default_temperature_is_the_models_own(tmp_path):
    assert policy_at("embedded:base").temperature == 1.0
    assert policy_at("embedded:edit-solve").temperature == 0.8
    assert policy_at("embedded:edit-solve", temperature=1.0).temperature == 1.0
    assert policy_at("embedded:edit-solve?temperature=1.3", temperature=0.5).temperature == 1.3
    assert policy_at("scripted:mutate").temperature == 1.0
    folder = tmp_path / "model"
    shutil.copytree(checkpoint_path("edit-solve"), folder)
    (folder / "generation_config.json").unlink()  # a checkpoint need not have one
    assert policy_at(str(folder)).temperature == 1.0


def test_a_checkpoint_says_how_many_answers_it_was_trained_to_give_and_a_hub_is_not_asked(tmp_path):
    shipped = {name: trained_answers(parse_address(f"embedded:{name}")) for name in ("base", "grpo", "vpo")}
    assert shipped == {"base": None, "grpo": 1, "vpo": 3}
    assert trained_answers(parse_address(str(tmp_path))) is None
    (tmp_path / TRAINED).write_text(json.dumps({"method": "vpo", "answers": 5}))
    for name in (f"{tmp_path}", f"vllm:{tmp_path}?temperature=0.5", f"vllm:{tmp_path}@http://host:8000"):
        assert trained_answers(parse_address(name)) == 5
    assert trained_answers(parse_address("vllm:embedded:vpo")) == 3
    assert trained_answers(parse_address("somebody/some-model")) is None


@pytest.mark.parametrize("text", ["{", '{"answers": "three"}', '{"answers": 0}', "[]"])
def test_a_file_that_cannot_be_is_one_line(tmp_path, text):
    (tmp_path / TRAINED).write_text(text)
    with pytest.raises(BadAddress) as caught:
        trained_answers(parse_address(str(tmp_path)))
    assert "\n" not in str(caught.value)
