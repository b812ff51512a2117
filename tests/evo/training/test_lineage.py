"""Credit along the lineage: by hand, against its definition, and in what learns by it."""

import numpy as np
import pytest
import torch
from training_runs import SMALL_POLICY, read_metrics, trained
from training_samples import scored_group, tokens

from evo.cli import invoke
from evo.config.parse import parse
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.improvement import open_improvements, way_gone
from evo.training.lineage import lineages
from evo.training.setup import begin
from islands.db.store import Store
from islands.queries.children import Child, children
from vpo.advantage import normalise
from vpo.scalarize import dirichlet_weights, set_rewards
from vpo.training.examples import Estimation, Lineage, SearchContext, group_advantages

pytestmark = pytest.mark.usefixtures("one_thread")


def row(id, parent, iteration, rewards, failed=False):
    return Child(id, iteration, parent, (), tuple(map(float, rewards)), float(np.mean(rewards)), failed, iteration)


FAMILY = [
    row(1, None, -1, [0.2, 0.2]),
    row(2, 1, 0, [0.4, 0.2]),
    row(3, 1, 0, [0.0, 0.0], failed=True),
    row(4, 2, 3, [0.8, 0.4]),
    row(5, 4, 9, [1.0, 1.0]),
]


def test_an_answer_is_worth_its_value_and_the_discounted_gains_of_its_descendants():
    worth = lineages(FAMILY, horizon=50, discount=0.5)
    assert set(worth) == {1, 2, 4, 5}
    assert worth[5] == Lineage(1.0, ((1.0, 1.0),))
    assert worth[4].fitness == pytest.approx(0.6 + 0.5 * 0.4)
    assert worth[2].fitness == pytest.approx(max(0.3 + 0.5 * 0.3, 0.3 + 0.25 * 0.7))
    assert worth[1].fitness == pytest.approx(max(0.2 + 0.25 * 0.4, 0.2 + 0.125 * 0.8))
    assert {id: lineage.fitness for id, lineage in lineages(FAMILY, 8, 1.0).items()} == pytest.approx(
        {1: 0.6, 2: 0.6, 4: 1.0, 5: 1.0}  # 5 came 9 iterations after 2
    )
    own = {1: 0.2, 2: 0.3, 4: 0.6, 5: 1.0}
    for horizon, discount in ((0, 1.0), (50, 0.0)):
        found = lineages(FAMILY, horizon, discount)
        assert {id: lineage.fitness for id, lineage in found.items()} == pytest.approx(own)


def test_under_every_weighting_the_best_vector_is_the_value_so_defined():
    rng = np.random.default_rng(0)
    rows = [row(1, None, -1, rng.random(3))]
    rows += [row(id, int(rng.integers(1, id)), int(id), rng.random(3), failed=id % 7 == 0) for id in range(2, 40)]
    discount, horizon, weights = 0.8, 12, dirichlet_weights(50, 3, seed=1)
    by_id = {one.id: one for one in rows}
    for id, lineage in lineages(rows, horizon, discount).items():
        own = weights @ np.array(by_id[id].rewards)
        value = own.copy()
        for one in rows:
            generations, above = 0, one
            while not above.failed and above.id != id and above.parent is not None:
                generations, above = generations + 1, by_id[above.parent]
            if above.id == id and not one.failed and one.iteration - by_id[id].iteration <= horizon:
                value = np.maximum(value, own + discount**generations * (weights @ np.array(one.rewards) - own))
        np.testing.assert_allclose((weights @ np.array(lineage.rewards).T).max(axis=1), value, atol=1e-12)


