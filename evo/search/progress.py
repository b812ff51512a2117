"""A search's figures as words: for its summary and other lines of text."""

from __future__ import annotations

from evo.search.status import LaneStatus, SearchStatus

LONGEST_NAME = 36


def clock(seconds: float) -> str:
    """1:05, 2:03:04."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def spent(tokens: int, prompt_tokens: int, cost: float) -> str:
    """Tokens in words, with those of prompts and the price where there is one."""
    return f"{tokens:,} tokens" + (f", {prompt_tokens:,} of prompts, cost {cost:.4g}" if cost else "")


def figures(status: SearchStatus) -> str:
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


def lane_row(lane: LaneStatus) -> tuple[str, str, str, str, str]:
    state = f"solved at {lane.solved_at}" if lane.solved_at is not None else lane.stopped or ""
    return (
        lane.name if len(lane.name) <= LONGEST_NAME else "…" + lane.name[1 - LONGEST_NAME :],
        f"{lane.done}/{lane.iterations}",
        "-" if lane.best is None else f"{lane.best:.4g}",
        "-" if lane.target is None else f"{lane.target:.4g}",
        state,
    )
