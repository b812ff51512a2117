"""All checks of one problem in the order of a report: what answers get, whether they get it again, and what the
objectives are worth; then attacks. A cheat is an answer that has not solved the task and could score all the same: by
what its functions return, what it claims, how it ends. It is scored as every answer is, in the sandbox."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.checks.subject import EXPLOITED, CheckReport, Finding, Level, Outcome, Subject, faulty, note, ok, skipped
from evo.testing.problem import AWKWARD, SCORING_TESTS, ProblemContract
from evo.values import write_values
from problems.contract import BadAddress, Problem, ScorerFault
from problems.custom.scorer_problem import suggests_lower
from problems.objectives import is_lower, own_values, seeded_objectives
from problems.registry import resolve
from problems.sandbox.contract import Mode, SandboxUnavailable
from problems.sandbox.pool import Sandbox
from vpo.policies.mutation import read_numbers
from vpo.policies.variants import place_code, with_functions


def check_seed(subject: Subject) -> Finding:
    """Opened, and its seed scored."""
    problem = subject.problem
    if problem.fault is not None:
        return faulty("seed", f"it cannot be scored: {' '.join(str(problem.fault).split())}")
    outcome = subject.ask_seed()
    if outcome.fault:
        return faulty("seed", f"the scorer fails on the seed: {outcome.fault}")
    assert outcome.score is not None
    if outcome.score.error is not None:
        empty = "there is no seed" if not subject.seed_answer else "the seed itself is an answer at fault"
        return note("seed", f"{empty}: {outcome.score.error}")
    metrics = seeded_objectives(problem.objectives, problem.metrics, None)
    summary = write_values(metrics[:6], own_values(metrics, outcome.score)[:6], seed=False)
    summary = summary if is_lower(metrics) else f"fitness {outcome.fitness:.4g} ({summary})"
    if problem.target is not None and outcome.fitness >= problem.target:
        target = subject.write(problem.target)
        return faulty("seed", f"it reaches the target {target} already, so a search of it ends at once")
    return ok("seed", summary)


def check_contract(subject: Subject) -> Finding:
    """The suite that third parties run (evo.testing), without its tests that score an answer: the checks below count a
    fault of the scorer as a search counts it."""

    class Contract(ProblemContract):
        def problem(self) -> Problem:
            return subject.problem

    broken = []
    tests = {name: test for name, test in vars(ProblemContract).items() if name.startswith("test_")}
    for name in [name for name in tests if name not in SCORING_TESTS]:
        try:
            tests[name](Contract())
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            broken.append(f"{name.removeprefix('test_').replace('_', ' ')}: {reason or type(error).__name__}")
    if broken:
        return faulty("contract", "it does not keep the contract of a problem (problems/contract.py)", broken)
    return ok("contract", "its members, texts and identities keep the contract of a problem")


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
        yield tell("values", summary, lines)
    else:
        yield ok("values", f"every one of {len(outcomes)} answers gets finite numbers by all names")
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


_HIGH = 0.8
"""Share of the target, or of the best answer seen if there is no target."""
_FAR = 10.0
"""Times the best answer seen: no stroke of luck."""
_CONSTANTS = ("None", "0", "1", "True", "[]", "''", "1e9", "float('inf')", "a[0] if a else None")
_CODE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def check_trivial(subject: Subject) -> Finding:
    """Every trivial answer, against what would be high."""
    target = subject.problem.target
    honest = max(scored.fitness for scored in [subject.honest, *subject.mutants])
    high = _HIGH * target if target is not None and target > 0 else max(honest, 0.0)
    kinds = {answer: kind for kind, answer in trivial_answers(subject) if answer != subject.seed_answer}
    scored = subject.ask_all(kinds)
    # above the seed, too: a seed that is high already is a start, and no trick
    floor = subject.seed_fitness + 2 * subject.noise
    caught = [one for one in scored if one.valid and one.fitness >= high and one.fitness > floor]
    best = max(scored, key=lambda one: one.fitness)
    seen = f"{len(scored)} answers that do nothing: {kinds[best.answer]} gets {subject.write(best.fitness)}"
    if not caught:
        return ok("trivial", f"{seen}; {subject.write(high)} would be good")
    lines = [f"{kinds[one.answer]}: fitness {subject.write(one.fitness)}" for one in caught[:6]]
    # without a target nothing tells how high a poor seed is; rewards are in [0, 1] by convention
    far = [one for one in caught if not one.answer or _HIGH <= one.fitness <= 1 or one.fitness > _FAR * max(high, 1.0)]
    tell = faulty if far or target is not None else note
    return tell("trivial", f"{seen}, as good as the best seen, or the target ({subject.write(high)})", lines)


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
        for value in _CONSTANTS:
            if program := with_functions(subject.seed_answer, value):
                yield f"functions that return {value}", program
    elif subject.problem.answer_format == "route":
        yield from ((f"{move} all the time", move * 60) for move in "UDLR")


_TIMES_HERE, _TIMES_ELSEWHERE = 4, 6
"""Times: ten in all."""
_REPEATED_MUTANTS = 3
"""Mutants in addition to the seed."""
_SECONDS_OF_REPEATS = 90.0
"""Seconds in all; of a slow scorer only the seed is repeated."""
_ELSEWHERE = "in another process with another hash seed"
_HASH_SEEDS = ("EVO_SANDBOX_HASH_SEED", "PYTHONHASHSEED")
"""Variables of the processes in the sandbox, and of the others."""


def check_determinism(subject: Subject, mode: Mode) -> Finding:
    """One score for the seed and for a few mutants, wherever and however often. mode: of the sandbox"""
    valid = [outcome for outcome in subject.mutants if outcome.valid][:_REPEATED_MUTANTS] or subject.mutants[:1]
    longest = max((outcome.seconds for outcome in subject.asked), default=0.0)
    slow = longest * (_TIMES_HERE + _TIMES_ELSEWHERE) * (1 + len(valid)) > _SECONDS_OF_REPEATS
    answers = [] if slow else [outcome.answer for outcome in valid]
    once = min(outcome.seconds for outcome in subject.asked if outcome.answer == subject.seed_answer)
    repeats = max(2, min(_TIMES_HERE, int(_SECONDS_OF_REPEATS / 3 / max(once, 1e-9))))
    here, elsewhere, unopened = [_row(subject, answers) for _ in range(repeats)], list[list[Any]](), ""
    try:
        elsewhere = score_elsewhere(subject, answers, mode, repeats * _TIMES_ELSEWHERE // _TIMES_HERE)
    except (OSError, ValueError, BadAddress, ScorerFault, SandboxUnavailable) as error:
        unopened = " ".join(str(error).split())
    times = len(here) + len(elsewhere)
    first = {outcome.answer: _told(outcome) for outcome in reversed(subject.asked)}
    earlier = [first[answer] for answer in [subject.seed_answer, *answers]]
    for summary, rows in (
        ("one answer gets several scores", here),
        ("one answer scores otherwise once others have been scored: something is left over", [earlier, here[0]]),
        (f"one answer gets another score {_ELSEWHERE}", [here[0], *elsewhere]),
    ):
        if lines := _differences(subject, rows):
            fitness = [[row[1] for row in column if not isinstance(row, str)] for column in zip(*rows, strict=False)]
            subject.noise = max(max(of) - min(of) for of in fitness if of) if any(fitness) else 0.0
            return faulty("deterministic", f"{summary}: {lines[0]}", lines[1:4])
    if unopened:
        summary = f"the same {times} times here; elsewhere it does not open: {unopened[:200]}"
        return note("deterministic", summary)
    number = len(here[0])
    summary = f"{number} answer{'s' * (number != 1)} {times} times, some {_ELSEWHERE}"
    return ok("deterministic", summary)


def _row(subject: Subject, answers: Sequence[str]) -> list[Any]:
    outcomes = [subject.ask_seed(), *map(subject.ask, answers)]
    return [_told(outcome) for outcome in outcomes]


def _told(outcome: Outcome) -> str | list[Any]:
    """The parts of a score that must be equal, or the scorer's fault."""
    score = outcome.score
    return outcome.fault if score is None else [list(score.rewards), score.fitness, score.error is not None]


