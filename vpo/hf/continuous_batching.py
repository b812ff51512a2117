"""Sampling in rounds: a transformers model that takes in new prompts while others decode.

A round is a few steps of one batch. Between two rounds, rows that have ended leave and prompts that are due join, so no
row waits for the longest of its batch and no straggler decodes alone. Rounds are numbered, and the taker decides which
round a prompt joins: if that decision does not depend on timing, neither do the batches. Streams of one policy, and its
calls, take turns round by round.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from problems.types import Prompt, Rollout
from vpo.hf.decode import Ask, Decoding, DrawnTokens, Settings, Stopped, StopSignal
from vpo.policies.contract import PolicyUnavailable, PromptTooLong

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Take = Callable[[int], Sequence[tuple[int, Prompt]] | None]
"""Round -> the prompts that join in it, with the taker's numbers; None to let the stream sleep until woken."""
Outcome = tuple[int, list[Rollout] | Exception]
Deliver = Callable[[int, list[Outcome]], None]
"""Round, and the groups that ended in it by their numbers. Both are called in the policy's worker."""

_ROUNDS = 16
"""Rounds that the longest rollout takes: shorter ones refill sooner, longer ones prefill and copy less often."""
_LEAST_STEPS = 4


class StreamedPolicy(Protocol):
    """A stream's view of its policy (vpo.hf.policy.TransformersPolicy). All but `soon` runs in the worker."""

    model: PreTrainedModel
    version: str

    def soon(self, work: Callable[[], None]) -> None: ...
    def limit(self, answers: int) -> int: ...
    def asks(self, prompt: Prompt, rollouts: int, limit: int) -> list[Ask]: ...
    def either(self, cancelled: threading.Event) -> StopSignal: ...
    def settings(self) -> Settings: ...
    def shrink(self, error: FloatingPointError | RuntimeError, rows: int) -> None: ...
    def rollout(self, ask: Ask, drawn: DrawnTokens) -> Rollout: ...


class _Group:
    """A prompt group in flight. begun: how many of its rows have joined the batch."""

    def __init__(self, number: int, asks: list[Ask]) -> None:
        self.number, self.asks = number, asks
        self.clear()

    def clear(self) -> None:
        self.drawn: list[DrawnTokens | None] = [None] * len(self.asks)
        self.missing, self.begun = len(self.asks), 0


class RoundStream:
    """One sampling of a policy: G rollouts of each prompt, one seed. Asleep until `wake`."""

    def __init__(
        self, policy: StreamedPolicy, *, rollouts: int, answers: int, seed: int, take: Take, deliver: Deliver
    ) -> None:
        self._policy, self._rollouts, self._answers, self._seed = policy, rollouts, answers, seed
        self._take, self._deliver = take, deliver
        self._closed = threading.Event()
        self._round = 0
        self._decoding: Decoding | None = None
        self._waiting: deque[_Group] = deque()
        self._under_way: dict[int, _Group] = {}
        self._places: dict[int, tuple[_Group, int]] = {}  # a row's number in the batch -> its group and place

    def wake(self) -> None:
        """Continue with the next round. Call it once for every time that the taker returned None."""
        self._policy.soon(self._go)

    def close(self) -> None:
        """End at the next step; nothing is delivered any more."""
        self._closed.set()

    def _go(self) -> None:
        if self._closed.is_set():
            return
        due = self._take(self._round)
        if due is None:
            return
        try:
            outcomes = self._one_round(due)
        except Exception as error:
            if isinstance(error, Stopped):
                if self._closed.is_set():
                    return
                error = PolicyUnavailable(f"{self._policy.version} was closed while it sampled")
            held = [group.number for group in (*self._under_way.values(), *self._waiting)]
            outcomes = [(number, error) for number in dict.fromkeys([*(number for number, _ in due), *held])]
            self._forget()
            self._waiting.clear()
        self._round += 1
        self._deliver(self._round - 1, outcomes)
        self._policy.soon(self._go)

    def _one_round(self, due: Sequence[tuple[int, Prompt]]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        limit = self._policy.limit(self._answers)
        for number, prompt in due:
            try:
                self._waiting.append(_Group(number, self._policy.asks(prompt, self._rollouts, limit)))
            except PromptTooLong as error:
                outcomes.append((number, error))
        while self._waiting or self._under_way:
            try:
                self._admit()
                assert self._decoding is not None
                ended = self._decoding.run(max(_LEAST_STEPS, limit // _ROUNDS), self._policy.either(self._closed))
                break
            except (RuntimeError, FloatingPointError) as error:
                self._policy.shrink(error, max(len(self._places), self._rollouts))
            # Again with fewer rows: a row's draws do not depend on the others
            groups = {group.number: group for group in (*self._under_way.values(), *self._waiting)}
            self._forget()
            self._waiting = deque(groups.values())
        else:
            return outcomes
        for number, drawn in ended:
            group, place = self._places.pop(number)
            group.drawn[place] = drawn
            group.missing -= 1
            if not group.missing:
                del self._under_way[group.number]
                pairs = zip(group.asks, group.drawn, strict=True)
                outcomes.append(
                    (group.number, [self._policy.rollout(ask, tokens) for ask, tokens in pairs if tokens is not None])
                )
        return outcomes

    def _forget(self) -> None:
        for group in self._under_way.values():
            group.clear()
        self._under_way, self._places, self._decoding = {}, {}, None

    def _admit(self) -> None:
        """Let groups join in order of arrival, as far as rows and memory allow. A group too large for an empty batch
        joins in parts."""
        if not self._waiting:
            return
        settings = self._policy.settings()
        if self._decoding is None:
            self._decoding = Decoding(self._policy.model, self._seed, settings)
        there, joining = len(self._decoding), list[tuple[_Group, int]]()
        columns = max((columns_needed(group) for group, _ in self._places.values()), default=0)
        prompts = longest = 0
        cells = settings.cells + self._decoding.cells
        while self._waiting:
            group = self._waiting[0]
            columns, longest = max(columns, columns_needed(group)), max(longest, len(group.asks[0].prompt))
            room = min(settings.rows, cells // columns) - there - len(joining)
            crowded = prompts and longest * (prompts + 1) > settings.prompt_cells
            rows = len(group.asks) - group.begun
            if crowded or (rows > room and (there or joining)):
                break
            rows = min(rows, max(1, room))
            joining += [(group, place) for place in range(group.begun, group.begun + rows)]
            group.begun, prompts = group.begun + rows, prompts + 1
            self._under_way[group.number] = group
            if group.begun < len(group.asks):
                break
            self._waiting.popleft()
        if joining:
            first = self._decoding.join([group.asks[place] for group, place in joining])
            self._places.update(enumerate(joining, first))


def columns_needed(group: _Group) -> int:
    """Columns that a row of the group may need in the end."""
    return len(group.asks[0].prompt) + group.asks[0].limit
