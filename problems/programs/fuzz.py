"""More tests for a task that has a reference: inputs made from its own, kept if they tell something.

An input is kept where the reference answers it, in time and the same in another process and another order, and where it
tells a mutant of the reference (the reference with one small fault) from it that no earlier test did. Everything runs
in the sandbox; what is kept is the input with the reference's result. The sandbox fixes the seed of Python's hashes, so
that a result which depends on the order of a set is not found out.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from problems.programs.assertions import literal_value
from problems.programs.cases import CallCase, StdinCase, Task, source_of
from problems.programs.comparison import call_passes, same_output
from problems.programs.further_tests import expression_of, pattern_call
from problems.programs.livecodebench import LARGEST_TEST
from problems.programs.typed_mutation import Seen, mutate, mutate_lines
from problems.python_syntax import parse_source
from problems.sandbox.contract import WALL_FACTOR, CaseOutcome, Limits, Program

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

IN_TIME = 0.5
"""The share of a task's seconds that the reference may take: a right answer is allowed to be slower."""
SLOWER = 10
"""What a mutant may take, as a multiple of the reference's slowest input; a fifth of a second at least."""

NO_REFERENCE, NO_INPUTS, REFERENCE_FAILS = "no reference", "no input made of literals", "the reference fails its tests"
ALL_TOLD = "their tests tell every mutant apart"
FAILED, SLOW, UNSTABLE = "the reference fails on it", "the reference is too slow on it", "the result is not stable"
LARGE, NOT_PLAIN, TELLS_NOTHING = "too large", "the result is no literal", "tells no further mutant apart"


@dataclass
class Fuzzed:
    """tests: as `further_tests` of a row; skipped: why the task was left as it is, "" if it was not
    tried: inputs that were run; refused: how many were not kept, by why
    mutants, told_before, told_after: how many there were, and how many the tests tell from the reference"""

    tests: list[dict[str, str]] = field(default_factory=list)
    skipped: str = ""
    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    mutants: int = 0
    told_before: int = 0
    told_after: int = 0


@dataclass(frozen=True)
class _Input:
    """text: what the sandbox runs (an expression, or standard input); shown: as a row keeps it."""

    text: str
    shown: str


def fuzz_task(
    task: Task,
    sandbox: Sandbox,
    other: Sandbox,
    mutants: Callable[[str], Sequence[str]],
    *,
    seed: str,
    tries: int = 100,
    most: int = 10,
) -> Fuzzed:
    """At most `most` further tests out of `tries` inputs. other: a sandbox of processes of their own; mutants: makes
    them of the reference. One seed gives one result."""
    if not task.reference:
        return Fuzzed(skipped=NO_REFERENCE)
    rng = random.Random(seed)
    own = [case for case in task.cases if isinstance(case, CallCase | StdinCase)]
    known = [_Input(c.stdin, c.stdin) if isinstance(c, StdinCase) else _Input(c.expression, c.shown) for c in own]
    fresh = _stdin_inputs(known, rng, tries) if task.stdin else _call_inputs(own, known, rng, tries)
    if not fresh:
        return Fuzzed(skipped=NO_INPUTS)
    before = _run(sandbox, task, task.reference, known, task.seconds)
    if not all(one.status == "ok" for one in before):
        return Fuzzed(skipped=REFERENCE_FAILS)
    seconds = min(task.seconds, max(0.2, SLOWER * max(one.cpu_seconds for one in before)))
    expected = [one.value for one in before]
    made = mutants(task.reference)
    unseen = [one for one in made if not _told(task, _run(sandbox, task, one, known, seconds), expected)]
    found = Fuzzed(mutants=len(made), told_before=len(made) - len(unseen), told_after=len(made) - len(unseen))
    if not unseen:
        return replace(found, skipped=ALL_TOLD)
    found.tried = len(fresh)
    results = _stable(task, sandbox, other, fresh, found.refused)
    told: dict[_Input, set[int]] = {one: set() for one in results}
    for number, mutant in enumerate(unseen):
        outcomes = _run(sandbox, task, mutant, list(results), seconds)
        for at in _told(task, outcomes, list(results.values())):
            told[list(results)[at]].add(number)
    caught: set[int] = set()
    while told and len(found.tests) < most:
        best = max(told, key=lambda one: (len(told[one] - caught), -len(one.shown), one.shown))
        if not told[best] - caught:
            break
        caught |= told.pop(best)
        found.tests.append(_test(task, best, results))
    found.refused[TELLS_NOTHING] += len(told)
    found.told_after += len(caught)
    return found


def _told(task: Task, outcomes: Sequence[CaseOutcome], expected: Sequence[Any]) -> list[int]:
    """Where a mutant gives itself away. A case that was not run, for others ended the process, tells nothing."""
    pairs = enumerate(zip(outcomes, expected, strict=True))
    return [at for at, (one, value) in pairs if not one.message.startswith("not run") and not _same(task, one, value)]


