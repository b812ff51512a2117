"""A scorer that was edited between a run and its resume: refused, accepted on record, or everything scored again."""

import json

import pytest
from sqlalchemy import text, update
from support.command_line import evo, refused

from evo.errors import BadInput
from evo.runs.start import OnScorerChange
from islands.rescoring import scorer_changes
from islands.schema import PromptGroup
from islands.store import Store
from problems.contract import Score, ScorerFault

# no prompt shows a score and none is copied by rank, so that the groups do not depend on what scored them
ALIKE = {"iterations": 30, "prompt": {"show_parent": False}, "population": {"migration_interval": 1000}}
TABLES = {
    "candidates": "id, text, rewards, fitness, features, measures, feedback, error, generation",
    "prompt_groups": "problem_id, sequence, best, best_fitness, parent_bin, better, copies, errors",
    "problems": "name, status, solved_sequence, best, best_fitness, dimensions, fingerprint",
}


@pytest.fixture
def edited(digits):
    """The same problem with another scorer: what was best is worst, other answers fail, and 9 solves."""

    class Edited(digits):
        def score(self, answer):
            old = super().score(answer)
            if old.error or answer.startswith("3"):
                return Score.failure(2, "no", "starts with 3")
            return Score(
                (1 - old.rewards[0], old.rewards[0]),
                1 - old.fitness,
                {**old.features, "first": float(answer[0])},
                "edited",
            )

        def fingerprint(self):
            return "e" * 16

    return Edited


def rows(db, name="run"):
    """What scores decide, table by table."""
    with Store.open(db, read_only=True) as store, store.read() as connection:
        run = store.run(name).id
        found = {}
        for table, columns in TABLES.items():
            own = "id" if table == "problems" else "problem_id"
            query = f"SELECT {columns} FROM {table} WHERE {own} IN (SELECT id FROM problems WHERE run_id = {run})"
            found[table] = list(map(tuple, connection.execute(text(f"{query} ORDER BY 1, 2"))))
        return found


def changes(db):
    with Store.open(db, read_only=True) as store:
        found = scorer_changes(store, store.run("run").id)
    return [(one.problem, one.before, one.after, one.rescored) for one in found]


def test_a_changed_scorer_is_refused_and_nothing_is_written(search_with, digits, edited, digits_policy, db):
    search_with([digits("a"), digits("b")], digits_policy(), db, iterations=5)
    before = rows(db)
    with pytest.raises(BadInput, match="the scorer of b has changed.*--rescore.*--accept-change"):
        search_with([digits("a"), edited("b")], digits_policy(), db, resume=True, iterations=9)
    assert rows(db) == before and changes(db) == []
    assert search_with([digits("a"), digits("b")], digits_policy(), db, resume=True, iterations=6).status.groups == 12


def test_an_accepted_change_is_on_record_and_keeps_the_old_scores(search_with, digits, edited, digits_policy, db):
    search_with([digits("a")], digits_policy(), db, iterations=5)
    before = rows(db)["candidates"]
    again = lambda **more: search_with([edited("a")], digits_policy(), db, resume=True, **more)  # noqa: E731
    again(iterations=9, on_change=OnScorerChange.ACCEPT)
    assert rows(db)["candidates"][: len(before)] == before
    assert changes(db) == [("a", digits("a").fingerprint(), "e" * 16, False)]
    again(iterations=10)
    assert len(changes(db)) == 1


def test_scored_anew_is_as_if_the_new_scorer_had_always_scored(search_with, digits, edited, digits_policy, tmp_path):
    """With the new scorer the seed solves one problem, and nothing solves the other, which was solved."""
    old, new = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    before, after = [digits("a", target=0.5), digits("b", target=0.7)], [edited("a", target=0.5), edited("b", target=2)]
    search_with(before, digits_policy(), old, **ALIKE)
    search_with(after, digits_policy(), new, **ALIKE)
    assert None not in [row[2] for row in rows(old)["problems"]]
    assert [row[2] for row in rows(new)["problems"]] == [-1, None]
    assert rows(old)["prompt_groups"] != rows(new)["prompt_groups"]
    launched = search_with(after, digits_policy(), old, resume=True, on_change=OnScorerChange.RESCORE)
    assert rows(old) == rows(new)
    assert [one[3] for one in changes(old)] == [True, True]
    whole = search_with(after, digits_policy(), new, resume=True)
    assert [one.best for one in launched.status.problem_runs] == [one.best for one in whole.status.problem_runs]
    search_with(after, digits_policy(), old, resume=True, iterations=40)
    search_with(after, digits_policy(), new, resume=True, iterations=40)
    assert rows(old) == rows(new), "the search goes on alike"


