"""Plan a pipeline: whether each stage is done, continues, must be done, or cannot be done in this way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evo.errors import BadInput
from evo.pipelines.checks import Cost
from evo.pipelines.file import SEARCHES, Pipeline, Stage
from evo.pipelines.stage import PipelineFolder
from evo.pipelines.state import StageState, State, Status


class Next(StrEnum):
    """The next action for a stage."""

    TO_DO = "to do"
    GOES_ON = "goes on"
    AGAIN = "again"
    DONE = "done"
    NOT_CHOSEN = "not chosen"


@dataclass(frozen=True)
class Planned:
    """A stage with its next action.

    record: its state at the beginning of its work; unchanged if it is done or not chosen
    stale: it is not chosen, and it, or a stage that it reads, has changed since it was done
    """

    stage: Stage
    cost: Cost
    next: Next
    record: StageState
    stale: bool = False

    @property
    def works(self) -> bool:
        return self.next not in (Next.DONE, Next.NOT_CHOSEN)


def plan_stages(
    pipeline: Pipeline,
    costs: Mapping[str, Cost],
    state: State,
    place: PipelineFolder,
    *,
    chosen: Collection[str],
    redo: Collection[str],
) -> list[Planned]:
    """Every stage in order. Raises BadInput, in one line, if a chosen stage has changed since it was begun, its result
    is missing, a stage that it reads is not done, or the name of its run is taken."""
    again = pipeline.readers(set(redo)) & set(chosen)
    plan: dict[str, Planned] = {}
    for stage in pipeline.stages.values():
        old = state.stages.get(stage.name)
        inputs = {name: plan[name].record.mark for name in stage.reads}
        attempt = old.attempt if old is not None else 1
        if stage.name in again and old is not None and old.state is not Status.WAITING:
            attempt += 1
        gives = place.gives(state, stage, attempt)
        fresh = StageState(
            state=Status.WAITING,
            kind=stage.kind,
            settings=dict(stage.given),
            inputs=inputs,
            attempt=attempt,
            gives=gives,
        )
        if stage.name not in chosen:
            stale = old is not None and fresh.mark != old.mark or any(plan[name].stale for name in stage.reads)
            plan[stage.name] = Planned(stage, costs[stage.name], Next.NOT_CHOSEN, old or fresh, stale)
            continue
        for name in stage.reads:
            _check_readable(stage, plan[name], place)
        plan[stage.name] = _next(stage, costs[stage.name], old, fresh, place)
    return list(plan.values())


def _check_readable(stage: Stage, read: Planned, place: PipelineFolder) -> None:
    """Raise BadInput if a chosen stage cannot read a stage that is not chosen."""
    if read.next is not Next.NOT_CHOSEN:
        return
    told = f"stage {stage.name} reads {read.stage.name}, which"
    if read.record.state is not Status.DONE:
        raise BadInput(f"{told} is not done and not chosen to be")
    if read.stale:
        raise BadInput(f"{told} has changed since it was done; choose it too, with --redo {read.stage.name}")
    if not place.present(read.record):
        raise BadInput(f"{told} is done, but {place.address(read.record)} is gone; choose it too, with --redo")


def _next(stage: Stage, cost: Cost, old: StageState | None, fresh: StageState, place: PipelineFolder) -> Planned:
    if old is None or old.state is Status.WAITING or fresh.attempt != old.attempt:
        if stage.kind in SEARCHES and place.runs(fresh.gives):
            raise BadInput(
                f"stage {stage.name}: something else in the database is called {fresh.gives} already; "
                "name another directory with -o, after which runs are named, or another database"
            )
        return Planned(stage, cost, Next.TO_DO if fresh.attempt == 1 else Next.AGAIN, fresh)
    if fresh.mark != old.mark:
        if old.state is not Status.DONE and not place.left(old):
            return Planned(stage, cost, Next.TO_DO, fresh)  # it left nothing, so results cannot mix
        was = "was done" if old.state is Status.DONE else "was begun"
        raise BadInput(
            f"stage {stage.name} has changed since it {was} ({_difference(old, fresh)}): --redo {stage.name} does it "
            "again, with all that reads it, and keeps what it made; or name a new directory with -o"
        )
    if old.state is Status.DONE:
        if not place.present(old):
            raise BadInput(
                f"stage {stage.name} is done, but {place.address(old)} is gone: --redo {stage.name} does it again"
            )
        return Planned(stage, cost, Next.DONE, old)
    return Planned(stage, cost, Next.GOES_ON, old)


def _difference(old: StageState, fresh: StageState) -> str:
    """The first difference of two states of a stage, in words."""
    if old.kind != fresh.kind:
        return f"{old.kind} then, {fresh.kind} now"
    for key in dict.fromkeys([*old.settings, *fresh.settings]):
        then, now = (_shorten(record.settings.get(key)) for record in (old, fresh))
        if then != now:
            return f"{key} was {then}, is {now}"
    for name in fresh.inputs:
        if old.inputs.get(name) != fresh.inputs[name]:
            return f"{name}, which it reads, has changed"
    return "it reads other stages"


def _shorten(value: Any) -> str:
    if value is None:
        return "not given"
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
