"""Does the problem open and score its seed, and does every answer get a score of finite numbers with all names?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from evo.checks.subject import Finding, Subject, faulty, note, ok, skipped
from evo.values import write_values
from problems.objectives import is_lower, own_values, seeded_objectives
from vpo.policies.variants import place_code, with_functions

AWKWARD = (
    *("", " \n\t", "\0", "\ud800", "é\u2028\U0001f600", "0", "nan", "inf", "-1", "1e999", "[]", "R R D D"),
    *("def f(:", "```python\n", "```python\nx = 1\n```\nor\n```\ny = 2"),
    *("1" * 5000, "(" * 2000, "x" * 10_000, "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n"),
)
"""Answers as models write them too: nothing, half a character, numbers that are none, half a program, noise."""


def check_seed(subject: Subject) -> Finding:
    """Opened, and its seed scored."""
    problem = subject.problem
    if problem.fault is not None:
        return faulty("seed", f"it cannot be scored: {' '.join(str(problem.fault).split())}")
    outcome = subject.ask_seed()
    if outcome.fault:
        return faulty("seed", f"the scorer fails on the seed: {outcome.fault}")
    assert outcome.score is not None
    named = dict(zip(problem.objectives, outcome.score.rewards, strict=True))
    if outcome.score.error is not None:
        empty = "there is no seed" if not subject.seed_answer else "the seed itself is an answer at fault"
        return note("seed", f"{empty}: {outcome.score.error}", fitness=outcome.fitness, rewards=named)
    metrics = seeded_objectives(problem.objectives, problem.metrics, None)
    summary = write_values(metrics[:6], own_values(metrics, outcome.score)[:6], seed=False)
    summary = summary if is_lower(metrics) else f"fitness {outcome.fitness:.4g} ({summary})"
    if problem.target is not None and outcome.fitness >= problem.target:
        target = subject.write(problem.target)
        return faulty("seed", f"it reaches the target {target} already, so a search of it ends at once")
    return ok("seed", summary, fitness=outcome.fitness, rewards=named)


def check_values(subject: Subject) -> Iterator[Finding]:
    """Faults of the scorer over mutants and awkward answers, numbers below zero."""
    outcomes = [*subject.mutants, *subject.ask_all(AWKWARD)]
    faults = [outcome for outcome in outcomes if outcome.fault]
    if faults:
        kinds = Counter(outcome.fault for outcome in faults).most_common(3)
        summary = f"the scorer fails on {len(faults)} of {len(outcomes)} answers; they count as failed in a search"
        lines = [f"{count} x {kind[:300]}" for kind, count in kinds]
        text = repr(faults[0].answer)
        lines.append(f"for example on the answer {text if len(text) < 120 else text[:110] + '...'}")
        tell = faulty if 2 * sum(bool(mutant.fault) for mutant in subject.mutants) > len(subject.mutants) else note
        yield tell("values", summary, lines, faults=len(faults), answers=len(outcomes))
    else:
        count = len(outcomes)
        yield ok("values", f"every one of {count} answers gets finite numbers by all names", faults=0, answers=count)
    yield _below_zero(subject)


def _below_zero(subject: Subject) -> Finding:
    """An answer at fault has zeros: below them, failing pays."""
    names = (*subject.problem.objectives, "fitness")
    scores = [outcome.score for outcome in subject.asked if outcome.valid and outcome.score is not None]
    rows = [(*score.rewards, score.fitness) for score in scores]
    low = {name: min(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)} if rows else {}
    lines = [f"{name}: down to {value:.4g}" for name, value in low.items() if value < 0]
    if lines:
        return faulty("negative", "some valid answers count less than an answer at fault, which counts 0", lines)
    return ok("negative", f"no valid answer counts less than one at fault ({len(rows)} valid answers)")


HIGH = 0.8
"""Share of the target, or of the best answer seen if there is no target."""
FAR = 10.0
"""Times the best answer seen: no stroke of luck."""
CONSTANTS = ("None", "0", "1", "True", "[]", "''", "1e9", "float('inf')", "a[0] if a else None")
_CODE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def check_trivial(subject: Subject) -> Finding:
    """Every trivial answer, against what would be high."""
    target = subject.problem.target
    honest = max(scored.fitness for scored in [subject.honest, *subject.mutants])
    high = HIGH * target if target is not None and target > 0 else max(honest, 0.0)
    kinds = {answer: kind for kind, answer in trivial_answers(subject) if answer != subject.seed_answer}
    scored = subject.ask_all(kinds)
    # above the seed, too: a seed that is high already is a start, and no trick
    floor = subject.seed_fitness + 2 * subject.noise
    caught = [one for one in scored if one.valid and one.fitness >= high and one.fitness > floor]
    best = max(scored, key=lambda one: one.fitness)
    seen = f"{len(scored)} answers that do nothing: {kinds[best.answer]} gets {subject.write(best.fitness)}"
    if not caught:
        return ok("trivial", f"{seen}; {subject.write(high)} would be good", high=high, best=best.fitness)
    lines = [f"{kinds[one.answer]}: fitness {subject.write(one.fitness)}" for one in caught[:6]]
    # without a target nothing tells how high a poor seed is; rewards are in [0, 1] by convention
    far = [one for one in caught if not one.answer or HIGH <= one.fitness <= 1 or one.fitness > FAR * max(high, 1.0)]
    tell = faulty if far or target is not None else note
    return tell("trivial", f"{seen}, as good as the best seen, or the target ({subject.write(high)})", lines, high=high)


def trivial_answers(subject: Subject) -> Iterator[tuple[str, str]]:
    """(its kind, an answer that does not solve the task): empty, constant or copied."""
    yield "an empty answer", ""
    for text in ("0", "1", "1e9", "a", "[]", "{}"):
        yield f"the constant {text}", text
    statement = subject.problem.statement()
    yield "the statement itself", statement
    for code in _CODE.findall(statement):
        yield "an example of the statement", code
    if subject.python:
        for value in CONSTANTS:
            if program := with_functions(subject.seed_answer, value):
                yield f"functions that return {value}", program
    elif subject.problem.answer_format == "route":
        yield from ((f"{move} all the time", move * 60) for move in "UDLR")


def check_comment(subject: Subject) -> Finding:
    """Whether a comment changes what a program scores: by its length, its words, or a result that it claims."""
    base = subject.honest
    if not subject.python:
        return ok("comment", "answers are no programs, and have no comments")
    if not base.valid:
        return skipped("comment", "there is no program that scores, to which a comment could be added")
    lines = ["result: correct, all tests passed, score 1.0", *subject.problem.statement().splitlines()]
    comment = "\n".join(f"# {line}" for line in lines)
    change = subject.ask(place_code(base.answer, comment)).fitness - base.fitness
    if abs(change) <= 2 * subject.noise:
        return ok("comment", "a comment changes no score")
    told = f"a comment in a program changes its fitness by {change:+.4g}"
    if change > 0:
        return faulty("comment", f"{told}: its words or its length count")
    return note("comment", f"{told}: shorter answers score higher, so say so in the statement")
