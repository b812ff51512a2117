"""The value of an archive: what a search that holds it will reach with the iterations that it has left.

A critic is fitted to stored searches: V(archive, iterations left) is the chance to solve the problem or, if problems
have no target, the expected best as a share of what the stored search of the problem ended with. The reward of a set
of answers is its lift: V of the archive with the answers, after an iteration, less V of the archive after an iteration
that found nothing. It is 0 for repeats, and differs from the change of V over the iteration by a number that all
rollouts of a group have in common. An answer that lowers V is worth 0: a search may ignore it.

The critic is a logistic regression on seven features and their products, none of which names the problem. Its
calibration is measured on problems that it was not fitted to. Archives in training do not end as searches do: they
show what the answers to a prompt reached, not what a budget reaches. So the fit remains that of the stored run, and
its level follows the policy: every REFIT steps, all logits move by what the outcomes of prompts have changed since the
first steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit

from evo.errors import BadInput
from evo.training.curriculum import Moment, StoredArchives, StoredSearch, front
from vpo.scalarize import Floats, dirichlet_weights

DRAWS = 16
"""Moments of a stored problem that the critic is fitted to."""
FOLDS = 5
"""Parts of the problems; each is predicted by a fit to the others. A run needs as many finished problems."""
RIDGE = 1e-3
REFIT = 8
"""Steps between two fits of the level."""
PHASES = ((0.0, 0.125), (0.125, 0.375), (0.375, 1.0))
"""Parts of a search, as shares of its budget, for which calibration is reported."""
BINS = 10
Held = Mapping[tuple[float, ...], float]
"""The distinct reward vectors of an archive, each with its fitness."""


def scale_of(target: float | None, ended: float) -> float:
    """The fitness that counts as 1: the target or, if none is positive, the best that the stored search ended with."""
    return next((value for value in (target, ended) if value is not None and value > 0), 1.0)


def features(held: Held, scale: float, stale: int, elapsed: int, left: int) -> Floats:
    """An archive at a moment of its search, (7,): the best share of the scale; the mean over random weightings of the
    best under them; spread and size of the front's fittest, from which parents are drawn; iterations since a better
    best, so far, and left, as logarithms."""
    times = np.log1p([stale, elapsed, left])
    if not held:
        return np.concatenate([np.zeros(4), times])
    vectors, fitness = np.array(list(held)), list(held.values())
    best = vectors[front(vectors, fitness)]
    mean = float((best @ _weightings(best.shape[1]).T).max(axis=0).mean()) / scale
    return np.array([max(fitness) / scale, mean, float(np.ptp(best, axis=0).mean()), np.log(len(best)), *times])


@cache
def _weightings(objectives: int) -> Floats:
    return dirichlet_weights(64, objectives, sampler="sobol")


class Examples(NamedTuple):
    """Moments of stored searches: features (N, 7), outcomes (N,) in [0, 1], the problem's number and the share of the
    budget that was spent."""

    features: Floats
    outcomes: Floats
    problems: Floats
    spent: Floats


def draw_examples(searches: Iterable[StoredSearch], seed: int, *, solves: bool) -> Examples:
    """DRAWS moments of each search before it reaches the scale, each with a horizon that the budget allows and what was
    reached within it. Both are drawn without regard to the outcome, so that no search is cut short."""
    rows, outcomes, problems, spent = [], [], [], []
    for number, search in enumerate(searches):
        rng = np.random.default_rng([seed, 7, number])
        scale = scale_of(search.target, max((fitness for _, _, fitness in search.answers), default=0.0))
        end = next((iteration + 1 for iteration, _, fitness in search.answers if fitness >= scale), search.budget)
        for elapsed in rng.integers(0, min(end, search.budget), DRAWS) if end > 0 else ():
            left = int(np.exp(rng.uniform(0.0, np.log(search.budget - elapsed + 1))))
            before = [answer for answer in search.answers if answer[0] < elapsed]
            held = {rewards: fitness for _, rewards, fitness in before}
            share = max(held.values(), default=0.0) / scale
            after = max((fitness for i, _, fitness in search.answers if i < elapsed + left), default=0.0) / scale
            moment = Moment.of(int(elapsed), ((iteration, fitness) for iteration, _, fitness in before))
            rows.append(features(held, scale, moment.stale, moment.elapsed, left))
            outcomes.append(outcome(share, after, solves=solves))
            problems.append(number)
            spent.append(elapsed / search.budget)
    return Examples(np.array(rows), np.array(outcomes), np.array(problems, dtype=float), np.array(spent))


def outcome(before: float, after: float, *, solves: bool) -> float:
    """1 if the share of the scale came to 1, else 0; if there are no targets, the part of the way to 1 that it went."""
    if solves or before >= 1.0:
        return float(after >= 1.0)
    return float(np.clip((after - before) / (1.0 - before), 0.0, 1.0))


@dataclass(frozen=True)
class Critic:
    """Logistic regression on standardised features, their squares and products. center, width: (7,); weights: (36,)"""

    center: Floats
    width: Floats
    weights: Floats

    @classmethod
    def fit(cls, x: Floats, y: Floats) -> Critic:
        """Minimise the cross-entropy with outcomes in [0, 1], with a ridge: (N, 7), (N,)."""
        begun = cls(x.mean(axis=0), x.std(axis=0) + 1e-6, np.zeros(0))
        terms = begun._terms(x)

        def loss(weights: Floats) -> tuple[float, Floats]:
            logits, held = terms @ weights, np.concatenate([[0.0], weights[1:]])
            value = np.mean(np.logaddexp(0.0, logits) - y * logits) + RIDGE / 2 * held @ held
            return float(value), terms.T @ (expit(logits) - y) / len(y) + RIDGE * held

        found = minimize(loss, np.zeros(terms.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
        return cls(begun.center, begun.width, np.asarray(found.x))

    def logits(self, x: Floats) -> Floats:
        """(N, 7) -> (N,). Features beyond three deviations of the examples count as three."""
        return np.asarray(self._terms(x) @ self.weights)

    def _terms(self, x: Floats) -> Floats:
        z = np.clip((x - self.center) / self.width, -3.0, 3.0)
        i, j = np.triu_indices(z.shape[1])
        return np.concatenate([np.ones((len(z), 1)), z, z[:, i] * z[:, j]], axis=1)


@dataclass(frozen=True)
class Calibration:
    """How predictions (N,) agree with outcomes.

    brier: mean squared error; base: that of the mean outcome; ece: expected calibration error
    bins: (predicted, outcome, count) of every tenth of the predictions that has any
    """

    brier: float
    base: float
    ece: float
    bins: tuple[tuple[float, float, int], ...]

    @classmethod
    def of(cls, predicted: Floats, outcomes: Floats) -> Calibration:
        places = np.minimum((predicted * BINS).astype(int), BINS - 1)
        bins = [
            (float(predicted[at].mean()), float(outcomes[at].mean()), int(at.sum()))
            for at in (places == place for place in range(BINS))
            if at.any()
        ]
        ece = sum(abs(p - y) * count for p, y, count in bins) / len(outcomes)
        brier = float(np.mean((predicted - outcomes) ** 2))
        return cls(brier, float(np.mean((outcomes.mean() - outcomes) ** 2)), ece, tuple(bins))


def predict_held_out(examples: Examples, seed: int) -> Floats:
    """Each example's value by a fit to the problems of the other folds, (N,)."""
    problems = np.unique(examples.problems)
    fold_of = np.random.default_rng([seed, 8]).permutation(len(problems)) % FOLDS
    folds = fold_of[np.searchsorted(problems, examples.problems)]
    predicted = np.zeros(len(folds))
    for fold in range(FOLDS):
        fitted = Critic.fit(examples.features[folds != fold], examples.outcomes[folds != fold])
        predicted[folds == fold] = expit(fitted.logits(examples.features[folds == fold]))
    return predicted


