"""evo.run, evo.resume and evo.load_run: results, frames, scorers of the caller's, faults, Ctrl-C."""

import _thread
import asyncio
import builtins
import json
import signal
import subprocess
import sys
import threading
import time

import pytest
from support.command_line import evo as command
from support.rows import yaml_rows

import evo
from evo.api import drive
from evo.api.display import Display
from evo.api.drive import Driver
from islands.errors import RunExists, UnknownRun
from problems.registry import resolve


def test_a_closure_is_searched_and_its_result_has_best_and_frame_and_the_command_line_sees_it(quick, capsys):
    result = quick()
    assert (result.name, result.outcome, result.db) == ("quick", "done", "sqlite:///evo.db")
    best = result.best_answer
    assert best == result.best[0] and best.problem == "score:vowels" and set(best.rewards) == {"brief", "vowels"}
    frame = result.frame()
    assert len(frame) == result.summary["answers"] - result.summary["repeats"] + 1  # the seed
    assert best.fitness == frame.fitness.max()
    row = frame[frame.candidate == best.candidate].iloc[0]
    assert row.answer == best.text and row["reward.vowels"] == best.rewards["vowels"]
    assert frame.iteration.isna().sum() == 1 and frame.iteration.max() == 3
    types = frame.dtypes.astype(str)
    assert (types[["iteration", "parent"]] == "Int64").all() and (types[["candidate", "island"]] == "int64").all()
    assert str(frame.created.dt.tz) == "UTC" and (frame.created.dt.year > 2020).all()
    assert repr(best).startswith(f"Answer(score:vowels, {best.text!r}, fitness {best.fitness:.6g}, vowels ")
    assert repr(result).startswith("RunResult(done: run quick, best ")
    assert json.loads(command(capsys, "best", "quick", "--json")[1])[0]["answer"] == best.text
    stored = json.loads(command(capsys, "runs", "--json")[1])[0]["command"]
    assert stored.startswith("evo.run(score=vowels, ") and "policy='scripted:mutate', iterations=4" in stored


def test_a_run_by_address_gives_what_the_command_line_gives(capsys):
    result = evo.run("maze:test/3", policy="scripted:random-route", iterations=3, seed=5, islands=2, progress=False)
    command(capsys, "run", "maze:test/3", "--policy", "scripted:random-route", "--iterations", "3", "--seed", "5",
            "--islands", "2", "--name", "cli", "--plain")  # fmt: skip
    same = ["sequence", "answer", "fitness", "island"]
    assert result.frame()[same].equals(evo.load_run("cli").frame()[same])


def test_several_problems_give_a_best_answer_each():
    result = evo.run(["maze:test/0-1", "maze:hard/0"], policy="scripted:random-route", iterations=2, progress=False)
    assert [answer.problem for answer in result.best] == ["maze:test/0", "maze:test/1", "maze:hard/0"]
    with pytest.raises(ValueError, match="searched 3 problems"):
        _ = result.best_answer
    assert evo.load_run(result.name) == result


def test_problems_may_be_objects(digits):
    problem = digits("eight", target=2.0)
    result = evo.run(problem, policy="scripted:mutate", iterations=2, name="object", progress=False)
    assert result.problems == {"eight": "done"} and problem.scored
    with pytest.raises(ValueError, match="eight"):
        evo.resume("object", iterations=3, progress=False)
    assert evo.resume("object", problems=problem, iterations=3, progress=False).summary["groups"] == 3
    mazes = resolve("maze:test", limit=2)
    assert list(evo.run(mazes, policy="scripted:random-route", iterations=1, progress=False).problems) == [
        "maze:test/0", "maze:test/1",
    ]  # fmt: skip


def test_a_resume_by_name_needs_the_function_alone(quick, vowels):
    quick("half", objectives=["vowels", "brief"], weights={"vowels": 2, "brief": 1}, iterations=3)
    with pytest.raises(ValueError, match=r"give it again: evo.resume\('half', score=vowels\)"):
        evo.resume("half", iterations=6, progress=False)
    went_on = evo.resume("half", score=vowels, iterations=6, progress=False)
    whole = quick("whole", objectives=["vowels", "brief"], weights={"vowels": 2, "brief": 1}, iterations=6)
    same = ["sequence", "answer", "fitness"]
    assert went_on.frame()[same].equals(whole.frame()[same])


