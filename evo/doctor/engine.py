"""The engines: does a policy answer, and with log-probabilities that it can be trained on?"""

from __future__ import annotations

import asyncio
import time
import warnings

import numpy as np

from evo.config.run import PromptConfig
from evo.doctor.line import DoctorLine, fail, ok, warn
from evo.errors import BadInput
from evo.prompts.registry import open_format
from islands.types import NOTHING_SHOWN
from problems.contract import BadAddress
from problems.registry import resolve
from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, PolicyUnavailable
from vpo.policies.prompt_formats import is_token_format
from vpo.policies.registry import load_policy

TOKENS = 8
TOKENS_OF_THOUGHT = 4096
"""For a model on a server that says nothing within TOKENS: it may reason first."""
TEMPERATURE = 0.7
"""Not 1: a server whose log-probabilities leave the temperature out shows only so."""
ASKED = "Count to three."
NO_LOGPROBS = (
    "start vLLM with --logprobs-mode processed_logprobs; this one can search; training takes its runs as traces"
)
NONE_TO_HAVE = "this server gives none: it can search, not train; to train, serve open weights with vLLM"
ONLY_REASONING = "let it think less (?thinking=off or ?reasoning_effort=low), or give it more tokens (--max-new-tokens)"
NOTHING = "send the server a request by hand; if that is empty too, the model or its chat template is at fault"


def check_engine(address: str) -> DoctorLine:
    """Load the policy at an address and let it answer once."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their message goes into the line
        try:
            policy = load_policy(address, temperature=TEMPERATURE, max_tokens=TOKENS)
        except BadAddress as error:
            return fail("engine", f"{address}: {error}", "start the server or mend the address (evo run --help)")
        loaded = time.perf_counter() - began
        try:
            rollout = asyncio.run(_ask(policy))
        except (PolicyUnavailable, BadInput) as error:
            return fail("engine", f"{address}: {error}", "look at the engine's log")
    message = f"{address}: ready in {loaded:.1f} s, answered {rollout.tokens} tokens in "
    message += f"{time.perf_counter() - began - loaded:.2f} s"
    if not rollout.text.strip() and not len(rollout.token_ids) and policy.traits.remote:
        reply = "only reasoning" if rollout.reasoned else "an empty reply"
        remedy = ONLY_REASONING if rollout.reasoned else NOTHING
        return fail("engine", f"{address}: {reply} to a simple question, {rollout.tokens} tokens", remedy)
    if address.startswith("scripted:"):
        return ok("engine", f"{message}; no model, so nothing to train")
    if not policy.traits.logprobs or not len(rollout.logprobs):
        remedy = NO_LOGPROBS if policy.traits.prefill or not policy.traits.remote else NONE_TO_HAVE
        return warn("engine", f"{message}, without log-probabilities of its samples", remedy)
    if len(rollout.logprobs) != len(rollout.token_ids) or not _sound(rollout):
        return fail(
            "engine", f"{message}; its log-probabilities are none", "upgrade the engine; nothing here can mend it"
        )
    return ok("engine", f"{message}, with log-probabilities")


def _sound(rollout: Rollout) -> bool:
    return bool(np.all(np.isfinite(rollout.logprobs)) and np.all(rollout.logprobs <= 1e-3))


async def _ask(policy: Policy) -> Rollout:
    try:
        prompt = _prompt(policy.prompt_format)
        ((rollout,),) = await policy.sample([prompt], rollouts=1, answers=1, seed=0)
        if not rollout.text.strip() and policy.traits.remote:
            policy.max_tokens = TOKENS_OF_THOUGHT
            ((rollout,),) = await policy.sample([prompt], rollouts=1, answers=1, seed=0)
        return rollout
    finally:
        await policy.close()


def _prompt(prompt_format: str) -> Prompt:
    if not is_token_format(prompt_format):
        return Prompt(ASKED)
    from vpo.embedded.dialects import open_dialect

    (problem,) = resolve(open_dialect(prompt_format).example)
    return open_format(problem, prompt_format, PromptConfig(), 1).build(NOTHING_SHOWN, 0)
