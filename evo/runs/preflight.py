"""Checks of a new run or comparison, cheapest first. They run before slow libraries are imported: a database's takes
half a second, torch three."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from evo.config.run import RunConfig, check_trackers
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.prompts.registry import open_format
from evo.search.resources import Resources, check_one_policy, problems_at
from islands.errors import DatabaseUnavailable
from islands.names import check_name
from vpo.policies.address import KINDS, PolicyAddress, PolicySettings, parse_address, parse_addresses
from vpo.policies.checkpoint import find_base
from vpo.policies.contract import Price
from vpo.policies.prompt_formats import is_token_format
from vpo.policies.registry import check_policy
from vpo.policies.scripted import load_scripted

ASK_TELL = "ask-tell"
"""The policy on record of a run whose answers come from a caller of `evo.Search`."""


def check_new_run(config: RunConfig, resources: Resources, db: str, name: str | None) -> None:
    """Check the input of a new run. Raises BadInput, BadName, BadAddress, DatabaseUnavailable or RunExists, in one
    line. Problems of sets stay in `resources`."""
    asks = config.policy == ASK_TELL
    check_trackers(config.report_to)
    if not config.problems:
        example = "try `evo run maze:hard --limit 10`, or `evo problems` for a list"
        raise BadInput(f"no problem named; {'give an address, a problem or score=' if asks else example}")
    if config.scorer is not None and not any(address.startswith("score:") for address in config.problems):
        raise BadInput(
            "`scorer` describes a function given in Python, as in evo.run(score=function); leave it out here"
        )
    if name is not None:
        check_name(name)
    # opening a user's scorer scores its seed, which may take long: this happens after the screen is shown
    own = not asks and any(Path(address).exists() for address in config.problems)
    problems = [] if own else resources.problems(config)
    if not asks:
        named = "policy" in config.model_fields_set
        check_policies([config.policy])
        if named or not own:
            check_price(config.max_cost, [config.policy])  # a directory's config may name models
        for address in parse_addresses(config.policy) if named else ():
            # whether the policy can be prompted with the problems, as far as its files show
            if is_token_format(prompt_format := prompt_format_at(str(address))):
                for problem in problems:
                    open_format(problem, prompt_format, config.prompt, config.answers)
    check_storage(db, name)


def check_policies(policies: Iterable[str]) -> None:
    """Check the addresses of policies. Raises BadAddress. policies: each an address, or several separated by commas"""
    for policy in dict.fromkeys(policies):
        for address in parse_addresses(policy):
            check_policy(address)


def check_price(max_cost: float | None, policies: Iterable[str]) -> None:
    """Raise BadInput for a budget of cost if no policy has a price: local models are free, and servers may have
    none."""
    if max_cost is None:
        return
    addresses = [address for policy in dict.fromkeys(policies) for address in parse_addresses(policy)]
    if all(address.kind in KINDS and price_at(address) is None for address in addresses):
        raise BadInput(
            f"max_cost {max_cost:g} would never be reached: no policy has a price, as in "
            "openai:MODEL@URL?price=0.15/0.60 (of a million tokens, in and out)"
        )


def price_at(address: PolicyAddress) -> Price | None:
    """The price of a policy's tokens, None if it is unknown or 0. Raises BadAddress."""
    from vpo.servers.address import ServerOptions, VllmOptions

    kinds: dict[str, type[ServerOptions]] = {"openai": ServerOptions, "vllm": VllmOptions}
    return address.own_options(kinds[address.kind]).price if address.kind in kinds else None


def check_new_comparison(configs: Sequence[RunConfig], db: str, name: str | None) -> None:
    """Check the runs of a new comparison, whose problems are resolved."""
    if name is not None:
        check_name(name)
    check_trackers(configs[0].report_to)
    policies = [config.policy for config in configs]
    check_policies(policies)
    check_price(configs[0].max_cost, policies)
    check_storage(db, name)


def prompt_format_at(policy: str) -> str:
    """The prompt format of the policy at an address. Raises BadAddress if files show that the address names nothing;
    neither a hub nor a server is contacted."""
    address = parse_address(policy)
    if address.kind == "scripted":
        return load_scripted(address, PolicySettings()).prompt_format
    if address.kind == "openai":
        from vpo.servers.address import endpoint

        endpoint(address)
    folder = find_base(address)[0] if address.has_weights else address.folder
    if folder is None:
        return "chat"
    from vpo.languages.contract import dialect_of

    return dialect_of(folder)


def check_storage(db: str, name: str | None) -> None:
    """Raise DatabaseUnavailable if the database cannot be reached or written, RunExists if it has a run or comparison
    of that name. Nothing is created or migrated."""
    from islands.engine import check_writable

    if not check_writable(db) or name is None:
        return
    from islands.comparisons import check_free
    from islands.store import Store

    try:
        store = Store.open(db, read_only=True)
    except DatabaseUnavailable:  # empty, or an older schema: opening it for writing upgrades it and checks again
        return
    with store:
        check_free(store, name)


def check_new_training(run: TrainRun, output: str | None) -> None:
    """Check the input of a training, new or to be continued: problems first, then the policy, then the
    directory. Raises BadInput or BadAddress, in one line."""
    from evo.training.directory import TrainingDirectory  # only trainings need it

    if not run.problems and not run.from_traces:
        raise BadInput("no problem named to learn from; try `evo train vpo maze:train -o DIR`")
    if not run.from_traces and run.asked_temperature == 0:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    problems_at([*run.problems, *run.evaluate], 1, run.weights)
    check_one_policy(run.policy, "evo train trains")
    if run.from_traces and parse_address(run.policy).common.fresh is not None:
        raise BadInput(f"stored traces are already sampled: leave out ?fresh= of {run.policy}")
    check_policies([run.policy])
    check_trackers(run.report_to)
    if output is None:
        raise BadInput("Missing output directory: pass -o DIR (in Python output=DIR)")
    TrainingDirectory(output).begun(run)