def test_a_resume_with_another_function_is_refused(quick):
    quick("first")

    def vowels(answer):
        return {"vowels": 1.0, "brief": 0.0}

    with pytest.raises(ValueError, match="has changed since the search"):
        evo.resume("first", score=vowels, iterations=6, progress=False)
    again = quick("second", score=vowels, start=["first"])
    assert set(again.frame().fitness) == {0.5}


def test_the_scorer_s_own_fault_is_raised_with_its_line(quick):
    with pytest.raises(evo.ScorerFault, match=r"line \d+ \(.*\): ZeroDivisionError"):  # of the seed: nothing is stored
        quick("at once", score=lambda answer: {"share": 1 / (len(answer) - 7)})
    quick("another")
    with pytest.raises(UnknownRun):
        evo.load_run("at once")

    def later(answer):
        return {"share": 1.0} if answer == "one two" else {"share": 1 / 0}

    with pytest.warns(UserWarning, match="ZeroDivisionError"):  # the seed is still scored: the answers' own doing
        quick("later", score=later)
    assert evo.load_run("later").outcome == "done"


@pytest.mark.parametrize(("settings", "error", "message"), yaml_rows(__file__, "bad arguments"))
def test_arguments_are_checked(settings, error, message):
    scored = {"score": len} if "score" in settings else {}
    with pytest.raises(getattr(builtins, error), match=message) as raised:
        evo.run("maze:test/0", progress=False, **settings | scored)
    assert "\n" not in str(raised.value)


def test_what_is_no_problem_is_told(quick):
    done = quick("taken")
    for call, error, said in (
        (lambda: evo.run(policy="scripted:echo", progress=False), ValueError, "no problem named"),
        (lambda: evo.run(3), TypeError, "this is neither: 3"),
        (lambda: evo.run(len), TypeError, "is given as score=len"),
        (lambda: evo.resume(done), TypeError, "name is text, as in result.name, not RunResult"),
        (lambda: evo.load_run(None), TypeError, "not None$"),
        (lambda: evo.run("maze:tst", progress=False), ValueError, "there is no set maze:"),
        (lambda: quick("taken"), RunExists, ""),
    ):
        with pytest.raises(error, match=said):
            call()


def test_every_flag_of_the_command_line_is_an_argument():
    from evo.cli.run import run_command
    from evo.config.run import FLAGS, RunConfig

    flags = {p.opts[0].removeprefix("--").replace("-", "_") for p in run_command.params if p.opts[0].startswith("--")}
    assert flags - {"config", "name", "db", "plain", "json"} <= {*RunConfig.model_fields, *FLAGS}


def test_inside_a_running_loop_and_in_a_thread(quick):
    async def cell():
        return quick("looped", iterations=None, config=evo.RunConfig(iterations=2, seed=7))

    assert asyncio.run(cell()).summary["groups"] == 2, "a configuration object stands for a file"
    found = []
    thread = threading.Thread(target=lambda: found.append(quick("threaded")))
    thread.start()
    thread.join()
    assert found[0].outcome == "done"


def test_progress_is_one_line_at_a_time_where_there_is_no_terminal(quick, capsys):
    quick("told", progress=True)
    out, err = capsys.readouterr()
    lines = [line for line in err.replace("\r", "\n").splitlines() if line.strip()]
    assert out == "" and lines[-1].startswith("told: 100%") and "mean best 0." in lines[-1] and len(lines) <= 4


def test_the_package_loads_nothing_before_it_is_used_and_its_functions_have_an_example():
    heavy = "import sys, evo; evo.__dir__(); print([m for m in ('torch', 'sqlalchemy', 'pandas', 'click', 'rich') "
    told = subprocess.run([sys.executable, "-c", heavy + "if m in sys.modules])"], capture_output=True, text=True)
    assert told.stdout.strip() == "[]", told.stderr
    assert all(not name.startswith("_") or name == "__version__" for name in dir(evo)), "no module, no private name"
    for name in ("run", "resume", "compare", "train", "evaluate", "load_run"):
        text = getattr(evo, name).__doc__
        assert name in dir(evo) and "Raises:" in text and "Example:" in text, name
    for name in ("BadInput", "DatabaseUnavailable", "PolicyUnavailable", "RunExists", "SearchFailed", "UnknownRun"):
        assert issubclass(getattr(evo, name), Exception)
    with pytest.raises(AttributeError):
        _ = evo.nothing


