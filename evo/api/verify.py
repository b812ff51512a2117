"""`evo.verify`: is the winner of a search real? Scores are kept in the run's summary, and rivals are separate runs,
so a verification that was killed continues. Its result is kept there too: evo.progress.answer reads it for the views.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np

from evo.api.arguments import ScoreFunction, call_text, check_run_name, database, reopen_function, split_problems
from evo.api.display import Bar, Display
from evo.api.drive import Driver, Interrupted, run_search
from evo.comparison.verification import SAMPLED, SEED, TUNED, WINNER, MeasuredAnswers, Values, Verification, write_mean
from evo.comparison.workers import is_small
from evo.config.compare import BEST_OF_N, FIXED, REPEATS, TUNED_START
from evo.config.parse import fields_for, parse
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.progress.model import open_runs
from evo.runs.preflight import ASK_TELL
from evo.runs.resume import config_of, resume_run
from evo.runs.start import Changes, start_run
from evo.search.resources import workers
from evo.search.status import describe_usage
from evo.stats.intervals import mean_interval
from islands.comparisons import runs_named
from islands.groups import CandidateReader
from islands.runs import best, course_of, run_totals
from islands.store import Store
from islands.types import Candidate, ProblemRecord, RunRecord
from problems.contract import Problem, finite
from problems.contract import Score as Scored
from problems.fingerprint import fingerprint_of
from problems.objectives import Objective, Reward, fitness_objective, is_lower, own_values, value_of
from problems.registry import given, resolve
from problems.sandbox.pool import Sandbox
from problems.scoring import checked_score
from problems.weights import SPREAD, read_weights, weigh_by, weights_argument

_REPEATS_OF_NOISE = 10
"""Scores of each answer if the scorer is noisy."""


def verify(
    name: str, *, score: ScoreFunction | None = None, problems: Problem | Sequence[Problem] | None = None,
    db: str | None = None, progress: bool = True, **options: Any,
) -> Verification:  # fmt: skip
    """Score the winner of a run again, with its seed, the seed with tuned numbers, and plain samples of its policy.

    Args:
        name: as for `evo.resume`.
        score: as for `evo.resume`.
        problems: as for `evo.resume`.
        db: as for `evo.resume`.
        progress: as for `evo.resume`.
        options: the flags of `evo verify`: problem (names), repeats, sample (True also asks a model that costs), tune,
            max_answers, max_seconds, weights (as for `evo.load_run`: the answer that is best under them,
            with rivals that search under them).

    Raises:
        ValueError: the run has no answer, or its scorer is not there. ScorerFault, Interrupted: as `evo.run`.

    Example:
        print(evo.verify("calm-otter"))
    """
    check_run_name(name)
    db, display = database(db), Bar if progress else Display
    with Store.open(db, must_exist=True) as store:
        objects = [*reopen_function(score, runs_named(store, name)[0], name), *split_problems(problems)[1]]
    with given(objects):
        return verify_run(name, db, lambda: Driver(display()), call_text("verify", name, **options), **options)


def verify_run(
    name: str, db: str, driver: Callable[[], Driver], command: str, *, problem: Sequence[str] = (),
    repeats: int | None = None, sample: bool | None = None, tune: bool = True, max_answers: int | None = None,
    max_seconds: float | None = None, weights: Mapping[str, float] | str | None = None,
) -> Verification:  # fmt: skip
    """As `verify`. driver: makes that of a search"""
    weights = None if weights is None else read_weights(weights)
    if weights == SPREAD:
        raise BadInput(f"weights {SPREAD} names no best answer: verify under weights of the objectives")
    with Store.open(db, must_exist=True) as store:
        run = runs_named(store, name)[0]
        if run.comparison == name:
            raise BadInput(f"{name} is a comparison; verify one run of it, as in: evo verify {run.name}")
        if run.status == "running":
            raise BadInput(f"{name} is being searched; wait for its end, as in: evo verify {run.name}")
        config, notes, tag = config_of(run), list[str](), ""
        with open_runs(db, [name], weights) as judged:
            subjects = _read_subjects(judged, judged.run(name), [problem] if isinstance(problem, str) else problem)
        if judged.reweighed is not None:  # its rivals are other runs than those under the search's own weights
            config = config.model_copy(update={"weights": dict(judged.reweighed.weights)})
            notes += judged.reweighed.lines
            tag = f"-{fingerprint_of(weights_argument(judged.reweighed.weights))[:6]}"
        total, count = run_totals(store, run.id), len(store.problems(run.id))
    each = config.rollouts * config.answers
    asked = math.ceil((total.groups or total.answers or 1) / count)
    iterations = min(asked, math.ceil(max_answers / each / len(subjects)) if max_answers else asked)
    addresses = [subject.record.address for subject in subjects]
    budget = {"iterations": iterations, "max_seconds": max_seconds, "problems": addresses, "verifies": name}
    runs = dict[str, str]()
    if tune:
        try:
            runs[TUNED] = _search(f"{name}-tuned{tag}", _tuned_start(config, budget), db, driver(), command)
        except BadInput as error:
            notes.append(f"no {TUNED}: {error}")
    if sample or (sample is None and is_small(config) and config.policy != ASK_TELL):
        runs[SAMPLED] = _search(f"{name}-sampled{tag}", _plain_sampling(config, budget), db, driver(), command)
    elif sample is None:
        used = describe_usage(total.tokens, total.prompt_tokens, total.cost)
        notes.append(f"no {SAMPLED}: as many answers may take what the search took, {used}; --sample runs it")
    with Store.open(db) as store:
        for rival, of in runs.items():
            found = {record.address: answer for record, answer in best(store, store.run(of).id)}
            for subject in subjects:
                answer = found[subject.record.address]
                subject.texts[rival] = None if answer is None else answer.text
        store.lease(run.id)
        _measure(store, store.run(name), config, subjects, repeats)
        verification = _result(name, subjects, runs, notes, config.start)
        if weights is None:  # under others it is of an answer that no view of the run shows as its best
            record = json.loads(json.dumps(verification.record()), parse_constant=lambda _: None)  # null for NaN
            summary = {**store.run(name).summary, "verification": record}
            with store.begin() as transaction:
                store.set_summary(run.id, summary, transaction)
    return verification


def _tuned_start(config: RunConfig, budget: Mapping[str, Any]) -> RunConfig:
    """The rival whose answers are the seed with other numbers, as many as the search had."""
    kept = config.model_dump(include={"scorer", "sandbox", "seed", "scoring_workers", "weights"})
    rollouts = config.rollouts * config.answers
    return parse(RunConfig, {**kept, **FIXED[TUNED_START], "rollouts": rollouts, **budget}, TUNED)


def _plain_sampling(config: RunConfig, budget: Mapping[str, Any]) -> RunConfig:
    """The rival that samples the search's policy as often, and never shows a parent."""
    values = config.model_dump(exclude_unset=True, exclude=set(fields_for(RunConfig, "search")))
    values["prompt"] |= REPEATS[BEST_OF_N]
    return parse(RunConfig, {**values, **budget}, SAMPLED)


