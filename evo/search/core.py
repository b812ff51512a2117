"""The search without a policy: `ask` proposes the next iteration, `tell` stores its scored group of answers.

Nothing here waits and nothing here samples. The asynchronous loop over policies (evo.search.loop) and the public
`evo.Search` drive it. The driver decides the order of calls, and only that order decides the run: with the calls in
one order, one seed gives one run, resumed or not.

Several policies are the mutation operators of one search, in turn or by weights. Each gives the same number of answers
per group, in chains of its length, and may have another temperature and another share of fresh prompts.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evo.config.run import RunConfig
from evo.provenance import describe_machine
from evo.search.problem_run import Iteration, ProblemRun, window_of
from evo.search.resources import Operator
from evo.search.status import LACKING, SUMMARY_SECONDS, SearchStatus, is_scripted, remedy_of_repeats
from evo.search.stop import SOLVED, Stop, StopReason
from islands.groups import read_groups
from islands.runs import repeats_by_group
from islands.store import Store, Transaction
from islands.types import NOTHING_SHOWN, REPLIES, ParentKind, Placement, RunRecord
from problems.types import ScoredGroup, Unanswered

_WARN_AFTER = 3
"""Replies that hold no answer for one reason, from which on they are worth a warning."""
_REPEATED_ROW = 10
"""Answers in a row that the search had before, worth a warning."""
_OFTEN_CUT = 0.02
"""Cut replies per requested answer from which on more tokens are worth a warning; a few long ones are no reason."""
_STREAMS_PER_PROBLEM = 1 << 32
"""Each problem owns a block of random streams, so its rollouts do not depend on which other problems are searched."""
_UNPLACED = -1
"""The sequence of a group that gets its place when it is committed."""
_OPERATOR_STREAM = 7
"""Sets the draws of an operator apart from those of the population."""
_BACKOFF = (15.0, 600.0)
"""Seconds for which an operator that does not respond is left alone: doubling from the first to the second."""
COUNTED_GROUPS = 16
"""Groups of a problem and operator that count for its share of fresh prompts, of each kind of parent: its last ones."""


class Operators:
    """The operators of a search and the choice between them: fixed chances if one has a weight, as in OpenEvolve's
    ensembles, else in turn. One that does not respond is left alone for a while.

    chances: (count,) of operators with weights, else None
    resting: until when each that does not respond is left alone, and its next pause, in seconds
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.all, count = list(operators), len(operators)
        self.resting: dict[int, tuple[float, float]] = {}
        weights = [operator.weight for operator in self.all]
        self.chances: npt.NDArray[np.float64] | None = None
        if count > 1 and any(weight is not None for weight in weights):
            chances = np.array([1.0 if weight is None else weight for weight in weights])
            self.chances = chances / chances.sum()

    def choose(self, seed: int, problem: int, iteration: int) -> int:
        """The operator of an iteration, or the next one that responds; itself if none does. problem: its index in the
        run"""
        chosen = (iteration + problem) % len(self.all)
        if self.chances is not None:
            rng = np.random.default_rng([seed, problem, iteration, _OPERATOR_STREAM])
            chosen = int(rng.choice(len(self.all), p=self.chances))
        others = ((chosen + step) % len(self.all) for step in range(len(self.all)))
        return next((operator for operator in others if not self.resting or not self.is_resting(operator)), chosen)

    def is_resting(self, operator: int) -> bool:
        return operator in self.resting and time.monotonic() < self.resting[operator][0]

    def rest(self, operator: int) -> float | None:
        """Leave an operator alone; for how many seconds. None if it is resting already."""
        if self.is_resting(operator):
            return None
        _, pause = self.resting.get(operator, (0.0, _BACKOFF[0]))
        self.resting[operator] = time.monotonic() + pause, min(2 * pause, _BACKOFF[1])
        return pause


Repeats = tuple[int, int, int, ParentKind, int, int]
"""Of one committed group: its sequence, problem id, operator, parent shown, answers that the run had stored before, and
answers."""


class FreshShare:
    """The share of fresh prompts, by problem and operator. A proposal sees it up to the group that the search's
    order allows, so one seed gives one run, resumed or not.

    A policy that copies its own answers seldom copies a seed, so parents of each kind are counted apart: else the first
    iterations, which show the seed, would hide the copying of the next ones.

    committed: groups that proposals do not see yet, in the run's order
    """

    def __init__(self) -> None:
        self.committed: deque[Repeats] = deque()
        self._counted: defaultdict[tuple[int, int, ParentKind], deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=COUNTED_GROUPS)
        )

    def advance(self, upto: int | None) -> None:
        """See the groups up to this sequence; all of them with None."""
        while self.committed and (upto is None or self.committed[0][0] <= upto):
            _, problem, operator, shown, repeated, answers = self.committed.popleft()
            self._counted[problem, operator, shown].append((repeated, answers))

    def of(self, problem: int, operator: int, shown: ParentKind) -> float:
        """The chance that a prompt with such a parent shows none instead. One answer that is no repeat is believed of
        each kind, so that the first copy does not decide."""
        with_parent, without = (
            sum(repeated for repeated, _ in counted) / (1 + sum(answers for _, answers in counted))
            for counted in (self._counted[problem, operator, kind] for kind in (shown, ParentKind.NOTHING))
        )
        return max(0.0, with_parent - without)


