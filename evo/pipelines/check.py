"""Checks of a well-formed pipeline that need no model and no run: problems and policies exist and fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.comparison.plan import planned_runs
from evo.config.compare import ArmConfig
from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import TASK_ALONE, check_request
from evo.pipelines.file import SEARCHES, Pipeline, Stage, stage_named
from evo.prompts.registry import open_format
from evo.runs.preflight import prompt_format_at
from evo.search.defaults import resolve_settings
from evo.search.resources import check_apart, problems_at
from problems.contract import BadAddress, Problem
from vpo.policies.address import NoOptions, parse_address, split_policies


def check_pipeline(pipeline: Pipeline) -> None:
    """Raises BadInput, in one line, for the first stage that could not begin."""
    for stage in pipeline.stages.values():
        try:
            _check(stage, pipeline.stages)
        except (BadInput, BadAddress) as error:
            message = " ".join(str(error).split()).removeprefix("the options: ")
            raise BadInput(f"{pipeline.path}: stage {stage.name}: {stage.kind}: {message}") from error


def _check(stage: Stage, stages: Mapping[str, Stage]) -> None:
    settings = stage.settings
    if stage.kind == "train":
        if not settings.problems and not settings.from_traces:
            raise BadInput("problems: name problems to learn from")
        if not parse_address(settings.policy).has_weights:
            raise not_trainable(settings.policy)
        problems = _problems(settings.problems, settings.limit, stages)
        held_out = _problems(settings.evaluate, settings.evaluate_limit, stages)
        check_apart((problem.name for problem in problems), held_out)
        _check_fit(settings.policy, [*problems, *held_out], PromptConfig(), settings.chain, stages)
    elif stage.kind == "evaluate":
        config = settings.run_config()
        problems = _problems(config.problems, config.limit, stages)
        config = resolve_settings(config, problems)
        check_request(problems, config.answers, settings.answers_total)
        _check_fit(config.policy, problems, TASK_ALONE, config.answers, stages)
    elif stage.kind in SEARCHES:
        search = settings if stage.kind == "search" else settings.search
        if not search.problems:
            raise BadInput("problems: name problems to search")
        problems = _problems(search.problems, search.limit, stages)
        runs = [resolve_settings(search, problems)]
        if stage.kind == "compare":
            search = search.model_copy(update={"problems": [problem.name for problem in problems], "limit": None})
            arms = {name: _with_length(arm, stages) for name, arm in settings.arms.items()}
            planned = planned_runs(settings.model_copy(update={"search": search, "arms": arms}))
            runs = [parse(RunConfig, run.config, run.arm) for run in planned]
        for run in runs:
            _check_fit(run.policy, problems, run.prompt, run.answers, stages)


def _problems(named: Sequence[str], limit: int | None, stages: Mapping[str, Stage]) -> list[Problem]:
    """The problems at these addresses; for the filter of an evaluation that has not run, all that it may leave."""
    found: dict[str, Problem] = {}
    for address in named:
        if (stage := stage_named(address)) is None:
            these = problems_at([address], limit)
        else:
            these = _problems(stages[stage].settings.problems, stages[stage].settings.limit, stages)
        found.update((problem.name, problem) for problem in these[:limit])
    return list(found.values())


def _check_fit(
    policy: str, problems: Sequence[Problem], prompt: PromptConfig, answers: int, stages: Mapping[str, Stage]
) -> None:
    for prompt_format in {_prompt_format(address, stages) for address in split_policies(policy)}:
        for problem in problems:
            open_format(problem, prompt_format, prompt, answers)


def _prompt_format(policy: str, stages: Mapping[str, Stage]) -> str:
    """The prompt format of the policy; before its training, that of the policy it starts from. Raises BadAddress."""
    if (stage := stage_named(policy)) is None:
        return prompt_format_at(policy)
    parse_address(policy).own_options(NoOptions)
    return _prompt_format(stages[stage].settings.policy, stages)


def _with_length(arm: ArmConfig, stages: Mapping[str, Stage]) -> ArmConfig:
    """An arm with m of its policy's training, if that has not run yet."""
    stage = stages.get(stage_named(arm.policy) or "")
    trained = arm.answers is None and stage is not None and stage.kind == "train"
    return arm.model_copy(update={"answers": stage.settings.chain}) if trained and stage is not None else arm