def _search(name: str, config: RunConfig, db: str, driver: Driver, command: str) -> str:
    """Search a rival to its end, a new run or the rest of a stored one; its name. Raises BadInput if another run has
    it."""
    with Store.open(db) as store:
        stored = next((config_of(run) for run in store.runs() if run.name == name), None)
        done = stored is not None and store.run(name).status == "done" and stored.iterations == config.iterations
    prepare = partial(start_run, config, db=db, name=name, command=command)
    if stored is not None:
        if (config.policy, config.problems) != (stored.policy, stored.problems):
            raise BadInput(f"{name} is another run; evo runs rename {name} NEW-NAME makes room for this one")
        changes = Changes(config.model_dump(include={"iterations", "max_seconds", "verifies"}))
        prepare = partial(resume_run, name, db=db, changes=changes)
    if not done:
        outcome = driver.drive(run_search(prepare, db))
        if outcome.failure is not None:
            raise outcome.failure
        if outcome.outcome == "interrupted":
            raise Interrupted(f"{name}: interrupted with everything committed; evo verify continues it", name)
    return name


class _Subject:
    """One problem.

    texts: answer -> its text, None without one; stored: the fitness that the search stored; ids: of these candidates
    problem: as it was opened last; kept: its scores as the run's summary has them: rows of [fitness, error, values],
        or of lists of these, one a held-out case
    """

    problem: Problem

    _opened: Problem

    def __init__(self, record: ProblemRecord, known: Mapping[str, Candidate], weights: Any) -> None:
        """known: the winner, and the seed if it is valid; weights: of the run's configuration"""
        self.record, self.kept, self._weights = record, dict[str, Any](), weights
        self.texts: dict[str, str | None] = {SEED: None, **{answer: one.text for answer, one in known.items()}}
        self.stored: dict[str, float] = {answer: one.fitness for answer, one in known.items()}
        self.ids = {one.id: answer for answer, one in known.items()}
        under = f" under {weights_argument(weights)}" if isinstance(weights, Mapping) else ""
        self.key = f"{record.address}{under}"

    def open(self, sandbox: Sandbox, verified: Mapping[str, Any]) -> None:
        """Open the problem, with new scorer processes unless it is an object of the caller's."""
        (problem,) = resolve(self.record.address, None, lambda: sandbox)
        self._reused = bool(self.kept) and problem is self._opened
        self._opened, problem = problem, weigh_by(problem, self._weights)
        problem.restore(self.record.metrics)
        self.problem, self._seed = problem, problem.canonical(problem.seed_answer())
        if not self.kept:
            kept, fingerprint = verified.get(self.key, {}), problem.fingerprint()
            same = kept.get("fingerprint") == fingerprint and "scores" in kept
            self.kept = kept if same else {"fingerprint": fingerprint, "scores": {}}
            self.texts[SEED] = self.texts[SEED] or self._seed

    def jobs(self, number: int) -> Iterator[tuple[Callable[[str], Any], str, list[Any]]]:
        """(what scores, answer, its rows) of all answers that have fewer rows than this number."""
        for text in dict.fromkeys(text for text in self.texts.values() if text is not None):
            for ask in (self._score, self._held_out)[: 1 + self.problem.holds_out]:
                rows = self.kept["scores"].setdefault(_key(ask == self._held_out, text), [])
                if len(rows) < number:
                    yield ask, text, rows

    def _score(self, text: str) -> list[Any]:
        again = self._reused and text == self._seed  # of which a scorer gives the score that it has
        score = self.problem.score_seed() if again else checked_score(self.problem, text)
        return self._row(score)

    def _held_out(self, text: str) -> list[Any]:
        return list(map(self._row, self.problem.score_held_out_cases(text)))

    def _row(self, score: Scored) -> list[Any]:
        return [score.fitness, score.error, own_values(self.objectives, score)]

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return tuple(self.problem.metrics) or tuple(map(Objective, self.problem.objectives))

    @property
    def began(self) -> bool:
        """Whether the best answer that it started from is its own seed."""
        return self.texts[SEED] == self._seed

    def rows(self, answer: str, held_out: bool = False) -> list[Any]:
        """The scores of an answer; [] without one."""
        text = self.texts[answer]
        return [] if text is None else self.kept["scores"][_key(held_out, text)]

    @property
    def moved(self) -> bool:
        """Whether an answer gets another score than the stored one."""
        return any(not _close(self.rows(answer)[0][0], then) for answer, then in self.stored.items())

    @property
    def noisy(self) -> bool:
        return any(not _close(row[0], rows[0][0]) for rows in map(self.rows, self.texts) for row in rows)

    def values(self, answer: str, held_out: bool, of: int | None = None) -> Values:
        """(C, R) as a Verification takes them, of the fitness or of an objective. An answer that fails as a whole has
        one case, which counts as all."""
        every = [self.rows(one, held_out) for one in self.texts]
        cases = max(len(row) for rows in every for row in rows) if held_out else 1
        rows = [row if held_out else [row] for row in self.rows(answer, held_out)]
        read = self._own if of is None else lambda row: math.nan if (value := row[2][of]) is None else value
        missing = [[[math.nan, None, [None] * len(self.objectives)]]]
        return np.array([[read(score) for score in (row * cases)[:cases]] for row in rows or missing]).T

    def _own(self, row: Sequence[Any]) -> float:
        """As the scorer measured it; nan for a failed answer whose fitness is better when lower."""
        value = value_of(self.problem.metrics, Reward(row[0])).number
        return math.nan if value is None else value

    def means(self, answer: str, held_out: bool) -> dict[str, Any]:
        """Of an answer over cases and repeats, as Verification.measured has them."""
        each = [(one.name, self.values(answer, held_out, of)) for of, one in enumerate(self.objectives)]
        rows = [score for row in self.rows(answer, held_out) for score in (row if held_out else [row])]
        return {
            "fitness": finite(self.values(answer, held_out).mean()),
            "values": {name: finite(values.mean()) for name, values in each},
            "error": next((error for _, error, _ in rows if error), None),
        }

    def notes(self) -> Iterator[str]:
        """Of scores that are not what the search stored."""
        for answer, then in self.stored.items():
            metrics = self.problem.metrics
            now, was = mean_interval([list(map(self._own, self.rows(answer)))]), self._own((then,))
            told = f"{self.record.name}: the {answer} was stored with {was:.6g} and gets {write_mean(now)}"
            if math.isnan(now.mean):  # it fails, which is told elsewhere
                continue
            if self.noisy and answer == WINNER:
                better = (was < now.mean) == is_lower(metrics)
                luck = "; the stored score was its luck" if better else ""
                yield f"{told}, the mean of {len(self.rows(answer))}: the scorer is noisy{luck}"
            elif not self.noisy and not _close(now.mean, was):
                edited = self.record.fingerprint not in (None, self.problem.fingerprint())
                yield f"{told} now: {'the scorer' if edited else 'something that the scorer depends on'} has changed"


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _key(held_out: bool, text: str) -> str:
    return "held out " * held_out + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _read_subjects(store: Store, run: RunRecord, only: Sequence[str]) -> list[_Subject]:
    """The problems of a run with their winners, and the best answers that it started from. Raises BadInput."""
    improvements, rows = course_of(store, run.id).improvements, best(store, run.id)
    if unknown := set(only) - {record.name for record, _ in rows}:
        raise BadInput(f"{run.name} has no problem {min(unknown)}; evo show {run.name} lists them")
    subjects = []
    for record, winner in rows:
        if winner is not None and (not only or record.name in only):
            seeds = [step.candidate for step in improvements[record.id][:1] if step.sequence < 0]
            known = dict(zip((WINNER, SEED), (winner, *CandidateReader(store, 0).fetch(seeds)), strict=False))
            subjects.append(_Subject(record, known, run.config.get("weights")))
    if not subjects:
        raise BadInput(f"{run.name} has no valid answer yet, so there is nothing to verify")
    return subjects


