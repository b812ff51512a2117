"""The contracts of archives, populations and stores: both archives, and the others on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.archive_contract import ArchiveContract
from support.population_contract import PopulationContract, scored_answer
from support.store_contract import StoreContract

from islands.population.archive import GridArchive, ParetoArchive
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace
from islands.store import Store


class TestGridArchive(ArchiveContract):
    def archive(self, columns):
        self.space = FeatureSpace(("a", "b", "c"), PopulationConfig(archive_size=16, feature_bins=4).bins, 20)
        self.space.settle(("u", "v"))
        return GridArchive(columns, self.space)

    def observe(self, archive, columns, ordinal):
        if self.space.observe(columns.measures(ordinal)):
            archive.rescale()


class TestParetoArchive(ArchiveContract):
    def archive(self, columns):
        return ParetoArchive(columns, 8)


class OnSqlite:
    def open_store(self, folder: Path, read_only: bool = False) -> Store:
        return Store.open(f"sqlite:///{folder}/evo.db", read_only=read_only)


class OnPostgres:
    @pytest.fixture(autouse=True)
    def _server(self, postgres) -> Iterator[None]:
        self._addresses: dict[Path, str] = {}
        with ExitStack() as databases:
            self._fresh = lambda: databases.enter_context(postgres.database())
            yield

    def open_store(self, folder: Path, read_only: bool = False) -> Store:
        if folder not in self._addresses:
            self._addresses[folder] = self._fresh()
        return Store.open(self._addresses[folder], read_only=read_only)


class TestSqliteStore(OnSqlite, StoreContract):
    pass


class TestPostgresStore(OnPostgres, StoreContract):
    pass


class TestSqlitePopulation(OnSqlite, PopulationContract):
    pass


class TestParetoPopulation(OnSqlite, PopulationContract):
    config = PopulationConfig(islands=3, population_size=20, migration_interval=4, archive="pareto", archive_size=6)


class TestHillPopulation(OnSqlite, PopulationContract):
    config = PopulationConfig(strategy="hill", population_size=20, migration_interval=4)


class TestScsPopulation(OnSqlite, PopulationContract):
    config = PopulationConfig(strategy="scs", population_size=20, migration_interval=4)

    def choosable(self, population):
        """Every successful answer of the suite's searches, member or not."""
        every = (population.known(scored_answer(f"{n}", n / 40).identity) for n in range(1, 41) if n % 7)
        return {id for id in every if id is not None}
