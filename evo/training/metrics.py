"""The metrics of training that are shown, in their order: on the line of `evo train` and in a checkpoint's card, on the
screen and in the report of a search that trains."""

from __future__ import annotations

ON_POLICY = (
    *("fitness", "best_of_rollout", "refined", "copied", "kept", "behaviour_nll"),
    *("kl", "length", "cut", "clipped", "grad_norm"),
)
OFFLINE = (
    *("fitness", "best_of_rollout", "behaviour_nll", "kl", "importance", "truncated", "log_ratio", "groups"),
    *("left_out", "grad_norm"),
)
BY_EXAMPLE = ("policy_nll", "kl", "grad_norm")
IN_SEARCH = ("reward", "fitness", "best_of_rollout", "loss", "kl", "entropy", "behaviour_nll", "clipped", "grad_norm")
SHOWN_IN_CHARTS = 6
"""Charts of a search's training on a page at most."""
HELD_OUT = ("best@1", "best@3", "best@10", "best@30", "solve@1", "solve@30", "diversity", "diversity_valid")
