"""A search's metrics as words: for its summary and other lines of text."""

from __future__ import annotations

from evo.search.status import ProblemStatus, SearchStatus


def clock(seconds: float) -> str:
    """1:05, 2:03:04."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def describe_usage(tokens: int, prompt_tokens: int, cost: float) -> str:
    """Tokens in words, with those of prompts and the price where there is one."""
    return f"{tokens:,} tokens" + (f", {prompt_tokens:,} of prompts, cost {cost:.4g}" if cost else "")


def describe_metrics(status: SearchStatus) -> str:
    """Throughput in one line."""
    parts = [
        f"{status.answers_per_second:,.0f} answers/s",
        f"{status.tokens_per_second:,.0f} tokens/s",
        f"policy busy {status.policy_busy:.0%}",
        f"{status.repeats:,} repeats",
    ]
    if status.training_seconds:
        parts.append(
            f"training {status.training_seconds / status.elapsed:.0%}, "
            f"syncing {status.syncing_seconds / status.elapsed:.1%}"
        )
    if status.errors:
        parts.append("errors: " + ", ".join(f"{kind} {n:,}" for kind, n in status.errors.most_common(3)))
    return "  ".join(parts)


def problem_row(problem_run: ProblemStatus) -> tuple[str, str, str, str, str]:
    state = f"solved at {problem_run.solved_at}" if problem_run.solved_at is not None else str(problem_run.stop or "")
    return (
        problem_run.name,
        f"{problem_run.done}/{problem_run.iterations}",
        "-" if problem_run.best is None else f"{problem_run.best:.4g}",
        "-" if problem_run.target is None else f"{problem_run.target:.4g}",
        state,
    )
