"""VPO and its baselines inside veRL: a reward function and advantage estimators, and nothing of veRL changed.

    VERL_USE_EXTERNAL_MODULES=vpo.verl python -m verl.trainer.main_ppo algorithm.adv_estimator=vpo \\
        reward.custom_reward_function.path=reward.py ...     # reward.py: compute_score = vpo.verl.make_reward("vpo")

veRL's estimators see one number a rollout (token-level rewards), so the work is in two halves that the method's name
ties together: `make_reward` turns a rollout's chain of reward vectors into that number, and the estimator registered
under the same name makes advantages of a group's numbers (the rows of one `uid`). Together they are vpo.advantage's
table, number by number, with these differences:
- the weights of a group are drawn from (seed, the row's `extra_info["index"]`): all rollouts of a row share them, as
  they must, and every epoch has the same ones;
- veRL has gdpo itself; per_answer and archive_vpo need what veRL does not pass on;
- a KL term in the reward (`algorithm.use_kl_in_reward`) is added to the number before the group is compared.
`vpo` names VPO; the others are `vpo_grpo`, `vpo_maxrl` and so on, since veRL has estimators of some of these names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from problems.contract import Problem, Score
from problems.registry import resolve
from problems.types import ScoredAnswer
from vpo.advantage import METHODS, ONLY_HERE, Scale, advantages, normalise
from vpo.chain import parse as parse_chain
from vpo.group_rewards import GroupRewards
from vpo.scalarize import Floats, Sampler, dirichlet_weights, set_rewards
from vpo.scored_text import as_score, score_answers

ESTIMATORS = tuple(name for name in METHODS if name not in ("gdpo", "per_answer", *ONLY_HERE))
"""Methods whose advantages are made of one number a rollout."""
CHAIN_LIMIT = 3


def make_reward(
    method: str = "vpo",
    *,
    score: Callable[[Any, str], Sequence[float] | Score] | None = None,
    answers: int | None = None,
    scalar: Sequence[float] | None = None,
    answer_format: str = "text",
    parse: Callable[[str], Sequence[str]] | None = None,
    weights: int = 100,
    alpha: float = 1.0,
    sampler: Sampler = "sobol",
    seed: int = 0,
) -> Callable[..., dict[str, float]]:
    """A `compute_score` for veRL's reward managers.

    score: (ground_truth, answer) -> the answer's reward vector or Score; None = `ground_truth` is a problem's address
        (`programs:FILE.jsonl/3`), which scores in its sandbox and gives the answer format
    answers: m, the most answers a completion may hold; None = 3 for the methods of chains, else 1
    scalar, answer_format, parse, weights, alpha, sampler: as in vpo.trl.VPOTrainer (there `samples` for `weights`)
    Raises ValueError for a method that veRL does not support.
    """
    if method not in ESTIMATORS:
        raise ValueError(f"no method {method!r} for veRL; there is {', '.join(ESTIMATORS)}")
    most = answers or (CHAIN_LIMIT if METHODS[method].chain else 1)
    if most > 1 and not METHODS[method].chain:
        raise ValueError(f"{method} learns from single answers: answers must be 1, not {most}")

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **_: Any
    ) -> dict[str, float]:
        kind = answer_format if score is not None else problem_at(str(ground_truth)).answer_format
        texts = parse(solution_str) if parse else parse_chain(solution_str, kind, most).answers

        def judge(answer: str) -> Score:
            given = problem_at(str(ground_truth)).score(answer) if score is None else score(ground_truth, answer)
            return as_score(given, answer, scalar)

        scored = score_answers(texts, judge, kind, most)
        place = int((extra_info or {}).get("index", 0))
        value = rollout_reward(method, scored, place, weights=weights, alpha=alpha, sampler=sampler, seed=seed)
        best = max((read.score.fitness for read in scored), default=0.0)
        return {"score": value, "fitness": best, "answers": float(len(scored))}

    return compute_score


def rollout_reward(
    method: str,
    scored: Sequence[ScoredAnswer],
    place: int,
    *,
    weights: int = 100,
    alpha: float = 1.0,
    sampler: Sampler = "sobol",
    seed: int = 0,
) -> float:
    """The one number of a rollout that the method's estimator compares within its group.

    place: of the row in the data, which fixes the weights with the seed as a group's place in a run does
    """
    if not scored:
        return 0.0
    if METHODS[method].scalar:
        fitness = [answer.score.fitness for answer in scored]
        return float(sum(fitness) if METHODS[method].chain else fitness[0])
    vectors = np.asarray([answer.score.rewards for answer in scored], dtype=np.float64)  # (m, d)
    rng = np.random.default_rng([seed, 0, place])
    drawn = dirichlet_weights(weights, vectors.shape[1], alpha=alpha, seed=rng, sampler=sampler)
    if method == "random_weighting":
        return float(vectors[0] @ rng.dirichlet(np.ones(vectors.shape[1])))
    return float(set_rewards(vectors[None], np.ones((1, len(vectors)), dtype=bool), drawn)[0])


def estimate(
    method: str,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: npt.NDArray[Any] | Sequence[Any],
    *,
    scale: Scale = "official",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns, (N, T) each and alike, as veRL's estimators of outcomes give them.

    token_level_rewards, response_mask: (N, T); index: (N,), rows of one value are a group
    """
    numbers = token_level_rewards.detach().sum(-1).double().cpu().numpy()
    made = np.zeros(len(numbers))
    index = np.asarray(index)
    for group in dict.fromkeys(index.tolist()):
        rows = np.flatnonzero(index == group)
        made[rows] = _of_group(method, numbers[rows], scale)
    advantages_ = torch.from_numpy(made).to(token_level_rewards)[:, None] * response_mask
    return advantages_, advantages_


def _of_group(method: str, numbers: Floats, scale: Scale) -> Floats:
    if method == "vpo":  # its number is the set's reward already
        return normalise(numbers)
    # one answer, one objective: random_weighting's taste and multi_rlvr's sum are in the number
    return advantages(method, GroupRewards.of(numbers[:, None, None]), scale)


@cache
def problem_at(address: str) -> Problem:
    """The one problem of an address, opened once a process."""
    return resolve(address)[0]


def register() -> tuple[str, ...]:
    """Enter the estimators into veRL's table and return their names. Safe to call twice. Raises ImportError."""
    try:
        from verl.trainer.ppo.core_algos import register_adv_est
    except ImportError as error:
        raise ImportError('vpo.verl.register needs veRL: pip install "evo-search[verl]"') from error
    for method in ESTIMATORS:
        register_adv_est(name_of(method))(_estimator(method))
    return tuple(map(name_of, ESTIMATORS))


def name_of(method: str) -> str:
    """The name of a method in veRL's table."""
    return method if method == "vpo" else f"vpo_{method}"


def _register_where_asked() -> None:
    """veRL imports the modules of VERL_USE_EXTERNAL_MODULES itself, in every one of its processes."""
    if "vpo.verl" in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(","):
        register()


@cache
def _estimator(method: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def compute(
        token_level_rewards: torch.Tensor,
        response_mask: torch.Tensor,
        index: npt.NDArray[Any],
        config: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            return estimate(method, token_level_rewards, response_mask, index)

    return compute


_register_where_asked()
