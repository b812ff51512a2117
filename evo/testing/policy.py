"""The contract of a policy (vpo.policies.contract), as tests that pytest collects from a subclass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from problems.types import Prompt, Rollout
from vpo.policies.contract import Policy, PolicyUnavailable, TrainablePolicy
from vpo.policies.prompt_formats import is_known

_T = TypeVar("_T")
PolicyT = TypeVar("PolicyT", bound=Policy)

PROGRAM = "def f(x):\n    return x * 2 + 1\n"
PROMPTS = tuple(
    Prompt(
        f"# Current program\n```python\n{PROGRAM}```\n{'Make it shorter. ' * i}", "Be brief." * (i % 2), stream=100 + i
    )
    for i in range(7)
)


class PolicyContract:
    """Subclass it and define how to open a fresh policy; the suite closes it.

    prompts: more than two, no two alike in user and stream
    seeded: False if a seed does not give the same rollouts again (most servers)
    varied: False if rollouts do not depend on seed, stream and place (a policy that repeats its input)
    """

    prompts: Sequence[Prompt] = PROMPTS
    seeded = True
    varied = True

    def open_policy(self) -> Policy:
        raise NotImplementedError

    def sample(
        self, prompts: Sequence[Prompt], *, rollouts: int = 3, answers: int = 1, seed: int = 5
    ) -> list[list[Rollout]]:
        """With a separate policy."""
        asked = {"rollouts": rollouts, "answers": answers, "seed": seed}
        return use(self.open_policy, lambda policy: policy.sample(prompts, **asked))

    def test_it_says_what_it_is(self) -> None:
        async def look(policy: Policy) -> None:
            assert isinstance(policy, Policy), "a member of the contract is missing"
            assert policy.version and is_known(policy.prompt_format)
            assert policy.temperature >= 0.0 and policy.batch >= 0
            assert policy.max_tokens is None or policy.max_tokens >= 1

        use(self.open_policy, look)

    def test_it_closes_twice(self) -> None:
        use(self.open_policy, lambda policy: policy.close())

    def test_nothing_asked_is_nothing_sampled(self) -> None:
        assert self.sample([]) == []

    def test_one_list_per_prompt_of_as_many_rollouts_as_asked(self) -> None:
        async def ask(policy: Policy) -> tuple[bool, list[list[Rollout]]]:
            return policy.traits.logprobs, await policy.sample(self.prompts, rollouts=3, answers=2, seed=5)

        has_logprobs, groups = use(self.open_policy, ask)
        assert [len(group) for group in groups] == [3] * len(self.prompts)
        for rollout in (rollout for group in groups for rollout in group):
            assert isinstance(rollout.text, str) and rollout.finish in ("stop", "length")
            assert rollout.token_ids.dtype == np.int32 and rollout.prompt_ids.dtype == np.int32
            assert rollout.logprobs.dtype == np.float32
            if has_logprobs:
                assert len(rollout.token_ids) and len(rollout.prompt_ids), "nothing here can be learned from"
                assert rollout.logprobs.shape == rollout.token_ids.shape
                assert np.isfinite(rollout.logprobs).all() and (rollout.logprobs <= 0).all()

    def test_one_seed_and_stream_sample_alike(self) -> None:
        if self.seeded:
            prompts = [self.prompts[2], *self.prompts]
            first, *others = samples(self.sample(prompts))
            assert first == others[2] and others == samples(self.sample(self.prompts))

    def test_a_rollout_does_not_depend_on_what_shares_its_call(self) -> None:
        if not self.seeded:
            return
        together = samples(self.sample(self.prompts, rollouts=4))
        assert samples(self.sample(self.prompts[:1], rollouts=2))[0] == together[0][:2]
        assert samples(self.sample(self.prompts[::-1], rollouts=4))[::-1] == together

    def test_seed_stream_and_place_in_the_group_each_change_the_sample(self) -> None:
        if not (self.seeded and self.varied):
            return
        prompt = self.prompts[-1]
        moved = Prompt(prompt.user, prompt.system, stream=prompt.stream + 1)
        (base,) = samples(self.sample([prompt], rollouts=2))
        assert base[0] != base[1]
        assert [base] != samples(self.sample([moved], rollouts=2))
        assert [base] != samples(self.sample([prompt], rollouts=2, seed=6))


class TrainablePolicyContract(PolicyContract):
    """For a policy that a trainer may train while it searches."""

    def open_policy(self) -> TrainablePolicy:
        raise NotImplementedError

    def test_it_can_be_trained(self) -> None:
        async def look(policy: TrainablePolicy) -> None:
            assert isinstance(policy, TrainablePolicy) and policy.traits.logprobs
            ids = policy.encode(self.prompts[0])
            assert ids.dtype == np.int32 and 0 < len(ids) < policy.context

        use(self.open_policy, look)

    def test_work_between_samples_gives_its_result_and_its_error(self) -> None:
        def fail() -> None:
            raise KeyError("ours")

        async def work(policy: TrainablePolicy) -> None:
            assert await policy.between(lambda: 7) == 7
            try:
                await policy.between(fail)
            except KeyError:
                return
            raise AssertionError("an error of the work is lost")

        use(self.open_policy, work)

    def test_its_log_probabilities_are_those_it_sampled_with(self) -> None:
        async def ask(policy: TrainablePolicy) -> float:
            groups = await policy.sample(self.prompts[:1], rollouts=2, answers=1, seed=5)
            pairs = zip(await policy.logprobs(groups[0]), groups[0], strict=True)
            return max(float(np.abs(a - r.logprobs).max()) for a, r in pairs)

        assert use(self.open_policy, ask) < 0.25, "nats; bfloat16 rounds that far"

    def test_new_weights_change_what_is_sampled_and_the_version(self) -> None:
        async def ask(policy: TrainablePolicy) -> None:
            (before,) = await policy.sample(self.prompts[:1], rollouts=2, answers=1, seed=5)
            old = await policy.logprobs(before)
            await _change_weights(policy, "changed")
            assert policy.version == "changed"
            new = await policy.logprobs(before)
            assert max(float(np.abs(a - b).max()) for a, b in zip(old, new, strict=True)) > 1e-3

        use(self.open_policy, ask)

    def test_foreign_weights_are_refused_and_the_old_ones_stay(self) -> None:
        async def ask(policy: TrainablePolicy) -> None:
            version = policy.version
            try:
                await policy.update({}, "none")
            except (ValueError, PolicyUnavailable):
                assert policy.version == version
                await policy.sample(self.prompts[:1], rollouts=1, answers=1, seed=5)
                return
            raise AssertionError("weights of another model were taken")

        use(self.open_policy, ask)


def use(open_policy: Callable[[], PolicyT], work: Callable[[PolicyT], Coroutine[Any, Any, _T]]) -> _T:
    """`work` with a fresh policy, which is closed after it."""

    async def run() -> _T:
        policy = open_policy()
        try:
            return await work(policy)
        finally:
            await policy.close()

    return asyncio.run(run())


def samples(groups: list[list[Rollout]]) -> list[list[tuple[str, bytes]]]:
    """Text and token ids of each rollout."""
    return [[(rollout.text, rollout.token_ids.tobytes()) for rollout in group] for group in groups]


async def _change_weights(policy: TrainablePolicy, version: str) -> None:
    """Halve the weights, or add an adapter."""
    model = policy.learner()
    if policy.traits.weights == "model":
        await policy.update({name: tensor * 0.5 for name, tensor in model.state_dict().items()}, version)
        return
    from vpo.training.config import LoraSettings
    from vpo.training.model import save_adapter, with_adapter

    adapted = with_adapter(model, LoraSettings(lora_rank=4), seed=0)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            weight.data.fill_(0.1)
    with TemporaryDirectory() as folder:
        save_adapter(adapted, Path(folder) / "adapter")
        await policy.update(Path(folder) / "adapter", version)
