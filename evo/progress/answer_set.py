"""A set of stored answers of which each objective counts its best, as a scheduler keeps a few rules and uses for each
kind of day the one that is best there. Objectives of one group (problems.objectives), as several costs of one kind of
day, count the same member. It is chosen by the scores of the search from all answers of a problem.

And the front: the answers that no other one beats in all objectives. The best one under any weights is among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evo.errors import BadInput
from evo.progress.answer import score_held_out
from evo.values import as_dict, scored_value, write_number, write_value
from islands.groups import CandidateReader, children
from islands.store import Store
from islands.types import Candidate, CandidateSummary, ProblemRecord, RunRecord
from problems.answer_sets import ROUNDING, best_set, group_means
from problems.contract import Score
from problems.objectives import groups_of
from problems.weights import weighted_mean
from vpo.metrics import pareto_mask
from vpo.scalarize import dirichlet_weights

_ONE_SIZE = 5.0
"""Objectives whose scales differ by a larger factor have no mean."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class AnswerSet:
    """members: at most k, the oldest first; fewer where a further one adds nothing. single: the best answer if only
    one is kept. held_out: the Score of each member, then of `single`; () if the problem has no held-out cases"""

    problem: ProblemRecord
    k: int
    members: tuple[Candidate, ...]
    single: Candidate
    held_out: tuple[Score, ...] = ()

    @cached_property
    def chosen(self) -> tuple[int, ...]:
        """Of each objective the place of the member that serves it: its group's best by the mean reward in the search,
        the older of equals."""
        rewards = [member.rewards for member in self.members]
        best = np.argmax(group_means(rewards, self._weights, self.groups), axis=0)
        served = {column: int(place) for place, group in zip(best, self.groups, strict=True) for column in group}
        return tuple(served[column] for column in range(len(served)))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The objectives that one member serves together."""
        return groups_of(self.problem.metrics)

    @property
    def _weights(self) -> list[float]:
        return [one.weight for one in self.problem.metrics]

    def pick(self, rows: Sequence[Sequence[_T]]) -> list[_T]:
        """Of numbers of the members, (members, objectives), those of the member that serves each objective."""
        return [rows[place][column] for column, place in enumerate(self.chosen)]

    def worth(self, rewards: Sequence[float]) -> float:
        """The mean reward, weighted as in the fitness."""
        return float(np.average(rewards, weights=self._weights))

    @property
    def value(self) -> float:
        """The mean over objectives of the reward of the member that serves them; `single` has worth(single.rewards)."""
        return self.worth(self.pick([member.rewards for member in self.members]))

    def mean(self, values: Sequence[float | None]) -> float | None:
        """The mean of the scorer's own numbers, None unless lower is better in all and their scales are alike."""
        scales = [one.scale for one in self.problem.metrics]
        known = [value for value in values if value is not None]
        alike = all(one.lower for one in self.problem.metrics) and max(scales) <= _ONE_SIZE * min(scales)
        return float(np.mean(known)) if alike and len(known) == len(values) > 1 else None

    def describe(self) -> str:
        """One line: its value, and that of the best single answer."""
        name, metrics = self.problem.name, self.problem.metrics
        if len(self.groups) == 1:
            best = write_value(scored_value(metrics, self.single))
            one = "with one objective" if len(metrics) == 1 else "one answer serves all objectives, so"
            return f"{name}: {one} the best set is the best answer, {self.single.id} ({best})"
        value, alone = self.value, self.worth(self.single.rewards)
        told = f"a set of {len(self.members)} has value {write_number(value, [alone])}"
        fewer = "; a further answer adds nothing" if len(self.members) < self.k else ""
        return f"{name}: {told}, the best single answer {write_number(alone, [value])}{fewer}"

    def as_dict(self) -> dict[str, Any]:
        """As --json has it."""
        names = [one.name for one in self.problem.metrics]

        def told(candidate: Candidate, place: int) -> dict[str, Any]:
            value, shown = self.worth(candidate.rewards), as_dict(self.problem.metrics, candidate)
            shown |= {"candidate": candidate.id, "answer": candidate.text, "value": value}
            shown["best_for"] = [name for name, best in zip(names, self.chosen, strict=True) if best == place]
            if self.held_out:
                score = self.held_out[place]
                measured = as_dict(self.problem.metrics, score)
                tested = {key: measured[key] for key in ("values", "rewards")}
                shown["held_out"] = {"value": self.worth(score.rewards), "error": score.error, **tested}
            return shown

        held = [score.rewards for score in self.held_out]
        return {
            "problem": self.problem.name,
            "k": self.k,
            "value": self.value,
            "held_out_value": self.worth(self.pick(held)) if held else None,
            "members": [told(member, place) for place, member in enumerate(self.members)],
            "single": told(self.single, -1),
        }


