"""The contract of an archive of elites with its island (islands.population.archive.Archive), as tests."""

from __future__ import annotations

import numpy as np

from islands.population.archive import Archive
from islands.population.columns import Columns

OFFERS = 200


class ArchiveContract:
    """Subclass it as `TestMine` and give `archive`; pytest runs every test of it.

    Candidates have three rewards and two measures, all in [0, 1].
    """

    def archive(self, columns: Columns) -> Archive:
        """An empty archive over these columns."""
        raise NotImplementedError

    def observe(self, archive: Archive, columns: Columns, ordinal: int) -> None:
        """The calls of an island before it offers a candidate, for archives whose cells depend on the ranges so far."""

    def _filled(self, offers: int = OFFERS) -> tuple[Archive, Columns]:
        """An archive after this many offers of few different values, so that cells are contested."""
        columns = Columns(3)
        archive = self.archive(columns)
        rng = np.random.default_rng(0)
        for ordinal in range(offers):
            self._append(columns, ordinal, rng)
            self.observe(archive, columns, ordinal)
            archive.offer(ordinal)
        return archive, columns

    def _append(self, columns: Columns, ordinal: int, rng: np.random.Generator) -> None:
        rewards = tuple((rng.integers(0, 5, 3) / 4).tolist())
        measures = tuple(rng.random(2).tolist())
        columns.append(ordinal + 1, b"%d" % ordinal, float(np.mean(rewards)), rewards, measures, 0, True)

    def test_an_empty_archive_holds_nothing(self) -> None:
        columns = Columns(3)
        archive = self.archive(columns)
        rows, rewards = archive.elites()
        assert len(archive) == len(rows) == len(archive.cells) == len(archive.changed) == 0
        assert rewards.shape == (0, 3)
        assert 0 not in archive and archive.cell_of(0) is None

    def test_the_first_offer_enters(self) -> None:
        archive, _ = self._filled(1)
        assert 0 in archive and len(archive) == 1
        assert archive.cells == {archive.cell_of(0): 0}
        assert archive.changed == set(archive.cells)

    def test_an_offer_does_what_would_enter_says(self) -> None:
        columns = Columns(3)
        archive = self.archive(columns)
        rng = np.random.default_rng(1)
        entered = 0
        for ordinal in range(OFFERS):
            self._append(columns, ordinal, rng)
            self.observe(archive, columns, ordinal)
            before = set(archive.cells.values())
            archive.changed.clear()
            cells = dict(archive.cells)
            enters = archive.would_enter(ordinal)
            assert archive.cells == cells and not archive.changed, "would_enter changes nothing"
            change = archive.offer(ordinal)
            gone = {*change.demoted, *([] if change.displaced is None else [change.displaced])}
            if change.cell is None:
                assert not enters and not gone and set(archive.cells.values()) == before
            else:
                entered += 1
                assert enters and archive.cell_of(ordinal) == change.cell and archive.cells[change.cell] == ordinal
                assert set(archive.cells.values()) == (before - gone) | {ordinal}
            moved = {cell for cell in cells.keys() | archive.cells.keys() if cells.get(cell) != archive.cells.get(cell)}
            assert moved <= archive.changed, "a cell whose occupant changed is not noted for the database"
        assert 0 < entered < OFFERS

    def test_cells_and_elites_are_the_same_candidates(self) -> None:
        archive, columns = self._filled()
        rows, rewards = archive.elites()
        assert sorted(rows) == sorted(archive.cells.values()) and len(set(rows)) == len(rows) == len(archive)
        for ordinal, vector in zip(rows, rewards, strict=True):
            assert ordinal in archive and archive.cells[archive.cell_of(ordinal) or ()] == ordinal
            assert tuple(vector) == columns.rewards(ordinal)

    def test_the_fittest_that_was_offered_is_an_elite(self) -> None:
        archive, columns = self._filled()
        assert max(columns.fitness[o] for o in archive.cells.values()) == max(columns.fitness)

    def test_what_is_discarded_leaves_its_cell_empty(self) -> None:
        archive, columns = self._filled()
        elites = list(archive.cells.values())
        outside = next(o for o in range(OFFERS) if o not in archive)
        archive.discard(outside)
        assert len(archive) == len(elites)
        archive.changed.clear()
        for left, ordinal in zip(range(len(elites) - 1, -1, -1), elites, strict=True):
            cell = archive.cell_of(ordinal)
            archive.discard(ordinal)
            assert ordinal not in archive and archive.cell_of(ordinal) is None and len(archive) == left
            assert cell in archive.changed and cell not in archive.cells

    def test_rescaling_demotes_elites_and_keeps_one_a_cell(self) -> None:
        archive, columns = self._filled()
        before = set(archive.cells.values())
        demoted = archive.rescale()
        after = set(archive.cells.values())
        assert len(demoted) == len(set(demoted)) and set(demoted) == before - after and after <= before
        assert all(archive.cells[archive.cell_of(ordinal) or ()] == ordinal for ordinal in after)

    def test_a_neighbour_is_an_elite(self) -> None:
        archive, columns = self._filled()
        rng = np.random.default_rng(2)
        neighbours = [archive.near(int(rng.integers(OFFERS)), rng) for _ in range(100)]
        assert all(neighbour is None or neighbour in archive for neighbour in neighbours) and any(
            neighbour is not None for neighbour in neighbours
        )

    def test_equal_offers_give_equal_archives(self) -> None:
        assert self._filled()[0].cells == self._filled()[0].cells
