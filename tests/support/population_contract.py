"""The contract of a problem's population with a search (islands.population.population.Population), as tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.store import Store
from islands.types import Placement, ProblemRecord, Selection
from problems.contract import Score, ScorerFault
from problems.identity import identity
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout

OBJECTIVES = ("left", "right")
GROUPS = 30


def scored_answer(text: str, fitness: float, error: str | None = None) -> ScoredAnswer:
    """An answer whose rewards are its fitness and 1 minus its fitness."""
    score = Score((fitness, 1 - fitness), fitness, {"length": float(len(text))}, "said", error)
    return ScoredAnswer(text, identity(text, "text"), score, 0.01)


def scored_group(
    problem: ProblemRecord,
    sequence: int,
    answers: Sequence[ScoredAnswer],
    *,
    island: int = 0,
    parent: int | None = None,
) -> ScoredGroup:
    """A group of one rollout."""
    ids = np.arange(3, dtype=np.int32)
    rollout = Rollout("what it wrote", ids, -np.ones(3, dtype=np.float32), ids)
    return ScoredGroup(
        problem.id, sequence, sequence, island, parent, (), Prompt("asked", "", sequence), "v1", max(1, len(answers)),
        0, 1.0, (ScoredRollout(rollout, tuple(answers)),), 0.1, 0.1,
    )  # fmt: skip


class PopulationContract:
    """Subclass it as `TestMine` and define `open_store`, and `population` unless it is that of `islands`; pytest runs
    every test of it."""

    config = PopulationConfig(islands=3, population_size=20, migration_interval=4)

    def open_store(self, folder: Path) -> Store:
        """The same database each time for the same folder, empty at first."""
        raise NotImplementedError

    def population(self, store: Store, problem: ProblemRecord) -> Population:
        """An empty population of the problem."""
        return Population(store, problem, self.config)

    def choosable(self, population: Population) -> set[int]:
        """Candidate ids that a selection may show: the members of all islands. Override it if others are allowed."""
        return {id for island in range(self.config.islands) for id in population.members(island)}

    @contextmanager
    def _begun(self, folder: Path) -> Iterator[tuple[Store, ProblemRecord, Population]]:
        with self.open_store(folder) as store:
            run = store.create_run(None, {}, command="", seed=0, commit="")
            problem = store.add_problem(run.id, 0, "made:up", "made up", OBJECTIVES, 1.0, "text")
            yield store, problem, self.population(store, problem)

    def _search(
        self, store: Store, problem: ProblemRecord, population: Population, first: int, last: int
    ) -> list[tuple[Selection, list[Placement]]]:
        """Groups first..last-1 of a search that depends only on their numbers and the population."""
        steps = []
        for sequence in range(first, last):
            rng = np.random.default_rng(sequence)
            island = sequence % self.config.islands
            chosen = population.select(island, rng)
            answers = [
                scored_answer(f"{n}", round(n / 40, 3), "failed" if n % 7 == 0 else None)
                for n in rng.integers(1, 41, 3).tolist()
            ]
            parent = None if chosen.parent is None else chosen.parent.id
            scored = scored_group(problem, sequence, answers, island=island, parent=parent)
            with store.begin() as tx:
                placements = population.add(scored, tx)
                population.migrate_if_due(tx)
            steps.append((chosen, placements))
        return steps

    def test_every_answer_has_a_place_and_repeats_are_stored_once(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            stored: dict[bytes, int] = {}
            for sequence, texts in enumerate((["a", "b", "a"], ["b", "c"], [])):
                answers = [scored_answer(text, 0.5) for text in texts]
                with store.begin() as tx:
                    places = population.add(scored_group(problem, sequence, answers), tx)
                for answer, place in zip(answers, places, strict=True):
                    assert place.new == (answer.identity not in stored)
                    assert stored.setdefault(answer.identity, place.candidate) == place.candidate
                    assert population.known(answer.identity) == place.candidate
                    assert population.candidate(place.candidate).text == answer.text
            assert population.size == 3 and population.known(b"nobody") is None
            with pytest.raises(KeyError):
                population.candidate(10**9)

    def test_the_best_is_the_fittest_valid_answer(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            assert population.best is None and population.select(0, np.random.default_rng(0)).parent is None
            steps = self._search(store, problem, population, 0, GROUPS)
            candidates = [population.candidate(place.candidate) for _, places in steps for place in places]
            best = max(candidate.fitness for candidate in candidates if candidate.error is None)
            assert population.best is not None and population.best[1] == best
            assert sum(place.improved for _, places in steps for place in places) >= 1
            (record,) = store.problems(problem.run_id)
            assert (record.best, record.best_fitness) == population.best[:2]

    def test_selections_hold_members_and_what_prompts_show(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            self._search(store, problem, population, 0, GROUPS)
            for island in range(self.config.islands):
                members = population.members(island)
                assert set(population.cells(island).values()) <= set(members)
                chosen = population.select(island, np.random.default_rng(island))
                assert chosen.parent is not None and chosen.parent not in chosen.inspirations
                shown = {candidate.id for candidate in (chosen.parent, *chosen.inspirations, *chosen.best)}
                assert shown <= self.choosable(population)
                assert [candidate.fitness for candidate in chosen.best] == sorted(
                    (o.fitness for o in chosen.best), reverse=True
                )
            assert sum(len(population.members(i)) for i in range(self.config.islands)) <= 20

    def test_one_seed_gives_one_search(self, tmp_path: Path) -> None:
        histories = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            with self._begun(tmp_path / name) as (store, problem, population):
                steps = self._search(store, problem, population, 0, GROUPS)
                texts = [None if chosen.parent is None else chosen.parent.text for chosen, _ in steps]
                histories.append((texts, [[place.cell for place in places] for _, places in steps]))
        assert histories[0] == histories[1]

    def test_a_resumed_search_goes_on_as_if_it_had_not_stopped(self, tmp_path: Path) -> None:
        half = GROUPS // 2
        with self._begun(tmp_path) as (store, problem, population):
            self._search(store, problem, population, 0, half)
            members = [population.members(island) for island in range(self.config.islands)]
            with self.open_store(tmp_path) as again:
                (record,) = again.problems(problem.run_id)
                resumed = self.population(again, record)
                resumed.advance(None)
                assert resumed.sequence == half - 1 and resumed.best == population.best
                assert [resumed.members(island) for island in range(self.config.islands)] == members
                last = self.config.islands - 1
                for seed in range(5):
                    chosen = population.select(last, np.random.default_rng(seed))
                    assert resumed.select(last, np.random.default_rng(seed)) == chosen

    def test_a_rolled_back_group_leaves_nothing_and_asks_for_a_new_population(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            self._search(store, problem, population, 0, 3)
            with pytest.raises(ZeroDivisionError), store.begin() as tx:
                population.add(scored_group(problem, 3, [scored_answer("lost", 0.9)]), tx)
                raise ZeroDivisionError
            with pytest.raises(RuntimeError):
                population.select(0, np.random.default_rng(0))
            fresh = self.population(store, problem)
            fresh.advance(None)
            assert fresh.sequence == 2 and fresh.known(scored_answer("lost", 0.9).identity) is None
            self._search(store, problem, fresh, 3, 5)

    def test_a_seed_lives_on_every_island_and_comes_first(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            with store.begin() as tx:
                place = population.seed(scored_answer("start", 0.1), tx)
                assert place.new and not population.seed(scored_answer("start", 0.1), tx).new
            assert all(population.members(island) == [place.candidate] for island in range(self.config.islands))
            assert population.candidate(place.candidate).generation == 0
            self._search(store, problem, population, 0, 1)
            with pytest.raises(RuntimeError), store.begin() as tx:
                population.seed(scored_answer("late", 0.1), tx)

    def test_what_does_not_fit_is_refused(self, tmp_path: Path) -> None:
        with self._begun(tmp_path) as (store, problem, population):
            self._search(store, problem, population, 0, 2)
            short = ScoredAnswer("short", b"short", Score((0.5,), 0.5, {"length": 1.0}), 0.0)
            with pytest.raises(ScorerFault):
                population.check(scored_group(problem, 2, [short]))
            for wrong in (scored_group(problem, 1, []), scored_group(problem, 2, [], island=self.config.islands)):
                with self.open_store(tmp_path) as again:
                    other = self.population(again, problem)
                    other.advance(None)
                    with pytest.raises(ValueError), again.begin() as tx:
                        other.add(wrong, tx)
