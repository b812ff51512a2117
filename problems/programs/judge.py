"""Tests that are code of their own: they run in one sandbox session, the answer lives in another.

The judge's code calls the answer through proxies; each call is a message to the parent, which evaluates it in the
answer's session and sends the value back. The answer never shares a process with a test, so it cannot read one, and
the judge receives plain values alone, so nothing of the answer's runs in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from problems.contract import ScorerFault
from problems.programs.cases import JudgeCase
from problems.programs.feedback import clip, show_value
from problems.sandbox.contract import CaseOutcome, Limits

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox
    from problems.sandbox.session import Session


class AnswerFailed(Exception):
    """A call of the answer did not return; raised inside the judge in the call's place."""


@dataclass(frozen=True)
class Verdict:
    """One judged case.

    outcome: of the case as a whole; status "ok" with value True where it passed
    calls: what was asked of the answer and what came back, as a prompt may show it
    """

    outcome: CaseOutcome
    calls: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.outcome.status == "ok" and self.outcome.value is True


def judge_answer(
    sandbox: Sandbox, answer: str, setup: str, judge: str, cases: Sequence[JudgeCase], limits: Limits
) -> list[Verdict]:
    """Every case's verdict. Raises ScorerFault where the judge's code fails by itself, before it calls the answer."""
    with (
        sandbox.session(answer, limits, setup=setup) as beside,
        sandbox.session(judge, limits) as bench,
    ):
        return [_verdict(beside, bench, case) for case in cases]


def _verdict(beside: Session, bench: Session, case: JudgeCase) -> Verdict:
    calls: list[str] = []
    failed: list[CaseOutcome] = []

    def ask(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call = f"{name}({', '.join([*map(show_value, args), *(f'{k}={show_value(v)}' for k, v in kwargs.items())])})"
        outcome = beside.evaluate(f"{name}(*args, **kwargs)", {"args": args, "kwargs": dict(kwargs)})
        if outcome.status == "ok":
            calls.append(f"{call} returned {show_value(outcome.value)}")
            return outcome.value
        failed.append(outcome)
        calls.append(f"{call} failed: {outcome.message}")
        raise AnswerFailed(outcome.message)

    outcome = bench.evaluate(f"{case.function}()", host_call=ask)
    if outcome.status != "ok" and not calls:
        raise ScorerFault(f"the test `{clip(case.source, 120)}` failed by itself: {outcome.message}")
    if outcome.status != "ok" and failed:
        outcome = failed[-1]  # the answer's own trouble says more than the judge's
    return Verdict(outcome, tuple(calls))