def value_of_set(store: Store, record: ProblemRecord, k: int) -> float:
    """The value of the best set of k answers to a problem in its run; 0 without a valid answer."""
    rewards = [child.rewards for child in children(store, record.id) if not child.failed]
    weights, groups = [one.weight for one in record.metrics], groups_of(record.metrics)
    return best_set(rewards, k, weights, groups)[1] if rewards else 0.0


def choose_sets(
    store: Store,
    runs: Sequence[RunRecord],
    k: int | None = None,
    *,
    held_out: bool = False,
    most: int | None = None,
    spread: bool = False,
) -> list[AnswerSet]:
    """The best set of k valid answers to each problem, of all runs together, by problems.answer_sets.best_set; none for
    a problem without one. Raises BadInput for k < 1.

    k: by default what the runs were searched for, and no set if that is nothing
    held_out: whether to score the sets on held-out cases, which takes as long as scoring their answers
    most: problems at most
    spread: whether the set is the result although its size is not given: it then has a place for each group of
        objectives
    """
    k = runs[0].config.get("set_size") if k is None else k
    if k is None and not spread:
        return []
    if k is not None and k < 1:
        raise BadInput(f"a set holds at least one answer, not {k}")
    records: dict[int, list[ProblemRecord]] = {}
    for record in (record for run in runs for record in store.problems(run.id)):
        records.setdefault(record.index, []).append(record)
    found = []
    for of in list(records.values())[:most]:
        valid = [child for record in of for child in children(store, record.id) if not child.failed]
        if not valid:
            continue
        rewards, weights = [child.rewards for child in valid], [one.weight for one in of[0].metrics]
        groups = groups_of(of[0].metrics)
        size = len(groups) if k is None else k
        places = best_set(rewards, size, weights, groups)[0] + best_set(rewards, 1, weights)[0]
        *members, single = CandidateReader(store, 0).fetch([valid[place].id for place in places])
        scores = score_held_out(of[0], [*members, single]) if held_out else ()
        found.append(AnswerSet(of[0], size, tuple(members), single, tuple(scores)))
    return found


_MOST = 500
"""Answers to a problem, over all arms; of more, those are kept that are the best under one of as many weightings."""
_SAME_FITNESS = 1e-9
"""A fitness that differs by less from the weighted mean of its rewards is this mean, computed in another order."""


class FrontAnswer(NamedTuple):
    """A stored answer. arm: its place in the comparison; run: of its search; stored: its scores"""

    arm: int
    run: RunRecord
    stored: CandidateSummary


@dataclass(frozen=True, eq=False)
class AnswerFront:
    """Of every arm the valid answers that no other one of the arm beats, one of each reward vector, and its fittest.

    answers: the fittest first, of equals the one that was stored first, in the order of arms and seeds
    weights: the problem's own, in the order of its objectives; None if the fitness is no weighted mean of the rewards,
        or the arms were searched under different ones
    left_out: answers beyond _MOST
    """

    problem: ProblemRecord
    answers: tuple[FrontAnswer, ...]
    weights: tuple[float, ...] | None
    left_out: int = 0

    @cached_property
    def equal(self) -> float:
        """Weighted means that differ by less are equal."""
        return ROUNDING * max((1.0, *(abs(reward) for one in self.answers for reward in one.stored.rewards)))


