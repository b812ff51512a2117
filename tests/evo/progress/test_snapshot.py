"""Snapshots by hand: when a comparison has ended."""

import pytest
from support.run_records import run_record

from evo.progress.snapshot import ArmSnapshot, Snapshot


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ({"done": 2}, True),
        ({"running": 1, "done": 1}, False),
        ({"failed": 1, "waiting": 1}, False),  # between two batches of seeds
        ({"interrupted": 1, "waiting": 1}, True),
        ({"failed": 1, "done": 1}, True),
        ({}, False),
    ],
)
def test_a_comparison_ends_with_its_last_batch(statuses, ended):
    runs = tuple(run_record(status=status) for status, count in statuses.items() for _ in range(count))
    assert Snapshot("both", (ArmSnapshot("a", runs),), (), None).ended is ended