def _differences(subject: Subject, rows: Sequence[list[Any]]) -> list[str]:
    lines = []
    for place, scores in enumerate(zip(*rows, strict=False)):
        if all(score == scores[0] for score in scores):
            continue
        if any(isinstance(score, str) for score in scores):
            spread = ["a fault of the scorer now and then"]
        elif len({score[2] for score in scores}) > 1:
            spread = ["an error now and then"]
        else:
            names = (*subject.problem.objectives, "fitness")
            columns = zip(names, zip(*([*score[0], score[1]] for score in scores), strict=True), strict=True)
            spread = [f"{name} {min(of):.6g} to {max(of):.6g}" for name, of in columns if len(set(of)) > 1]
        lines.append(f"{f'mutant {place}' if place else 'the seed'}: {', '.join(spread[:5])}")
    return lines


def score_elsewhere(subject: Subject, answers: Sequence[str], mode: Mode, times: int) -> list[list[Any]]:
    """Per time, per answer (the seed first) [rewards, fitness, failed] or a fault's text, by new processes of the
    scorer. Raises the error of a problem that does not open again. mode: of the sandbox"""
    before = {name: os.environ.get(name) for name in _HASH_SEEDS}
    os.environ |= dict.fromkeys(_HASH_SEEDS, "1")
    try:
        with Sandbox(mode, 1) as sandbox:
            (problem,) = resolve(subject.problem.name, None, lambda: sandbox)
            if problem.fault is not None:
                raise problem.fault
            opened = Subject(problem)
            return [_row(opened, answers) for _ in range(times)]
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_TIGHT = 0.5
"""Share of the time-out from which on a typical answer is a finding."""


