"""Checks of a well-formed pipeline that need no model: missing problems and policies, and those that do not fit each
other. Also the cost of each stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.comparison.plan import planned_runs
from evo.config.compare import CompareConfig
from evo.config.parse import parse
from evo.config.pick import PickConfig
from evo.config.run import PromptConfig, RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput, not_trainable
from evo.evaluation.evaluate import TASK_ALONE, check_request
from evo.pipelines.file import Pipeline, Stage, addresses, stage_named
from evo.prompts.registry import open_format
from evo.runs.preflight import check_price, prompt_format_at
from evo.search.defaults import iterations_for, resolve_settings
from evo.search.resources import check_apart, problems_at
from problems.contract import BadAddress, Problem
from vpo.embedded.pretrain_config import languages
from vpo.policies.address import NoOptions, parse_address


@dataclass(frozen=True)
class Cost:
    """text: how the budget is computed; answers: of policies in total, None if the stage samples none; at_most: the
    stage may sample fewer answers, but never more."""

    text: str
    answers: int | None = None
    at_most: bool = False


def check_pipeline(pipeline: Pipeline) -> dict[str, Cost]:
    """The cost of every stage. Raises BadInput, in one line, for the first stage that could not begin."""
    return _Checks(pipeline).all()


class _Checks:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._problems: dict[tuple[Any, ...], list[Problem]] = {}

    def all(self) -> dict[str, Cost]:
        kinds: Mapping[str, Callable[[Stage], Cost]] = {
            "pretrain": self._pretrain,
            "train": self._train,
            "evaluate": self._evaluate,
            "pick": self._pick,
            "search": self._search,
            "compare": self._compare,
            "report": self._report,
        }
        costs = {}
        for stage in self.pipeline.stages.values():
            try:
                costs[stage.name] = kinds[stage.kind](stage)
            except (BadInput, BadAddress) as error:
                message = " ".join(str(error).split()).removeprefix("the options: ")
                raise BadInput(f"{self.pipeline.path}: stage {stage.name}: {stage.kind}: {message}") from error
        return costs

    def _pretrain(self, stage: Stage) -> Cost:
        config = stage.settings.config()
        if config.seconds is not None:
            return Cost(f"{config.seconds:g} seconds")
        return Cost(f"{config.steps} steps x {config.batch} lessons")

    def _train(self, stage: Stage) -> Cost:
        run: TrainRun = stage.settings
        traces = bool(getattr(run, "from_traces", None))
        if not run.problems and not traces:
            raise BadInput("problems: name problems to learn from")
        if not parse_address(run.policy).has_weights:
            raise not_trainable(run.policy)
        problems, held_out = self._at(run.problems, run.limit), self._at(run.evaluate, run.evaluate_limit)
        check_apart((problem.name for problem in problems), held_out)
        self._together(run.policy, problems, PromptConfig(), run.chain)
        self._together(run.policy, held_out, PromptConfig(), run.chain)
        if traces:
            text, answers = f"{run.steps} steps x {run.prompts} stored groups", 0
        else:
            text = f"{run.steps} steps x {run.prompts} prompts x {run.rollouts} rollouts x {_answers(run.chain)}"
            answers = _cap(run.steps * run.prompts * run.rollouts * run.chain, run.max_answers)
        if held_out:
            times = 1 + -(-run.steps // run.evaluate_every)
            text += f"; held out {times} x {_problems(held_out)} x {run.evaluate_answers}"
            answers += times * len(held_out) * math.ceil(run.evaluate_answers / run.chain) * run.chain
        return Cost(text + _limits(run), answers, run.max_seconds is not None or _is_picked(run.problems))

    def _evaluate(self, stage: Stage) -> Cost:
        settings = stage.settings
        config = settings.run_config()
        problems = self._at(config.problems, config.limit)
        config = resolve_settings(config, problems)
        check_request(problems, config.answers, settings.answers_total)
        self._together(config.policy, problems, TASK_ALONE, config.answers)
        seeds = f" x {settings.seeds} seeds" if settings.seeds > 1 else ""
        asked = math.ceil(settings.answers_total / config.answers) * config.answers
        text = f"{_problems(problems)} x {_answers(settings.answers_total)} in chains of {config.answers}{seeds}"
        return Cost(text, len(problems) * asked * settings.seeds, _is_picked(config.problems))

    def _pick(self, stage: Stage) -> Cost:
        config: PickConfig = stage.settings
        problems = self._picked(stage)
        at_most = f"at most {min(len(problems), config.limit or len(problems)):,} of {_problems(problems)}"
        return Cost(f"{at_most}: {config.metric} <= {config.at_most:g}")

    def _search(self, stage: Stage) -> Cost:
        config: RunConfig = stage.settings
        if not config.problems:
            raise BadInput("problems: name problems to search")
        problems = self._at(config.problems, config.limit)
        config = resolve_settings(config, problems)
        self._together(config.policy, problems, config.prompt, config.answers)
        check_price(config.max_cost, [config.policy])
        each = config.rollouts * config.answers
        iterations = [iterations_for(config, problem) for problem in problems]
        text = (
            f"{_span(iterations)} iterations x {_problems(problems)} x "
            f"{config.rollouts} rollout{'s' * (config.rollouts > 1)} x {_answers(config.answers)}"
        )
        return Cost(text + _limits(config), _cap(sum(iterations) * each, config.max_answers), _early(config))

    def _compare(self, stage: Stage) -> Cost:
        config: CompareConfig = stage.settings
        if not config.search.problems:
            raise BadInput("problems: name problems to search")
        problems = self._at(config.search.problems, config.search.limit)
        runs = planned_runs(self._with_lengths(self._with_problems(config, problems)))
        for run in runs:
            own = parse(RunConfig, run.config, run.arm)
            self._together(own.policy, problems, own.prompt, own.answers)
        check_price(config.search.max_cost, [run.config["policy"] for run in runs])
        first = parse(RunConfig, runs[0].config, runs[0].arm)
        each, arms = first.rollouts * first.answers, len({run.arm for run in runs})
        iterations = [iterations_for(first, problem) for problem in problems]
        text = (
            f"{_span(iterations)} iterations x {_problems(problems)} x {arms} arms x "
            f"{config.seeds} seed{'s' * (config.seeds > 1)} x {_answers(each)}"
        )
        answers = len(runs) * _cap(sum(iterations) * each, config.search.max_answers)
        return Cost(text + _limits(config.search), answers, _early(config.search))

    def _report(self, stage: Stage) -> Cost:
        return Cost("one page, its plots")

    def _with_problems(self, config: CompareConfig, problems: Sequence[Problem]) -> CompareConfig:
        """The same values with all problems that a later pick chooses from."""
        if not _is_picked(config.search.problems):
            return config
        names = {"problems": [problem.name for problem in problems], "limit": None}
        return config.model_copy(update={"search": config.search.model_copy(update=names)})

    def _with_lengths(self, config: CompareConfig) -> CompareConfig:
        """The same values with m of arms whose policy is not trained yet: as in its training."""
        arms = {}
        for name, arm in config.arms.items():
            stage = self._stage_of(arm.policy)
            if arm.answers is None and stage is not None and stage.kind == "train":
                arm = arm.model_copy(update={"answers": stage.settings.chain})
            arms[name] = arm
        return config.model_copy(update={"arms": arms})

    def _at(self, addresses: Sequence[str], limit: int | None) -> list[Problem]:
        """The problems at these addresses; for a pick that has not run, all that it may choose."""
        key = (tuple(addresses), limit)
        if key not in self._problems:
            found: dict[str, Problem] = {}
            for address in addresses:
                stage = self._stage_of(address)
                of_one = problems_at([address], limit) if stage is None else self._picked(stage)[:limit]
                found.update((problem.name, problem) for problem in of_one if problem.name not in found)
            self._problems[key] = list(found.values())
        return self._problems[key]

    def _picked(self, stage: Stage) -> list[Problem]:
        """The problems that it can pick at most: those of its first evaluation that all others have too."""
        sets = []
        for path in stage.settings.evaluations:
            evaluation = self._stage_of(path)
            if evaluation is not None:
                sets.append(self._at(evaluation.settings.problems, evaluation.settings.limit))
        if not sets:
            raise BadInput("evaluations: one of them at least is a stage of this pipeline")
        names = [{problem.name for problem in one} for one in sets]
        return [problem for problem in sets[0] if all(problem.name in one for one in names)][: stage.settings.limit]

    def _together(self, policy: str, problems: Sequence[Problem], prompt: PromptConfig, answers: int) -> None:
        for prompt_format in {self._prompt_format(address) for address in addresses(policy)}:
            for problem in problems:
                open_format(problem, prompt_format, prompt, answers)

    def _prompt_format(self, policy: str) -> str:
        """The prompt format of the policy; before its training, that of the policy it starts from. Raises
        BadAddress."""
        stage = self._stage_of(policy)
        if stage is None:
            return prompt_format_at(policy)
        parse_address(policy).own_options(NoOptions)
        if stage.kind == "train":
            return self._prompt_format(stage.settings.policy)

        return languages()[stage.settings.language].name

    def _stage_of(self, policy: str) -> Stage | None:
        name = stage_named(policy)
        return None if name is None else self.pipeline.stages[name]


def _answers(count: int) -> str:
    return f"{count:,} answer{'s' * (count != 1)}"


def _problems(problems: Sequence[Problem]) -> str:
    return f"{len(problems):,} problem{'s' * (len(problems) != 1)}"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cap(answers: int, budget: int | None) -> int:
    return answers if budget is None else min(answers, budget)


def _early(config: RunConfig) -> bool:
    return (
        config.until_solved
        or _is_picked(config.problems)
        or any(budget is not None for budget in (config.max_seconds, config.max_total_tokens, config.max_cost))
    )


def _is_picked(addresses: Sequence[str]) -> bool:
    """Whether some of the problems are from a pick that has not run, which may choose fewer."""
    return any(stage_named(address) is not None for address in addresses)


def _limits(config: RunConfig | TrainRun) -> str:
    """Budgets that may end a stage early, as text."""
    limits = []
    if config.max_answers is not None:
        limits.append(f"{config.max_answers:,} answers")
    if getattr(config, "max_total_tokens", None) is not None:
        limits.append(f"{config.max_total_tokens:,} tokens")  # type: ignore[union-attr]
    if getattr(config, "max_cost", None) is not None:
        limits.append(f"{config.max_cost:g} of cost")  # type: ignore[union-attr]
    if config.max_seconds is not None:
        limits.append(f"{config.max_seconds:g} s")
    text = f"; at most {' or '.join(limits)}" if limits else ""
    return text + ("; until solved" if getattr(config, "until_solved", False) else "")
