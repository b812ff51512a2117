"""Does the problem open and score its seed, and does every answer get a score of finite numbers with all names?"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from evo.checks.subject import Finding, Subject, faulty, note, ok, skipped
from problems.python_syntax import parse_python

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
    summary = ", ".join(f"{name} {value:.4g}" for name, value in list(named.items())[:6])
    if outcome.score.error is not None:
        empty = "there is no seed" if not subject.seed_answer else "the seed itself is an answer at fault"
        return note("seed", f"{empty}: {outcome.score.error}", fitness=outcome.fitness, rewards=named)
    return ok("seed", f"fitness {outcome.fitness:.4g} ({summary})", fitness=outcome.fitness, rewards=named)


def check_values(subject: Subject) -> Iterator[Finding]:
    """Faults of the scorer over mutants and awkward answers, numbers below zero."""
    outcomes = [*subject.mutants, *subject.ask_all(AWKWARD)]
    faults = [outcome for outcome in outcomes if outcome.fault]
    if faults:
        kinds = Counter(outcome.fault for outcome in faults).most_common(3)
        failed = f"the scorer fails on {len(faults)} of {len(outcomes)} answers"
        summary = f"{failed}; each is an answer's chance to be unfair"
        lines = [f"{count} times: {kind[:300]}" for kind, count in kinds]
        text = repr(faults[0].answer)
        lines.append(f"for example on the answer {text if len(text) < 120 else text[:110] + '...'}")
        yield faulty("values", summary, lines, faults=len(faults), answers=len(outcomes))
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
        return faulty("negative", "some valid answers score below 0, the score of an answer at fault", lines)
    return ok("negative", f"nothing is below 0, the score of an answer at fault ({len(rows)} valid answers)")


HIGH = 0.8
"""Share of the target, or of the best answer seen if there is no target."""
CONSTANTS = ("None", "0", "1", "True", "[]", "''", "1e9", "float('inf')")
_CODE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def check_trivial(subject: Subject) -> Finding:
    """Every trivial answer, against what would be high."""
    target = subject.problem.target
    honest = max((scored.fitness for scored in [subject.honest, *subject.mutants]), default=0.0)
    high = HIGH * target if target is not None and target > 0 else honest
    scored, best = 0, (0.0, "")
    caught: list[str] = []
    for kind, answer in dict.fromkeys(trivial_answers(subject)):
        if subject.problem.canonical(answer) == subject.seed_answer:
            continue
        outcome = subject.ask(answer)
        scored += 1
        best = max(best, (outcome.fitness, kind))
        # above the seed, too: a seed that is high already is a start, and no trick
        if outcome.valid and high > 0 and outcome.fitness >= high and outcome.fitness > subject.seed_fitness:
            caught.append(f"{kind}: fitness {outcome.fitness:.4g}")
    against = f"{high:.4g} would be high" if high > 0 else "nothing else scores either"
    if caught:
        summary = f"{len(caught)} of {scored} answers that do nothing score high ({against}): {caught[0]}"
        return faulty("trivial", summary, caught[1:6], high=high)
    highest = f"{best[1]} gets {best[0]:.4g}" if best[1] else "none scores above 0"
    return ok("trivial", f"{scored} answers that do nothing: {highest}; {against}", high=high, best=best[0])


def trivial_answers(subject: Subject) -> Iterator[tuple[str, str]]:
    """(its kind, an answer that does not solve the task): empty, constant or copied."""
    yield "an empty answer", ""
    for text in ("0", "1", "1e9", "a", "[]", "{}"):
        yield f"the constant {text}", text
    statement = subject.problem.statement()
    yield "the statement itself", statement
    for code in _CODE.findall(statement):
        yield "an example of the statement", code
    for line in statement.splitlines():
        if "example" in line.lower() or "such as" in line.lower():
            yield "an example of the statement", line.rpartition(":")[2].strip()
    if subject.problem.answer_format == "python":
        yield from _programs(subject)
    elif subject.problem.answer_format == "route":
        yield from ((f"{move} all the time", move * 60) for move in "UDLR")


def _programs(subject: Subject) -> Iterator[tuple[str, str]]:
    """Functions of the seed's names that compute nothing."""
    for value in (*CONSTANTS, "a[0] if a else None"):
        kind = f"return {value}" if value in CONSTANTS else "return their argument"
        if program := with_functions(subject.seed_answer, value):
            yield f"functions that {kind}", program


def with_functions(code: str, returned: str, before: str = "") -> str:
    """The program with other functions of the names that it defines, which return this, at the end of the part that may
    change; "" if it defines none. before: further lines above them"""
    tree = parse_python(code)
    names = [] if tree is None else [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    lines = "\n".join(f"def {name}(*a, **k):\n    return {returned}" for name in names)
    return place_code(code, before + lines) if names else ""


def place_code(code: str, addition: str) -> str:
    """The program with further lines: before the end of its first EVOLVE-BLOCK, else at its end."""
    lines = code.split("\n")
    end = next((at for at, line in enumerate(lines) if "EVOLVE-BLOCK-END" in line), len(lines))
    indent = re.match(r"\s*", lines[end])[0] if end < len(lines) else ""  # type: ignore[index]
    added = [indent + line if line else line for line in addition.split("\n")]
    return "\n".join([*lines[:end], *added, *lines[end:]]) + ("" if end < len(lines) else "\n")


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
"""
_TYPES_FIRST = "compare with `type(value) is ...` first, or run the answer apart by evo.call"
EQUAL = {
    "nan": ("nan", "float('nan')", "0.0", "compare so that nan fails: `not abs(v - w) <= 1e-6`"),
    "equals": ("an object that is equal to everything", "_Everything()", "0.0", _TYPES_FIRST),
    "elements": (
        "a list of such objects",
        "[_Everything() for _ in range(len(a[0]) if a and hasattr(a[0], '__len__') else 9)]",
        "[]",
        "the same",
    ),
}
"""name: (what the functions return, its code, that of the twin, advice)"""
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
    for check, (returned, value, plain, advice) in EQUAL.items() if with_functions(base, "0") else ():
        cheat, twin = subject.ask_all([with_functions(base, part, _CLASS) for part in (value, plain)])
        if cheat.valid and cheat.fitness > max(twin.fitness, subject.honest.fitness):
            summary = f"functions that return {returned} get {cheat.fitness:.4g}, the best honest answer here "
            yield faulty(check, f"{summary}{subject.honest.fitness:.4g}", [f"try: {advice}"])
        else:
            yield ok(check, f"functions that return {returned} earn nothing")
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


def reason_to_skip(subject: Subject) -> Finding | None:
    """A finding if answers are not executed, or not confined."""
    problem = subject.problem
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
