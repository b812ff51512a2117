"""--weights: what a search, an evaluation, a comparison and a training are judged by, from flags, files and Python."""

import json

import pytest
from support.command_line import evo as command
from support.rows import yaml_rows

import evo
from evo.config.run import EvaluateConfig, RunConfig
from evo.config.train import TrainRun, plan_training
from evo.errors import BadInput
from evo.evaluation.evaluate import read_evaluation
from evo.pipelines.file import read_pipeline
from evo.search.resources import Resources, problems_at
from evo.training.directory import TrainingDirectory
from islands.store import Store
from problems.contract import BadAddress

OWN = """
isolated = False
statement = "Write a number."
seed_answer = "3"
directions = {"cost": "min"}
weights = {"cost": 1, "gain": 3}
target = 0.9
def score(answer):
    x = float(answer)
    return {"cost": abs(x) + 1, "gain": 1 / (1 + abs(x - 5))}
"""
SHORT = ("--policy", "scripted:mutate", "--iterations", "8")


@pytest.fixture
def own(here):
    (here / "own.py").write_text(OWN)


def test_a_search_under_weights_its_views_and_its_resume(own, capsys):
    assert command(capsys, "run", "own.py", *SHORT, "--weights", "cost=1", "--name", "low")[0] == 0
    code, out, _ = command(capsys, "show", "low")
    assert code == 0 and "\nfitness: cost 1\n" in out
    (row,) = json.loads(command(capsys, "best", "low", "--json")[1])
    assert row["fitness"] == row["values"]["cost"] == abs(float(row["answer"])) + 1 and row["target"] is None
    assert command(capsys, "best", "low")[1].startswith(f"# own.py: cost {row['fitness']:.4g} ↓")
    code, out, _ = command(capsys, "resume", "low", "--iterations", "10")
    assert code == 0 and "fitness: cost 1\n" in out
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        run = store.run("low")
        (record,) = store.problems(run.id)
        assert run.config["weights"] == {"cost": 1.0}
        assert [(one.weight, one.whole, one.counts) for one in record.metrics] == [(1, True, True), (0, False, False)]
    assert command(capsys, "resume", "low", "--weights", "gain=1")[0] == 2


def test_two_objectives_are_a_weighted_mean_in_python_and_over_two_searches(own):
    run = evo.run("own.py", policy="scripted:mutate", iterations=8, weights={"gain": 3, "cost": 1}, progress=False)
    best = run.best_answer
    assert best.fitness == pytest.approx((3 * best.rewards["gain"] + best.rewards["cost"]) / 4) and best.target == 0.9
    frame = run.frame()
    mean = (3 * frame["reward.gain"] + frame["reward.cost"]) / 4
    assert frame.fitness.tolist() == pytest.approx(mean.tolist())
    search = evo.Search("own.py", weights="gain=1", iterations=8)
    with search:
        (told,) = search.tell(search.ask(), ["5"])
        assert told.fitness == 1.0


def test_a_function_in_python_keeps_its_declared_weights_and_their_target(own):
    def score(answer):
        return {"a": float(answer), "b": 1.0}

    about = {"seed_answer": "1", "policy": "scripted:mutate", "iterations": 8, "progress": False}
    run = evo.run(score=score, weights={"b": 1}, target=1.0, **about)
    assert run.best_answer.fitness == 1.0 and run.best_answer.solved
    config = RunConfig(weights={"a": 1})
    other = evo.run(score=score, weights={"b": 1}, target=1.0, config=config, **about)
    assert other.best_answer.fitness == other.best_answer.rewards["a"] and other.best_answer.target is None


def test_every_problem_must_have_the_objectives_that_are_named():
    both = ["maze:test/0", "maze:large/0"]
    assert [one.user_weights for one in problems_at(both, None, {"gold": 1})] == [{"gold": 1}] * 2
    with pytest.raises(BadAddress, match="maze:test/0 has no objective 'jade'"):
        problems_at(both, None, {"jade": 1})
    resources, one = Resources(), {"problems": ["maze:test/0"]}
    plain, heavy = (resources.problems(RunConfig(**one, weights=weights)) for weights in (None, {"gold": 1}))
    assert plain[0].user_weights is None and heavy[0].user_weights == {"gold": 1.0}
    assert resources.problems(RunConfig(**one, weights="spread"))[0].user_weights is None


