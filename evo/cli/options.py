"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from islands.db.address import DEFAULT_DB

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Manner:
    """How a comparison is driven and shown. against: the reference arm; processes: None where the policies decide."""

    db: str
    plain: bool = False
    as_json: bool = False
    processes: int | None = None
    against: str | None = None


def db_option(command: F) -> F:
    return click.option(
        "--db",
        default=DEFAULT_DB,
        show_default=True,
        envvar="EVO_DB",
        help="sqlite:///FILE or postgresql+psycopg://...",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="print JSON")(command)


def plain_option(command: F) -> F:
    return click.option("--plain", is_flag=True, help="no live screen, plain lines")(command)


def search_options(command: F) -> F:
    """Everything that decides a run; each overrides the same key of --config."""
    return _with(command, [*_SAMPLING, *_SEARCH])


def common_search_options(command: F) -> F:
    """Those that all arms of a comparison share: not which policy is asked, in how many rollouts, and trained by what
    method."""
    return _with(command, [*_SAMPLED, *_SEARCHED, *_TRAINING[1:]])


def sampling_options(command: F) -> F:
    """Those of them that decide what a policy is asked, and how, where nothing is searched."""
    return _with(command, _SAMPLING)


def _with(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


_POLICY = click.option(
    "--policy", help="embedded:NAME, a hub id or directory, vllm:ID, openai:MODEL@URL  [default: embedded:base]"
)
_ROLLOUTS = click.option("--rollouts", type=click.IntRange(1, 1024), help="G, rollouts in a prompt group  [default: 1]")

_SAMPLED: list[Callable[[Any], Any]] = [
    click.option("--answers", type=click.IntRange(1, 32), help="m, answers asked of each rollout  [default: 3]"),
    click.option("--seed", type=click.IntRange(0), help="decides every random choice  [default: 0]"),
    click.option("--limit", type=click.IntRange(1), help="only the first K problems of each set"),
    click.option("--temperature", type=click.FloatRange(0.0, 5.0), help="of sampling  [default: 1]"),
    click.option("--top-p", type=click.FloatRange(0.0, 1.0, min_open=True), help="nucleus sampling  [default: 1]"),
    click.option("--max-new-tokens", type=click.IntRange(1), help="per rollout"),
    click.option(
        "--sandbox",
        type=click.Choice(["auto", "bwrap", "landlock", "none"]),
        help="isolation of code that models write  [default: auto]",
    ),
    click.option("--device", help="cpu, cuda, cuda:1 (transformers)"),
    click.option(
        "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="of the weights (transformers)"
    ),
]

_SEARCHED: list[Callable[[Any], Any]] = [
    click.option("--iterations", type=click.IntRange(1), help="prompt groups per problem  [default: 100]"),
    click.option(
        "--islands", "population_islands", type=click.IntRange(1, 1000), help="islands per problem  [default: 5]"
    ),
    click.option(
        "--strategy",
        "population_strategy",
        type=click.Choice(["openevolve", "weighted", "lexicase", "puct"]),
        help="parent choice  [default: openevolve]",
    ),
    click.option(
        "--prefill",
        "prompt_prefill",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="share of the prompts that begin the answer with a part of the parent's  [default: 0]",
    ),
    click.option("--until-solved", is_flag=True, default=None, help="stop a problem when it is solved"),
    click.option("--max-answers", type=click.IntRange(1), help="budget: answers in all (a chain of m counts m)"),
    click.option("--max-tokens", type=click.IntRange(1), help="budget: generated tokens in all"),
    click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="budget: of a policy with ?price="),
    click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="budget: wall-clock seconds"),
    click.option("--parallel", type=click.IntRange(1), help="prompt groups in flight"),
]
_TRAINING: list[Callable[[Any], Any]] = [
    click.option(
        "--train", "train_method", metavar="METHOD", help="train the policy beside the search: vpo, grpo, ..."
    ),
    click.option("--train-every", type=click.IntRange(1), help="prompt groups a training step  [default: 16]"),
    click.option("--train-steps", type=click.IntRange(1), help="training steps; the search goes on after them"),
    click.option("--train-unsolved", is_flag=True, default=None, help="learn from unsolved problems alone"),
    click.option(
        "--train-check", multiple=True, metavar="SET", help="held-out problems that a version must not do harm on"
    ),
    click.option("--lr", "train_lr", type=click.FloatRange(0, min_open=True), help="learning rate of --train"),
    click.option("--kl", "train_kl", type=click.FloatRange(0), help="weight of KL(policy || start) in --train"),
]
_SAMPLING = [_POLICY, *_SAMPLED]
_SEARCH = [_ROLLOUTS, *_SEARCHED, *_TRAINING]


def overrides(options: dict[str, Any]) -> dict[str, Any]:
    """Flags as dotted configuration keys: population_islands -> population.islands."""
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    return {re.sub("^(population|prompt|train)_", r"\1.", key): value for key, value in given.items()}