def test_methods_of_a_number_and_of_sets_take_it():
    rng = np.random.default_rng(0)
    group = scored_group(tokens(rng, 6), [tokens(rng, 4) for _ in range(3)], [[[0.2, 0.4]], [[0.6, 0.0]], [[0.5, 0.5]]])
    first, second, _ = group.all_answers()
    context = SearchContext(
        lineages={
            first.identity: Lineage(0.9, ((0.2, 0.4), (0.9, 0.2), (0.1, 1.0))),
            second.identity: Lineage(second.score.fitness, ((0.6, 0.0),)),
        }
    )
    fitness = np.array([0.9, 0.3, 0.5])
    np.testing.assert_allclose(
        group_advantages(group, Estimation(method="grpo"), context), normalise(fitness, sample=True)
    )
    sets = np.zeros((3, 3, 2))
    sets[0], sets[1, 0], sets[2, 0] = [[0.2, 0.4], [0.9, 0.2], [0.1, 1.0]], [0.6, 0.0], [0.5, 0.5]
    estimation = Estimation(method="vpo")
    weights = dirichlet_weights(
        100, 2, seed=np.random.default_rng([0, group.problem, group.sequence]), sampler=estimation.sampler
    )
    expected = normalise(set_rewards(sets, np.ones((3, 3), bool), weights))
    np.testing.assert_allclose(group_advantages(group, estimation, context), expected)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """A database with the run `a`: chains of three from a small policy, and `r`, of the re-router."""
    torch.set_num_threads(1)
    address = f"sqlite:///{tmp_path_factory.mktemp('lineage') / 'evo.db'}"
    common = ["--db", address, "--plain"]
    given = ["--policy", SMALL_POLICY, "--rollouts", "4", "--iterations", "4", "--name", "a"]
    assert invoke(["run", "maze:train/0-2", *given, *common]) == 0
    assert (
        invoke(["run", "maze:train/0-3", "--policy", "scripted:classic", "--iterations", "30", "--name", "r", *common])
        == 0
    )
    return address


def settings(db, method, run, **changes):
    values = {"method": method, "from_traces": [run], "db": db, "credit": "lineage", "policy": SMALL_POLICY}
    return parse(TrainRun, {**values, "prompts": 4, "lr": 1e-3, "precision": "fp32", **changes}, "a test")


def test_stored_groups_are_paid_for_what_came_of_their_new_answers(db, tmp_path):
    training = begin(settings(db, "vpo", "a", discount=1.0), str(tmp_path / "out"), "")
    groups, _ = training.loop.read(np.arange(12))
    with Store.open(db, read_only=True) as store:
        rows = {one.id: one for group in groups for one in children(store, group.problem)}
    for group in groups:
        credited = training.loop.trainer.context(group).lineages
        new = {a.identity for a in group.all_answers() if rows[a.candidate].sequence == group.sequence}
        valid = {a.identity for a in group.all_answers() if a.score.error is None}
        assert set(credited) == new & valid
        for answer in group.all_answers():
            if answer.identity in credited:
                assert credited[answer.identity].rewards[0] == answer.score.rewards
                assert credited[answer.identity].fitness >= answer.score.fitness
    assert trained(training) == ""


def test_lessons_weigh_the_way_that_a_child_and_its_descendants_went(db, tmp_path):
    plain, found = (
        open_improvements(settings(db, "improve", "r", credit="own")),
        open_improvements(settings(db, "improve", "r")),
    )
    assert all(set(lesson.weights) == {1.0} for lesson in plain.lessons)
    targets = {record.id: record.target for record in plain.records().values()}
    with Store.open(db, read_only=True) as store:
        rows = {problem: list(children(store, problem)) for problem in targets}
    worth = {problem: lineages(of, 50, 0.9) for problem, of in rows.items()}
    for lesson in found.lessons:
        (fitness,) = [one.fitness for one in rows[lesson.problem] if one.id == lesson.parent]
        for child, weight in zip(lesson.children, lesson.weights, strict=True):
            value = worth[lesson.problem][child].fitness
            assert 0 < weight == way_gone(fitness, value, targets[lesson.problem]) <= 1
    assert 0 < found.pairs < plain.pairs  # children that led nowhere teach nothing
    plain.close()
    found.close()
    out = tmp_path / "out"
    training = begin(settings(db, "improve", "r", steps=2), str(out), "")
    groups = training.loop._read()
    weights = [example.advantages[0] for group in groups for example in group.examples]
    assert np.mean(weights) == pytest.approx(1) and len(set(weights)) > 1
    assert trained(training) == ""
    assert len([line for line in read_metrics(out) if line["kind"] == "step"]) == 2
    assert "its descendants went (50 iterations, a gain counting 0.9" in (out / "README.md").read_text()


def test_the_way_to_the_target_is_a_share():
    assert [way_gone(0.4, reached, 0.8) for reached in (0.3, 0.4, 0.6, 0.8, 0.9)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert way_gone(0.9, 1.0, 0.8) == 1.0


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("gdpo", "gdpo cannot credit a lineage"),
        ("per_answer", "cannot credit a lineage"),
        ("dpo", "has no weights for credit lineage"),
    ],
)
def test_methods_without_a_set_or_a_number_refuse_it(method, message):
    with pytest.raises(BadInput, match=message):
        settings("sqlite:///evo.db", method, "a")
