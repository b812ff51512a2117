"""The settings that public functions take as keywords, so that an editor completes them and a type checker finds a
misspelt one. Their meanings, bounds and defaults are in the models of evo.config; a test compares names and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from evo.config.sampling import Dtype
from problems.sandbox.contract import Mode
from vpo.training.config import Reward


class ProblemKeywords(TypedDict, total=False):
    """The problems and how often each is answered."""

    answers: int
    seed: int
    limit: int | None
    sandbox: Mode


class ModelKeywords(TypedDict, total=False):
    """How a model samples."""

    temperature: float | None
    top_p: float
    max_new_tokens: int | None
    device: str | None
    dtype: Dtype | None


class ScorerKeywords(TypedDict, total=False):
    """The description of `score=` (evo.config.scorer)."""

    statement: str | None
    seed_answer: str | Sequence[str] | None
    target: float | None
    answer_format: Literal["text", "python"]
    objectives: Sequence[str] | None
    directions: Mapping[str, Literal["max", "min"]] | None
    weights: Mapping[str, float] | Sequence[float] | None
    timeout: float | None
    readable: Sequence[str] | None
    isolated: bool
    resources: Mapping[str, float]


class SearchKeywords(ProblemKeywords, ScorerKeywords, total=False):
    """Those of every search, with a policy or without: `evo.Search`."""

    until_solved: bool
    max_answers: int | None
    max_seconds: float | None
    islands: int
    strategy: Literal["auto", "openevolve", "weighted", "pareto", "lexicase", "hill", "scs"]
    fresh: float | Literal["auto"]
    population: Mapping[str, Any]
    prompt: Mapping[str, Any]
    scoring_workers: int | None


class PolicyKeywords(SearchKeywords, ModelKeywords, total=False):
    """Those of every search with a policy."""

    mixing: Literal["bandit", "turns"]
    max_total_tokens: int | None
    max_cost: float | None
    max_unanswered: int
    patience: int | None
    start: Sequence[str]
    parallel: int | None
    lag: int
    scoring_resources: Mapping[str, float] | None
    prefill: float
    train_every: int
    train_steps: int | None
    train_unsolved: bool
    train_reward: Reward
    train_check: Sequence[str]
    lr: float | None
    kl: float


class RunKeywords(PolicyKeywords, total=False):
    """`evo.run`."""

    rollouts: int
    train: str | Mapping[str, Any] | None


class CompareKeywords(PolicyKeywords, total=False):
    """`evo.compare`."""

    best_of_n: Sequence[str] | None
    answers_per_iteration: int | None
    training: Mapping[str, Any]
    against: str | None
    processes: int | None


class ResumeKeywords(TypedDict, total=False):
    """`evo.resume` and `evo.Search.resume`."""

    policy: str
    iterations: int | None
    max_answers: int | None
    max_total_tokens: int | None
    max_cost: float | None
    max_seconds: float | None
    patience: int | None
    processes: int | None


class EvaluateKeywords(ProblemKeywords, ModelKeywords, total=False):
    """`evo.evaluate`."""


class TrainKeywords(TypedDict, total=False):
    """`evo.train` (evo.config.train)."""

    prompts: int
    rollouts: int
    children: int
    answers: int | None
    temperature: float
    max_new_tokens: int | None
    seed: int
    limit: int | None
    max_seconds: float | None
    max_answers: int | None
    evaluate: Sequence[str]
    evaluate_every: int
    evaluate_limit: int | None
    evaluate_answers: int
    save_every: int
    keep: int
    sandbox: Mode
    device: str | None
    dtype: Literal["float32", "bfloat16"] | None
    # where parents and rewards come from
    parents: float
    parents_from: str
    parent_level: float
    under_way: int
    visits: int
    reward: Reward
    shaping: float
    stop_at_chance: bool
    # from stored searches
    from_traces: Sequence[str]
    db: str
    trace_problems: Sequence[str]
    trace_versions: Sequence[str]
    trace_after: str | None
    trace_before: str | None
    trace_iterations: str | None
    trace_most_behind: int | None
    passes: int
    # the step
    lr: float | None
    kl: float
    clip_low: float
    clip_high: float
    truncate: float | None
    scale: Literal["official", "plain"]
    weights: int
    alpha: float
    sampler: Literal["iid", "sobol"]
    pass_at: int
    betas: Sequence[float]
    weight_decay: float
    schedule: Literal["constant", "linear", "cosine"]
    warm_up: int
    aggregation: Literal["token", "sequence"]
    grad_clip: float
    epochs: int
    minibatches: int
    token_budget: int
    precision: Literal["auto", "fp32", "bf16"]
    shared_prefix: bool
    gradient_checkpointing: bool
    lora_rank: int
    lora_alpha: float
    lora_targets: Sequence[str]


class LoadPolicyKeywords(TypedDict, total=False):
    """`evo.load_policy` (vpo.policies.registry.PolicySettings)."""

    temperature: float
    top_p: float
    max_tokens: int | None
    device: str | None
    dtype: str | None
    batch: int | None
    threads: int | None
