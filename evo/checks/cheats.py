"""Answers that have not solved the task and could score all the same: what their functions return, what they claim, how
they end. They are scored as every answer is, in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from evo.checks.subject import Finding, Outcome, Subject, faulty, note, ok, skipped
from vpo.policies.mutation import read_numbers
from vpo.policies.variants import place_code, with_functions

_LEAVES = ("_fill(own(*a, **k), {0})", "_fill(a[0], {0})", "[{0}] * _size(a)", "dict.fromkeys(a[0], {0})")
_PARTS = tuple(f"own(*a, **k)[:{end}]" for end in (1, -1, 0))
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
