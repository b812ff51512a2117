"""The flags of a search and of asking a policy, which several commands share."""

from __future__ import annotations

from evo.cli.flags import flag, flags, together
from evo.config.run import RunConfig

_ASKED = ("answers", "seed", "limit", "temperature", "top_p", "max_new_tokens", "sandbox", "device", "dtype")
_SEARCHED = together(
    [
        flag(RunConfig, "iterations"),
        flag(RunConfig, "population.islands"),
        flag(RunConfig, "population.strategy"),
        flag(RunConfig, "prompt.fresh", metavar="SHARE|auto", type=str),
        flag(RunConfig, "prompt.prefill", metavar="SHARE"),
        flag(RunConfig, "feedback.policy", "--reflect", metavar="POLICY"),
        flags(RunConfig, ("until_solved", "max_answers", "max_tokens", "max_cost", "max_seconds", "parallel", "lag")),
    ]
)
_METHOD = flag(RunConfig, "train.method", "--train", metavar="METHOD")
_TRAINED = together(
    [
        flag(RunConfig, "train.every", "--train-every"),
        flag(RunConfig, "train.steps", "--train-steps"),
        flag(RunConfig, "train.unsolved", "--train-unsolved"),
        flag(RunConfig, "train.reward", "--train-reward"),
        flag(RunConfig, "train.check", "--train-check", metavar="SET"),
        flag(RunConfig, "train.lr"),
        flag(RunConfig, "train.kl"),
    ]
)

sampling_flags = flags(RunConfig, ("policy", *_ASKED))
"""What a policy is asked, and how, where nothing is searched."""

search_flags = together([sampling_flags, flags(RunConfig, ("rollouts",)), _SEARCHED, _METHOD, _TRAINED])
"""Everything that decides a run; each overrides the same key of --config."""

shared_search_flags = together([flags(RunConfig, _ASKED), _SEARCHED, _TRAINED])
"""Those that all arms of a comparison share: not which policy is asked, in how many rollouts, and trained by what
method."""