def test_a_model_without_a_task_is_a_warning(vowels):
    warning = pytest.warns(
        UserWarning, match="no statement=: embedded:base is only told to score well on vowels, brief"
    )
    with warning, pytest.raises(ValueError, match="only understands mazes"):
        evo.run(score=vowels, seed_answer="a", policy="embedded:base", progress=False)


def test_without_pandas_a_frame_says_what_to_install(quick, monkeypatch):
    result = quick("bare")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        result.frame()


def test_a_file_chooses_the_sandbox_of_a_compared_function(vowels, own_folder, monkeypatch):
    (own_folder / "own.yaml").write_text("arms: {echo: 'scripted:echo'}\nsandbox: landlock\n")

    def opened(mode):
        raise ValueError(f"opened in {mode}")

    monkeypatch.setattr("evo.api.arguments.set_sandbox_mode", opened)
    with pytest.raises(ValueError, match="opened in landlock"):
        evo.compare(score=vowels, seed_answer="one two", config="own.yaml", progress=False)


@pytest.fixture
def interrupted_after(monkeypatch):
    """interrupted_after(groups): Ctrl-C once so many prompt groups are committed."""

    def arrange(groups):
        launched_by = drive.run_to_end

        async def run_to_end(opening, during):
            seen = []

            def committed(group):
                seen.append(group)
                if len(seen) == groups:
                    _thread.interrupt_main()

            async def opened():
                launched = await opening()
                launched.search.on_commit = committed
                return launched

            return await launched_by(opened, during)

        monkeypatch.setattr(drive, "run_to_end", run_to_end)

    return arrange


def test_everything_is_committed_and_a_resume_goes_on(quick, vowels, interrupted_after):
    before = signal.getsignal(signal.SIGINT)
    interrupted_after(5)
    with pytest.raises(KeyboardInterrupt, match=r"evo.resume\('stopped'\) continues it") as stopped:
        quick("stopped", iterations=200, policy="scripted:mutate?latency=0.05")
    assert isinstance(stopped.value, evo.Interrupted) and stopped.value.name == "stopped"
    assert signal.getsignal(signal.SIGINT) is before
    kept = evo.load_run("stopped")
    assert kept.outcome == "interrupted" and 5 <= kept.summary["groups"] < 200
    groups = kept.summary["groups"]
    went_on = evo.resume("stopped", score=vowels, iterations=groups + 2, progress=False)
    assert went_on.outcome == "done" and went_on.summary["groups"] == groups + 2


def test_a_second_one_stops_at_once():
    async def stubborn(job):
        with job.interruptible(lambda stop: _thread.interrupt_main()):  # the second, as soon as the first is heard
            _thread.interrupt_main()
            await asyncio.sleep(60)

    began, driver = time.monotonic(), Driver(Display())
    with pytest.raises(evo.Interrupted, match="before anything was stored"):
        driver.drive(stubborn)
    assert driver.interrupts == 2 and time.monotonic() - began < 50


def test_before_anything_is_stored_the_work_is_cancelled():
    async def loading(job):
        _thread.interrupt_main()
        await asyncio.sleep(60)

    driver = Driver(Display())
    with pytest.raises(evo.Interrupted, match="before anything was stored") as stopped:
        driver.drive(loading)
    assert driver.interrupts == 1 and stopped.value.name is None


def test_a_second_one_ends_what_loads_and_cannot_be_cancelled():
    """As the weights of a policy, which are read without a turn of the event loop."""
    loaded = []

    async def loading(job):
        for _ in range(2):
            _thread.interrupt_main()
            time.sleep(0.01)
        for _ in range(300):
            time.sleep(0.01)
        loaded.append(True)

    driver = Driver(Display())
    with pytest.raises(evo.Interrupted, match="before anything was stored"):
        driver.drive(loading)
    assert driver.interrupts == 2 and loaded == []


def test_after_the_work_is_stored_and_ends_one_interrupt_cuts_nothing_short():
    async def ending(job):
        driver.name = "stored"
        _thread.interrupt_main()
        await asyncio.sleep(0.5)
        ended.append(True)

    driver, ended = Driver(Display()), []
    with pytest.raises(evo.Interrupted, match="evo.resume"):
        driver.drive(ending)
    assert ended == [True]
