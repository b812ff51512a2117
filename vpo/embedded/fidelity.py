"""Whether an operator mutates: how much of the shown parent its answers keep, and how often they beat it.

A policy that plans well can score without using its parent. The measure is the share of the parent that its answers
begin and end with, compared with the same share without a parent in the prompt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from problems.maze import MazeProblem, fitness_of, parse_moves, problem_set, simulate
from problems.maze.planner import Planner, moves_between
from problems.types import Prompt
from vpo.embedded.lessons import edit, mutate
from vpo.embedded.words import DIALECT, EDIT_DIALECT, MOST_NEW
from vpo.metrics import kept
from vpo.policies.contract import Policy

ROUTES_A_PARENT = 10
"""A parent is the fittest of this many planner routes, about what the first iterations of a search find."""
VALIDATION = range(900, 1000)
"""The mazes of a training set that training leaves out."""
KINDS: Mapping[str, tuple[str, ...]] = {
    DIALECT: ("maze:train",),
    EDIT_DIALECT: ("maze:train", "maze:compromise-train", "maze:large-train"),
}
"""Per language, the sets for this measurement."""


@dataclass(frozen=True)
class Fidelity:
    """Means over the answers requested, each a share of them or of the parent's cells; a missing answer counts as 0.

    valid: reach E
    beginning, end: how much of the parent's beginning and end a written answer has
    same: repeat the parent's route
    better: are fitter than the parent
    fitness: of an answer; parents: of a parent
    """

    answers: int
    valid: float
    beginning: float
    end: float
    same: float
    better: float
    fitness: float
    parents: float

    @property
    def kept(self) -> float:
        return self.beginning + self.end


@dataclass(frozen=True)
class FidelityComparison:
    """The fidelity of a policy on one kind of maze: with the parent in the prompt and without it, and its teacher's."""

    shown: Fidelity
    unshown: Fidelity
    teacher: Fidelity


@dataclass(frozen=True)
class Case:
    """A maze with a parent, as its cells and as moves."""

    problem: MazeProblem
    planner: Planner
    parent: list[int]
    moves: str
    fitness: float


def cases(count: int = len(VALIDATION), seed: int = 0, kind: str = "maze:train") -> list[Case]:
    """The first `count` validation mazes of the set `kind`, each with its parent."""
    cases_ = []
    for index in VALIDATION[:count]:
        (problem,) = problem_set(f"{kind}/{index}")
        planner, rng = Planner(problem.maze), random.Random(f"fidelity {seed} {index}")
        routes = [planner.route(rng) for _ in range(ROUTES_A_PARENT)]
        fitness = [fitness_of(simulate(problem.maze, moves_between(problem.maze, route)).rewards) for route in routes]
        parent = routes[fitness.index(max(fitness))]
        cases_.append(Case(problem, planner, parent, moves_between(problem.maze, parent), max(fitness)))
    return cases_


def fidelity(cases_: Sequence[Case], children: Sequence[Sequence[str]], count: int) -> Fidelity:
    """The means over the answers written for each case, move lists in any form; `count` answers were requested per
    case."""
    total = count * len(cases_)
    valid = same = better = written = 0
    fitness = beginning = end = 0.0
    for case, answers in zip(cases_, children, strict=True):
        for answer in answers[:count]:
            walk = simulate(case.problem.maze, parse_moves(answer))
            mark = fitness_of(walk.rewards)
            first, last = kept(case.parent, walk.cells)
            written += 1
            valid += walk.reached
            same += list(walk.cells) == case.parent
            better += mark > case.fitness + 1e-9
            beginning, end, fitness = beginning + first, end + last, fitness + mark
    return Fidelity(
        total,
        valid / total,
        beginning / max(written, 1),
        end / max(written, 1),
        same / total,
        better / total,
        fitness / total,
        sum(case.fitness for case in cases_) / len(cases_),
    )


async def of_policy(
    policy: Policy, asked: Sequence[Case], *, shown: bool = True, count: int = 12, answers: int = 3, seed: int = 0
) -> Fidelity:
    """The fidelity of a policy that speaks a maze dialect: `count` answers per case, in chains of `answers`.

    shown: whether the prompt has the parent; without it the result is the level of chance
    """
    from vpo.embedded import prompt_text, routes

    prompts = [
        prompt_text(case.problem, case.moves if shown else None, answers=answers, dialect=policy.prompt_format)
        for case in asked
    ]
    groups = await policy.sample(
        [Prompt(text, stream=i) for i, text in enumerate(prompts)],
        rollouts=count // answers,
        answers=answers,
        seed=seed,
    )
    children = [
        [answer for rollout in group for answer in routes(rollout.text, prompt)[:answers]]
        for prompt, group in zip(prompts, groups, strict=True)
    ]
    return fidelity(asked, children, count)


async def compare(policy: Policy, kind: str, count: int) -> FidelityComparison:
    """The comparison on the first `count` validation mazes of the set `kind`."""
    asked = cases(count, kind=kind)
    shown, unshown = await of_policy(policy, asked), await of_policy(policy, asked, shown=False)
    return FidelityComparison(shown, unshown, of_teacher(asked, policy.prompt_format))


def of_teacher(asked: Sequence[Case], dialect: str, *, count: int = 12, seed: int = 0) -> Fidelity:
    """The fidelity of the teacher that a base of this dialect imitates."""

    def edited(case: Case, rng: random.Random) -> list[int]:
        edited_route = edit(case.planner, case.parent, rng, MOST_NEW)
        return case.planner.route(rng) if edited_route is None else edited_route.applied(case.parent)

    def mutated(case: Case, rng: random.Random) -> list[int]:
        return mutate(case.planner, case.parent, rng)

    teacher: Callable[[Case, random.Random], list[int]] = edited if dialect == EDIT_DIALECT else mutated
    rng = random.Random(f"teacher {seed}")
    return fidelity(
        asked,
        [[moves_between(case.problem.maze, teacher(case, rng)) for _ in range(count)] for case in asked],
        count,
    )