def test_settings_take_a_mapping_a_text_or_spread():
    assert RunConfig(weights="gold=3,diamond=1").weights == RunConfig(weights={"gold": 3, "diamond": 1}).weights
    assert EvaluateConfig(weights="gold=3").run_config().weights == {"gold": 3.0}
    assert RunConfig(weights="spread").weights == "spread"
    with pytest.raises(ValueError, match="weights spread is for a search"):
        EvaluateConfig(weights="spread")
    for wrong in (3, [1, 2], {"gold": "much"}, {}):
        with pytest.raises(ValueError):
            RunConfig(weights=wrong)


def test_a_comparison_under_weights(here, capsys):
    arms = ("--arm", "one=scripted:random-route", "--arm", "other=scripted:mutate", "--baseline", "none")
    more = ("--weights", "gold=3,diamond=1", "--iterations", "2", "--seeds", "1", "--processes", "1", "--name", "two")
    code, out, _ = command(capsys, "compare", "maze:test/0", *arms, *more)
    assert code == 0 and "; fitness: gold 3, diamond 1\n" in out
    with Store.open("sqlite:///evo.db", read_only=True) as store:
        records = [record for run in ("two/one/s0", "two/other/s0") for record in store.problems(store.run(run).id)]
    assert [record.target for record in records] == [
        problems_at(["maze:test/0"], 1, {"gold": 3, "diamond": 1})[0].target
    ] * 2


def test_an_evaluation_under_weights_and_its_rivals(here, capsys):
    asked = ("maze:test/0", "--policy", "scripted:random-route", "--answers-total", "6")
    code, out, _ = command(capsys, "evaluate", *asked, "--weights", "gold=1", "-o", "gold.json")
    assert code == 0 and "fitness: gold 1\n" in out
    record = json.loads((here / "gold.json").read_text())
    assert record["weights"] == {"gold": 1.0}
    (problem,) = problems_at(["maze:test/0"], 1, {"gold": 1})
    assert record["per_problem"][0]["target"] == problem.target
    assert read_evaluation("gold.json", [problem], 6, {"gold": 1.0})["weights"] == {"gold": 1.0}
    with pytest.raises(BadInput, match="its weights are {'gold': 1.0}; evaluate it again"):
        read_evaluation("gold.json", [problem], 6, {"gold": 3.0, "safety": 1.0})


@pytest.mark.parametrize(("method", "more", "says"), yaml_rows(__file__, "methods_and_sources_that_no_weights_fit"))
def test_methods_and_sources_that_no_weights_fit(method, more, says):
    with pytest.raises(BadInput) as raised:
        plan_training(None, {"weights": "gold=1", "problems": ["maze:train"], **more}, method, [])
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_a_training_by_one_user_s_weights_has_them_on_its_card(tmp_path):
    run = plan_training(None, {"weights": "gold=7,safety=3"}, "grpo", ["maze:train"])
    assert run.weights == {"gold": 7.0, "safety": 3.0} and run.weightings == 100
    about = {"start": "embedded:base", "commit": "c", "command": "evo train"}
    assert "weights gold 7, safety 3" in TrainingDirectory(tmp_path).card(run, about, "maze:train", [])
    assert TrainRun.model_validate(run.stored()).weights == run.weights


def test_a_stage_of_a_pipeline_has_weights(tmp_path):
    stages = "stages:\n  heavy:\n    search: {problems: [maze:test/0], policy: embedded:vpo, weights: {gold: 3}}\n"
    (tmp_path / "good.yaml").write_text(stages)
    assert read_pipeline(str(tmp_path / "good.yaml")).stages["heavy"].given["weights"] == {"gold": 3.0}
    (tmp_path / "bad.yaml").write_text(stages.replace("gold", "gol"))
    with pytest.raises(BadInput, match="stage heavy: search: maze:test/0 has no objective 'gol'"):
        read_pipeline(str(tmp_path / "bad.yaml"))
