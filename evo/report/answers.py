"""The best answers of the page: each problem's statement, and each arm's best answer with its lineage, its difference
to its parent and its prompt. Texts are bounded, so that a page of many problems stays small.

Charts are raw numbers here: lines of arms with their bands, in the arms' colours and marks. The page's script draws
them (templates/page.js)."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.comparison.summary import Curve
from evo.progress.answer import (
    StoredAnswer,
    describe_best_known,
    describe_score,
    describe_verified,
    problem_of,
    read_answers,
    score_held_out,
    statement_of,
)
from evo.progress.answer_set import AnswerFront, FrontAnswer, front_of
from evo.progress.arm_style import style_of
from evo.progress.model import Progress, SearchRecord
from evo.tui.line import visible
from evo.values import scored_value, write_number, write_value
from islands.groups import CandidateReader
from islands.names import format_db_option
from islands.runs import elites
from islands.types import Candidate, ProblemRecord
from problems.objectives import Reward, Value, measure_of, own_values, value_of
from problems.weights import weights_argument
from vpo.scalarize import Floats

_POINTS = 120
"""Of a line at most."""


def plot_line(
    arm: int,
    name: str,
    x: Floats,
    y: Floats,
    low: Floats | None = None,
    high: Floats | None = None,
    *,
    steps: bool = False,
) -> dict[str, Any]:
    """A line of an arm, for the script: null for an unknown value. arm: its place in the comparison; x, y: (K,), NaN
    for an unknown value; low, high: its band, or None; steps: it keeps its height until the next value"""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).round().astype(int))
    numbers = {
        key: [float(value) if math.isfinite(value) else None for value in of[kept]]
        for key, of in {"x": x, "y": y, "low": low, "high": high}.items()
        if of is not None
    }
    return {"name": visible(name), "steps": steps, "place": arm, **style_of(arm)._asdict(), **numbers}


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart. share: values from 0 to 1, shown in full; rule: a height that is marked, as a target; note: what it
    shows, in a sentence"""

    title: str
    x_title: str
    lines: Sequence[Mapping[str, Any]]
    share: bool = False
    rule: float | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the script."""
        titles = {"title": visible(self.title), "x": visible(self.x_title)}
        return {**titles, "share": self.share, "rule": self.rule, "lines": list(self.lines)}


def curve_lines(names: Sequence[str], curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    """The arms' curves with their bands. names: all arms, in order"""
    lines = []
    for place, curve in ((place, curves[name]) for place, name in enumerate(names) if name in curves):
        x, begins = curve.at.astype(float), math.isfinite(curve.start)
        of = [(curve.mean, curve.start), (curve.low, math.nan), (curve.high, math.nan)]
        y, low, high = (np.insert(values, 0, start) if begins else values for values, start in of)
        lines.append(plot_line(place, names[place], np.insert(x, 0, 0.0) if begins else x, y, low, high))
    return lines


_PAGE_CHARS = 2_400_000
"""Of all texts together; each text has an equal share."""
_FEWEST_CHARS, _MOST_CHARS = 160, 6_000
MOST_CARDS, _MOST_POINTS = 12, 1_600
"""Problems whose best answer leads the page, and answers in all their trees."""
_FRONT_CHARS = 100_000
"""Of the texts of all answers that one problem's weights choose from; each has an equal share."""
_SLIDER = 50
"""Where the slider of the largest of a problem's own weights begins; it ends at twice that."""
_ANCESTORS = 12


@dataclass(frozen=True)
class BestAnswer:
    """An arm's fittest answer to a problem, over its seeds. picture: as the problem draws it; tested: its score on
    held-out cases, or that of a verification; "" for none"""

    search: SearchRecord
    stored: StoredAnswer
    picture: str
    tested: str

    @property
    def seed(self) -> Value:
        """Of the fittest seed answer; not known without a valid one."""
        return self.search.rises[0].value if self.search.rises[0].iteration == 0 else Value(None)

    @property
    def solved(self) -> bool:
        return self.search.solved_at is not None


