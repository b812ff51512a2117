"""`evo.resume`: go on with a stored search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evo.api.arguments import check_names, database, settings_of_run, split_problems
from evo.api.cluster import check_by_name, search_on_cluster
from evo.api.comparison_result import ComparisonResult
from evo.api.result import RunResult
from evo.api.scorer import Score, reopen_function
from evo.api.search import search, search_comparison
from evo.comparison.resume import plan_resume
from evo.runs.resume import relaunch
from problems.contract import Problem

OF_RESUMES = (
    *("policy", "rollouts", "answers", "iterations", "max_answers", "max_tokens", "max_cost", "max_seconds"),
    "processes",
)


def resume(
    name: str,
    *,
    score: Score | None = None,
    problems: Problem | Sequence[Problem] | None = None,
    rescore: bool = False,
    accept_change: bool = False,
    db: str | None = None,
    progress: bool = True,
    ray: str | None = None,
    **settings: Any,
) -> RunResult | ComparisonResult:
    """Go on with a stored run or comparison after its last committed group, on the same seed, as `evo resume` does.

    Args:
        name: of the run, or of the comparison, all of whose runs go on.
        score: the function that the run was scored by, which no database holds.
        problems: the problem objects that the run was given, where their names are no addresses.
        rescore: score all that is stored anew, as after an edit of the scorer.
        accept_change: go on where the scorer was edited; old scores stay as they are.
        db: the database, "sqlite:///evo.db" by default, or EVO_DB.
        progress: off shows nothing.
        ray: a Ray cluster that does the work, as for `evo.run`.
        settings: new budgets, what is already spent included: iterations (per problem), max_answers, max_tokens,
            max_cost, max_seconds; processes (of a comparison); policy, rollouts, answers for a run that was imported.

    Returns:
        A RunResult, or a ComparisonResult for a comparison.

    Raises:
        ValueError: a budget below what is spent, a scorer that was edited, a function that has to be given again.
        UnknownRun: nothing has that name; and as `evo.run`.

    Example:
        result = evo.resume("calm-otter", iterations=200)
    """
    check_names("resume", settings, OF_RESUMES)
    db, processes = database(db), settings.pop("processes", None)
    planned = plan_resume(name, db, settings_of_run(settings), rescore=rescore, accept_change=accept_change)
    objects = [*reopen_function(score, planned.runs[0], name), *split_problems(problems)[1]]
    if ray is not None:
        check_by_name(objects)
    if planned.is_comparison:
        configs = planned.configs()
        order = planned.batches(configs)
        given_processes = 1 if objects else processes
        return search_comparison(
            lambda: (name, order),
            list(configs.values()),
            objects,
            db=db,
            progress=progress,
            processes=given_processes,
            changes=planned.changes,
            ray=ray,
        )
    if ray is not None:
        return search_on_cluster(lambda: name, [], ray, db=db, progress=progress, changes=planned.changes)
    return search(lambda: relaunch(name, db=db, changes=planned.changes), objects, db=db, progress=progress)
