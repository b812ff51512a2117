"""Ctrl-C: what is in flight is committed, the run is resumable, and the handler of before is back."""

import _thread
import asyncio
import signal
import time

import pytest

import evo
from evo.api import drive
from evo.api.display import Display
from evo.api.drive import Driver


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
