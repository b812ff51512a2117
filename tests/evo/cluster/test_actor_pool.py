"""What a driver says of the tasks that it gives out."""

import asyncio

import pytest

from evo.config.cluster import parse_cluster
from islands.errors import DatabaseUnavailable, RunBusy

seats = pytest.importorskip("evo.cluster.actor_pool", reason="ray is not installed")


def test_a_task_that_waits_says_once_for_whom(monkeypatch):
    monkeypatch.setattr(seats, "BUSY_SECONDS", 0.01)
    faults = [RunBusy("process 7 on elsewhere has it")] * 3 + [DatabaseUnavailable("the server is gone")] * 2

    async def search(actor, task):
        if faults:
            raise faults.pop(0)
        return task.run

    one, told = seats.ActorPool(parse_cluster("local"), lambda task: 0), []
    one.warning = told.append
    assert asyncio.run(one._search_when_free(None, seats.ClusterTask("big"), search)) == "big"
    assert told == [
        "big waits up to 0 s: process 7 on elsewhere has it",
        "big waits up to 0 s: the server is gone",
    ]
