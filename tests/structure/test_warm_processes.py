"""The fork server that tests take instead of fresh interpreters (tests/support/warm_processes.py)."""

import sys

import pytest
from support import warm_processes


class Light(warm_processes.Forked):
    modules = ("json",)


class Interrupted:
    """A socket whose next answer is not waited for."""

    def __init__(self, real):
        self.real, self.waits = real, False

    def recv(self, size):
        if not self.waits:
            self.waits = True
            raise KeyboardInterrupt
        return self.real.recv(size)

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_an_interrupted_order_leaves_the_next_one_its_own_process(monkeypatch):
    ending = [sys.executable, "-c", "import sys; sys.exit(5)"]
    assert Light(ending).wait(30) == 5
    server = warm_processes._SERVERS[Light.modules]
    monkeypatch.setattr(server, "_socket", Interrupted(server._socket))
    with pytest.raises(KeyboardInterrupt):
        Light(ending)
    assert Light(ending).wait(30) == 5