class SearchCore:
    """The state of a search: its problems, their populations, and the statistics of its operators.

    Used by one thread at a time. `ask` and `tell` do not report or release anything; after the transaction of a group
    is committed, call `release` with it. Problems take turns, after a resume those with the fewest proposals first.

    upcoming: the sequence of the next proposal, or with an asynchronous window of the next commit
    proposed: how many proposals there were, which a budget of answers counts
    stopped: why it proposes no more; None while it does
    """

    def __init__(
        self, store: Store, run: RunRecord, config: RunConfig, problem_runs: Sequence[ProblemRun],
        operators: Sequence[Operator], upcoming: int = 0,
    ) -> None:  # fmt: skip
        self.store, self.run_id, self.config, self.problem_runs = store, run.id, config, problem_runs
        self.operators = Operators(operators)
        asks_models = not all(is_scripted(operator.policy) for operator in operators)
        self.status = SearchStatus(
            run=run.name, problem_runs=problem_runs, machines=[describe_machine()], asks_models=asks_models
        )
        islands = [problem_run.population.config.islands for problem_run in problem_runs]
        self.size = size = window_of(config, operators[0].policy, islands)
        self.upcoming = upcoming
        self.proposed = sum(problem_run.built - len(problem_run.missing) for problem_run in problem_runs)
        self._turns = sorted(problem_runs, key=lambda problem_run: problem_run.upcoming)
        self.fresh_share = FreshShare()
        self.stopped: Stop | None = None
        self._warned: set[Unanswered] = set()
        self._repeated, self._warned_of_repeats = 0, False  # answers in a row
        self._summarised = -math.inf
        for problem_run in self.problem_runs:
            problem_run.spread = size.spread or None

    def ask(self) -> Iteration | None:
        """The next iteration with its prompt; None if a budget is spent, the search is stopped, or no problem takes one
        now."""
        if self.stopped is None:
            self.stopped = budget_spent(self.config, self.status, self.proposed)
        while self._turns and not self._turns[0].open:
            del self._turns[0]
        problem_run = next((each for each in self._turns if each.has_turn), None)
        if self.stopped is not None or problem_run is None:
            return None
        self._turns.remove(problem_run)
        self._turns.append(problem_run)
        self.proposed += 1
        sequence = _UNPLACED
        if not self.size.async_window:
            sequence, self.upcoming = self.upcoming, self.upcoming + 1
        seed, record, population = self.config.seed, problem_run.record, problem_run.population
        operator = self.operators.choose(seed, record.index, problem_run.upcoming)
        number = problem_run.take()
        island = number % population.config.islands
        rng = np.random.default_rng([seed, record.index, number])
        selection = population.select(island, rng)
        parent, fresh = selection.parent, self.operators.all[operator].prompt.fresh
        if fresh == "auto":
            kind = _kind(problem_run, None if parent is None else parent.id)
            fresh = self.fresh_share.of(record.id, operator, kind)
        if fresh and rng.random() < fresh:
            selection = NOTHING_SHOWN
        stream = record.index * _STREAMS_PER_PROBLEM + number
        iteration = Iteration(problem_run, sequence, number, island, selection, parent, stream, rng)
        iteration.write_prompt(operator)
        return iteration

    def tell(
        self, problem_run: ProblemRun, group: ScoredGroup, transaction: Transaction
    ) -> tuple[ScoredGroup, list[Placement]]:
        """Store a group and let its answers take their places; the group with its sequence, and where each answer
        went. Proposals see it from now on."""
        if self.size.async_window:
            group = replace(group, sequence=self.upcoming)
            self.upcoming += 1
        placements = problem_run.population.add(group, transaction)
        repeated = sum(not placement.new for placement in placements)
        kind = _kind(problem_run, group.parent)
        seen = (group.sequence, group.problem, group.operator, kind, repeated, len(placements))
        self.fresh_share.committed.append(seen)
        self.status.migrations += bool(problem_run.population.migrate_if_due(transaction))
        problem_run.committed += 1
        self.status.count(group, problem_run.population.sums)
        self._check_replies()
        if placements:
            self._repeated = self._repeated + repeated if repeated == len(placements) else 0
        if self._repeated >= _REPEATED_ROW and not self._warned_of_repeats:
            self._warned_of_repeats = True
            if remedy := remedy_of_repeats(self.operators.all[group.operator].policy):
                warnings.warn(f"{self._repeated} answers in a row repeat others: {remedy}", stacklevel=2)
        best, target = problem_run.best, problem_run.problem.target
        if best is not None and target is not None and not problem_run.solved and best >= target:
            until_solved = self.config.until_solved
            problem_run.solve(group.sequence, group.iteration + 1, until_solved, self.store, transaction)
        self._stop_at_plateau(problem_run)
        if problem_run.tuned is not None:
            problem_run.tuned.learn(group)
        # with an asynchronous window proposals see everything committed, else up to this group
        self.fresh_share.advance(None if self.size.async_window else group.sequence)
        return group, placements

    def _stop_at_plateau(self, problem_run: ProblemRun) -> None:
        patience = self.config.patience
        if patience is not None and problem_run.stop is None and problem_run.population.plateau >= patience:
            problem_run.stop = Stop(StopReason.PLATEAU, f"no better answer in {patience:,} iterations")

    def _check_replies(self) -> None:
        """Warn of replies without an answer, once for each kind of them, and stop after too many in a row."""
        errors = self.status.errors
        for reason, kind in REPLIES.items():
            least = _WARN_AFTER
            if reason is Unanswered.CUT:
                least = max(least, math.ceil(_OFTEN_CUT * (self.status.answers + self.status.missing)))
            if errors[kind] >= least and reason not in self._warned:
                self._warned.add(reason)
                text = f"{errors[kind]} replies hold no answer: {'; '.join(LACKING[reason])}"
                warnings.warn(text, stacklevel=2)
        most, row = self.config.max_unanswered, self.status.unanswered
        if self.stopped is None and most and row >= most:
            reason = max(REPLIES, key=lambda reason: errors[REPLIES[reason]])
            message = f"{row:,} replies in a row held no answer, most were {'; '.join(LACKING[reason])}"
            self.stopped = Stop(StopReason.UNANSWERED, f"{message}, then evo resume")

    def release(self, problem_run: ProblemRun, group: ScoredGroup) -> None:
        """The transaction of this group is committed: the store answers for its scores now."""
        for answer in group.all_answers():
            problem_run.scores.release(answer.identity)

    def advance(self, upto: int | None) -> None:
        """After a resume: see the stored groups up to this sequence, all of them with None."""
        self.fresh_share.advance(upto)
        for problem_run in self.problem_runs:
            problem_run.population.advance(upto)
            # a problem that stops when solved must look unsolved to proposals made before it was
            sequence = problem_run.solved_sequence
            if self.config.until_solved and sequence is not None and (upto is None or sequence <= upto):
                problem_run.stop = SOLVED
            self._stop_at_plateau(problem_run)

    def recall(self) -> None:
        """After a resume: what was learned about repeats and numbers, from the stored groups. They are read only if
        the settings need them."""
        if any(operator.prompt.fresh == "auto" for operator in self.operators.all):
            groups = repeats_by_group(self.store, self.run_id, COUNTED_GROUPS + self.size.groups)
            self.fresh_share.committed.extend(groups)
        if tuned := {one.record.id: one.tuned for one in self.problem_runs if one.tuned is not None}:
            for _, group in read_groups(self.store, self.run_id):
                tuned[group.problem].learn(group)

    def replay(self, propose: Callable[[], bool]) -> None:
        """Bring the populations to where the stored groups left them, and propose the groups again that were in
        flight when the run ended. With an asynchronous window their view of the population is unknown, so they are
        proposed like any other. propose: makes the next proposal; False if there is none"""
        if not self.size.async_window:
            committed = self.upcoming
            while (upcoming := self.upcoming) < committed + self.size.groups:
                self.advance(upcoming - self.size.groups)
                if not propose():
                    break
        self.advance(None)

    def stop(self, stop: Stop) -> None:
        """Propose nothing more."""
        self.stopped = self.stopped or stop

    def write_metrics(self, transaction: Transaction, scoring_queue: int = 0, **waiting: int) -> None:
        """Put the metrics on record, at most once in SUMMARY_SECONDS. waiting: counts of iterations in flight, which
        are put there at once, and which the next metrics take back"""
        now = time.monotonic()
        if self.problem_runs and (waiting or now - self._summarised >= SUMMARY_SECONDS):
            self._summarised = -math.inf if waiting else now
            self.store.set_summary(self.run_id, self.status.metrics(scoring_queue) | waiting, transaction)


def budget_spent(config: RunConfig, status: SearchStatus, groups: int) -> Stop | None:
    """The first budget that leaves no room for a further group; None if all do. groups: proposed so far, those in
    flight included"""
    per_group = config.rollouts * config.answers
    spent = unit = ""
    if config.max_answers and (groups + 1) * per_group > config.max_answers:
        spent, unit = f"{config.max_answers:,} answers", "answers"
    elif config.max_total_tokens and status.tokens >= config.max_total_tokens:
        spent, unit = f"{config.max_total_tokens:,} tokens", "tokens"
    elif config.max_cost and status.cost >= config.max_cost:
        spent, unit = f"{config.max_cost:g} of cost", "cost"
    elif config.max_seconds and status.active.seconds >= config.max_seconds:
        spent, unit = f"{config.max_seconds:g} seconds", "seconds"
    return Stop(StopReason.BUDGET, f"budget of {spent}", unit) if spent else None


def _kind(problem_run: ProblemRun, parent: int | None) -> ParentKind:
    if parent is None:
        return ParentKind.NOTHING
    return ParentKind.SEED if problem_run.population.is_seed(parent) else ParentKind.ANSWER
