"""What fidelity is, on routes counted by hand and on operators whose fidelity is known."""

import asyncio
import itertools

import numpy as np
import pytest

from evo.testing import PolicyContract
from problems.maze.planner import moves_between
from problems.types import Rollout
from vpo.embedded.fidelity import KINDS, cases, fidelity, of_policy, of_teacher
from vpo.embedded.language import encode_chain
from vpo.embedded.words import DIALECT, EDIT_DIALECT
from vpo.metrics import kept
from vpo.policies.contract import Policy


@pytest.mark.parametrize(
    ("parent", "child", "shares"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], (1.0, 0.0)),
        ([1, 2, 3, 4], [1, 9, 4], (0.25, 0.25)),
        ([1, 2, 3, 4], [1, 2, 8, 9, 3, 4], (0.5, 0.5)),
        ([1, 2, 3, 4], [1, 2], (0.5, 0.0)),
        ([1, 2], [1, 2, 1, 2], (1.0, 0.0)),  # no cell counts twice
        ([1, 2, 3, 4], [7], (0.0, 0.0)),
    ],
)
def test_shares_by_hand(parent, child, shares):
    assert kept(parent, child) == shares


class Writes(Policy):
    """A policy that writes the same answers whatever it is asked: the i-th prompt of a call is given the i-th."""

    version = "writes"

    def __init__(self, dialect, texts):
        self.prompt_format, self.texts, self.prompts = dialect, texts, []

    async def sample(self, prompts, *, rollouts, answers, seed):
        self.prompts += prompts
        empty = np.zeros(0, np.int32)
        return [
            [Rollout(text, empty, np.zeros(0, np.float32), empty)] * rollouts
            for _, text in zip(prompts, itertools.cycle(self.texts), strict=False)
        ]

    async def close(self):
        pass


class TestWrites(PolicyContract):
    varied = False

    def open_policy(self):
        return Writes(DIALECT, ["> R"])


def test_a_copying_policy_keeps_all_and_betters_nothing():
    asked = cases(5)
    copies = Writes(EDIT_DIALECT, [encode_chain([case.parent[:1]])[0] + " =" for case in asked])
    found = asyncio.run(of_policy(copies, asked, answers=1, count=4))
    assert (found.valid, found.beginning, found.end, found.same, found.better) == (1.0, 1.0, 0.0, 1.0, 0.0)
    assert found.fitness == found.parents and found.answers == 20
    assert all("par" in prompt.user and "+" in prompt.user for prompt in copies.prompts)
    # shown no parent, there is nothing that it could copy
    blind = asyncio.run(of_policy(copies, asked, shown=False, answers=1, count=4))
    assert (blind.valid, blind.kept, blind.fitness) == (0.0, 0.0, 0.0)


def test_a_missing_answer_counts_as_none():
    asked = cases(3)
    texts = [" ".join(encode_chain([case.parent])) for case in asked]
    half = asyncio.run(of_policy(Writes(DIALECT, texts), asked, answers=2, count=2))
    assert (half.valid, half.same, half.beginning) == (0.5, 0.5, 1.0)
    assert half.fitness == pytest.approx(half.parents / 2)


def test_better_is_fitter_than_the_parent():
    asked = cases(1)
    (case,) = asked
    from problems.maze.optimum import best_route

    best = best_route(case.problem.maze)
    worse = moves_between(case.problem.maze, case.parent)[:-1]
    found = fidelity(asked, [[best, worse]], 2)
    assert found.better == 0.5 and found.valid == 0.5


def test_there_are_cases_of_each_kind():
    for kind in KINDS[EDIT_DIALECT]:
        asked = cases(2, kind=kind)
        assert [case.problem.name for case in asked] == [f"{kind}/900", f"{kind}/901"]
        found = of_teacher(asked, EDIT_DIALECT)
        assert found.valid == 1.0 and found.kept > 0.4


def test_the_teacher_of_edits_keeps_more_than_the_teacher_of_routes():
    asked = cases(20)
    edits, routes = of_teacher(asked, EDIT_DIALECT), of_teacher(asked, DIALECT)
    assert edits.valid == routes.valid == 1.0
    assert edits.kept > routes.kept + 0.05 and edits.same == 0.0