def check_cost(subject: Subject) -> Finding:
    """Seconds of an answer, and whether the time-out fits."""
    valid = [outcome.seconds for outcome in subject.asked if outcome.score is not None and outcome.score.error is None]
    seconds = valid or [outcome.seconds for outcome in subject.asked]
    typical, longest, timeout = median(seconds), max(seconds), subject.problem.timeout
    summary = f"{_time(typical)} an answer, {_time(longest)} at most"
    if timeout is None:
        return ok("time", f"{summary}; there is no time-out")
    if typical > _TIGHT * timeout:
        return faulty("time", f"{summary}, under a time-out of {timeout:g} s: an answer a little slower fails")
    return ok("time", f"{summary}; time-out {timeout:g} s")


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


_FEWEST = 8
"""Distinct vectors that a statement rests on."""
_COLLINEAR = 0.98


def check_objectives(subject: Subject) -> Iterator[Finding]:
    """By the distinct vectors (n, d) of valid answers."""
    names = subject.problem.objectives
    distinct = {outcome.score.rewards for outcome in subject.asked if outcome.valid and outcome.score is not None}
    vectors = np.array(sorted(distinct), dtype=float).reshape(len(distinct), len(names))
    yield from _check_names(subject)
    if len(names) == 1:
        yield note("collinear", "only one objective: every weight is the same, so VPO has no advantage over GRPO")
        return
    if len(vectors) < _FEWEST:
        why = f"only {len(vectors)} distinct vectors of {len(subject.asked)} answers achieve anything"
        yield skipped("objectives", f"{why}; raise --mutants, or give a seed_answer that earns something")
        return
    moving = [place for place in range(len(names)) if np.ptp(vectors[:, place]) > 0]
    still = [names[place] for place in range(len(names)) if place not in moving]
    scored = [outcome.score.rewards for outcome in subject.mutants if outcome.score is not None]
    gates = [name for name in still if len({rewards[names.index(name)] for rewards in scored}) > 1]
    if gates and len(gates) == len(still):
        yield note("constant", f"{', '.join(gates)}: the same in every answer that achieves anything, a gate")
    elif still:
        lines = [f"{name}: {vectors[0, names.index(name)]:.4g} throughout" for name in still]
        summary = f"{len(still)} of {len(names)} objectives never change in {len(vectors)} vectors"
        yield faulty("constant", summary, lines)
    else:
        yield ok("constant", f"all {len(names)} objectives change over {len(vectors)} vectors")
    if len(moving) > 1:
        yield _check_correlation([names[place] for place in moving], vectors[:, moving])


