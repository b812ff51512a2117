"""Cutting a batch into minibatches, one for each optimiser step, and those into micro-batches by a budget of tokens.
Gradients of micro-batches add up, so that cut changes nothing but memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vpo.training.config import TrainConfig
from vpo.training.examples import ExampleGroup


def minibatches(groups: Sequence[ExampleGroup], config: TrainConfig, step: int) -> list[list[ExampleGroup]]:
    """The groups of each optimiser step: the whole batch, or its minibatches in an order drawn per epoch.

    step: number of the training step, which with config.seed fixes the order
    """
    parts = []
    for epoch in range(config.epochs):
        order = np.arange(len(groups))
        if config.minibatches > 1:
            order = np.random.default_rng([config.seed, step, epoch]).permutation(order)
        parts += [[groups[i] for i in some] for some in np.array_split(order, config.minibatches)]
    # a process without groups takes part with empty hands, since every process must come to every sum
    return parts


def micro_batches(
    groups: Sequence[ExampleGroup],
    token_weights: Sequence[Sequence[float]],
    budget: int,
    *,
    shared: bool = True,
    together: int = 1,
) -> list[list[tuple[ExampleGroup, Sequence[float]]]]:
    """Groups with their rollouts' token weights, in batches of at most `budget` padded tokens; a group that is larger
    alone is split over its rollouts, each part with the prompt. A single rollout that is larger stands alone.

    shared: the prompt is run once a group; else once a rollout, and counts as often
    together: rollouts in a row that are never split: a pair's two
    Groups of like length go together, so that little of a batch is padding.
    """
    parts = [
        part
        for group, weights in zip(groups, token_weights, strict=True)
        for part in _split(group, weights, budget, shared, together)
    ]
    parts.sort(key=lambda part: (_longest(part[0]), len(part[0].prompt_ids)))
    batches: list[list[tuple[ExampleGroup, Sequence[float]]]] = []
    for part in parts:
        if batches and _cost([*(group for group, _ in batches[-1]), part[0]], shared) <= budget:
            batches[-1].append(part)
        else:
            batches.append([part])
    return batches


def _split(
    group: ExampleGroup, weights: Sequence[float], budget: int, shared: bool, together: int
) -> list[tuple[ExampleGroup, Sequence[float]]]:
    prompt, longest = len(group.prompt_ids), _longest(group)
    fitting = (budget - prompt) // longest if shared else budget // (prompt + longest)
    rows = max(together, fitting - fitting % together)
    return [
        (replace(group, examples=group.examples[i : i + rows]), weights[i : i + rows])
        for i in range(0, len(group.examples), rows)
    ]


def _longest(group: ExampleGroup) -> int:
    return max(len(example.token_ids) for example in group.examples)


def _cost(groups: Sequence[ExampleGroup], shared: bool) -> int:
    """Padded tokens that the model computes."""
    rows = sum(len(group.examples) for group in groups)
    prompts = len(groups) if shared else rows
    return prompts * max(len(group.prompt_ids) for group in groups) + rows * max(map(_longest, groups))
