"""One reading of an address: its kind, its model, and options that mean the same everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from evo.config.run import RunConfig
from evo.search.resources import Resources
from problems.contract import BadAddress
from problems.registry import resolve
from problems.types import Prompt
from vpo.policies.address import ENTRY_POINTS, PolicyAddress, PolicySettings, parse_address, parse_addresses
from vpo.policies.generators import echo
from vpo.policies.registry import load_policy
from vpo.policies.scripted import ScriptedPolicy


@pytest.mark.parametrize(
    ("text", "kind", "model", "options"),
    [
        ("embedded:base", "embedded", "base", ()),
        ("Qwen/Qwen2.5", "transformers", "Qwen/Qwen2.5", ()),
        ("./dir?temperature=0.5", "transformers", "./dir", (("temperature", "0.5"),)),
        ("vllm:embedded:vpo?context=512", "vllm", "embedded:vpo", (("context", "512"),)),
        ("openai:m@http://h:80/v1?n=off&rpm=2", "openai", "m@http://h:80/v1", (("n", "off"), ("rpm", "2"))),
        ("scripted:fixed=a.txt", "scripted", "fixed=a.txt", ()),
        ("embeded:base", "transformers", "embeded:base", ()),
    ],
)
def test_an_address_is_taken_apart(text: str, kind: str, model: str, options: tuple[tuple[str, str], ...]) -> None:
    address = parse_address(text)
    assert (address.kind, address.model, address.options) == (kind, model, options)
    assert str(address) == text


def test_the_name_of_an_arm_is_the_last_part_of_its_address() -> None:
    names = {"embedded:vpo": "vpo", "openai:a/m@http://h:80/v1?n=off": "m", "./runs/vpo/": "vpo", "vllm:a/b?x=1": "b"}
    assert {text: parse_address(text).short_name for text in names} == names


@pytest.mark.parametrize("plain", ["embedded:base", "scripted:mutate", "{checkpoint}"])
def test_common_options_set_every_kind_of_policy(plain: str, llama) -> None:
    plain = plain.format(checkpoint=llama)
    policy = load_policy(f"{plain}?temperature=0.25&batch=3", temperature=1.0)
    try:
        assert (policy.temperature, policy.batch) == (0.25, 3)
        assert "?" not in policy.version
    finally:
        asyncio.run(policy.close())


@pytest.mark.parametrize("option", ["temperature=-1", "top_p=2", "max_tokens=0", "prefill=2", "threads=none"])
@pytest.mark.parametrize("plain", ["embedded:base", "scripted:mutate", "vllm:some/model", "openai:m@http://h"])
def test_a_wrong_common_option_is_one_line_for_every_kind(plain: str, option: str) -> None:
    with pytest.raises(BadAddress, match=f"option {option.partition('=')[0]}") as caught:
        load_policy(f"{plain}?{option}")
    assert "\n" not in str(caught.value)


def test_options_of_a_lone_policy_and_of_operators_mean_the_same() -> None:
    problems = resolve("maze:test", limit=1)
    asked = "scripted:mutate?temperature=0.5&prefill=0.25"
    for text in (asked, f"{asked},scripted:echo"):
        shared = Resources()
        first = shared.operators(RunConfig(problems=["maze:test"], policy=text, rollouts=2, answers=1), problems)[0]
        assert first.policy.temperature == 0.5 and first.prompt.prefill == 0.25
        asyncio.run(shared.close())


def test_operators_that_differ_in_their_prompts_alone_share_a_policy() -> None:
    problems = resolve("maze:test", limit=1)
    text = "scripted:mutate?prefill=0.25,scripted:mutate,scripted:mutate?temperature=0.5"
    shared = Resources()
    policies = [operator.policy for operator in shared.operators(RunConfig(policy=text), problems)]
    assert policies[0] is policies[1] and policies[0] is not policies[2]
    assert [str(address) for address in parse_addresses(text)] == text.split(",")


def load_parrot(address: PolicyAddress, settings: PolicySettings) -> ScriptedPolicy:
    return ScriptedPolicy(f"parrot-{address.model}", echo, temperature=settings.temperature)


def test_an_installed_package_adds_a_kind(install: Callable[[EntryPoint], None]) -> None:
    install(EntryPoint("parrot", f"{__name__}:load_parrot", ENTRY_POINTS))
    policy = load_policy("parrot:grey?temperature=0.5")
    assert policy.version == "scripted:parrot-grey" and policy.temperature == 0.5
    (group,) = asyncio.run(policy.sample([Prompt("# Answer to improve\nhello")], rollouts=2, answers=1, seed=0))
    assert len(group) == 2


def test_an_entry_point_that_cannot_be_imported_is_named(install: Callable[[EntryPoint], None]) -> None:
    install(EntryPoint("parrot", "no_such_package:load", ENTRY_POINTS))
    with pytest.raises(BadAddress, match="no_such_package:load cannot be loaded"):
        load_policy("parrot:grey")
