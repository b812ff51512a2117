"""How a batch is cut into micro-batches."""

from __future__ import annotations

import numpy as np
import pytest

from vpo.training.examples import Example, ExampleGroup
from vpo.training.trainer import micro_batches


def group_of(prompt: int, *lengths: int) -> ExampleGroup:
    rows = (Example(np.full(n, n, np.int32), np.zeros(n, np.float32), np.ones(n, np.float32)) for n in lengths)
    return ExampleGroup(np.zeros(prompt, np.int32), tuple(rows), 1.0)


GROUPS = [group_of(40, 10, 20, 5), group_of(10, 10, 12), group_of(12, 1, 2, 3, 4, 5, 6, 7), group_of(300, 64)]


@pytest.mark.parametrize("budget", [1, 30, 60, 150, 10_000])
def test_every_rollout_stands_once_with_its_prompt(budget: int) -> None:
    batches = micro_batches(GROUPS, budget)

    def rows_of(groups: list[ExampleGroup]) -> list[tuple[int, int]]:
        return sorted((id(example), len(group.prompt_ids)) for group in groups for example in group.examples)

    assert rows_of([group for batch in batches for group in batch]) == rows_of(GROUPS)
    for batch in batches:
        rows = [example for group in batch for example in group.examples]
        prompts = len(batch) * max(len(group.prompt_ids) for group in batch)
        padded = prompts + len(rows) * max(len(example.token_ids) for example in rows)
        assert padded <= budget or len(rows) == 1


def test_a_large_budget_makes_one_batch_and_a_tiny_one_a_batch_a_rollout() -> None:
    assert len(micro_batches(GROUPS, 10_000)) == 1
    assert len(micro_batches(GROUPS, 1)) == 13
    assert micro_batches([], 100) == []
