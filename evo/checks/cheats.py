"""Which answers that solve nothing score high, and what an answer that tries could do.

A cheat is an answer like any other: it runs only where the problem runs answers, in the sandbox. Each is compared with
a twin of its form that does not cheat. What the sandbox keeps in is tested with the sandbox, not here.
"""

from __future__ import annotations

from collections.abc import Iterator

from evo.checks.finding import Finding, faulty, note, ok, skipped
from evo.checks.subject import Subject
from evo.checks.trivial import function_names, place_code
from problems.contract import Problem

MARK = "evo check: it ran"
_CLASS = """\
class _Everything(float):
    def __new__(cls): return float.__new__(cls, 0.0)
    def _yes(self, *a): return True
    def _self(self, *a): return self
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _yes
    __ne__ = lambda self, *a: False
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _self
    __getitem__ = __call__ = __pow__ = __neg__ = __round__ = _self
    def __iter__(self): return iter([self, self])
    def __len__(self): return 2
class _Elements(list):
    def __iter__(self): return iter([_Everything()] * 9)
"""
EQUAL = {
    "nan": (
        "float('nan')",
        "0.0",
        "compare so that nan fails: `not abs(v - w) <= 1e-6`",
    ),
    "equals": ("_Everything()", "0.0", "compare with `type(value) is ...` first, or run the answer apart by evo.call"),
    "elements": (
        "[_Everything() for _ in range(len(a[0]) if a and hasattr(a[0], '__len__') else 9)]",
        "[]",
        "the same",
    ),
}
"""name: (what the functions return, what the twin's return, advice)"""
LEAVING = {
    "end the process with status 0": "import os\nos._exit(0)",
    "raise SystemExit(0)": "import sys\nsys.exit(0)",
    "print a result and end the process": "import os\nprint({line!r}, flush=True)\nos._exit(0)",
    "print a result when the process ends": "import atexit\natexit.register(lambda: print('\\n' + {line!r}))",
}


def check_cheats(subject: Subject) -> Iterator[Finding]:
    """Values that pass for every other, ends of the process that pass for success, and where answers run."""
    if (why := reason_to_skip(subject)) is not None:
        yield why
        return
    problem, base = subject.problem, subject.honest.answer
    armed = subject.ask(place_code(base, f"raise RuntimeError({MARK!r})"))
    if MARK not in "\n".join([armed.fault, *([armed.score.feedback, armed.score.error or ""] if armed.score else [])]):
        yield ok("process", "an answer is not executed, as far as a raising answer shows")
        return
    names = function_names(base)
    for check, (value, plain, advice) in EQUAL.items() if names else ():
        code = "\n".join(f"def {name}(*a, **k): return {{0}}" for name in names)
        cheat, twin = subject.ask_all([place_code(base, _CLASS + code.format(part)) for part in (value, plain)])
        if cheat.valid and cheat.fitness > max(twin.fitness, subject.honest.fitness):
            summary = f"functions that return {_SAID[check]} get {cheat.fitness:.4g}, the best honest answer here "
            yield faulty(check, f"{summary}{subject.honest.fitness:.4g}", [f"try: {advice}"])
        else:
            yield ok(check, f"functions that return {_SAID[check]} earn nothing")
    line = "{" + ", ".join(f'"{name}": 1000000.0' for name in problem.objectives) + "}"
    reached = []
    for does, body in LEAVING.items():
        cheat = subject.ask(place_code(base, body.format(line=line)))
        if cheat.valid and cheat.fitness > subject.honest.fitness:
            reached.append(f"{does}: fitness {subject.honest.fitness:.4g} became {cheat.fitness:.4g}")
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


_SAID = {"nan": "nan", "equals": "an object that is equal to everything", "elements": "a list of such objects"}


def reason_to_skip(subject: Subject) -> Finding | None:
    """A finding if answers are not executed, or not confined."""
    problem: Problem = subject.problem
    if problem.execution == "never":
        return ok("process", "an answer is read here, and never executed")
    if problem.execution == "unconfined":
        return faulty("process", "isolated = False: an answer that the scorer executes can do whatever you can")
    if problem.execution == "unknown":
        return skipped("process", "it is scored in this process, where no cheat is tried; put the scorer in a file")
    if problem.answer_format != "python":
        return skipped("process", f"cheats are Python; this problem has answers of the format {problem.answer_format}")
    if not subject.honest.valid and not subject.seed_answer:
        return skipped("process", "there is no answer that earns anything to compare a cheat with; give a seed_answer")
    return None
