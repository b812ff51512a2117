"""Runs, comparisons and trainings in experiment trackers, read back from the trackers' own files."""

import json
from pathlib import Path

import pytest
from support.command_line import evo as command

import evo
from evo.config import run as libraries
from evo.report import trackers

RUN = {"policy": "scripted:random-route", "progress": False}
ARMS = {"route": "scripted:random-route", "again": "scripted:random-route"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read_events(folder="runs"):
    """tag -> [(step, value)] of the one run in TensorBoard's folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (run,) = Path(folder).iterdir()
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def show(capsys, name):
    capsys.readouterr()
    code, out, _ = command(capsys, "show", name, "--json")
    assert code == 0
    return json.loads(out)


def expected(shown):
    """What the last step of a run of several problems has to hold, of `evo show --json`."""
    values = {"tokens": shown["tokens"], "answers": shown["answers"], "repeats": shown["repeats"]}
    values["solved"] = sum(problem["solved_at"] is not None for problem in shown["problems"])
    values["mean_best"] = sum(problem["fitness"] for problem in shown["problems"]) / len(shown["problems"])
    return values


def check_run(numbers, shown, step):
    for name, value in expected(shown).items():
        assert numbers[name][-1] == (step, pytest.approx(value)), name


def check_once(numbers):
    for name, points in numbers.items():
        steps = [at for at, _ in points]
        assert steps == sorted(set(steps)), name


def test_a_resume_can_begin_to_report_and_end_it(capsys):
    evo.run("maze:test/0-1", iterations=2, name="mazes", **RUN)
    assert not Path("runs").exists()
    evo.resume("mazes", iterations=3, report_to=["tensorboard"], progress=False)
    numbers = read_events()
    check_run(numbers, show(capsys, "mazes"), 6)
    evo.resume("mazes", iterations=4, report_to="none", progress=False)
    assert read_events() == numbers


def test_a_comparison_has_its_arms_side_by_side(capsys):
    evo.compare("maze:test/0-1", arms=ARMS, baselines=[], seeds=2, iterations=3, name="arms", processes=1,
                report_to="tensorboard", progress=False)  # fmt: skip
    numbers, shown = read_events(), show(capsys, "arms")
    for name, arm in shown["arms"].items():
        assert numbers[f"{name}/tokens"][-1] == (24, arm["tokens"])
        assert numbers[f"{name}/answers"][-1] == (24, arm["answers"])
        for title, key in (("solve_rate", "solved"), ("mean_best", "best"), ("archive_L1", "archive_diversity")):
            ends = {"": "mean", "_low": "low", "_high": "high"}
            found = {end: numbers[f"{name}/{title}{end}"][-1][1] for end in ends}
            assert found == pytest.approx({end: arm[key][of] for end, of in ends.items()})
    check_once(numbers)


def test_E_w_best_and_the_value_to_be_lowered_are_there(capsys):
    evo.run(score=lambda answer: {"delay": len(answer) + 3.0, "vowels": sum(c in "aeiou" for c in answer)},
                  directions={"delay": "min"}, seed_answer="hello", policy="scripted:mutate", weights="spread",
                  isolated=False, iterations=6, name="own", report_to="tensorboard", progress=False)  # fmt: skip
    numbers, shown = read_events(), show(capsys, "own")
    assert numbers["E_w_best"][-1][1] == pytest.approx(shown["preferences"]["problems"][0]["worth"])


@pytest.mark.parametrize("tracker", ["tensorboard", "mlflow", "trackio"])
def test_a_run_is_there_and_its_resume_continues_there(tracker, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    pytest.importorskip(tracker)
    read = {"tensorboard": read_events, "mlflow": read_mlflow, "trackio": read_trackio}[tracker]
    evo.run("maze:test/0-1", iterations=4, name=tracker, report_to=tracker, **RUN)
    numbers = read()
    check_run(numbers, show(capsys, tracker), 8)
    for settings in Path("runs").glob("*/*/hparams.yml"):
        assert "iterations: 4" in settings.read_text() and "policy: scripted:random-route" in settings.read_text()
    evo.resume(tracker, iterations=6, progress=False)
    again = read()
    check_run(again, show(capsys, tracker), 12)
    check_once(again)
    assert {name: again[name][: len(points)] for name, points in numbers.items()} == numbers


def read_mlflow():
    import mlflow

    client = mlflow.MlflowClient()
    (run,) = mlflow.search_runs(experiment_names=["evo"], output_format="list")
    assert run.data.params["iterations"] == "4" and run.info.status == "FINISHED"
    history = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: [(one.step, one.value) for one in points] for name, points in history.items()}


def read_trackio():
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = Api().runs("evo")
    numbers = dict[str, list[tuple[int, float]]]()
    for line in SQLiteStorage.get_logs("evo", run.name):
        for name, value in line.items():
            if isinstance(value, float):
                numbers.setdefault(name, []).append((line["step"], value))
    return numbers


def test_a_training_is_there_line_by_line_and_once(capsys):
    settings = {"policy": "embedded:base", "prompts": 1, "rollouts": 2, "evaluate": "maze:test/0", "save_every": 1}
    settings |= {"evaluate_answers": 3, "progress": False}
    evo.train("vpo", "maze:train", steps=1, output="policy", report_to="tensorboard", **settings)
    evo.train(resume="policy", steps=2, progress=False)
    numbers = read_events()
    lines = [json.loads(line) for line in Path("policy/metrics.jsonl").read_text().splitlines()]
    assert len({line["kind"] for line in lines}) == 2
    for name in {name for line in lines for name, value in line.items() if type(value) in (int, float)} - {"step"}:
        wanted = [(line["step"], pytest.approx(line[name], rel=1e-5)) for line in lines if name in line]
        assert numbers[trackers.tag(name)] == wanted, name
    assert {"loss", "solve_3"} <= set(numbers)


@pytest.mark.parametrize("arguments", [
    ("run", "maze:test/0", "--plain", "--report-to", "mlflow"),
    ("compare", "maze:test/0", "--arm", "a=scripted:random-route", "--plain", "--report-to", "tensorboard,mlflow"),
    ("train", "vpo", "maze:train", "-o", "policy", "--report-to", "mlflow"),
])  # fmt: skip
def test_without_the_library_nothing_starts(arguments, capsys, monkeypatch):
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "mlflow" else name)
    code, out, err = command(capsys, *arguments)
    assert (code, out) == (2, "") and err.splitlines()[-1] == (
        "evo: --report-to mlflow needs the package mlflow: pip install mlflow"
    )
    assert list(Path().iterdir()) == []


def test_a_pipeline_reports_and_is_refused_without_the_library(capsys, monkeypatch):
    settings = "problems: [maze:test/0], policy: 'scripted:random-route', iterations: 2, report_to: tensorboard"
    Path("p.yaml").write_text(f"stages:\n  find: {{search: {{{settings}}}}}\n")
    with monkeypatch.context() as without:
        without.setattr(libraries, "find_spec", lambda name: None)
        code, _, err = command(capsys, "pipeline", "p.yaml", "-o", "out")
        assert code == 2 and "tensorboard needs the package" in err and not Path("out").exists()
    assert command(capsys, "pipeline", "p.yaml", "-o", "out")[0] == 0
    assert read_events()["iterations"][-1] == (2, 2)


def test_a_tracker_that_is_away_at_the_start_lets_nothing_start(capsys, monkeypatch):
    def away(name, key):
        raise ConnectionError("no route to host.\nmore")

    monkeypatch.setattr(trackers, "open_tracker", away)
    monkeypatch.setattr(libraries, "find_spec", lambda name: True)
    code, _, err = command(capsys, "run", "maze:test/0", "--policy", "scripted:random-route", "--plain",
                           "--report-to", "wandb")  # fmt: skip
    assert code == 2 and err.splitlines()[-1] == (
        "evo: --report-to wandb: no route to host; `wandb login` logs in, WANDB_MODE=offline writes to this folder"
    )
    assert not Path("evo.db").exists()


def test_a_tracker_that_fails_later_ends_no_search(monkeypatch):
    class Failing:
        calls = 0

        def store_init_configuration(self, values):
            pass

        def log(self, values, step):
            Failing.calls += 1
            raise OSError("disk full")

    monkeypatch.setattr(trackers, "open_tracker", lambda name, key: Failing())
    monkeypatch.setattr(libraries, "find_spec", lambda name: True)
    with pytest.warns(UserWarning, match="--report-to mlflow: disk full; nothing more is reported there") as warned:
        run = evo.run("maze:test/0", iterations=8, report_to="mlflow", **RUN)
    assert run.outcome == "done" and Failing.calls == 1
    assert sum("--report-to" in str(one.message) for one in warned) == 1


def test_ask_and_tell_refuses_trackers():
    with pytest.raises(ValueError, match="evo.Search reports to no tracker"):
        evo.Search("maze:test/0", report_to="tensorboard")