def _check_correlation(names: Sequence[str], vectors: npt.NDArray[np.float64]) -> Finding:
    matrix: npt.NDArray[np.float64] = np.atleast_2d(np.corrcoef(vectors, rowvar=False))
    width = max(map(len, names))
    rows = (" ".join(f"{value:6.2f}" for value in row) for row in matrix)
    lines = [f"correlation of {', '.join(names)}"]
    lines += [f"{name:<{width}} {row}" for name, row in zip(names, rows, strict=True)]
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if matrix[i, j] >= _COLLINEAR]
    if len(pairs) == len(names) * (len(names) - 1) // 2:
        summary = f"all objectives rise and fall together over {len(vectors)} vectors: VPO has nothing to win there"
        return faulty("collinear", summary, lines)
    if pairs:
        named = ", ".join(f"{names[j]} and {names[i]} ({matrix[i, j]:.3f})" for i, j in pairs[:5])
        return note("collinear", f"objectives agree on {len(vectors)} vectors: {named}", lines)
    opposed = sum(bool(matrix[i, j] < 0) for i in range(len(names)) for j in range(i))
    conflict = "1 pair conflicts" if opposed == 1 else f"{opposed or 'no'} pairs conflict"
    return ok("collinear", f"objectives are distinct; {conflict}", lines)


def _check_names(subject: Subject) -> Iterator[Finding]:
    names, directions = subject.problem.objectives, subject.problem.directions
    lower = [name for name in names if name not in directions and suggests_lower(name)]
    if lower:
        declared = ", ".join(f'"{name}": "min"' for name in lower)
        summary = f"lower looks better in {', '.join(lower)}, but higher counts"
        yield faulty("direction", summary, [f"directions = {{{declared}}}"])
    else:
        declared = ", save those declared so" if directions else ""
        yield ok("direction", f"no objective's name says that lower is better{declared}")


_FEW_LEVELS = 3
"""Levels of fitness: fewer are nothing, and everything."""
_ROUGH = 9
"""Digits by which levels differ."""


def check_steps(subject: Subject) -> Finding:
    """Uses the levels of fitness among all scored answers, with answers at fault as 0."""
    levels = sorted({float(f"{outcome.fitness:.{_ROUGH}g}") for outcome in subject.asked if outcome.score is not None})
    components = len({outcome.score.rewards for outcome in subject.asked if outcome.score is not None})
    target, best, count = subject.problem.target, levels[-1] if levels else 0.0, len(subject.asked)
    seen = f"{len(levels)} level{'s' * (len(levels) != 1)} of fitness and {components} vectors in {count} answers"
    if target is not None:
        seen += f" (the best reaches {subject.write(best)} of {subject.write(target)})"
    if len(levels) >= _FEW_LEVELS:
        return ok("steps", seen)
    if components >= _FEW_LEVELS:
        return note("steps", f"{seen}: the fitness is constant while the objectives move")
    if len(levels) == 2 and any(outcome.valid and outcome.fitness > 0 for outcome in subject.mutants):
        return faulty("steps", f"all or nothing: {seen}, so a search has nothing to climb")
    if len(levels) == 1 and best != 0:
        return faulty("steps", f"every answer gets the same, the broken ones too: {seen}")
    seen += ": random changes of the seed move nothing, and only a model that reads the task can begin; "
    seen += "if score() catches exceptions, score an answer that you know is right, to see that none is its own"
    return note("steps", seen)


def check_problem(problem: Problem, *, sandbox: Mode, seed: int = 0, mutants: int = 64) -> CheckReport:
    """Every check of one problem.

    mutants: the number for the checks of objectives
    Raises errors that concern more than this problem (SandboxUnavailable, BadInput).
    """
    subject = Subject(problem, seed, mutants)
    began = time.monotonic()
    findings = ranked(_findings(subject, sandbox))
    return CheckReport(problem.name, findings, len(subject.asked), time.monotonic() - began)