def read_valid(store: Store, searches: Iterable[tuple[int, RunRecord, int]]) -> list[FrontAnswer]:
    """Every valid answer of the searches of a problem. searches: (the arm's place, the run, the problem's id in it), by
    arm and seed"""
    return [
        FrontAnswer(arm, run, child) for arm, run, id in searches for child in children(store, id) if not child.failed
    ]


def front_of(problem: ProblemRecord, valid: Sequence[FrontAnswer]) -> AnswerFront | None:
    """The front of all valid answers; None for a problem of one objective."""
    if len(problem.objectives) < 2:
        return None
    of_search: dict[tuple[int, int], list[FrontAnswer]] = {}
    for one in valid:
        of_search.setdefault((one.arm, one.run.id), []).append(one)
    of_arm: dict[int, list[FrontAnswer]] = {}
    for (arm, _), found in of_search.items():
        of_arm.setdefault(arm, []).extend(_undominated(found))
    kept, left_out = list[FrontAnswer](), 0
    for found in map(_undominated, of_arm.values()):
        few = _best_under_some(found, _MOST // len(of_arm))
        kept += few
        left_out += len(found) - len(few)
    owns = {_own_weights(problem, one.run) for one in valid}
    weights = owns.pop() if len(owns) == 1 else None
    if weights is None or sum(weights) <= 0 or not all(_is_mean(one.stored, weights) for one in kept):
        weights = None
    return AnswerFront(problem, tuple(sorted(kept, key=lambda one: -one.stored.fitness)), weights, left_out)


def _own_weights(problem: ProblemRecord, run: RunRecord) -> tuple[float, ...]:
    """Those that the run was searched under, else those of the problem."""
    named = run.config.get("weights")
    if isinstance(named, Mapping) and any(named.get(name) for name in problem.objectives):
        return tuple(float(named.get(name, 0.0)) for name in problem.objectives)
    return tuple(one.weight for one in problem.metrics)


def _is_mean(stored: CandidateSummary, weights: Sequence[float]) -> bool:
    mean = weighted_mean(stored.rewards, weights) / sum(weights)
    return abs(mean - stored.fitness) <= _SAME_FITNESS * max(1.0, abs(stored.fitness))


def _undominated(answers: Sequence[FrontAnswer]) -> list[FrontAnswer]:
    """In their order: the first of every vector that no other one dominates, and the first of the fittest."""
    if not answers:
        return []
    rewards, fitness = _rewards(answers), [one.stored.fitness for one in answers]
    first = np.unique(rewards, axis=0, return_index=True)[1]
    mask = pareto_mask(rewards)
    kept = {int(at) for at in first if mask[at]} | {int(np.argmax(fitness))}
    return [answers[at] for at in sorted(kept)]


def _best_under_some(answers: list[FrontAnswer], most: int) -> list[FrontAnswer]:
    """All of at most `most`; of more the fittest, and those that are the best under fixed weightings."""
    if len(answers) <= most:
        return answers
    rewards = _rewards(answers)
    d = rewards.shape[1]
    weights = np.vstack([np.eye(d), dirichlet_weights(max(1, most - d - 1), d, sampler="sobol", seed=0)])
    fittest = int(np.argmax([one.stored.fitness for one in answers]))
    return [answers[at] for at in sorted({fittest, *np.argmax(rewards @ weights.T, axis=0).tolist()})]


def _rewards(answers: Sequence[FrontAnswer]) -> npt.NDArray[np.float64]:
    return np.array([one.stored.rewards for one in answers], dtype=np.float64)
