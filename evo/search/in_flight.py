"""A prompt group on its way from its proposal to its commit, where the prompt may have to wait before it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from evo.search.iteration import Choice, Proposal, score_group
from evo.search.operator_selection import Operator
from evo.search.reflection import Reflector
from evo.search.sampler import Sampled, Sampler
from problems.types import ScoredGroup


@dataclass(frozen=True)
class Submitted:
    """A proposal whose prompt a sampler has taken."""

    proposal: Proposal
    sampled: asyncio.Future[Sampled]


@dataclass
class InFlight:
    """A group: its prompt on the way to a sampler, its scoring behind that."""

    choice: Choice
    submitted: asyncio.Future[Submitted]
    group: asyncio.Task[ScoredGroup]

    @property
    def sampled(self) -> asyncio.Future[Sampled] | None:
        """Of the prompt where a sampler has it."""
        done = self.submitted.done() and not self.submitted.cancelled() and self.submitted.exception() is None
        return self.submitted.result().sampled if done else None

    @property
    def is_sampled(self) -> bool:
        return self.sampled is not None and self.sampled.done()


class Submissions:
    """Hands prompts to samplers in the order of their choices, whatever some of them wait for first: calls of several
    prompts are then made of the same ones in every run."""

    def __init__(self, reflector: Reflector, seed: int) -> None:
        self.reflector, self.seed = reflector, seed
        self._last: asyncio.Future[Submitted] | None = None

    def submit(self, choice: Choice, operator: Operator, sampler: Sampler) -> InFlight:
        """Take a choice on its way; its prompt is handed in at once where neither it nor one before it waits."""
        proposal, before = self.reflector.propose(choice), self._last
        waits = before is not None and not before.done()
        if isinstance(proposal, Proposal) and not waits:
            submitted = asyncio.get_running_loop().create_future()
            submitted.set_result(Submitted(proposal, sampler.submit(proposal.prompt)))
        else:
            submitted = asyncio.create_task(self._hand_in(proposal, before, sampler))
        self._last = submitted
        return InFlight(choice, submitted, asyncio.create_task(self._score(submitted, operator)))

    async def _hand_in(
        self, proposal: Proposal | asyncio.Task[Proposal], before: asyncio.Future[Submitted] | None, sampler: Sampler
    ) -> Submitted:
        try:
            if before is not None:
                await asyncio.wait([before])
            built = proposal if isinstance(proposal, Proposal) else await proposal
        except asyncio.CancelledError:
            if not isinstance(proposal, Proposal):
                proposal.cancel()
            raise
        return Submitted(built, sampler.submit(built.prompt))

    async def _score(self, submitted: asyncio.Future[Submitted], operator: Operator) -> ScoredGroup:
        one = await submitted
        return await score_group(
            one.proposal,
            one.sampled,
            answers=operator.answers,
            seed=self.seed,
            temperature=operator.policy.temperature,
        )


async def wait_for(futures: list[asyncio.Future[Submitted]], seconds: float, report: Callable[[], None]) -> None:
    """Wait until all are done, and report every so many seconds that they are not."""
    while futures and (await asyncio.wait(futures, timeout=seconds))[1]:
        report()
