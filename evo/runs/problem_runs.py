"""The problems of a run, stored with their seeds or restored, and what learns during its search."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from evo.config.run import RunConfig
from evo.errors import BadInput, not_trainable
from evo.prompts.registry import open_format
from evo.search.core import SearchCore
from evo.search.defaults import iterations_for, population_config
from evo.search.loop import Learner
from evo.search.operators import WINDOW, Operator
from evo.search.problem_run import ProblemRun
from evo.search.resources import Resources, check_apart
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.population.population import Population
from islands.queries.groups import read_groups
from islands.queries.progress import ProblemProgress, RunProgress, repeats_by_group
from islands.types import ProblemRecord, RunRecord
from problems.address import shorten_names
from problems.contract import Problem, ScorerFault, StartsFromSeveral
from problems.identity import identity
from problems.scoring import Scorer
from problems.types import ScoredAnswer
from vpo.advantage import METHODS
from vpo.policies.address import parse_address
from vpo.policies.contract import Policy, TrainablePolicy
from vpo.training.config import IMPROVE


def check_trainable(
    config: RunConfig, problems: Sequence[Problem], operators: Sequence[Operator], held_out: Sequence[Problem]
) -> None:
    """Raise BadInput if this search cannot train its policy by the named method."""
    if config.train is None:
        return
    if len(operators) > 1:
        raise BadInput("--train takes one policy; a search with several operators keeps them as they are")
    policy = operators[0].policy
    if (name := config.train.method) == IMPROVE:
        raise BadInput(f"{name} learns from stored searches: evo train {name} --from-traces RUN -o DIR")
    method = METHODS[config.train.method]
    if parse_address(config.policy).kind == "openai" and not isinstance(policy, TrainablePolicy):
        later = (
            "evo train METHOD --from-traces RUN can train a copy of it here later"
            if policy.traits.logprobs
            else ("and its traces cannot train a copy, because its server gives no token ids and log-probabilities")
        )
        raise BadInput(
            f"policy {config.policy} has its weights on a server: it can search and compare, not train, unless a copy "
            f"of them is named (?weights=ID&adapters=DIR); {later}"
        )
    if policy.traits.weights == "adapter":
        _check_adapter(config, policy)
    if not isinstance(policy, TrainablePolicy) or not policy.traits.logprobs or policy.traits.weights == "none":
        raise not_trainable(config.policy)
    if config.answers > 1 and not method.chain:
        raise BadInput(f"{config.train.method} learns from single answers: --answers must be 1, not {config.answers}")
    if config.rollouts < 2:
        raise BadInput(f"{config.train.method} compares the rollouts of a prompt group: --rollouts must be 2 or more")
    if policy.temperature == 0:
        raise BadInput("at temperature 0 all rollouts of a group are alike, and nothing can be learned from them")
    check_apart((problem.name for problem in problems), held_out, "searched and checked on; problems of train.check")


def _check_adapter(config: RunConfig, policy: Policy) -> None:
    """Raise BadInput if a policy that takes only adapters cannot be trained with them."""
    assert config.train is not None
    if not config.train.lora_rank:
        raise BadInput(
            f"policy {config.policy} takes only LoRA adapters: set lora_rank under train in --config, such as 16, and "
            "its server's --max-lora-rank to no less"
        )
    if policy.temperature != 1.0:
        raise BadInput(
            f"policy {config.policy} can be trained only at temperature 1, at which a server reports the "
            "log-probabilities that prove new weights"
        )
    if not policy.traits.logprobs:
        raise BadInput(f"policy {config.policy} gives no token ids and log-probabilities, which training learns from")


def open_learner(core: SearchCore, run: RunRecord, scorer: Scorer) -> Learner:
    """One that learns nothing, or one that trains the policy during the search, if check_trainable has accepted it."""
    if core.config.train is None:
        return Learner()
    from evo.runs.colocated import open_colocated  # slow to import: evaluation and training

    return open_colocated(core, run, scorer)


SEED_SEQUENCE = -1
"""The sequence of a seed, before the run's first group."""


def open_operators(config: RunConfig, problems: Sequence[Problem], resources: Resources) -> list[Operator]:
    """The policies that search. Raises BadInput if one cannot be prompted with these problems or trained on them."""
    operators = resources.operators(config, problems)
    for operator in operators:
        if operator.prompt.prefill and not operator.policy.traits.prefill:
            raise BadInput(f"policy {operator.address} cannot continue the beginning of an answer: leave out prefill")
        for problem in problems:
            open_format(problem, operator.policy.prompt_format, operator.prompt, operator.answers)
    check_trainable(config, problems, operators, resources.held_out(config))
    return operators


async def load_runs(configs: Iterable[RunConfig], resources: Resources) -> None:
    """Load the problems and policies of these runs, as a check. Raises BadInput."""
    for config in configs:
        open_operators(config, resources.problems(config), resources)
        await asyncio.sleep(0)


def open_problem_run(
    store: Store,
    record: ProblemRecord,
    config: RunConfig,
    problem: Problem,
    operators: Sequence[Operator],
    scorer: Scorer,
) -> ProblemRun:
    """A stored problem with its population, which is empty until it is advanced."""
    population = Population(store, record, population_config(config, problem), problem.answer_format)
    prompt_formats = [open_format(problem, one.policy.prompt_format, one.prompt, one.answers) for one in operators]
    return ProblemRun(problem, record, population, prompt_formats, iterations_for(config, problem), scorer)