def _measure(
    store: Store, run: RunRecord, config: RunConfig, subjects: Sequence[_Subject], repeats: int | None
) -> None:
    """Score the answers again, alike and in turn. Each round has new scorer processes, and a score is stored before it
    counts. Raises ScorerFault."""

    def score_round(chosen: Sequence[_Subject], number: int) -> None:
        chosen = [subject for subject in chosen if not subject.kept or any(subject.jobs(number))]
        if not chosen:
            return
        with ThreadPoolExecutor(count) as threads, Sandbox(config.sandbox, count) as sandbox:
            asked = dict[Any, list[Any]]()
            for subject in chosen:
                subject.open(sandbox, run.summary.get("verified", {}))
                asked |= {threads.submit(ask, text): rows for ask, text, rows in subject.jobs(number)}
            while asked:  # all that have ended are stored at once, since the record is written whole
                ended = wait(asked, return_when=FIRST_COMPLETED).done
                for each in [each for each in ended if each.exception() is None]:
                    asked.pop(each).append(each.result())
                verified = {**run.summary.get("verified", {}), **{subject.key: subject.kept for subject in subjects}}
                with store.begin() as transaction:
                    store.set_summary(run.id, {**run.summary, "verified": verified}, transaction)
                for each in ended & asked.keys():
                    each.result()  # raises the scorer's fault

    count = workers(config, [])
    score_round(subjects, 1)
    again = [subject for subject in subjects if repeats or subject.moved]
    for number in range(2, (repeats or _REPEATS_OF_NOISE) + 1):
        score_round([subject for subject in again if repeats or number == 2 or subject.noisy], number)