def _findings(subject: Subject, sandbox: Mode) -> Iterator[Finding]:
    first = check_seed(subject)
    yield first
    if first.level == "finding":
        return  # without a scored seed no other check is possible
    yield check_contract(subject)
    yield from check_values(subject)
    yield check_determinism(subject, sandbox)
    yield check_cost(subject)
    yield from check_objectives(subject)
    yield check_trivial(subject)
    yield check_steps(subject)
    yield from check_cheats(subject)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first: faults before notes; wrong scores before what only an answer meets that tries to cheat."""
    levels: tuple[Level, ...] = ("finding", "note", "skipped", "ok")
    return tuple(sorted(findings, key=lambda one: (levels.index(one.level), one.check in EXPLOITED)))


_LEAVES = ("_fill(own(*a, **k), {0})", "_fill(a[0], {0})", "[{0}] * _size(a)", "dict.fromkeys(a[0], {0})")
_PARTS = tuple(f"own(*a, **k)[:{end}]" for end in (1, -1, 0))
"""The last is nothing at all."""
_TYPES = "compare with `type(value) is ...` first, elements too, or run the answer apart by evo.call"
_NOT = "compare so that nan fails: `not abs(v - w) <= 1e-6`"
_ANY = "_Everything()"
_CHEATS = {
    "nan": ("return nan, alone or in their result,", ("{0}", *_LEAVES), "float('nan')", "0.0", _NOT),
    "raises": ("raise an exception", ("1 // 0",), "", "", "an exception must not pass for no error"),
    "cut": ("return a part of their result", _PARTS, "", "", "compare lengths, as by zip(strict=True)"),
    "empties": ("empty their arguments", ("{0}",), "_empty(a)", "[]", "give the answer copies of the cases"),
    "equals": ("return an object that is equal to everything", ("{0}",), _ANY, "0.0", _TYPES),
    "elements": ("return a list or dict of such objects", _LEAVES, _ANY, "0.0", _TYPES),
}
"""name: (what functions do instead, expressions of it for vpo.policies.variants, the value in them, that of the answers
to compare with, advice)"""
_SAME = {"cut": "raises", "elements": "equals"}
"""Checks that tell nothing new where the other has found a fault."""
_CLAIMED = ("1000", "1000000", "1000000000")
"""The number that an answer states, or what multiplies it."""
_SLOTS = 8
"""Numbers of a text that are tried, each by itself."""
_LEAVING = {
    "end the process with status 0": "import os\nos._exit(0)",
    "raise SystemExit(0)": "import sys\nsys.exit(0)",
    "print a result and end the process": "import os\nprint({line!r}, flush=True)\nos._exit(0)",
    "print a result when the process ends": "import atexit\natexit.register(lambda: print('\\n' + {line!r}))",
}


def check_cheats(subject: Subject) -> Iterator[Finding]:
    """Values that pass for every other, numbers that are believed, ends of the process that pass for success, and where
    answers run."""
    numbers = None if subject.python or subject.problem.answer_format != "text" else read_numbers(subject.honest.answer)
    if numbers is not None:
        yield from _check_text(subject, *numbers)
    if (why := reason_to_skip(subject)) is not None:
        yield why
        return
    problem, base = subject.problem, subject.honest.answer
    if not subject.runs:
        yield ok("process", "an answer is not executed, as far as one that raises and one that sleeps show")
        return
    yield from _check_returned(subject)
    line = "{" + ", ".join(f'"{name}": 1000000.0' for name in problem.objectives) + "}"
    reached = []
    for does, body in _LEAVING.items():
        cheat = subject.ask(place_code(base, body.format(line=line)))
        if _earns(subject, cheat):
            reached.append(
                f"{does}: fitness {subject.write(subject.honest.fitness)} became {subject.write(cheat.fitness)}"
            )
    if reached:
        advice = "do not take an exit, or an answer's output, for a result"
        yield faulty("leaves early", "an answer can end early with a score that it has not earned", [*reached, advice])
    else:
        yield ok("leaves early", "ending early earns nothing")
    if problem.execution == "apart":
        yield ok("process", "an answer runs in another process than what judges it")
    else:
        yield note(
            "process",
            "an answer shares the scorer's process: a model that tries could change what the scorer calls",
            ["if it is trained on this score, call the answer by evo.call(answer, 'name', ...), which runs it apart"],
        )


def _earns(subject: Subject, cheat: Outcome, plain: float = 0.0) -> bool:
    return cheat.valid and cheat.fitness > max(plain, subject.honest.fitness) + 2 * subject.noise


def _check_returned(subject: Subject) -> Iterator[Finding]:
    """By _CHEATS, then claims."""

    def asked(forms: Iterable[str], value: str) -> list[Outcome]:
        programs = (with_functions(subject.honest.answer, form.format(value)) for form in forms)
        return subject.ask_all(filter(None, programs))

    found = set[str]()
    for check, (does, forms, value, plain, advice) in _CHEATS.items():
        outcomes = asked(forms, value) + [subject.armed] * (check == "raises")
        twins = [outcome.fitness for outcome in asked(forms, plain)] if plain else [0.0] * _SLOTS
        earned = [one.fitness for one, twin in zip(outcomes, twins, strict=False) if _earns(subject, one, twin)]
        if check == "cut" and earned and not _earns(subject, outcomes[-1]):
            # nothing at all earns nothing, so a part may simply be a better answer: as good a one as a search finds
            earned = [fitness for fitness in earned if fitness > subject.reached + 2 * subject.noise]
        if earned and _SAME.get(check) not in found:
            found.add(check)
            yield _unearned(subject, check, f"functions that {does} get {subject.write(max(earned))}", advice)
        else:
            yield ok(check, f"functions that {does} earn nothing{' more' * bool(earned)}")
    yield _check_claims(subject, lambda number: asked(["_claim(own(*a, **k), {0})"], number))


def _check_text(subject: Subject, written: list[str], around: list[str]) -> Iterator[Finding]:
    """An answer of numbers: as nan, and times large numbers, one by one."""
    places = [*range(len(written))][:_SLOTS]

    def asked(number: str) -> list[Outcome]:
        texts = [[number if at == place else other for at, other in enumerate(written)] for place in places]
        texts.append([number] * len(written))
        return subject.ask_all("".join(map(str.__add__, around, [*text, ""])) for text in texts)

    outcomes = [*asked("nan"), *asked("NaN")]
    if nan := [one.fitness for one in outcomes if _earns(subject, one)]:
        yield _unearned(subject, "nan", f"numbers that are nan get {subject.write(max(nan))}", _NOT)
    else:
        yield ok("nan", "numbers that are nan earn nothing")
    yield _check_claims(subject, asked)


def _check_claims(subject: Subject, asked: Callable[[str], list[Outcome]]) -> Finding:
    """Whether the fitness grows with a number that an answer states: ever faster, or beyond what a search reaches.
    asked(number): answers that state it"""
    for sign in ("", "-"):
        for few in zip(*(asked(sign + number) for number in _CLAIMED), strict=True):
            first, second, third = grown = [one.fitness for one in few]
            if not all(_earns(subject, one) for one in few) or not first < second < third:
                continue
            best = subject.honest.fitness
            if third - second < second - first and first <= (best := subject.reached) + 2 * subject.noise:
                continue  # it nears a limit, which a search nears too
            advice = "measure what the answer claims"
            if set(subject.problem.objectives) - set(subject.problem.directions):
                advice += "; where a lower number is better, say so by `directions`"
            rise = ", ".join(f"{by} gets {subject.write(value)}" for by, value in zip(_CLAIMED, grown, strict=True))
            return _unearned(subject, "claim", f"a number that grows is believed: times {sign}{rise}", advice, best)
    return ok("claim", "numbers that grow without bound earn nothing")


def _unearned(subject: Subject, check: str, what: str, advice: str, best: float | None = None) -> Finding:
    honest = subject.write(subject.honest.fitness if best is None else best)
    return faulty(check, f"{what}; the best honest answer here {honest}", [f"try: {advice}"])


def reason_to_skip(subject: Subject) -> Finding | None:
    """A finding if answers are not executed, or not confined."""
    problem = subject.problem
    if problem.execution == "never":
        return ok("process", "an answer is read here, and never executed")
    if problem.execution == "unconfined":
        return faulty("process", "isolated = False: an answer that the scorer executes can do whatever you can")
    if problem.execution == "unknown":
        return skipped("process", "it is scored in this process, where no cheat is tried; put the scorer in a file")
    if not subject.python:
        why = f"cheats are Python, and answers here are of the format {problem.answer_format}"
        program = "; the seed is no program that the scorer executes" if problem.answer_format == "text" else ""
        return skipped("process", why + program)
    if not subject.honest.valid and not subject.seed_answer:
        return skipped("process", "there is no answer that earns anything to compare a cheat with; give a seed_answer")
    return None
