"""`evo.evaluate`: how good a policy is without search."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evo.api.arguments import ProblemSources, call_text, plain_value, split_problems
from evo.api.display import Steps
from evo.api.drive import Driver, python_driver
from evo.api.results import ScorerWarning, data_frame
from evo.config.parse import OPTIONS, parse
from evo.config.run import EvaluateConfig
from evo.evaluation.record import run_evaluation
from problems.registry import given

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class EvaluateResult(Mapping[str, float | None]):
    """An evaluation: a mapping from metrics to their means over problems (None if no problem has it).

    best@k, solve@k: expected best fitness, and chance of a solution, among k answers; diversity: mean L1 distance of
    two answers' vectors; written, valid: shares of the answers; and more (evo.evaluation.metrics.metrics_of)

    intervals: metric -> (low, high), 95% over problems; missing for a single problem
    per_problem: each problem's metrics, averaged over seeds
    record: everything as `evo evaluate --json` prints it
    against: lines of the comparison with `against=`, [] without

    Example:
        result = evo.evaluate("maze:test", policy="embedded:vpo", limit=50)
        result["best@30"], result.intervals["best@30"]
    """

    policy: str
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(repr=False)
    per_problem: list[dict[str, Any]] = field(repr=False)
    record: Mapping[str, Any] = field(repr=False)
    against: list[str] = field(repr=False)

    def __getitem__(self, metric: str) -> float | None:
        return self.metrics[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def frame(self) -> DataFrame:
        """A row for every problem: problem, objectives, target, and its metrics. Raises ImportError without pandas."""
        return data_frame(self.per_problem, ("problem",))


def evaluate(
    address: ProblemSources,
    *,
    output: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> EvaluateResult:
    """Sample a policy's answers to each problem, without search and without parents, as `evo evaluate` does.

    Args:
        address: the problems, as for `evo.run`.
        output: FILE.json to write everything to.
        progress: False shows nothing.
        settings: policy ("embedded:base" by default; the result of `evo.train` is one too), answers_total (per problem,
            30, in chains of `answers`), seeds (how many, from `seed` on; 1), against (a file that `output` wrote, for a
            comparison problem by problem), answers (m of a chain, 3), seed, limit, weights, temperature, top_p,
            max_new_tokens, sandbox, device, dtype.

    Returns:
        Metrics with their intervals, over all problems and of each.

    Raises:
        ValueError: an argument is unknown or cannot be used; one line, the same as the command line's.
        ScorerFault: no problem could be scored. If only some could not, they are left out with a ScorerWarning.
        Interrupted: a KeyboardInterrupt; nothing is written.

    Example:
        evo.evaluate("maze:test", policy="embedded:vpo", limit=50, seeds=3, output="vpo.json")["solve@30"]
    """
    addresses, objects = split_problems(address)
    values = {name: plain_value(value) for name, value in settings.items() if value is not None}
    command = call_text("evaluate", address, output=output, **settings)
    driver = python_driver(progress, before="interrupted; nothing was written")
    with given(objects):
        config = parse(EvaluateConfig, {**values, "problems": addresses}, OPTIONS)
        record = drive_evaluation(driver, config, plain_value(output), command)
    for name, reason in record["faults"].items():
        warnings.warn(f"{name} is left out: {' '.join(reason.split())}", ScorerWarning, stacklevel=2)
    metrics = {name: record[name] for name in record["per_seed"][0] if name != "seed"}
    intervals = {name: (low, high) for name, (low, high) in record["intervals"].items()}
    per_problem = record.pop("per_problem")
    lines: list[str] = record["against"]["verdicts"] if "against" in record else []
    return EvaluateResult(record["policy"], metrics, intervals, per_problem, record, lines)


def drive_evaluation(driver: Driver, settings: EvaluateConfig, output: str | None, command: str) -> dict[str, Any]:
    """The record of an evaluation, as run_evaluation gives it. Raises Interrupted."""

    async def work(driver: Driver) -> dict[str, Any]:
        return await run_evaluation(
            settings, output, command, lambda title, done, of: driver.display.update(Steps(title, done, of, "problems"))
        )

    return driver.drive(work)
