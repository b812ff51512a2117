"""Shards of one run: the same rows as the whole search, whoever stops, takes over or comes late."""

from __future__ import annotations

import asyncio

import pytest
from stored_rows import assert_same_run, stored_answers

from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.runs.launch import launch
from evo.runs.result import run_to_end
from evo.runs.resume import check_divisible, relaunch, relaunch_shard
from evo.search.schedule import Shard
from evo.search.stop import INTERRUPTED
from islands.db.shards import plan_shards, read_shards
from islands.db.store import Store

SETTINGS = {
    "problems": ["maze:test"],
    "limit": 7,
    "policy": "scripted:mutate",
    "iterations": 9,
    "rollouts": 2,
    "answers": 2,
    "seed": 4,
    "population": {"islands": 2},
}


def config(**changes: object) -> RunConfig:
    return RunConfig.model_validate({**SETTINGS, **changes})


async def search_whole(db: str, **changes: object) -> None:
    launched = await launch(config(**changes), db=db, name="run", command="test")
    try:
        await run_to_end(launched)
    finally:
        await launched.close()


async def plan_run(db: str, count: int, **changes: object) -> int:
    launched = await launch(config(**changes), db=db, name="run", command="test")
    dealt = plan_shards(launched.store, launched.run.id, count)
    await launched.close()
    return dealt


async def search_shard(db: str, number: int, stop_after: int | None = None) -> str:
    launched = await relaunch_shard("run", number, db=db)
    seen = []

    def committed(group: object) -> None:
        seen.append(group)
        if stop_after is not None and len(seen) == stop_after:
            launched.search.interrupt(INTERRUPTED)

    launched.search.on_commit = committed
    try:
        return (await run_to_end(launched)).outcome
    finally:
        await launched.close()


@pytest.fixture
def whole(tmp_path):
    db = f"sqlite:///{tmp_path}/whole.db"
    asyncio.run(search_whole(db))
    return stored_answers(db, "run")


def test_a_place_counts_what_comes_before_it():
    iterations = (3, 1, 2)
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2)]
    shard = Shard(0, 2, iterations)
    assert [shard.place(index, iteration) for index, iteration in order] == list(range(6))
    assert [index for index in range(5) if shard.owns(index)] == [0, 2, 4]


@pytest.mark.parametrize("changes", [{}, {"parallel": 3}, {"parallel": 40}, {"max_answers": 200}])
def test_shards_give_the_rows_of_the_whole_search(tmp_path, changes):
    db, other = f"sqlite:///{tmp_path}/whole.db", f"sqlite:///{tmp_path}/shards.db"
    asyncio.run(search_whole(db, **changes))

    async def search() -> list[str]:
        assert await plan_run(other, 3, **changes) == 3
        return [await search_shard(other, number) for number in (2, 0, 1)]

    assert asyncio.run(search()) == ["done"] * 3
    assert_same_run(stored_answers(other, "run"), stored_answers(db, "run"))


def test_shards_side_by_side_on_a_server(postgres_address, whole):
    async def search() -> None:
        await plan_run(postgres_address, 3)
        await asyncio.gather(*(search_shard(postgres_address, number) for number in range(3)))

    asyncio.run(search())
    assert_same_run(stored_answers(postgres_address, "run"), whole)


def test_a_shard_that_stopped_goes_on(tmp_path, whole):
    db = f"sqlite:///{tmp_path}/shards.db"

    async def search() -> list[str]:
        await plan_run(db, 2)
        ended = [await search_shard(db, 0, stop_after=5), await search_shard(db, 1), await search_shard(db, 0, 20)]
        return [*ended, await search_shard(db, 0)]

    assert asyncio.run(search()) == ["interrupted", "done", "interrupted", "done"]
    assert_same_run(stored_answers(db, "run"), whole)
    with Store.open(db, read_only=True) as store:
        shards = read_shards(store, store.run("run").id)
        assert {problem.status for problem in store.problems(store.run("run").id)} <= {"done", "solved"}
    assert [one.begun for one in shards] == [3, 1] and {one.status for one in shards} == {"done"}
    assert sum(one.summary["groups"] for one in shards) == 63


def test_a_late_writer_is_refused_and_nothing_is_lost_or_twice(postgres_address, whole):
    """The one that was taken for lost goes on committing while another has the shard: its next transaction fails."""

    async def search() -> str:
        await plan_run(postgres_address, 2)
        late = await relaunch_shard("run", 0, db=postgres_address)
        taken = []

        def committed(group: object) -> None:
            if not taken:  # in the middle of its search another takes over, and commits a group of its own
                taken.append(asyncio.ensure_future(search_shard(postgres_address, 0)))
                late.search.pause()
                taken[0].add_done_callback(lambda _: late.search.resume())

        late.search.on_commit = committed
        with pytest.raises(SearchFailed, match="was given to another process"):
            await late.search.run()
        await late.close()
        await search_shard(postgres_address, 1)
        return await taken[0]

    assert asyncio.run(search()) == "done"
    assert_same_run(stored_answers(postgres_address, "run"), whole)


def test_a_whole_search_that_stopped_goes_on_in_shards_and_back(tmp_path, whole):
    db = f"sqlite:///{tmp_path}/mixed.db"

    async def search() -> None:
        launched = await launch(config(), db=db, name="run", command="test")
        seen = []
        launched.search.on_commit = lambda group: (
            seen.append(group),
            len(seen) == 20 and launched.search.interrupt(INTERRUPTED),
        )  # noqa: E501
        await run_to_end(launched)
        plan_shards(launched.store, launched.run.id, 3)
        await launched.close()
        await search_shard(db, 1)
        with pytest.raises(BadInput, match="some of which are ahead of others; continue it by evo resume run --ray"):
            await relaunch("run", db=db)
        await search_shard(db, 0)
        await search_shard(db, 2)
        again = await relaunch("run", db=db)  # all are through: one machine may go on
        assert (await run_to_end(again)).outcome == "done"
        await again.close()

    asyncio.run(search())
    assert_same_run(stored_answers(db, "run"), whole)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "scripted:mutate,scripted:vary"}, "mixed by their worth on all problems"),
        ({"until_solved": True}, "--until-solved gives the turns"),
        ({"max_total_tokens": 1000}, "--max-total-tokens is one budget"),
        ({"train": {"method": "vpo"}, "rollouts": 4}, "--train learns from all problems"),
    ],
)
def test_what_couples_problems_is_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        check_divisible(config(**changes), "run x")


def test_what_couples_none_is_not():
    check_divisible(config(policy="scripted:mutate,scripted:vary", mixing="turns", max_answers=100), "run x")
