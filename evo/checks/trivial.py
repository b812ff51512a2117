"""Does an answer that does nothing score high: an empty one, a constant, a copy of the examples?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.checks.finding import Finding, faulty, ok
from evo.checks.subject import Outcome, Subject
from problems.python_syntax import parse_python

HIGH = 0.8
"""Share of the target, or of the best answer seen if there is no target."""
CONSTANTS = ("None", "0", "1", "True", "[]", "''", "1e9", "float('inf')")
_CODE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Trivial:
    """kind: its name in a report"""

    kind: str
    answer: str


def check_trivial(subject: Subject) -> Finding:
    """Every trivial answer, against what would be high."""
    target = subject.problem.target
    honest = max((scored.fitness for scored in [subject.honest, *subject.mutants]), default=0.0)
    high = HIGH * target if target is not None and target > 0 else honest
    scored, best = 0, (0.0, "")
    caught: list[str] = []
    for trivial in dict.fromkeys(trivial_answers(subject)):
        if subject.problem.canonical(trivial.answer) == subject.seed_answer:
            continue
        outcome = subject.ask(trivial.answer)
        scored += 1
        best = max(best, (outcome.fitness, trivial.kind))
        if is_high(subject, outcome, high):
            caught.append(f"{trivial.kind}: fitness {outcome.fitness:.4g}")
    against = f"{high:.4g} would be high" if high > 0 else "nothing else scores either"
    if caught:
        summary = f"{len(caught)} of {scored} answers that do nothing score high ({against}): {caught[0]}"
        return faulty("trivial", summary, caught[1:6], high=high)
    highest = f"{best[1]} gets {best[0]:.4g}" if best[1] else "none scores above 0"
    return ok("trivial", f"{scored} answers that do nothing: {highest}; {against}", high=high, best=best[0])


def is_high(subject: Subject, outcome: Outcome, high: float) -> bool:
    """Above the seed, too: a seed that is high already is a start, and no trick."""
    return outcome.valid and high > 0 and outcome.fitness >= high and outcome.fitness > subject.seed_fitness


def trivial_answers(subject: Subject) -> Iterator[Trivial]:
    """Answers that do not solve the task: empty, constant or copied."""
    yield Trivial("an empty answer", "")
    for text in ("0", "1", "1e9", "a", "[]", "{}"):
        yield Trivial(f"the constant {text}", text)
    statement = subject.problem.statement()
    yield Trivial("the statement itself", statement)
    for code in _CODE.findall(statement):
        yield Trivial("an example of the statement", code)
    for line in statement.splitlines():
        if "example" in line.lower() or "such as" in line.lower():
            yield Trivial("an example of the statement", line.rpartition(":")[2].strip())
    if subject.problem.answer_format == "python":
        yield from _programs(subject)
    elif subject.problem.answer_format == "route":
        yield from (Trivial(f"{move} all the time", move * 60) for move in "UDLR")


def _programs(subject: Subject) -> Iterator[Trivial]:
    """Functions of the seed's names that compute nothing."""
    names = function_names(subject.seed_answer)
    for value in CONSTANTS if names else ():
        yield Trivial(f"functions that return {value}", replaced(subject.seed_answer, names, f"return {value}"))
    if names:
        yield Trivial(
            "functions that return their argument", replaced(subject.seed_answer, names, "return a[0] if a else None")
        )


def function_names(code: str) -> list[str]:
    """Definitions at its top level that are also outside an EVOLVE-BLOCK."""
    tree = parse_python(code)
    return [] if tree is None else [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def replaced(code: str, names: list[str], body: str) -> str:
    """The program with other functions of these names, written at the end of the part that may change."""
    return place_code(code, "\n".join(f"def {name}(*a, **k):\n    {body}" for name in names))


def place_code(code: str, addition: str) -> str:
    """The program with further lines: before the end of its first EVOLVE-BLOCK, else at its end."""
    lines = code.split("\n")
    end = next((at for at, line in enumerate(lines) if "EVOLVE-BLOCK-END" in line), len(lines))
    indent = re.match(r"\s*", lines[end])[0] if end < len(lines) else ""  # type: ignore[index]
    added = [indent + line if line else line for line in addition.split("\n")]
    return "\n".join([*lines[:end], *added, *lines[end:]]) + ("" if end < len(lines) else "\n")
