"""Any checkpoint that OpenEvolve can save comes back from the database as it was, whatever its programs hold."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openevolve.config import DatabaseConfig
from openevolve.database import Program, ProgramDatabase
from openevolve_samples import Weighed, content, loaded, population, send_out

from islands.db.store import Store
from islands.interop.checkpoint import read_checkpoint
from islands.interop.importing import RunPlan, import_checkpoint
from islands.interop.metrics import score_of
from islands.interop.timeline import timeline
from islands.population.population import Population
from islands.queries.runs import elites

texts = st.text(st.characters(), max_size=30)  # NUL and lone surrogates too
numbers = st.floats() | st.integers(-(10**400), 10**400) | st.booleans() | texts | st.none()
scored = st.fixed_dictionaries(
    {"speed": st.floats(0, 1), "accuracy": st.floats(-1e308, 1e308), "combined_score": st.floats(0, 2)},
    optional={"note": numbers, "extra": numbers},
)
failed = st.sampled_from([{"error": 0.0}, {"error": 0.0, "timeout": True}, {"error": "it broke"}])
asked = st.fixed_dictionaries(
    {"system": texts, "user": texts}, optional={"responses": st.lists(texts, max_size=2), "tokens": numbers}
)
prompts = st.none() | st.dictionaries(texts, asked, max_size=2) | st.just({"odd": "text"})


@st.composite
def databases(draw: st.DrawFn) -> ProgramDatabase:
    islands = draw(st.integers(1, 4))
    made = ProgramDatabase(DatabaseConfig(num_islands=islands, archive_size=12, random_seed=None))
    size = draw(st.integers(1, 12))
    codes = draw(
        st.lists(texts | st.sampled_from(["x = 1", "x  = 1  # same tree", "y = 'ü'"]), min_size=size, max_size=size)
    )
    for i, code in enumerate(codes):
        parents = [None, "gone", *list(made.programs)]
        parent = draw(st.sampled_from(parents if i else [None, "gone"]))
        program = Program(
            id=f"p{i}",
            code=code,
            language=draw(st.sampled_from(["python", "rust"])),
            parent_id=parent,
            generation=draw(st.integers(0, 5)),
            timestamp=draw(st.floats(0, 2e9)),
            iteration_found=draw(st.integers(0, 20)),
            metrics=draw(scored | failed),
            metadata=draw(st.fixed_dictionaries({}, optional={"migrant": st.just(True), "changes": texts})),
            prompts=draw(prompts),
            artifacts_json=draw(st.none() | st.sampled_from(["{}", '{"stderr": "\\u0000"}', "[1]", "not json"])),
            embedding=draw(st.none() | st.just([0.5, 1.0])),
        )
        made.programs[program.id] = program
        if draw(st.integers(0, 4)):  # some are on no island, as after a program was pushed out
            made.islands[draw(st.integers(0, islands - 1))].add(program.id)
    ids = st.sampled_from(sorted(made.programs))
    made.archive = draw(st.sets(ids))
    made.best_program_id = draw(st.none() | ids)
    made.island_feature_maps = [draw(st.dictionaries(texts, ids, max_size=3)) for _ in range(islands)]
    made.last_iteration = draw(st.integers(0, 100))
    made.island_generations = draw(st.lists(st.integers(0, 50), min_size=islands, max_size=islands))
    if not any(made.islands):  # else OpenEvolve would deal them out by the order of the folder's files
        made.islands[0].add("p0")
    return made


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_store(request, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            address = f"sqlite:///{tmp_path_factory.mktemp('shared') / 'evo.db'}"
        else:
            address = stack.enter_context(request.getfixturevalue("postgres").database())
        yield stack.enter_context(Store.open(address))


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=databases())
def test_what_was_saved_is_loaded_again(shared_store, tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("any")
    try:
        made.save(str(folder / "theirs"), 7)
        checkpoint = read_checkpoint(folder / "theirs")
        line, problem = timeline(checkpoint, "python"), Weighed()
        scores = [score_of(program, problem) for program in line.first]
        plan = RunPlan(None, "evo import", "", 0, {})
        imported = import_checkpoint(
            shared_store, plan, checkpoint, line, problem, "weighed", scores, population(checkpoint.islands)
        )
        place = send_out(shared_store, imported, folder / "ours")
        before, after = (content(loaded(path, len(made.islands))) for path in (folder / "theirs", place))
        assert after == before
        assert json.loads((place / "metadata.json").read_text()) == json.loads(
            (folder / "theirs" / "metadata.json").read_text()
        )
        begun = Population(shared_store, shared_store.problems(imported.run.id)[0], population(checkpoint.islands))
        begun.advance(None)
        cells = {(i, cell): id for i in range(checkpoint.islands) for cell, id in begun.cells(i).items()}
        assert cells == {(e.island, e.cell): e.candidate for e in elites(shared_store, [begun.problem.id])}
        assert begun.size == imported.candidates
    finally:
        shutil.rmtree(folder)