def recall_groups(core: SearchCore, run_id: int) -> None:
    """Restore what a resumed search has learned about operators and repeats, from the stored groups of its problems.
    Groups are read only if its settings need them."""
    mine = {problem_run.record.id for problem_run in core.problem_runs}
    if any(operator.prompt.fresh == "auto" for operator in core.operators.all):
        repeats = repeats_by_group(core.store, run_id, WINDOW + core.size.groups)
        core.fresh_share.recall(row for row in repeats if row[1] in mine)
    core.operators.recall(group for _, group in read_groups(core.store, run_id) if group.problem in mine)


async def score_all_seeds(
    config: RunConfig, problems: Sequence[Problem], scorer: Scorer
) -> list[list[ScoredAnswer] | ScorerFault]:
    """The scored seed answers of each problem, or the fault of its scorer."""
    start = [read_start(path) for path in config.start]
    return await asyncio.gather(*(score_seeds(problem, scorer, start) for problem in problems))


async def add_problems(
    store: Store,
    run: RunRecord,
    config: RunConfig,
    problems: Sequence[Problem],
    seeds: Sequence[list[ScoredAnswer] | ScorerFault],
    operators: Sequence[Operator],
    scorer: Scorer,
) -> list[ProblemRun]:
    """Store all problems with their seed answers in one transaction, so that a run has either all of its problems or
    none. A scorer that fails on its seed stops only that problem."""
    names = shorten_names([problem.name for problem in problems])
    fingerprints = await asyncio.to_thread(lambda: [problem.fingerprint() for problem in problems])
    problem_runs = []
    with store.begin() as transaction:
        for index, (problem, scored, fingerprint) in enumerate(zip(problems, seeds, fingerprints, strict=True)):
            record = store.add_problem(
                run.id,
                index,
                problem.name,
                names[index],
                problem.objectives,
                problem.target,
                problem.answer_format,
                transaction,
                fingerprint,
            )
            problem_run = open_problem_run(store, record, config, problem, operators, scorer)
            problem_runs.append(problem_run)
            insert_seeds(problem_run, scored, store, config, transaction)
    return problem_runs


async def reopen_problems(
    store: Store,
    stored: Sequence[tuple[Problem, ProblemRecord]],
    progress: RunProgress,
    config: RunConfig,
    operators: Sequence[Operator],
    scorer: Scorer,
) -> list[ProblemRun]:
    """The stored problems of a run, or a part of them, in their recorded state."""
    problem_runs = [open_problem_run(store, record, config, problem, operators, scorer) for problem, record in stored]
    for problem_run in problem_runs:
        await restore_problem_run(problem_run, progress.problems[problem_run.record.id], store, config, scorer)
    return problem_runs


async def restore_problem_run(
    problem_run: ProblemRun, done: ProblemProgress, store: Store, config: RunConfig, scorer: Scorer
) -> None:
    """Restore a problem from its record. A problem that a scorer's fault stopped continues; its seed is scored
    first."""
    problem_run.built, problem_run.committed = done.next_iteration, done.groups
    problem_run.missing = deque(done.missing)
    problem_run.solved_sequence, problem_run.solved_at = problem_run.record.solved_sequence, done.solved_at
    if problem_run.record.status != "failed":
        return
    store.set_problem_status(problem_run.record.id, "solved" if problem_run.solved else "active")
    problem_run.population.advance(SEED_SEQUENCE)
    if problem_run.population.size == 0 and done.groups == 0:
        (seeds,) = await score_all_seeds(config, [problem_run.problem], scorer)
        with store.begin() as transaction:
            insert_seeds(problem_run, seeds, store, config, transaction)


def insert_seeds(
    problem_run: ProblemRun,
    seeds: Sequence[ScoredAnswer] | ScorerFault,
    store: Store,
    config: RunConfig,
    transaction: Transaction,
) -> None:
    """Store a problem's seeds, or the failure of its scorer on them."""
    if isinstance(seeds, ScorerFault):
        problem_run.fail(str(seeds), store, transaction)
        return
    for seed in seeds:
        problem_run.population.seed(seed, transaction)
    target = problem_run.problem.target
    if target is not None and any(seed.score.fitness >= target for seed in seeds):
        problem_run.solve(SEED_SEQUENCE, 0, config.until_solved)
        store.set_problem_status(problem_run.record.id, "solved", solved_sequence=SEED_SEQUENCE, tx=transaction)


def read_start(path: str) -> str:
    """A file of `start`. Raises BadInput."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--start {path}: cannot be read: {error}") from None


async def score_seeds(problem: Problem, scorer: Scorer, start: Sequence[str] = ()) -> list[ScoredAnswer] | ScorerFault:
    """Score the answers that the search starts from: the seed, the problem's further seeds, then those of `start`."""
    further = problem.further_seeds() if isinstance(problem, StartsFromSeveral) else ()
    texts = list(dict.fromkeys(problem.canonical(text) for text in (problem.seed_answer(), *further, *start)))
    try:
        scored = await scorer.score(problem, texts)
    except ScorerFault as fault:
        return fault
    return [
        ScoredAnswer(text, identity(text, problem.answer_format), score, seconds)
        for text, (score, seconds) in zip(texts, scored, strict=True)
    ]