@dataclass(frozen=True)
class ProblemDetail:
    """row: its place in the comparison. target: not known without one. statement: "" if the problem cannot be looked
    up here; its prompt has it then. known: the best known value and the best one of these runs, "" if none is known.
    chart: the best value over iterations. answers: one for each arm with a valid answer. map: of the problems whose
    best answer leads the page, the numbers of their answers (map_answers); weights: of these problems with several
    objectives, the answers that are best under some weights (weigh_answers)"""

    row: int
    name: str
    target: Value
    statement: str
    known: str
    chart: Plot
    answers: tuple[BestAnswer, ...]
    map: Mapping[str, Any]
    weights: Mapping[str, Any]

    @property
    def best(self) -> BestAnswer | None:
        """The fittest of the arms' answers, the first of equals."""
        return max(self.answers, key=lambda answer: answer.search.rises[-1].fitness, default=None)


def problem_details(progress: Progress, most: int, *, held_out: bool = False) -> tuple[ProblemDetail, ...]:
    """The details of the first `most` problems that count. held_out: whether to score the answers that lead the page on
    held-out cases, if they were not verified"""
    problems, arms = progress.comparison.problems[:most], progress.comparison.arms
    fittest = {at: search for at, search in progress.fittest().items() if at[0] < len(problems)}
    room = max(_FEWEST_CHARS, min(_MOST_CHARS, _PAGE_CHARS // max(1, 4 * len(fittest) + len(problems))))
    of_problem = {search.rises[-1].candidate: problems[row] for (row, _), search in fittest.items()}
    stored = read_answers(progress.store, of_problem, lineage=_ANCESTORS + 1, room=room)
    lines: dict[int, list[dict[str, Any]]] = {}
    for search in progress.searches():
        if search.row is not None and search.row < len(problems) and search.rises:
            x = [float(rise.iteration) for rise in search.rises] + [float(max(search.iterations, 1))]
            y = [rise.value.number for rise in (*search.rises, search.rises[-1])]
            name = f"{arms[search.arm].name}, seed {search.run.seed}"
            lines.setdefault(search.row, []).append(plot_line(search.arm, name, np.array(x), np.array(y), steps=True))
    details, cards = list[ProblemDetail](), MOST_CARDS
    for row, problem in enumerate(problems):
        found = [fittest[row, place] for place in range(len(arms)) if (row, place) in fittest]
        top = max(found, key=lambda search: search.rises[-1].fitness, default=None)
        best = None if top is None else top.rises[-1].fitness
        leads, cards = cards > 0, cards - (top is not None)
        answers = list[BestAnswer]()
        for search in found:
            one = stored[search.rises[-1].candidate]
            tested = _test(search, one, held_out and leads and search.rises[-1].fitness == best)
            answers.append(BestAnswer(search, one, statement_of(problem, one.candidate.text).picture, tested))
        stated, target = statement_of(problem), value_of(problem.metrics, problem.target)
        reached = "" if stated.best_known is None else describe_best_known(best, stated.best_known)
        chart = Plot(f"best {target.measure.title}", "iteration", lines.get(row, ()), rule=target.number)
        drawn, weights = _explore(progress, row, top) if leads and top is not None else ({}, {})
        statement = bounded(stated.text, room)
        details.append(
            ProblemDetail(row, problem.name, target, statement, reached, chart, tuple(answers), drawn, weights)
        )
    return tuple(details)


def _explore(progress: Progress, row: int, top: SearchRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """The map of a problem's answers, and what its weights choose from. top: the search with the fittest answer"""
    problem, valid = progress.comparison.problems[row], progress.read_valid(row)
    front = front_of(problem, valid)
    fittest = sorted(valid, key=lambda one: (-one.stored.fitness, one.stored.id))
    shown = fittest[: _MOST_POINTS // min(len(progress.comparison.problems), MOST_CARDS)]
    every = {one.stored.id: one for one in (*shown, *(() if front is None else front.answers))}
    candidates = {one.id: one for one in CandidateReader(progress.store, 0).fetch(list(every))}
    drawn = map_answers(progress, problem, every.values(), candidates, left_out=len(valid) > len(every))
    drawn["front"] = [] if front is None else [one.stored.id for one in front.answers]
    drawn["grid"] = _grid(progress, top)
    return drawn, {} if front is None else weigh_answers(progress, front, candidates, valid)


def _test(search: SearchRecord, answer: StoredAnswer, score: bool) -> str:
    """The score of a best answer on held-out cases. score: whether to score one that was not verified"""
    candidate, metrics = answer.candidate, answer.problem.metrics
    verified = describe_verified(search.run, candidate.id, metrics)
    scores = score_held_out(answer.problem, [candidate]) if score and not verified else []
    return verified or "".join(describe_score(one, metrics) for one in scores)


def map_answers(
    progress: Progress,
    problem: ProblemRecord,
    answers: Iterable[FrontAnswer],
    candidates: Mapping[int, Candidate],
    *,
    left_out: bool,
) -> dict[str, Any]:
    """The fittest valid answers to a problem, and those of its front, as numbers, which the page's script draws over
    each other and as a tree: candidate, arm, parent, and its value on each axis. The fittest comes first."""
    metrics, height = problem.metrics, measure_of(problem.metrics)
    axes = metrics if len(metrics) > 1 else ()
    points = []
    for arm, _, stored in answers:
        scored = candidates[stored.id]
        values = own_values(metrics, scored) if axes else ()
        fitness = scored_value(metrics, scored).number
        points.append((stored.id, arm, stored.parent, stored.iteration + 1, fitness, *values))
    return {
        "axes": [visible(name) for name in ("iteration", height.name, *(one.name for one in axes))],
        "lower": [False, height.lower, *(one.lower for one in axes)],
        "arms": [(visible(arm.name), style_of(place).colour) for place, arm in enumerate(progress.comparison.arms)],
        "points": points,
        "left_out": left_out,
    }


def _grid(progress: Progress, search: SearchRecord) -> dict[str, Any]:
    """The archive of a search on all its islands: the features that span it, and of each occupied cell the candidate,
    its value, its fitness and the cell's bins; {} for a grid of fewer than two features."""
    (record,) = [one for one in progress.store.problems(search.run.id) if one.id == search.problem_id]
    names = record.dimensions or ()
    cells = [
        (
            one.candidate,
            value_of(record.metrics, Reward(one.fitness)).number,
            one.fitness,
            *map(int, one.cell.split("-")),
        )
        for one in elites(progress.store, [record.id])
    ]
    return {"features": [visible(name) for name in names], "cells": cells} if len(names) > 1 and cells else {}


def weigh_answers(
    progress: Progress, front: AnswerFront, texts: Mapping[int, Candidate], valid: Sequence[FrontAnswer]
) -> dict[str, Any]:
    """What the sliders choose from: numbers to choose by, and all that is shown of an answer as text.

    valid: all answers, of which those with equal values are counted
    own: the problem's weights, None if there are none; sliders: where they begin; commands: of each arm, to which
    weights are added; left_out: answers that are not here"""
    problem, own, arms = front.problem, front.weights, progress.comparison.arms
    names, db = problem.objectives, format_db_option(progress.store.address)
    room = max(_FEWEST_CHARS, min(_MOST_CHARS, _FRONT_CHARS // max(1, len(front.answers))))
    largest = max(own or (1.0,))
    found, metrics = problem_of(problem), problem.metrics
    alike = Counter((one.arm, one.stored.rewards) for one in valid)

    def describe(one: FrontAnswer) -> dict[str, Any]:
        candidate, iteration = texts[one.stored.id], one.stored.iteration + 1
        picture = "" if found is None else found.picture(candidate.text)
        fitness = scored_value(metrics, candidate)
        return {
            "id": candidate.id,
            "arm": one.arm,
            "born": (f"iteration {iteration}" if iteration else "seed answer") + f", seed {one.run.seed}",
            "rewards": candidate.rewards,
            "fitness": f"{fitness.measure.name} {write_value(fitness)}",
            "score": fitness.number,
            "alike": alike[one.arm, one.stored.rewards],
            "values": [
                write_number(value, [of.seed])
                for of, value in zip(metrics, own_values(metrics, candidate), strict=True)
            ],
            "text": visible(bounded(candidate.text, room)),
            "picture": visible(bounded(picture, _MOST_CHARS)),
        }

    return {
        "names": names,
        "own": own,
        "weights": "" if own is None else weights_argument(dict(zip(names, own, strict=True))),
        "sliders": [round(_SLIDER * weight / largest) for weight in own or (largest,) * len(names)],
        "equal": front.equal,
        "commands": [f"evo best {shlex.quote(arm.runs[0].listed_name)}{db}" for arm in arms],
        "left_out": front.left_out,
        "answers": [describe(one) for one in front.answers],
    }


def bounded(text: str, room: int) -> str:
    """The text; of a longer one its beginning, and the number of characters that are left out."""
    return text if len(text) <= room else f"{text[:room]}\n… and {len(text) - room:,} more characters"
