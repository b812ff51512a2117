"""Checkpoints of OpenEvolve: what it saved comes back as it was after an import and an export, on both databases."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import pytest
from island_samples import new_problem, search, small_config
from openevolve.database import Program
from openevolve_samples import Weighed, bring_in, code, content, grown, loaded, population, replayed, send_out
from sqlalchemy import func, select

from evo.testing import ProblemContract
from islands.db.schema import METADATA, Candidate, PromptGroup, Run
from islands.errors import BadCheckpoint, RunExists
from islands.interop.checkpoint import newest, read_checkpoint
from islands.interop.metrics import score_of
from islands.interop.origin import originals_of, source_of
from islands.interop.timeline import in_order, timeline
from islands.population.population import Population
from islands.queries.groups import read_groups
from islands.queries.lineage import ancestors
from islands.queries.operators import summed_counts
from islands.queries.runs import best, candidate, elites


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """What OpenEvolve saved after 60 iterations, as it loads it again."""
    path = tmp_path_factory.mktemp("openevolve") / "checkpoints" / "checkpoint_60"
    grown().save(str(path), 60)
    return path


def rows(store):
    with store.read() as connection:
        return {
            t.name: connection.execute(select(func.count()).select_from(t)).scalar() for t in METADATA.sorted_tables
        }


def test_openevolve_loads_again_what_it_saved(store, checkpoint, tmp_path):
    imported = bring_in(store, checkpoint)
    place = send_out(store, imported, tmp_path / "out")
    assert place == tmp_path / "out" / "checkpoints" / "checkpoint_60"
    before, after = content(loaded(checkpoint)), content(loaded(place))
    assert before.keys() == after.keys()
    for part in before:
        assert after[part] == before[part], part
    assert len(before["programs"]) == imported.programs > 30 and len(before["archive"]) > 5
    assert (place / "best_program.py").read_text() == loaded(checkpoint).get_best_program().code
    assert json.loads((place / "metadata.json").read_text()) == json.loads((checkpoint / "metadata.json").read_text())


def test_programs_become_candidates_with_their_parents_scores_and_prompts(store, checkpoint):
    imported = bring_in(store, checkpoint, name="from-openevolve")
    theirs = loaded(checkpoint).programs
    problem = store.problems(imported.run.id)[0]
    with store.read() as connection:
        ids = list(connection.execute(select(Candidate.c.id).where(Candidate.c.problem_id == problem.id)).scalars())
    assert len(ids) == imported.candidates == len({p.code for p in theirs.values()})
    seen = 0
    for id in ids:
        found = candidate(store, imported.run.id, id)
        originals = originals_of(store, id)
        seen += len(originals)
        first = theirs[originals[0].id]
        assert found.candidate.text == first.code and {theirs[o.id].code for o in originals} == {first.code}
        assert found.candidate.generation == first.generation and found.candidate.island == first.metadata["island"]
        assert found.created == first.timestamp
        if "speed" in first.metrics:
            assert found.candidate.rewards == (first.metrics["speed"], first.metrics["accuracy"])
            assert found.candidate.fitness == first.metrics["combined_score"] and found.candidate.error is None
        else:
            assert found.candidate.rewards == (0.0, 0.0) and found.candidate.error
            assert ("timeout" in found.candidate.error) == ("timeout" in first.metrics)
        if first.parent_id in theirs and theirs[first.parent_id].code != first.code:
            parent = candidate(store, imported.run.id, found.candidate.parent).candidate
            assert parent.text == theirs[first.parent_id].code
            assert ancestors(store, id)[1].candidate == parent.id
    assert seen == len(theirs)
    groups = [group for _, group in read_groups(store, imported.run.id)]
    assert len(groups) == imported.groups and [g.sequence for g in groups] == list(range(len(groups)))
    logged = [g for g in groups if g.prompt.user]
    assert logged and all(g.rollouts[0].rollout.text.startswith("```python") for g in logged)
    assert {g.policy_version for g in groups} == {"openevolve"}
    ((_, top),) = best(store, imported.run.id)
    assert top.fitness == max(p.metrics.get("combined_score", 0) for p in theirs.values())
    with store.read() as connection:
        counted = summed_counts(connection, imported.run.id)
    assert sum(one.answers for one in counted) == imported.groups and any(one.better for one in counted)
    assert store.run("from-openevolve").status == "done" and source_of(store, imported.run.id) == str(checkpoint)


def test_a_search_begins_with_what_the_import_wrote(store, checkpoint):
    imported = bring_in(store, checkpoint)
    islands = len(loaded(checkpoint).islands)
    begun = replayed(store, imported, islands)
    stored = {(e.island, e.cell): e.candidate for e in elites(store, [begun.problem.id])}
    assert stored == {(i, c): id for i in range(islands) for c, id in begun.cells(i).items()} and len(stored) > 8
    assert begun.best[0] == store.problems(imported.run.id)[0].best
    assert begun.size == imported.candidates and begun.sequence == imported.groups - 1
    assert begun.stats()["copies"] == imported.copies > 0
    with pytest.raises(RuntimeError, match="a seed comes before the first group"), store.begin() as tx:
        begun.seed(next(read_groups(store, imported.run.id))[1].all_answers()[0], tx)


def test_a_search_goes_on_and_openevolve_loads_both_parts(store, checkpoint, tmp_path):
    imported = bring_in(store, checkpoint)
    theirs = loaded(checkpoint)
    going_on = replayed(store, imported, 4)
    search(store, going_on, 12, start=imported.groups)
    place = send_out(store, imported, tmp_path)
    both = loaded(place)
    assert {id: p for id, p in both.programs.items() if id in theirs.programs} == theirs.programs
    new = {id: p for id, p in both.programs.items() if id not in theirs.programs}
    texts = {p.code for p in new.values() if not p.metadata.get("migrant")}
    assert len(texts) == going_on.size - imported.candidates > 10
    assert all(p.parent_id in both.programs for p in new.values())
    assert any(p.parent_id in theirs.programs for p in new.values())
    assert both.last_iteration == theirs.last_iteration + 12
    assert sum(both.island_generations) == sum(theirs.island_generations) + 12
    placed = [id for island in both.islands for id in island]
    assert len(placed) == len(set(placed)) and set(new) <= set(placed)
    both._validate_migration_results()
    again = bring_in(store, place)
    assert again.candidates == going_on.size


def ours(store, **settings):
    """A search of ours with migrations, repeats, failures and answers without a parent."""
    problem = new_problem(store)
    made = Population(store, problem, small_config(**settings))
    search(store, made, 24)
    return store.runs()[-1], problem, made


class Words(Weighed):
    """The problem of the searches in island_samples."""

    name, objectives, answer_format = "maze 0", ("left", "right"), "text"


class TestWeighed(ProblemContract):
    def problem(self):
        return Weighed()


class TestWords(ProblemContract):
    def problem(self):
        return Words()


@pytest.mark.parametrize("archive", ["grid", "pareto"])
def test_our_own_run_goes_to_openevolve_and_back(store, tmp_path, archive):
    run, problem, made = ours(store, archive=archive)
    place = send_out(store, run, tmp_path)
    theirs = loaded(place, 3)
    theirs._validate_migration_results()
    with store.read() as connection:
        candidates = connection.execute(select(*Candidate.c).where(Candidate.c.problem_id == problem.id)).all()
    originals = {p.metadata["evo"]["candidate"]: p for p in theirs.programs.values() if not p.metadata.get("migrant")}
    assert originals.keys() == {c.id for c in candidates}
    for c in candidates:
        p = originals[c.id]
        assert (p.code, p.generation, p.metadata["island"]) == (c.text, c.generation, c.island)
        assert (p.metrics["left"], p.metrics["right"]) == tuple(c.rewards) and p.metrics["combined_score"] == c.fitness
        parent = theirs.programs.get(p.parent_id)
        assert (None if parent is None else parent.metadata["evo"]["candidate"]) == c.parent_id
        assert p.prompts["prompt"]["user"] == "user" and json.loads(p.artifacts_json)["feedback"] == c.feedback
    top = store.problems(run.id)[0].best
    assert theirs.best_program_id == originals[top].id
    assert theirs.get_top_programs(1)[0].metrics["combined_score"] == originals[top].metrics["combined_score"]
    for island, cells in enumerate(theirs.island_feature_maps):
        occupants = {cell: theirs.programs[id].metadata for cell, id in cells.items()}
        assert {cell: one["evo"]["candidate"] for cell, one in occupants.items()} == made.cells(island)
        assert all(one["island"] == island for one in occupants.values())
    back = bring_in(store, place, Words())
    with store.read() as connection:
        query = select(*Candidate.c).where(Candidate.c.problem_id == back.problem.id).order_by(Candidate.c.id)
        returned = connection.execute(query).all()
        groups = connection.execute(select(func.count()).where(PromptGroup.c.run_id == back.run.id)).scalar()
    assert groups == back.groups == len(candidates)
    texts = {c.id: c.text for c in (*candidates, *returned)}
    told = ["text", "identity", "rewards", "fitness", "features", "feedback", "error", "generation", "island"]
    for mine, other in zip(sorted(candidates, key=lambda c: c.id), returned, strict=True):
        assert [getattr(mine, key) for key in told] == [getattr(other, key) for key in told]
        assert texts.get(mine.parent_id) == texts.get(other.parent_id)
    assert {g.policy_version for _, g in read_groups(store, back.run.id)} == {"v0", "v1", "v2"}


def test_every_candidate_is_where_a_viewer_looks(store, tmp_path):
    """OpenEvolve's visualizer shows what the islands name, draws an edge for each parent_id that it has seen, and needs
    metrics, metadata and prompts to be there."""
    run, problem, made = ours(store)
    place = send_out(store, run, tmp_path / "checkpoint_here")
    assert place == tmp_path / "checkpoint_here"
    metadata = json.loads((place / "metadata.json").read_text())
    named = [id for island in metadata["islands"] for id in island]
    files = {file.stem: json.loads(file.read_text()) for file in (place / "programs").iterdir()}
    assert sorted(named) == sorted(files) and len(files) > made.size
    for id, program in files.items():
        assert program["id"] == id and "-copy" not in id
        assert program["parent_id"] is None or program["parent_id"] in files
        assert all(math.isfinite(value) for value in program["metrics"].values())
        assert isinstance(program["prompts"], dict) and isinstance(program["metadata"], dict)
    assert set(metadata["archive"]) <= set(files) and metadata["archive"]
    with pytest.raises(FileExistsError):
        send_out(store, run, place)
    assert not list(tmp_path.glob(".partial*"))


def test_an_import_is_stored_whole_or_not_at_all(store, checkpoint, monkeypatch):
    empty = rows(store)
    monkeypatch.setattr("islands.interop.importing.pack", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bring_in(store, checkpoint)
    assert rows(store) == empty
    monkeypatch.undo()
    bring_in(store, checkpoint, name="taken")
    full = rows(store)
    with pytest.raises(RunExists, match="has a run named taken"):
        bring_in(store, checkpoint, name="taken")
    assert rows(store) == full
    other = bring_in(store, checkpoint)
    assert other.run.name != "taken" and rows(store)["runs"] == 2


def damaged(path, tmp_path, change):
    copy = tmp_path / "checkpoint_1"
    shutil.copytree(path, copy)
    change(copy)
    return copy


def edit(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def first_program(folder):
    return sorted((folder / "programs").glob("*.json"))[0]


DAMAGE = {
    "no metadata": (lambda c: (c / "metadata.json").unlink(), "it has no metadata.json"),
    "truncated metadata": (lambda c: (c / "metadata.json").write_text('{"islands": [['), "metadata.json: not whole"),
    "metadata a list": (lambda c: (c / "metadata.json").write_text("[]"), "found a list"),
    "no programs folder": (lambda c: (c / "programs").rename(c / "gone"), "it has no folder programs"),
    "a program missing": (lambda c: first_program(c).unlink(), "whose file is missing"),
    "a truncated program": (lambda c: first_program(c).write_text('{"id": "x", "code'), "not whole, or no JSON"),
    "bytes": (lambda c: first_program(c).write_bytes(b"\xff\xfe\x00"), "not whole, or no JSON"),
    "nested without end": (lambda c: first_program(c).write_text("[" * 100_000), "not whole, or no JSON"),
    "no code": (lambda c: edit(first_program(c), code=None), "its code is missing"),
    "code a number": (lambda c: edit(first_program(c), code=7), "its code is a int"),
    "a path as id": (lambda c: edit(first_program(c), id="../../x"), "cannot be the id of a program"),
    "no id": (lambda c: edit(first_program(c), id=None), "cannot be the id of a program"),
    "a time that is none": (lambda c: edit(first_program(c), timestamp=math.inf), "its timestamp is inf"),
    "a negative generation": (lambda c: edit(first_program(c), generation=-1), "its generation is -1"),
    "metrics a list": (lambda c: edit(first_program(c), metrics=[1]), "its metrics is a list"),
    "islands of numbers": (lambda c: edit(c / "metadata.json", islands=[[1]]), "no lists of program ids"),
    "generations of words": (lambda c: edit(c / "metadata.json", island_generations=["x"]), "island_generations"),
    "too many islands": (lambda c: edit(c / "metadata.json", islands=[[]] * 1001), "at most 1,000"),
    "a circle": (lambda c: [edit(f, parent_id=f.stem) for f in (c / "programs").iterdir()], "own ancestors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_broken_is_refused_in_one_line(checkpoint, tmp_path, kind):
    change, told = DAMAGE[kind]
    copy = damaged(checkpoint, tmp_path, change)
    with pytest.raises(BadCheckpoint) as refused:
        in_order(read_checkpoint(copy))
    assert told in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_the_newest_checkpoint_is_found(checkpoint, tmp_path):
    for number in (5, 100, 20):
        (tmp_path / "checkpoints" / f"checkpoint_{number}").mkdir(parents=True)
    (tmp_path / "checkpoints" / "checkpoint_900.txt").write_text("")
    assert newest(tmp_path).name == "checkpoint_100" and newest(tmp_path / "checkpoints").name == "checkpoint_100"
    assert newest(checkpoint) == checkpoint and newest(checkpoint.parent.parent) == checkpoint
    with pytest.raises(BadCheckpoint, match="there is no such folder"):
        newest(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadCheckpoint, match="no checkpoint of OpenEvolve"):
        newest(tmp_path / "empty")
    (tmp_path / "several" / "0-maze" / "checkpoints").mkdir(parents=True)
    with pytest.raises(BadCheckpoint, match="there are some in 0-maze: name one"):
        newest(tmp_path / "several")


def one_program(**values):
    made = Program(id="a", code=code(1), metrics={"speed": 0.5, "accuracy": 1.0, "combined_score": 0.75})
    return replace(made, **values)


def the_score(tmp_path, program, problem=None, features=()):
    database = grown(1)
    database.programs.clear()
    database.islands = [{program.id}]
    database.programs[program.id] = program
    database.best_program_id, database.island_best_programs, database.archive = None, [None], set()
    database.island_feature_maps = [{}]
    database.save(str(tmp_path / "c"), 1)
    return score_of(read_checkpoint(tmp_path / "c").programs[0], problem or Weighed(), features)


def test_metrics_become_a_score_by_the_objectives(tmp_path):
    score = the_score(tmp_path, one_program(artifacts_json=json.dumps({"stdout": "hi", "raw": {"__bytes__": "AA=="}})))
    assert (score.rewards, score.fitness, score.error, score.feedback) == ((0.5, 1.0), 0.75, None, "stdout: hi")


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({"speed": 0.5, "accuracy": math.nan, "combined_score": 0.5}, "accuracy = nan is no finite number"),
        ({"speed": 0.5, "accuracy": 1.0, "combined_score": -math.inf}, "combined_score = -inf is no finite number"),
        ({"speed": 10**400, "accuracy": 1.0, "combined_score": 1.0}, "speed = a number beyond all bounds"),
        ({"error": 0.0}, "OpenEvolve's evaluation failed"),
        ({"error": 0.0, "timeout": True}, "timeout: "),
        ({"stage1_passed": 0.0, "error": 0.0}, "OpenEvolve's evaluation failed"),
        ({"error": "it broke\nhere"}, "it broke here"),
    ],
)
def test_a_program_that_failed_is_a_failed_candidate(tmp_path, metrics, told):
    score = the_score(tmp_path, one_program(metrics=metrics))
    assert score.rewards == (0.0, 0.0) and score.fitness == 0.0 and told in score.error


@pytest.mark.parametrize(
    "metrics",
    [{}, {"speed": 0.5, "combined_score": 0.5}, {"speed": 0.5, "accuracy": 0.5}, {"other": 1.0},
     {"speed": True, "accuracy": 0.5, "combined_score": 1.0},
     {"speed": "fast", "accuracy": 0.5, "combined_score": 1.0}],
)  # fmt: skip
def test_metrics_that_do_not_tell_give_no_score(tmp_path, metrics):
    assert the_score(tmp_path, one_program(metrics=metrics)) is None


def test_an_objective_called_error_is_no_mark_of_failure(tmp_path):
    class Errors(Weighed):
        objectives = ("error",)

    score = the_score(tmp_path, one_program(metrics={"error": 0.0, "combined_score": 0.5}), Errors())
    assert (score.rewards, score.error) == ((0.0,), None)


def test_what_an_export_wrote_counts_unless_the_metrics_were_changed(tmp_path):
    own = {
        "objectives": ["speed", "accuracy"],
        "rewards": [0.1, 0.2],
        "fitness": 0.75,
        "features": {"size": 3.0},
        "error": None,
    }
    told = one_program(metadata={"evo": own})
    assert the_score(tmp_path, told).rewards == (0.1, 0.2) and the_score(tmp_path, told).features == {"size": 3.0}
    changed = one_program(metadata={"evo": {**own, "fitness": 0.8}})
    assert the_score(tmp_path, changed).rewards == (0.5, 1.0)
    for bad in ({"rewards": [0.1]}, {"rewards": ["x", 1]}, {"features": {"size": math.nan}}, {"objectives": ["speed"]}):
        assert the_score(tmp_path, one_program(metadata={"evo": {**own, **bad}})).rewards == (0.5, 1.0)
    assert the_score(tmp_path, one_program(), features=("size",)) is None


def test_copies_and_repeats_are_told_apart(checkpoint):
    line = timeline(read_checkpoint(checkpoint), "python")
    kinds = {event.program.id: event.kind for event in line.events}
    theirs = loaded(checkpoint).programs
    assert {id for id, kind in kinds.items() if kind == "seed"} <= {"start-0"}
    migrants = {id for id, p in theirs.items() if p.metadata.get("migrant") and p.parent_id in theirs}
    assert migrants and {id for id, kind in kinds.items() if kind == "copy"} == migrants
    places = {event.program.id: place for place, event in enumerate(line.events)}
    assert all(places[p.parent_id] < places[id] for id, p in theirs.items() if p.parent_id in theirs)
    assert line.orphans == sum(p.parent_id is not None and p.parent_id not in theirs for p in theirs.values())


def test_names_of_an_import_and_of_a_search_never_meet(store, tmp_path):
    run, problem, made = ours(store)
    back = bring_in(store, send_out(store, run, tmp_path / "first"), Words())
    going_on = Population(store, store.problems(back.run.id)[0], small_config())
    going_on.advance(None)
    search(store, going_on, 9, seed=5, start=back.groups)
    place = send_out(store, back, tmp_path / "second")
    stems = [file.stem for file in (place / "programs").iterdir()]
    assert len(loaded(place, 3).programs) == len(stems)
    assert {s.split("-")[0] for s in stems} == {"candidate", "new"}
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(Run)).scalar() == 2
    assert population(3).islands == 3
