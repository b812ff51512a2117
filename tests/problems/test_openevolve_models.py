"""The models of an OpenEvolve config.yaml become the policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems import BadAddress
from problems.openevolve.config import OpenEvolveConfig, read_config
from vpo.policies.address import parse_address, parse_addresses
from vpo.servers.address import endpoint


def read(tmp_path: Path, text: str) -> OpenEvolveConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return read_config(path)


def test_models_with_weights_and_servers_become_an_ensemble(tmp_path, monkeypatch):
    monkeypatch.setenv("PROXY", "http://proxy:4000/v1")
    found = read(
        tmp_path,
        """
llm:
  api_base: https://generativelanguage.googleapis.com/v1beta/openai/
  api_key: ${GEMINI_API_KEY}
  timeout: 90
  max_tokens: 4000
  top_p: 0.95
  temperature: 0.7
  models:
    - {name: gemini-2.5-flash-lite, weight: 0.8}
    - {name: o4-mini, weight: 0.2, api_base: "${PROXY}", api_key: "${OPENAI_API_KEY}", max_tokens: 8192,
       reasoning_effort: high}
    - {name: never, weight: 0}
""",
    )
    first, second = parse_addresses(found.settings["policy"])
    assert (first.common.weight, second.common.weight, second.common.max_tokens) == (0.8, 0.2, 8192)
    flash, mini = endpoint(first), endpoint(second)
    assert (flash.model, flash.url) == (
        "gemini-2.5-flash-lite",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    )
    assert (flash.options.key, flash.options.timeout) == ("GEMINI_API_KEY", 90)
    assert (mini.url, mini.options.key, mini.options.reasoning_effort) == (
        "http://proxy:4000/v1",
        "OPENAI_API_KEY",
        "high",
    )
    assert [found.settings[key] for key in ("max_tokens", "top_p", "temperature")] == [4000, 0.95, 0.7]
    assert found.ignored == ()


def test_primary_and_secondary_model(tmp_path):
    text = "llm: {primary_model: a, primary_model_weight: 3, secondary_model: b, secondary_model_weight: 1}"
    assert [one.common.weight for one in parse_addresses(read(tmp_path, text).settings["policy"])] == [3, 1]
    assert read(tmp_path, "llm: {primary_model: a}").settings["policy"] == "openai:a"
    assert "policy" not in read(tmp_path, "llm: {api_base: http://h}").settings


def test_an_address_as_a_name_stays_one(tmp_path):
    text = "llm: {models: [{name: ./runs/code, provider: evo, temperature: 0.5}]}"
    address = parse_address(read(tmp_path, text).settings["policy"])
    assert (address.kind, address.model, address.common.temperature) == ("transformers", "./runs/code", 0.5)


def test_a_key_that_is_written_out_is_not_used(tmp_path):
    found = read(tmp_path, "llm: {primary_model: a, api_key: sk-something-secret}")
    assert found.ignored == ("llm.api_key",) and "secret" not in found.settings["policy"]
    assert "environment" in found.warning(Path("config.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("llm: {models: some}", "list of models"),
        ("llm: {models: [{weight: 1}]}", "needs a name"),
        ("llm: {primary_model: 5}", "model's name"),
        ("llm: {models: [{name: a, weight: heavy}]}", "weight is 'heavy'"),
        ("llm: {max_tokens: many}", "whole number"),
    ],
)
def test_wrong_models_are_one_line(text, said, tmp_path):
    with pytest.raises(BadAddress, match=said) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