def _stdin_inputs(known: Sequence[_Input], rng: random.Random, tries: int) -> list[_Input]:
    texts = [one.text for one in known]
    made: dict[str, None] = {}
    for _ in range(tries):
        text = mutate_lines(rng.choice([*texts, *made]), texts, rng)
        if text not in texts and len(text) <= LARGEST_TEST:
            made.setdefault(text)
    return [_Input(text, text) for text in made]


def _call_inputs(own: Sequence[Any], known: Sequence[_Input], rng: random.Random, tries: int) -> list[_Input]:
    """Calls whose arguments are literals, or are made by a helper of the data set from one literal."""
    pattern = next((case for case in own if isinstance(case, CallCase)), None)
    calls = [call for case in own if isinstance(case, CallCase) and (call := _arguments(case)) is not None]
    if pattern is None or not calls:
        return []
    name = ast.unparse(pattern_call(parse_source(pattern.shown, mode="eval").body).func)
    seen: dict[str | int, Seen] = {}
    for call in calls:
        for place, (_, value) in call.items():
            seen.setdefault(place, Seen()).note(value)
    made: dict[str, dict[str | int, tuple[str, Any]]] = {}
    taken = {one.shown for one in known}
    for _ in range(tries):
        call = dict(rng.choice([*calls, *made.values()]))
        if not call:
            break
        place = rng.choice(list(call))
        helper, value = call[place]
        call[place] = helper, mutate(value, seen[place], rng, resize=helper != "tree_node")
        shown = f"{name}({', '.join(_written(place, *part) for place, part in call.items())})"
        if shown not in taken and len(shown) <= LARGEST_TEST:
            made.setdefault(shown, call)
    return [_Input(expression_of(shown, pattern), shown) for shown in made]


def _arguments(case: CallCase) -> dict[str | int, tuple[str, Any]] | None:
    """Place or keyword -> (the helper that makes it, "" for none; the literal). None for a call with others."""
    try:
        call = pattern_call(parse_source(case.shown, mode="eval").body)
    except ValueError:
        return None
    given: list[tuple[str | int, ast.expr]] = list(enumerate(call.args))
    given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
    found: dict[str | int, tuple[str, Any]] = {}
    for place, node in given:
        helper = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            helper, node = node.func.id, node.args[0]
        known, value = literal_value(node)
        if not known:
            return None
        found[place] = helper, value
    return found if len(found) == len(call.args) + len(call.keywords) else None


def _written(place: str | int, helper: str, value: Any) -> str:
    source = f"{helper}({source_of(value)})" if helper else source_of(value)
    return source if isinstance(place, int) else f"{place}={source}"


def _run(sandbox: Sandbox, task: Task, code: str, inputs: Sequence[_Input], seconds: float) -> list[CaseOutcome]:
    limits = Limits(cpu_seconds=seconds, wall_seconds=seconds * WALL_FACTOR)
    whole = f"{code}\n{task.epilogue}\n" if task.epilogue else code
    mode = "stdin" if task.stdin else "calls"
    program = Program(whole, tuple(one.text for one in inputs), mode, task.setup)  # type: ignore[arg-type]
    return sandbox.run(program, limits)


def _stable(
    task: Task, sandbox: Sandbox, other: Sandbox, inputs: Sequence[_Input], refused: Counter[str]
) -> dict[_Input, Any]:
    """Inputs that the reference answers in time and always the same, with its results."""
    assert task.reference is not None
    first = _run(sandbox, task, task.reference, inputs, task.seconds)
    again = _run(other, task, task.reference, inputs[::-1], task.seconds)[::-1]
    kept = {}
    for one, outcome, second in zip(inputs, first, again, strict=True):
        why = _fault(task, outcome, second)
        if why:
            refused[why] += 1
        else:
            kept[one] = outcome.value
    return kept


def _fault(task: Task, outcome: CaseOutcome, second: CaseOutcome) -> str:
    if "timeout" in (outcome.status, second.status) or outcome.cpu_seconds > IN_TIME * task.seconds:
        return SLOW
    if outcome.status != "ok" and second.status != "ok":
        return FAILED
    if not _same(task, second, outcome.value) or outcome.status != "ok":
        return UNSTABLE
    source = outcome.value if task.stdin else source_of(outcome.value)
    if len(source) > LARGEST_TEST:
        return LARGE
    if task.stdin:
        return ""
    try:
        known, value = literal_value(parse_source(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return NOT_PLAIN
    return "" if known and value == outcome.value else NOT_PLAIN


def _same(task: Task, outcome: CaseOutcome, expected: Any) -> bool:
    """Whether the task's own tests would take it for what is expected."""
    if outcome.status != "ok":
        return False
    if task.stdin:
        return isinstance(outcome.value, str) and same_output(outcome.value, expected)
    pattern = next(case for case in task.cases if isinstance(case, CallCase))
    relation = "==" if pattern.relation in ("true", "false", "is") else pattern.relation
    return call_passes(replace(pattern, relation=relation, expected=expected, accepts=()), outcome.value)


def _test(task: Task, one: _Input, results: dict[_Input, Any]) -> dict[str, str]:
    if task.stdin:
        return {"stdin": one.shown, "stdout": results[one]}
    return {"call": one.shown, "result": source_of(results[one])}
