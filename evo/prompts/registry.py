"""Prompt formats by name: which of ours, or of an installed package's, puts a problem to a policy; and the formats of
token languages (vpo.languages.contract) and of tuned numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.chat import ChatFormat, WorkFolderFormat
from evo.prompts.contract import Opener, PromptFormat
from islands.types import NOTHING_SHOWN, Selection
from problems.contract import Problem
from problems.entry_points import find_entry_points, load_entry_point
from problems.types import Prompt, Rollout, ScoredGroup
from vpo.chain import Chain, parse_chain
from vpo.languages.contract import open_dialect
from vpo.policies.prompt_formats import FORMAT_ENTRY_POINTS, TUNED, WORK_FOLDER, is_token_format
from vpo.policies.tunable import Tunable

_SEPARABLE = 100


class TunedFormat:
    """A PromptFormat, of `scripted:tuned`: the seed of one problem with other numbers, an answer a rollout. CMA-ES
    (Hansen and Ostermeier 2001) of the package cma proposes them. It learns from committed groups, and searches alone.

    A line of a prompt holds the coordinates of one answer (vpo.policies.tunable). They are stored with the prompt, so a
    resume rebuilds the state from the stored groups. A generation is 4 + 3 ln n answers for n numbers, rounded up to
    whole iterations. Answers at fault rank last, those nearer to the mean before others. Above _SEPARABLE numbers only
    variances are adapted (Ros and Hansen 2008).

    rollouts: of an iteration
    """

    default_limit, rollouts = 1, 1

    def __init__(self, problem: Problem, config: PromptConfig, answers: int) -> None:
        """Raises BadInput if the seed has no number, the package is missing, or rollouts are chains."""
        if answers != 1:
            raise BadInput("scripted:tuned gives one answer per rollout: it needs --answers 1")
        self._seed = Tunable(problem.canonical(problem.seed_answer()), problem.answer_format == "python")
        if not self._seed.steps:
            raise BadInput(f"the seed answer of {problem.name} has no numbers to tune")
        try:
            import cma  # noqa: F401  (slow to import, and an extra)
        except ImportError:
            raise BadInput('tuning needs the package cma: pip install "evo-search[tune]"') from None
        self._size = max(2, len(self._seed.steps))  # cma takes two coordinates at least
        self._told: dict[int, ScoredGroup] = {}
        self._generations = 0

    @property
    def generation(self) -> int:
        """Iterations that are proposed from one state: none before all those of the generation before are scored."""
        return -(-(4 + int(3 * math.log(self._size))) // self.rollouts)

    def select_shown(self, selection: Selection) -> Selection:
        return NOTHING_SHOWN

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        # a spawned generator, since the choice of a parent that is not shown has drawn from this one
        points = self._ask(self.rollouts, (rng or np.random.default_rng(stream)).spawn(1)[0])
        return Prompt("\n".join(json.dumps(point.tolist()) for point in points), stream=stream)

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        return Chain((self._seed.at(json.loads(rollout.text)),))

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        return None

    def learn(self, group: ScoredGroup) -> None:
        """A committed group, each once."""
        self._told[group.iteration] = group
        first = self._generations * self.generation
        numbers = range(first, first + self.generation)
        if not all(number in self._told for number in numbers):
            return
        self._generations += 1
        groups = [self._told.pop(number) for number in numbers]
        points = [np.array(json.loads(line)) for group in groups for line in group.prompt.user.splitlines()]
        scores = [answer.score for group in groups for answer in group.all_answers()]
        levels = sorted({score.fitness for score in scores if score.error is None}, reverse=True)
        far = [float(np.linalg.norm(point - self._search.mean)) for point in points]
        ranks = [
            levels.index(score.fitness) if score.error is None else len(scores) + sorted(far).index(distance)
            for score, distance in zip(scores, far, strict=True)
        ]
        self._ask(1, np.random.default_rng(0))  # cma wants it before each tell, and a resume has not asked
        self._search.tell(points, ranks, check_points=False)

    def _ask(self, count: int, rng: np.random.Generator) -> Any:
        self._rng = rng
        return self._search.ask(count)

    @cached_property
    def _search(self) -> Any:
        import cma

        seed, size = self._seed, self._size
        options = {
            "CMA_stds": (seed.steps * 2)[:size], "minstd": (seed.least * 2)[:size], "CMA_diagonal": size > _SEPARABLE,
            "popsize": self.generation * self.rollouts, "randn": lambda *shape: self._rng.standard_normal(shape),
            "seed": math.nan, "verbose": -9,
        }  # fmt: skip
        return cma.CMAEvolutionStrategy(np.zeros(size), 1.0, options)


class TokenFormat:
    """A token language of an embedded policy: the problem, the mode, and a parent.

    name: of a dialect (vpo.languages.contract)
    Raises BadInput on a problem that the language cannot write, and for too many answers.
    """

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, name: str):
        self.problem, self.config, self.answers, self.name = problem, config, answers, name
        self.dialect = open_dialect(name)
        if not self.dialect.understands(problem):
            raise BadInput(
                f"this policy only understands {self.dialect.speaks_of} and cannot search {problem.name}; name as "
                "--policy a hub id or directory, openai:MODEL@URL, or scripted:mutate, which learns nothing and needs "
                "no model"
            )
        try:
            self._text(NOTHING_SHOWN)
        except ValueError as error:
            raise BadInput(f"{problem.name}: {error}") from error

    @property
    def default_limit(self) -> int:
        return self.dialect.most_tokens(self.answers)

    def select_shown(self, selection: Selection) -> Selection:
        parent = selection.parent if self.config.show_parent else None
        readable = parent is not None and parent.text and not parent.error
        return Selection(parent if readable else None, (), ())

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        return Prompt(self._text(self.select_shown(selection)), stream=stream)

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        shown = self._text(self.select_shown(selection))
        return parse_chain(
            rollout.text, self.problem.answer_format, self.answers, prompt_format=self.name, prompt=shown
        )

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        return self.dialect.write(self.problem, answers, self._text(self.select_shown(selection)))

    def _text(self, shown: Selection) -> str:
        return self.dialect.prompt(self.problem, shown.parent.text if shown.parent else "", self.answers)


def open_format(problem: Problem, name: str, config: PromptConfig, answers: int) -> PromptFormat:
    """The prompt format of this name for a problem; BadInput if they do not go together."""
    if is_token_format(name):
        return TokenFormat(problem, config, answers, name)
    opener: Opener
    if name in OURS:
        opener = OURS[name]
    elif (point := find_entry_points(FORMAT_ENTRY_POINTS).get(name)) is not None:
        opener = load_entry_point(point, f"prompt format {name!r}")
    else:
        raise BadInput(
            f"the policy needs the prompt format {name!r}, which no installed package has ({FORMAT_ENTRY_POINTS})"
        )
    return opener(problem, config, answers)


def open_chat(problem: Problem, config: PromptConfig, answers: int) -> PromptFormat:
    """The problem's templates if it is an OpenEvolve directory, else ours. Raises BadInput if problem and
    configuration do not fit."""
    settings = problem.settings
    openevolve = config.style == "openevolve" or (config.style == "auto" and bool(settings))
    if config.style == "openevolve" and not settings:
        raise BadInput(f"prompt.style openevolve needs an OpenEvolve problem directory; {problem.name} is none")
    diff = config.diff
    if diff is None:
        diff = bool(settings.get("diff_based_evolution", False)) and answers == 1
    if diff and answers > 1:
        raise BadInput("prompt.diff edits one parent: it needs --answers 1")
    if diff and problem.answer_format == "route":
        raise BadInput(f"prompt.diff edits programs; the answers of {problem.name} are routes")
    if openevolve:
        from evo.prompts.openevolve import OpenEvolveFormat

        return OpenEvolveFormat(problem, config, answers, diff)
    return ChatFormat(problem, config, answers, diff)


OURS: dict[str, Opener] = {"chat": open_chat, WORK_FOLDER: WorkFolderFormat, TUNED: TunedFormat}
