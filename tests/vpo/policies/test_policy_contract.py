"""What every policy keeps, run on all of them (vpo/policies/contract.py)."""

from __future__ import annotations

import pytest

from evo.testing import PolicyContract, TrainablePolicyContract
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.policies.registry import policy_at


class TestPolicies(PolicyContract):
    @pytest.fixture(autouse=True)
    def _named(self, address: str) -> None:
        self.address = address
        self.varied = "echo" not in address and "fixed" not in address

    def open_policy(self) -> Policy:
        return policy_at(self.address, threads=1, max_tokens=24)


class TestTrainablePolicies(TrainablePolicyContract):
    @pytest.fixture(
        autouse=True,
        params=["llama", "embedded:base", "vllm_url", pytest.param("real_vllm_url", marks=pytest.mark.long)],
    )
    def _named(self, request: pytest.FixtureRequest) -> None:
        self.address = request.param if ":" in request.param else str(request.getfixturevalue(request.param))

    def open_policy(self) -> TrainablePolicy:
        few = 4 if self.address.startswith("vllm:") else 24  # that server samples without a cache
        policy = policy_at(self.address, threads=1, max_tokens=few)
        assert isinstance(policy, TrainablePolicy)
        return policy
