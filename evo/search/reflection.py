"""Reflections in a search: a policy writes what a parent lacks, once for each parent that a prompt shows.

A reflection is sampled when a candidate is first chosen as a parent and not when it is stored: most candidates never
become parents. The prompt that needs it waits for it; later prompts find it in the run's record. Only the order of
proposals decides which prompt samples it, and only that prompt's place in the run decides the reply, so one seed gives
one run. It is stored with that prompt's group: a resumed run does not repeat stored reflections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from evo.config.run import RunConfig
from evo.prompts.reflection import ask_reflection, read_reflection
from evo.search.batching import Batcher
from evo.search.iteration import STREAMS_PER_PROBLEM, Choice, Proposal
from evo.search.sampler import Sampler
from islands.types import Candidate
from problems.types import Prompt, Reflection, prompt_tokens
from vpo.policies.address import parse_address
from vpo.policies.contract import Policy, PromptTooLong

REFLECTION_TOKENS = 96
"""Tokens of a reflection, if neither the user nor the policy's address says how many."""
STREAMS = STREAMS_PER_PROBLEM // 2
"""The second half of a problem's block of random streams is for reflections."""


class Reflector:
    """Turns choices into proposals whose prompts show reflections on their parents.

    policy: the policy that reflects; None for no reflections
    known: the reflections on record already, by candidate id
    most: tokens of a reflection
    """

    def __init__(self, policy: Policy | None, config: RunConfig, known: Mapping[int, str]) -> None:
        self.policy, self.config = policy, config
        self.sampler: Sampler | None = None
        self.most = config.feedback.max_new_tokens or REFLECTION_TOKENS
        if config.feedback.policy is not None and config.feedback.max_new_tokens is None:
            named = parse_address(config.feedback.policy).common.max_tokens
            room = max(REFLECTION_TOKENS, policy.traits.room if policy is not None else 0)
            self.most = named or room
        self._known = dict(known)
        self._asked: dict[int, asyncio.Task[Reflection]] = {}

    def open(self) -> list[Sampler]:
        """Begin, on the search's event loop; the samplers for the search to pause and to close."""
        if self.policy is not None:
            # a call a prompt: which prompts would share one depends on when groups are committed
            self.sampler = Batcher(self.policy, 1, 1, self.config.seed, 0)
        return [self.sampler] if self.sampler is not None else []

    def propose(self, choice: Choice) -> Proposal | asyncio.Task[Proposal]:
        """The proposal, at once if it waits for no reflection. To be called in the order of the choices."""
        parent = choice.parent
        if self.sampler is None or parent is None or self._is_done(choice, parent):
            return choice.ask()
        if parent.id in self._known:
            return choice.ask(self._known[parent.id])
        first = parent.id not in self._asked
        if first:
            prompt = ask_reflection(
                choice.problem_run.problem,
                parent,
                self.config.prompt,
                choice.stream + STREAMS,
                self.most,
            )
            self._asked[parent.id] = asyncio.create_task(self._ask(parent.id, prompt, self.sampler))
        return asyncio.create_task(self._wait(choice, self._asked[parent.id], first))

    async def _ask(self, candidate: int, prompt: Prompt, sampler: Sampler) -> Reflection:
        try:
            (rollout,), version, _ = await sampler.submit(prompt)
        except PromptTooLong:
            assert self.policy is not None
            return Reflection(candidate, "", self.policy.version, 0, 0)
        cost = rollout.usage.cost if rollout.usage is not None else 0.0
        text = read_reflection(rollout.text)
        return Reflection(candidate, text, version, rollout.tokens, prompt_tokens([rollout]), cost)

    async def _wait(self, choice: Choice, asked: asyncio.Task[Reflection], first: bool) -> Proposal:
        reflection = await asyncio.shield(asked)  # several may wait for it
        self._known[reflection.candidate] = reflection.text
        return choice.ask(reflection.text, reflection if first else None)

    @staticmethod
    def _is_done(choice: Choice, parent: Candidate) -> bool:
        """Whether the parent solves its problem already."""
        target = choice.problem_run.problem.target
        return parent.error is None and target is not None and parent.fitness >= target
