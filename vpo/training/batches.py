"""Cutting a batch into micro-batches by a budget of tokens. Gradients add up, so the cut changes nothing but memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vpo.training.examples import ExampleGroup


def micro_batches(
    groups: Sequence[ExampleGroup], token_weights: Sequence[Sequence[float]], budget: int
) -> list[list[tuple[ExampleGroup, Sequence[float]]]]:
    """Groups with their rollouts' token weights, in batches of at most `budget` padded tokens; a group that is larger
    alone is split over its rollouts, each part with the prompt. A single rollout that is larger stands alone.

    Groups of like length go together, so that little of a batch is padding.
    """
    parts = [
        part for group, weights in zip(groups, token_weights, strict=True) for part in _split(group, weights, budget)
    ]
    parts.sort(key=lambda part: (_longest(part[0]), len(part[0].prompt_ids)))
    batches: list[list[tuple[ExampleGroup, Sequence[float]]]] = []
    for part in parts:
        if batches and _cost([*(group for group, _ in batches[-1]), part[0]]) <= budget:
            batches[-1].append(part)
        else:
            batches.append([part])
    return batches


def _split(group: ExampleGroup, weights: Sequence[float], budget: int) -> list[tuple[ExampleGroup, Sequence[float]]]:
    rows = max(1, (budget - len(group.prompt_ids)) // _longest(group))
    return [
        (replace(group, examples=group.examples[i : i + rows]), weights[i : i + rows])
        for i in range(0, len(group.examples), rows)
    ]


def _longest(group: ExampleGroup) -> int:
    return max(len(example.token_ids) for example in group.examples)


def _cost(groups: Sequence[ExampleGroup]) -> int:
    """Padded tokens that the model computes: each prompt once, each completion."""
    rows = sum(len(group.examples) for group in groups)
    return len(groups) * max(len(group.prompt_ids) for group in groups) + rows * max(map(_longest, groups))