def test_errors_of_the_summary_are_counted_anew(search_with, digits, edited, digits_policy, tmp_path):
    """As many as where the new scorer had always scored; a rollout that could not be read stays what it was."""
    old, new = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    search_with([digits("a")], digits_policy(), old, **ALIKE)
    with Store.open(old) as store:
        run = store.run("run")
        assert "no" not in run.summary["errors"]
        with store.begin() as tx:
            first = PromptGroup.c.sequence == 0
            tx.connection.execute(update(PromptGroup).where(first).values(errors={"format": 5}))
    whole = search_with([edited("a")], digits_policy(), new, **ALIKE).status.errors
    again = search_with([edited("a")], digits_policy(), old, resume=True, on_change=OnScorerChange.RESCORE)
    assert whole["no"] > 0 and again.status.errors == {**whole, "format": 5}


def test_a_fault_while_scoring_anew_leaves_each_problem_whole(search_with, digits, edited, digits_policy, db):
    search_with([digits("a"), digits("b")], digits_policy(), db, iterations=20)
    before = rows(db)
    broken = edited("b", fault_on=lambda answer: answer.startswith("7"))
    with pytest.raises(ScorerFault, match="no score for '7"):
        search_with([edited("a"), broken], digits_policy(), db, resume=True, on_change=OnScorerChange.RESCORE)
    after = rows(db)
    assert [row[-1] for row in after["problems"]] == ["e" * 16, before["problems"][1][-1]]
    assert after["problems"][1] == before["problems"][1] and after["problems"][0] != before["problems"][0]
    fixed = [edited("a"), edited("b")]
    search_with(fixed, digits_policy(), db, resume=True, on_change=OnScorerChange.RESCORE)
    assert [row[-1] for row in rows(db)["problems"]] == ["e" * 16] * 2


def test_a_run_without_a_fingerprint_is_given_one(search_with, digits, edited, digits_policy, db):
    search_with([digits("a")], digits_policy(), db, iterations=5)
    with Store.open(db) as store, store.begin() as transaction:
        transaction.connection.execute(text("UPDATE problems SET fingerprint = NULL"))
    search_with([digits("a")], digits_policy(), db, resume=True, iterations=6)
    assert rows(db)["problems"][0][-1] == digits("a").fingerprint() and changes(db) == []
    with pytest.raises(BadInput, match="has changed"):
        search_with([edited("a")], digits_policy(), db, resume=True, iterations=7)


def test_an_edited_scorer_file_as_a_user_meets_it(here, capsys):
    scorer = "seed_answer = 'ab'\ndef score(answer):\n    return {'length': min(1.0, len(answer) / 400) * FACTOR}\n"
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.1"))
    searched = ["run", "length.py", "--policy", "scripted:mutate", "--iterations", "6", "--name", "r", "--json"]
    first = json.loads(evo(capsys, *searched)[1])["problems"][0]["best"]
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.9"))
    assert "--rescore" in refused(capsys, "resume", "r", "--iterations", "9", "--plain")
    assert evo(capsys, "resume", "r", "--rescore", "--accept-change")[0] == 2
    code, out, err = evo(capsys, "resume", "r", "--rescore", "--json")
    assert code == 0, err
    assert json.loads(out)["problems"][0]["best"] == pytest.approx(9 * first)
    (here / "length.py").write_text(scorer.replace("FACTOR", "0.5"))
    assert evo(capsys, "resume", "r", "--accept-change", "--iterations", "7", "--json")[0] == 0
    lines = [line for line in evo(capsys, "show", "r")[1].splitlines() if "the scorer of" in line]
    assert len(lines) == 2 and lines[0].endswith("; all answers were scored again")
    assert lines[1].endswith("; accepted, older scores were kept")
