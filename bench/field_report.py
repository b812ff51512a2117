"""The report of bench.field: what was best after each call, by task and system, and who was ahead how often."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

Runs = list[dict[str, Any]]


def anytime(run: dict[str, Any], calls: int) -> list[float]:
    """Best fitness after 0, 1 .. calls calls (0: the seed), failed answers counting as 0; the last value stands where a
    run asked for fewer."""
    best, curve, seen = 0.0, [], 0
    for event in run["events"]:
        if "tokens" in event:
            curve.append(best)
            seen += 1
            if seen > calls:
                break
        else:
            best = max(best, event["fitness"] or 0.0)
    curve = [*curve[:calls], best] if seen <= calls else curve[: calls + 1]
    return curve + [best] * (calls + 1 - len(curve))


def at_tokens(run: dict[str, Any], tokens: int) -> float:
    """Best fitness of what was scored before so many tokens were generated."""
    best, spent = 0.0, 0
    for event in run["events"]:
        if "tokens" in event:
            spent += event["tokens"]
            if spent > tokens:
                break
        else:
            best = max(best, event["fitness"] or 0.0)
    return best


def spent(run: dict[str, Any]) -> tuple[int, int, int]:
    """Calls, generated tokens, prompt tokens."""
    asked = [event for event in run["events"] if "tokens" in event]
    return len(asked), sum(event["tokens"] for event in asked), sum(event["prompt"] for event in asked)


def grouped(runs: Runs, *keys: str) -> dict[Any, Runs]:
    found: dict[Any, Runs] = defaultdict(list)
    for run in runs:
        found[tuple(run[key] for key in keys) if len(keys) > 1 else run[keys[0]]].append(run)
    return found


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def curves(runs: Runs, calls: int, points: list[int]) -> list[str]:
    """Per task a table: systems by best fitness at some numbers of calls, means over seeds."""
    lines = []
    for task, those in grouped(runs, "task").items():
        lines += [f"\n### {task}\n", row(["system", "n", *(f"{p} calls" for p in points), "moved"]),
                  row(["---"] * (len(points) + 3))]  # fmt: skip
        for system, its in sorted(grouped(those, "system").items(), key=lambda one: -final(one[1], calls)):
            shown = np.array([anytime(run, calls) for run in its])
            moved = sum(curve[-1] > curve[0] + 1e-9 for curve in shown)
            means = [f"{shown[:, point].mean():.4g}" for point in points]
            lines.append(row([system, str(len(its)), *means, f"{moved} of {len(its)}"]))
    return lines


def final(runs: Runs, calls: int) -> float:
    return float(np.mean([anytime(run, calls)[-1] for run in runs]))


def ranks(runs: Runs, calls: int, budget: int) -> list[str]:
    """Mean rank over the (task, seed) pairs that every system has, by calls and by tokens; ties share a rank."""
    systems = sorted({run["system"] for run in runs})
    pairs = [those for those in grouped(runs, "task", "seed").values() if {r["system"] for r in those} == set(systems)]
    lines = [row(["system", "mean rank, equal calls", "mean rank, equal tokens", "moved its seed", "ended in error",
                  "tokens a call", "prompt tokens a call"]), row(["---"] * 7)]  # fmt: skip
    by_calls = mean_ranks(pairs, systems, lambda run: anytime(run, calls)[-1])
    by_tokens = mean_ranks(pairs, systems, lambda run: at_tokens(run, budget))
    for system in sorted(systems, key=lambda one: by_calls[one]):
        its = [run for run in runs if run["system"] == system]
        totals = np.array([spent(run) for run in its]).sum(0)
        shown = [anytime(run, calls) for run in its]
        moved = sum(curve[-1] > curve[0] + 1e-9 for curve in shown)
        wrong = sum(run["exit_code"] != 0 for run in its)
        lines.append(row([system, f"{by_calls[system]:.2f}", f"{by_tokens[system]:.2f}", f"{moved} of {len(its)}",
                          str(wrong), *(f"{total / max(1, totals[0]):.0f}" for total in totals[1:])]))  # fmt: skip
    return [f"Over {len(pairs)} pairs of task and seed that all have finished.\n", *lines]


def mean_ranks(pairs: list[Runs], systems: list[str], value: Any) -> dict[str, float]:
    found = {system: 0.0 for system in systems}
    for those in pairs:
        values = {run["system"]: round(value(run), 9) for run in those}
        for system in systems:
            above = sum(other > values[system] for other in values.values())
            equal = sum(other == values[system] for other in values.values())
            found[system] += (above + (equal + 1) / 2) / len(pairs)
    return found


def write_report(found: dict[str, Any], output: Path) -> None:
    runs, calls = found["runs"], found["calls"]
    budget = calls * found["tokens"] // 2
    seeds = len({run["seed"] for run in runs})
    points = sorted({0, 1, calls // 2, calls})
    lines = [
        "# Comparison with other systems",
        "",
        f"`python -m bench.field`: {len(runs)} runs have finished, {seeds} seeds at most; each had {calls} calls of at "
        f"most {found['tokens']} tokens, one at a time, to Qwen2.5-Coder-0.5B-Instruct served by vLLM on a CPU. "
        f"Equal tokens: the best of what {budget:,} generated tokens brought. Fitness as our scorers give it, in the "
        "sandbox, for all systems alike.",
        "",
        *ranks(runs, calls, budget),
        "",
        "## Best fitness after so many calls",
        "`n`: seeds that have finished. `moved`: runs that ended above their seed program.",
        *curves(runs, calls, points),
    ]
    output.write_text("\n".join(lines) + "\n")
    print(f"{output}: {len(runs)} runs")
