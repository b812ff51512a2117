"""Checks of a well-formed pipeline that need no model and no run: problems and policies exist and fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evo.comparison.plan import planned_runs
from evo.config.compare import ArmConfig
from evo.config.parse import parse
from evo.config.run import PromptConfig, RunConfig
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import TASK_ALONE, check_request
from evo.pipelines.file import Pipeline, Stage, stage_named
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
            _Check(pipeline.stages).stage(stage)
        except (BadInput, BadAddress) as error:
            message = " ".join(str(error).split()).removeprefix("the options: ")
            raise BadInput(f"{pipeline.path}: stage {stage.name}: {stage.kind}: {message}") from error


class _Check(NamedTuple):
    stages: Mapping[str, Stage]

    def stage(self, stage: Stage) -> None:
        settings = stage.settings
        if stage.kind == "train":
            if not settings.problems and not settings.from_traces:
                raise BadInput("problems: name problems to learn from")
            if not parse_address(settings.policy).has_weights:
                raise not_trainable(settings.policy)
            problems = self.problems(settings.problems, settings.limit)
            held_out = self.problems(settings.evaluate, settings.evaluate_limit)
            check_apart((problem.name for problem in problems), held_out)
            self.fit(settings.policy, [*problems, *held_out], PromptConfig(), settings.chain)
        elif stage.kind == "evaluate":
            config = settings.run_config()
            problems = self.problems(config.problems, config.limit)
            config = resolve_settings(config, problems)
            check_request(problems, config.answers, settings.answers_total)
            self.fit(config.policy, problems, TASK_ALONE, config.answers)
        elif stage.kind in ("search", "compare"):
            search = settings if stage.kind == "search" else settings.search
            if not search.problems:
                raise BadInput("problems: name problems to search")
            problems = self.problems(search.problems, search.limit)
            if stage.kind == "search":
                runs = [resolve_settings(search, problems)]
            else:
                names = {"problems": [problem.name for problem in problems], "limit": None}
                arms = {name: self.with_length(arm) for name, arm in settings.arms.items()}
                changed = {"search": search.model_copy(update=names), "arms": arms}
                planned = planned_runs(settings.model_copy(update=changed))
                runs = [parse(RunConfig, run.config, run.arm) for run in planned]
            for run in runs:
                self.fit(run.policy, problems, run.prompt, run.answers)

    def problems(self, named: Sequence[str], limit: int | None) -> list[Problem]:
        """The problems at these addresses; for the filter of an evaluation that has not run, all that it may leave."""
        found: dict[str, Problem] = {}
        for address in named:
            stage = self.referred(address)
            settings = None if stage is None else stage.settings
            these = (
                problems_at([address], limit) if settings is None else self.problems(settings.problems, settings.limit)
            )
            found.update((problem.name, problem) for problem in these[:limit])
        return list(found.values())

    def fit(self, policy: str, problems: Sequence[Problem], prompt: PromptConfig, answers: int) -> None:
        for prompt_format in {self.prompt_format(address) for address in split_policies(policy)}:
            for problem in problems:
                open_format(problem, prompt_format, prompt, answers)

    def prompt_format(self, policy: str) -> str:
        """The prompt format of the policy; before its training, that of the policy it starts from. Raises
        BadAddress."""
        stage = self.referred(policy)
        if stage is None:
            return prompt_format_at(policy)
        parse_address(policy).own_options(NoOptions)
        return self.prompt_format(stage.settings.policy)

    def with_length(self, arm: ArmConfig) -> ArmConfig:
        """An arm with m of its policy's training, if that has not run yet."""
        stage = self.referred(arm.policy)
        if arm.answers is None and stage is not None and stage.kind == "train":
            return arm.model_copy(update={"answers": stage.settings.chain})
        return arm

    def referred(self, address: str) -> Stage | None:
        name = stage_named(address)
        return None if name is None else self.stages[name]
