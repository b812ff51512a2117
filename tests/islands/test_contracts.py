"""The contract of a database of runs (islands.store.Store), on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from islands.errors import DatabaseUnavailable, RunBusy, RunExists, UnknownRun
from islands.store import Store
from islands.training import training_steps
from islands.types import RunRecord

HOSTILE = "a\x00b\ud800\u202e\n'\";--"


class StoreContract:
    def open_store(self, folder: Path, read_only: bool = False) -> Store:
        """The same database each time for the same folder, empty at first."""
        raise NotImplementedError

    def _run(self, store: Store, name: str | None = "run") -> RunRecord:
        return store.create_run(name, {"iterations": 3}, command="evo run", seed=7, commit="abc")

    def test_a_run_is_what_it_was_created_with(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            run = self._run(store)
            assert (run.name, run.seed, run.commit, run.status) == ("run", 7, "abc", "running")
            assert run.config == {"iterations": 3} and run.summary == {} and run.comparison is None
            assert store.run("run") == run and store.runs() == [run]
            store.set_config(run.id, {"iterations": 9})
            store.finish_run(run.id, "done", "because", summary={"answers": 2})
        with self.open_store(tmp_path, read_only=True) as store:
            ended = store.run("run")
            assert (ended.status, ended.reason, ended.summary) == ("done", "because", {"answers": 2})
            assert ended.config == {"iterations": 9} and ended.updated >= run.updated

    def test_names_are_taken_once_and_made_up_where_none_is_given(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            self._run(store)
            with pytest.raises(RunExists, match="run"):
                self._run(store)
            assert self._run(store, None).name not in ("", "run")
            with pytest.raises(UnknownRun, match="did you mean run"):
                store.run("runn")
            with pytest.raises(UnknownRun):
                store.finish_run(10**6, "done")
            with pytest.raises(ValueError):
                store.finish_run(1, "asleep")

    def test_problems_come_back_by_index(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            run = self._run(store)
            with store.begin() as tx:
                for index in (1, 0):
                    store.add_problem(run.id, index, f"set/{index}", HOSTILE, ("a", "b"), None, "text", tx)
            first, second = store.problems(run.id)
            assert (first.index, second.index, first.name, first.objectives) == (0, 1, HOSTILE, ("a", "b"))
            assert first.target is None and first.status == "active" and first.best is None
            store.set_problem_status(first.id, "solved", solved_sequence=4)
            store.set_problem_status(first.id, "done", "over")
            assert [(p.status, p.message, p.solved_sequence) for p in store.problems(run.id)][0] == ("done", "over", 4)
            with pytest.raises(ValueError):
                store.set_problem_status(first.id, "asleep")

    def test_a_transaction_is_whole_or_nothing(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            run = self._run(store)
            calls: list[str] = []
            with pytest.raises(ZeroDivisionError), store.begin() as tx:
                tx.on_end(lambda: calls.append("committed"), lambda: calls.append("rolled back"))
                store.add_problem(run.id, 0, "a", "a", ("x",), None, "text", tx)
                store.policy_version(run.id, "v1", tx)
                raise ZeroDivisionError
            assert store.problems(run.id) == [] and calls == ["rolled back"]
            with store.begin() as tx:
                tx.on_end(lambda: calls.append("committed"), lambda: calls.append("rolled back"))
                store.add_problem(run.id, 0, "a", "a", ("x",), None, "text", tx)
                assert store.policy_version(run.id, "v1", tx) == store.policy_version(run.id, "v1", tx)
            assert len(store.problems(run.id)) == 1 and calls == ["rolled back", "committed"]

    def test_a_run_has_one_writer(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store, self.open_store(tmp_path) as other:
            run = self._run(store)
            with store.lease(run.id), pytest.raises(RunBusy):
                other.lease(run.id)
            with other.lease(run.id):
                assert other.run("run").status == "running"
            with pytest.raises(UnknownRun):
                store.lease(10**6)

    def test_training_steps_come_back_in_order(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            run = self._run(store)
            with store.begin() as tx:
                store.add_training_step(run.id, 0, {"loss": 0.5}, tx)
                store.add_training_step(run.id, 1, {"loss": 0.25}, tx, policy_version="v1", checkpoint="there")
            steps = list(training_steps(store, run.id))
            assert [(s.step, s.stats, s.policy_version) for s in steps] == [
                (0, {"loss": 0.5}, None),
                (1, {"loss": 0.25}, "v1"),
            ]
            assert [step.step for step in training_steps(store, run.id, after=0)] == [1]

    def test_a_reader_writes_nothing_and_sees_what_is_committed(self, tmp_path: Path) -> None:
        with self.open_store(tmp_path) as store:
            self._run(store, "first")
            with self.open_store(tmp_path, read_only=True) as reader:
                with pytest.raises(DatabaseUnavailable):
                    self._run(reader, "second")
                self._run(store, "third")
                assert [run.name for run in reader.runs()] == ["first", "third"]


class TestSqliteStore(StoreContract):
    def open_store(self, folder: Path, read_only: bool = False) -> Store:
        return Store.open(f"sqlite:///{folder}/evo.db", read_only=read_only)


class TestPostgresStore(StoreContract):
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