def _result(
    name: str, subjects: Sequence[_Subject], runs: Mapping[str, str], notes: Sequence[str], start: Sequence[str]
) -> Verification:
    """runs: of the rivals; start: the runs and files that the search started from"""
    problem, held_out = subjects[0].problem, all(subject.problem.holds_out for subject in subjects)
    lower = is_lower(problem.metrics)

    def measured(name: str, lower: bool, of: int | None = None) -> MeasuredAnswers:
        answers = (SEED, WINNER, *runs)
        return MeasuredAnswers(
            name, {each: [one.values(each, held_out, of) for one in subjects] for each in answers}, lower
        )

    fitness = measured(fitness_objective(problem.metrics).name, lower)
    kinds = {tuple((one.name, one.lower) for one in subject.objectives) for subject in subjects}
    several = len(problem.objectives) > 1 and len(kinds) == 1
    objectives = [measured(*kind, place) for place, kind in enumerate(kinds.pop())] if several else []
    began = f"best of {', '.join(start)}" if start and not all(subject.began for subject in subjects) else SEED
    told = [note for subject in subjects for note in subject.notes()]
    more = [f"... and {len(told) - 3} more"] if len(told) > 3 else []
    if faults := [error for one in subjects for _, error, _ in one.rows(SEED)[:1] if error]:
        more.append(f"{len(faults)} of {len(subjects)} seeds fail: {faults[0]}")
    unseen = [] if held_out else ["no held-out cases: the score is of the cases that were searched on"]
    notes = [*told[:3], *more, *notes, *unseen]
    errors = [(one.record.name, error) for one in subjects for _, error, _ in one.rows(WINNER)[:1] if error]
    failed = [f"{of}: the winner fails now: {error}" for of, error in errors]
    names = [one.record.name for one in subjects]
    means = {id: one.means(answer, held_out) for one in subjects for id, answer in one.ids.items()}
    return Verification(name, names, runs, fitness, held_out, objectives, began, notes, failed, means)