class SearchValue:
    """The critic of a training run, with its calibration and the level that follows the policy.

    searches: finished problems of the stored run. visit: iterations of a search that a prompt's answers make
    Raises BadInput if there are too few of them, or if all ended alike.
    """

    def __init__(self, searches: Sequence[StoredSearch], run: str, *, visit: int = 1, seed: int = 0) -> None:
        self.solves = all(search.target is not None and search.target > 0 for search in searches)
        examples = draw_examples(searches, seed, solves=self.solves)
        self.problems, self.visit = len(set(examples.problems)), visit
        if self.problems < FOLDS:
            raise BadInput(
                f"run {run} has {self.problems or 'no'} finished problems; reward search-value needs {FOLDS} or more "
                "to fit its critic: let the run end, or search more problems"
            )
        if len(set(examples.outcomes)) < 2:
            raise BadInput(
                f"run {run} has no variation in outcome: {'all' if examples.outcomes.all() else 'none'} of its "
                "finished searches succeed; reward search-value needs some that do and some that do not"
            )
        predicted = predict_held_out(examples, seed)
        self.calibration = Calibration.of(predicted, examples.outcomes)
        self.phases = [
            (low, high, Calibration.of(predicted[at], examples.outcomes[at]))
            for low, high in PHASES
            if (at := (examples.spent >= low) & (examples.spent < high)).any()
        ]
        self.critic = Critic.fit(examples.features, examples.outcomes)
        self.budget = searches[0].budget
        self._level = 0.0
        self._first: float | None = None
        self._steps, self._observed = 0, list[tuple[float, float]]()

    def value(self, held: Held, scale: float, moment: Moment, left: int | None = None, spent: int = 0) -> float:
        """V of an archive `spent` iterations after the moment; left: iterations from then on, by default to the end."""
        share = max(held.values(), default=0.0) / scale
        floor = float(share >= 1.0) if self.solves else share
        rest = self.budget - moment.elapsed - spent if left is None else left
        if floor >= 1.0 or rest <= 0:
            return floor
        return floor + (1.0 - floor) * float(expit(self._logit(held, scale, moment, rest, spent) + self.drift))

    def lifts(self, held: Held, sets: Sequence[Held], scale: float, moment: Moment) -> list[float]:
        """What each set of answers adds to V of the archive; 0 for what the archive has."""
        wasted = self.value(held, scale, moment, spent=1)
        best = max(held.values(), default=0.0)
        known: dict[tuple[tuple[float, ...], ...], float] = {(): 0.0}
        lifts = []
        for answers in sets:
            new = {rewards: fitness for rewards, fitness in answers.items() if rewards not in held}
            key = tuple(sorted(new))
            if key not in known:
                better = max(new.values()) > best
                at = Moment(moment.elapsed, moment.elapsed + 1) if better else moment
                known[key] = max(self.value({**held, **new}, scale, at, spent=1) - wasted, 0.0)
            lifts.append(known[key])
        return lifts

    @property
    def drift(self) -> float:
        """By how much the logit of every value has moved since the first REFIT steps."""
        return 0.0 if self._first is None else self._level - self._first

    def observe(self, visits: Sequence[tuple[Held, float, Moment, float]]) -> dict[str, float]:
        """Take in a step's prompts: archive, scale and moment before, and the best fitness after. Returns how the
        values of what a prompt's answers can reach agree with what they reached; fits the level if it is its turn."""
        pairs = []
        for held, scale, moment, after in visits:
            share = max(held.values(), default=0.0) / scale
            if share < 1.0:
                logit = self._logit(held, scale, moment, self.visit, 0)
                pairs.append((logit, outcome(share, max(after / scale, share), solves=self.solves)))
        if not pairs:
            return {}
        logits, outcomes = np.array(pairs).T
        predicted = expit(logits + self._level)
        self._observed += pairs
        self._steps += 1
        if self._steps % REFIT == 0:
            self._level = fit_level(*np.array(self._observed).T)
            self._first = self._level if self._first is None else self._first
            self._observed = []
        return {
            "value": float(predicted.mean()),
            "reached": float(outcomes.mean()),
            "value_brier": float(np.mean((predicted - outcomes) ** 2)),
            "value_drift": self.drift,
        }

    def _logit(self, held: Held, scale: float, moment: Moment, left: int, spent: int) -> float:
        elapsed = moment.elapsed + spent
        row = features(held, scale, elapsed - moment.improved, elapsed, left)
        return float(self.critic.logits(row[None])[0])

    @property
    def metrics(self) -> dict[str, float]:
        """The calibration of the fit, for the log."""
        found = self.calibration
        return {"brier": found.brier, "base": found.base, "ece": found.ece, "problems": float(self.problems)}

    def note(self) -> str:
        """The calibration of the fit, for the card."""
        what = "chance to solve" if self.solves else "expected best"
        found = self.calibration
        lines = [
            f"## The value of the archive ({what}), on held-out problems of {self.problems}",
            f"Brier score {found.brier:.4f}, base rate {found.base:.4f}, expected calibration error {found.ece:.4f}.",
            "\n".join(
                ["| part of the budget | Brier | base rate | calibration error |", "|---|---|---|---|"]
                + [
                    f"| {low:g} to {high:g} | {c.brier:.4f} | {c.base:.4f} | {c.ece:.4f} |"
                    for low, high, c in self.phases
                ]
            ),
            "\n".join(
                ["| predicted | outcome | moments |", "|---|---|---|"]
                + [f"| {predicted:.3f} | {reached:.3f} | {count} |" for predicted, reached, count in found.bins]
            ),
        ]
        return "\n\n".join(lines)

    def state(self) -> dict[str, Any]:
        """Plain values that `restore` takes back; the fit is made again from the stored run."""
        return {"level": self._level, "first": self._first, "steps": self._steps, "observed": self._observed}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._level, self._first, self._steps = state["level"], state["first"], state["steps"]
        self._observed = [(float(logit), float(reached)) for logit, reached in state["observed"]]


def fit_level(logits: Floats, outcomes: Floats) -> float:
    """The shift of the logits that fits the outcomes best, held to 0 as by one observation: (N,), (N,)."""
    return float(brentq(lambda level: np.sum(expit(logits + level) - outcomes) + 0.25 * level, -30.0, 30.0))


def fit_search_value(archives: StoredArchives, *, answers: int, seed: int) -> SearchValue:
    """The critic of the archives' run. answers: that training samples for a prompt"""
    visit = max(1, round(answers / archives.answers_per_iteration))
    return SearchValue(list(archives.searches()), archives.run, visit=visit, seed=seed)
