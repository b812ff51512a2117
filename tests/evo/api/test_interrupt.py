"""Ctrl-C: what is in flight is committed, the run is resumable, and the handler of before is back."""

import _thread
import asyncio
import signal
import time
from pathlib import Path

import pytest

import evo
from evo.api import drive
from evo.api.display import Display
from evo.api.drive import Driver
from evo.comparison import workers
from evo.training import setup


@pytest.fixture
def interrupted_after(monkeypatch):
    """interrupted_after(groups): Ctrl-C once so many prompt groups are committed."""

    def arrange(groups):
        launched_by = drive.run_to_end

        async def run_to_end(launched):
            seen = []

            def committed(group):
                seen.append(group)
                if len(seen) == groups:
                    _thread.interrupt_main()

            launched.search.on_commit = committed
            return await launched_by(launched)

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


def test_a_comparison_is_stopped_and_resumed(vowels, monkeypatch):
    """In this process, where all arms share one loop."""
    to_the_end = workers.run_to_end

    async def run_to_end(launched):
        launched.search.on_commit = lambda group: _thread.interrupt_main() if group.iteration == 2 else None
        return await to_the_end(launched)

    monkeypatch.setattr(workers, "run_to_end", run_to_end)
    slow = "scripted:mutate?latency=0.05"
    given = {"arms": {"a": slow, "b": "scripted:echo?latency=0.05"}, "baselines": [], "answers": 1, "seeds": 1}
    with pytest.raises(evo.Interrupted, match=r"evo.resume\('both'\) continues it"):
        evo.compare(score=vowels, seed_answer="a b", iterations=500, name="both", progress=False, **given)
    frame = evo.load_comparison("both").frame()
    assert set(frame.status) == {"interrupted"} and 0 < frame.iterations.max() < 500


def test_a_training_is_stopped_saved_and_resumed(one_thread, monkeypatch):
    begin = setup.begin

    def interrupted(run, output, command):
        training, pressed = begin(run, output, command), []

        def press_once(line):  # a second one would end it without a checkpoint
            if line["kind"] == "step" and not pressed:
                pressed.append(True)
                _thread.interrupt_main()

        training.on_log = press_once
        return training

    monkeypatch.setattr(setup, "begin", interrupted)
    with pytest.raises(evo.Interrupted, match=r"evo.train\(resume='stopped'\) continues it"):
        evo.train("vpo", "maze:train", steps=400, prompts=2, rollouts=2, limit=10, output="stopped", progress=False)
    saved = sorted(Path("stopped", "checkpoints").glob("step-*"))
    done = int(saved[-1].name.removeprefix("step-"))
    went_on = evo.train(resume="stopped", steps=done + 1, progress=False)
    assert 1 <= done < 400 and went_on.outcome == "done" and list(went_on.frame().step) == [*range(1, done + 2)]


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
