"""The read side; comparisons and names: planned, deleted and renamed whole or not at all, never while a run is being
written."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import delete, func, inspect, select, update
from support.island_samples import OBJECTIVES, answer, fresh, group, new_problem, put, search, small_config

from islands import browse, runs
from islands import groups as traces
from islands.browse import ancestors, origins
from islands.comparisons import (
    PlannedRun,
    check_free,
    delete_runs,
    plan,
    rename_runs,
    run_name,
    runs_named,
)
from islands.errors import BadName, RunBusy, RunExists, UnknownRun
from islands.names import check_name, readable_name
from islands.population.population import Population
from islands.runs import (
    BEFORE_SEEDS,
    course_between,
    course_of,
    newest_sequence,
    read_archives,
    read_totals,
)
from islands.schema import METADATA, AnswerLinks, PromptGroups, Rollouts
from islands.training import CHAINS, COLD, NUCLEUS, ONE_ROLLOUT, GroupChoice


@pytest.fixture
def searched(store):
    """A run with two problems: one searched and solved at sequence 3, one with a seed alone."""
    problem = new_problem(store, "searched")
    with store.begin() as tx:
        other = store.add_problem(problem.run_id, 1, "maze:test/1", "maze 1", OBJECTIVES, 1.0, "text", tx)
        population = Population(store, problem, small_config())
        Population(store, other, small_config()).seed(answer("only a seed", 0.3), tx)
        population.seed(answer("start", 0.1), tx)
    start = population.best[0]
    (a,) = put(store, population, group(problem, 1, [answer("a", 0.2)], parent=start))
    put(
        store,
        population,
        group(problem, 2, [answer("bad", 5.0, error="broken")], [answer("no better than a", 0.2)], island=1),
    )
    b, c = put(
        store,
        population,
        group(problem, 3, [answer("b", 0.4), answer("c", 1.0)], parent=a.candidate, policy_version="v2"),
    )
    put(store, population, group(problem, 4, [answer("a", 0.2)], island=2, parent=b.candidate))
    store.set_problem_status(problem.id, "solved", solved_sequence=3)
    return store, problem, other, population, (start, a.candidate, b.candidate, c.candidate)


def test_overview(searched):
    store, problem, *_ = searched
    make = store.create_run("empty", {}, command="", seed=0, commit="")
    first, second = runs.overview(store)
    assert (first.run.name, first.problems, first.solved, first.failed) == ("searched", 2, 1, 0)
    assert (first.groups, first.candidates) == (4, 7)
    assert [search.best.number for search in first.searches] == [1.0, 0.3]
    assert (second.run, second.problems, second.candidates) == (make, 0, 0)


def test_candidate_and_lineage(searched):
    store, problem, other, _, (start, a, b, c) = searched
    detail = browse.candidate(store, c)
    assert (detail.candidate.text, detail.iteration, detail.sequence, detail.policy_version) == ("c", 3, 3, "v2")
    assert detail.problem.name == problem.name and detail.found == 1 and (0, detail.cells[0][1]) in detail.cells
    assert browse.candidate(store, a).found == 2
    seed = browse.candidate(store, start)
    assert (seed.iteration, seed.sequence, seed.policy_version, seed.found) == (None, None, None, 0)
    assert [(one.id, one.generation) for one in ancestors(store, c)] == [(c, 2), (a, 1), (start, 0)]
    assert [one.fitness for one in ancestors(store, c, 2)] == [1.0, 0.2]
    assert ancestors(store, 10**9) == []
    made = {of: [one.id for one in browse.offspring(store, problem.id, of, 9)] for of in (start, a, c)}
    assert c in made[a] and a in made[start] and made[c] == []
    assert browse.candidate(store, 10**9) is None


def test_best_improvements_and_solved(searched):
    store, problem, other, _, (start, a, b, c) = searched
    (first, top), (second, seed) = runs.best(store, problem.run_id)
    assert (first.id, top.id, top.text) == (problem.id, c, "c") and (second.id, seed.text) == (other.id, "only a seed")
    steps = course_of(store, problem.run_id).improvements[problem.id]
    assert [(s.iteration, s.sequence, s.fitness, s.candidate) for s in steps] == [
        (-1, -1, 0.1, start),
        (1, 1, 0.2, a),
        (3, 3, 1.0, c),
    ]
    assert course_of(store, problem.run_id).solved == {problem.id: 4}
    store.set_problem_status(other.id, "solved", solved_sequence=-1)
    assert course_of(store, problem.run_id).solved[other.id] == 0


def test_what_is_newer_adds_up_to_the_whole(store):
    """Courses over ranges of sequences, as a screen reads them."""
    problem, population = fresh(store)
    with store.begin() as tx:
        population.seed(answer("start", 0.1), tx)
    search(store, population, 50)
    run = problem.run_id
    with store.read() as connection:
        newest = newest_sequence(connection, run)
        whole = read_totals(connection, [run])[run]
        course = course_between(connection, run, BEFORE_SEEDS, newest)
        groups, rises, archives = 0, [], {problem.id: {}}
        for after, upto in ((BEFORE_SEEDS, 9), (9, 10), (10, 33), (33, newest)):
            part = course_between(connection, run, after, upto)
            groups += part.groups.get(problem.id, 0)
            rises += part.improvements.get(problem.id, [])
        read_archives(connection, archives)
    assert whole.groups == groups == 50 and whole.answers > whole.repeats > 0 and whole.migrations > 1
    assert whole.errors["broken"] > 0 and course.improvements[problem.id] == rises
    assert archives[problem.id] == {(i, cell): id for i in range(3) for cell, id in population.cells(i).items()}


def test_a_rollout_comes_back_whole_and_its_answers_are_stored_once(store):
    problem, population = fresh(store)
    answers = [answer(f"{name} " * 40, 0.1) for name in ("one", "two", "three")]
    text = f"First {answers[0].text}, then {answers[1].text}, {answers[0].text}: {answers[2].text}"
    one = group(problem, 0, answers, answers[:1], text=text)
    put(store, population, one)
    ((_, found),) = traces.read_groups(store, problem.run_id)
    assert plain(found) == plain(one)
    ids = [population.known(each.identity) for each in answers]
    assert {(origin.chain, origin.place) for origin in origins(store, ids).values()} == {
        (text, 0),
        (text, 1),
        (text, 2),
    }
    with store.read() as connection:
        stored = connection.execute(select(Rollouts.c.text).order_by(Rollouts.c.id)).scalars().all()
    assert stored[1] == text and all(each.text not in stored[0] for each in answers[1:])


def test_groups_come_back_as_they_were_added(store, monkeypatch):
    monkeypatch.setattr(traces, "PAGE", 3)
    problem, population = fresh(store)
    added = []
    for sequence in range(8):
        answers = [
            answer(f"x{sequence}", 0.1 * sequence, features={"f": 0.1}),
            answer("again", 0.3, feedback="\x00", features={"f": 2.0}),
        ]
        parent = population.best[0] if population.best else None
        one = group(
            problem, sequence * 2, answers, [], [answers[1]], island=sequence % 3, parent=parent, inspirations=(5, 7)
        )
        put(store, population, one)
        added.append(one)
    found = [one for _, one in traces.read_groups(store, problem.run_id)]
    assert [plain(one) for one in found] == [plain(one) for one in added]
    assert all(a.candidate == population.known(a.identity) for one in found for a in one.all_answers())
    assert found[0].rollouts[0].rollout.prompt_ids is found[0].rollouts[2].rollout.prompt_ids
    some = [one.sequence for _, one in traces.read_groups(store, problem.run_id, after=3, upto=10)]
    assert some == [4, 6, 8, 10]
    assert list(traces.read_groups(store, 10**6)) == []


def plain(one) -> dict:
    """A group without arrays' identity and candidates' ids."""
    values = {**vars(one)}
    values["rollouts"] = [
        (
            r.rollout.text, r.rollout.finish, r.rollout.token_ids.tolist(), r.rollout.logprobs.tolist(),
            r.rollout.prompt_ids.tolist(), r.format_error,
            [(a.text, a.identity, a.score, a.seconds) for a in r.answers],
        )
        for r in one.rollouts
    ]  # fmt: skip
    return values


def test_export_is_json_in_the_promised_order(searched):
    store, problem, _, population, (start, a, b, c) = searched
    lines = [json.loads(json.dumps(line)) for line in traces.export_groups(store, problem.run_id)]
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4] and len({line["id"] for line in lines}) == 4
    line = lines[2]
    assert [k for k in line if k in ("problem", "island", "parent", "policy_version", "prompt", "rollouts")] == [
        "problem", "island", "parent", "policy_version", "prompt", "rollouts",
    ]  # fmt: skip
    assert (line["problem"], line["island"], line["parent"], line["policy_version"]) == ("maze:test/0", 0, a, "v2")
    (rollout,) = line["rollouts"]
    assert (rollout["answers"], rollout["fitness"], rollout["errors"]) == (["b", "c"], [0.4, 1.0], [None, None])
    assert rollout["rewards"] == [[0.4, 0.4], [1.0, 1.0]] and rollout["candidates"] == [b, c]
    assert rollout["token_ids"] == list(range(7)) and len(rollout["logprobs"]) == 7
    assert line["prompt"] == {"system": "system", "user": "user", "token_ids": [0, 1, 2, 3, 4]}
    assert lines[1]["rollouts"][0]["errors"] == ["broken"]
    bare = next(traces.export_groups(store, problem.run_id, tokens=False))
    assert "token_ids" not in bare["rollouts"][0] and "token_ids" not in bare["prompt"]


def test_format_errors_are_counted(store):
    import dataclasses

    problem = new_problem(store)
    one = group(problem, 0, [answer("x")], [], [])
    rollouts = [
        dataclasses.replace(r, format_error=e) for r, e in zip(one.rollouts, (None, "no tags", "no tags"), strict=True)
    ]
    put(store, Population(store, problem, small_config()), dataclasses.replace(one, rollouts=tuple(rollouts)))
    assert runs.format_errors(store, problem.run_id) == {"no tags": 2}


# -- groups found again for training


@pytest.fixture
def trained(store):
    """A run of 40 groups, and another run."""
    problem, other = new_problem(store, "one"), new_problem(store, "other")
    population = Population(store, problem, small_config())
    with store.begin() as tx:
        population.seed(answer("start", 0.1, (0.15, 0.05)), tx)
    search(store, population, 40)
    search(store, Population(store, other, small_config()), 5, seed=1)
    return store, problem, population


def test_the_index_tells_every_group_in_a_few_numbers(trained):
    store, problem, _ = trained
    rows = GroupChoice(problem.run_id, 100).rows(store)
    groups = [one for _, one in traces.read_groups(store, problem.run_id)]
    assert [(r.sequence, r.problem_id, r.iteration, r.version, r.answers, r.rollouts) for r in rows] == [
        (g.sequence, g.problem, g.iteration, g.policy_version, g.answers, len(g.rollouts)) for g in groups
    ]
    times = [row.created for row in rows]
    assert len(rows) == 40 and times == sorted(times) and times[0] > 1.7e9
    for wanted, kept in (
        (GroupChoice(problem.run_id, 16), lambda row: row.sequence <= 16),
        (GroupChoice(10**6, 100), lambda row: False),
    ):
        assert wanted.rows(store) == [row for row in rows if kept(row)], wanted
        assert wanted.left_out(store) == {}


def test_groups_that_cannot_teach_are_counted_by_the_reason(trained):
    store, problem, _ = trained
    group = PromptGroups.c
    with store.begin() as tx:
        changed = (({"answers": 1}, range(0, 40, 2)), ({"temperature": 0.0}, (3, 4)), ({"top_p": 0.9}, (4, 5, 7)))
        for changes, sequences in changed:
            change = update(PromptGroups).values(**changes)
            tx.connection.execute(change.where(group.run_id == problem.run_id, group.sequence.in_(sequences)))
        few = select(group.id).where(group.run_id == problem.run_id, group.sequence == 6).scalar_subquery()
        last = delete(Rollouts).where(Rollouts.c.group_id == few, Rollouts.c.position > 0)
        tx.connection.execute(
            delete(AnswerLinks).where(AnswerLinks.c.rollout_id.in_(select(Rollouts.c.id).where(last.whereclause)))
        )
        tx.connection.execute(last)
    m = {row.answers for row in GroupChoice(problem.run_id, 100).rows(store)} - {1}
    (m,) = m
    for changes, kept, reasons in (
        ({}, 35, {COLD: 2, NUCLEUS: 2, ONE_ROLLOUT: 1}),
        ({"chains": False}, 18, {CHAINS: 20, COLD: 1, ONE_ROLLOUT: 1}),
        ({"answers": m}, 17, {f"not of {m} answers": 20, COLD: 1, NUCLEUS: 2}),
    ):
        choice = GroupChoice(problem.run_id, 100, **changes)
        assert len(choice.rows(store)) == kept and choice.left_out(store) == reasons


def test_groups_are_found_by_their_places_in_the_order_asked_for(trained, monkeypatch):
    monkeypatch.setattr(traces, "PAGE", 3)
    store, problem, _ = trained
    all_of_them = {one.sequence: one for _, one in traces.read_groups(store, problem.run_id)}
    asked = [17, 3, 39, 0, 21, 3, 8]
    found = traces.groups_at(store, problem.run_id, asked)
    assert [(one.sequence, one.policy_version, one.all_answers()) for one in found] == [
        (place, all_of_them[place].policy_version, all_of_them[place].all_answers()) for place in asked
    ]
    assert traces.groups_at(store, problem.run_id, []) == []
    with pytest.raises(LookupError, match="no group 40$"):
        traces.groups_at(store, problem.run_id, [1, 40])
    with pytest.raises(LookupError, match="no group 50, nor 1 others"):
        traces.groups_at(store, problem.run_id, [60, 50])


# -- comparisons and names


def search_run(store, name):
    """A run with every kind of row that a search writes, and a step of training."""
    problem = new_problem(store, name)
    population = Population(store, problem, small_config())
    search(store, population, 30)
    run = store.run(name)
    with store.begin() as tx:
        store.add_training_step(run.id, 1, {"loss": 1.0}, tx, policy_version="v9", checkpoint="somewhere")
    return run


def counts(store):
    with store.read() as connection:
        tables = METADATA.sorted_tables
        return {one.name: connection.execute(select(func.count()).select_from(one)).scalar_one() for one in tables}


def test_a_run_goes_with_all_it_holds_and_others_stay(store):
    kept = search_run(store, "kept")
    before = counts(store)
    gone = search_run(store, "gone")
    assert sum(count > before[name] for name, count in counts(store).items()) >= 10
    delete_runs(store, [gone])
    assert counts(store) == before
    with pytest.raises(UnknownRun):
        store.run("gone")
    assert store.run("kept").id == kept.id
    store.create_run("gone", {}, command="", seed=0, commit="")  # its name is free
    with store.read() as connection:
        indexes = [index["name"] for name in before for index in inspect(connection).get_indexes(name)]
    assert not any(str(name).startswith("housekeeping") for name in indexes)


def test_a_run_that_is_written_is_refused_and_the_others_named_with_it_stay(store, address, opened):
    first, second = search_run(store, "first"), search_run(store, "second")
    other = opened(address)
    other.lease(second.id)
    before = counts(store)
    with pytest.raises(RunBusy, match="second"):
        delete_runs(store, [first, second])
    with pytest.raises(RunBusy, match="second"):
        rename_runs(store, [second], "third")
    assert counts(store) == before
    store.lease(first.id).release()  # nothing holds it


def test_a_comparison_is_renamed_with_its_runs(store):
    planned(store)
    rename_runs(store, runs_named(store, "cmp"), "better")
    assert [run.name for run in runs_named(store, "better")] == [f"better/{one}" for one in NAMES]
    with pytest.raises(UnknownRun, match="it has better"):
        runs_named(store, "zzz")
    with pytest.raises(UnknownRun, match="did you mean better"):
        runs_named(store, "bettre")
    store.lease(runs_named(store, "better")[0].id).release()


def test_a_name_is_taken_by_a_run_or_a_comparison(store):
    planned(store)
    run = store.create_run("solo", {}, command="", seed=0, commit="")
    store.create_run(run_name("third", "vpo", 1), {}, command="", seed=0, commit="")
    before = store.runs()
    for name in ("cmp", "solo", "cmp/grpo/s0"):
        for refused in (check_free, planned, lambda store, name: rename_runs(store, [run], name)):
            with pytest.raises(RunExists):
                refused(store, name)
    with pytest.raises(RunExists):
        planned(store, "third")
    for refused in (
        lambda: store.create_run("-x", {}, command="", seed=0, commit=""),
        lambda: planned(store, "a@b"),
        lambda: rename_runs(store, [run], "[bold]"),
    ):
        with pytest.raises(BadName):
            refused()
    assert store.runs() == before


@pytest.mark.parametrize(
    "name",
    ["", " ", "-x", "--yes", "a@b", "a\nb", "a\x1b[0m", "a\x00", "a\u202eb", "[red]x", "<b>", "a&b", "a'b", 'a"b',
     "a`b`", "a\\b", "x" * 81, " a", "a ", "/a", "a/", "a\u00a0b", "a\ud800"],
)  # fmt: skip
def test_what_can_be_no_name_is_said_in_one_line(name):
    with pytest.raises(BadName) as caught:
        check_name(name)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a", "vpo-2.1_b", "größe", "名前", "two words", "cmp/vpo/s0", "x" * 80])
def test_what_can_be_one(name):
    assert check_name(name) == name
    assert check_name(readable_name(9))


RUNS = [PlannedRun(arm, seed, {"policy": arm}) for seed in (0, 1) for arm in ("grpo", "vpo")]
NAMES = ["grpo/s0", "vpo/s0", "grpo/s1", "vpo/s1"]


def planned(store, name="cmp"):
    return plan(store, name, RUNS, command="evo compare", commit="c")


def test_all_runs_wait_in_their_order(store):
    assert planned(store) == "cmp"
    runs = runs_named(store, "cmp")
    assert [run.name for run in runs] == [f"cmp/{one}" for one in NAMES]
    assert {run.status for run in runs} == {"waiting"}
    assert [(run.arm, run.seed, run.config["policy"]) for run in runs][1] == ("vpo", 0, "vpo")
    assert runs_named(store, "cmp/vpo/s0")[0].comparison == "cmp"


def test_without_a_name_it_gets_a_fresh_one(store):
    first, second = planned(store, None), planned(store, None)
    assert first != second
    with pytest.raises(UnknownRun, match=f"it has {second}, {first}$"):
        runs_named(store, "absent")
