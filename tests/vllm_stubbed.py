"""Engines of vllm: policies for tests: over a stub of vLLM, or kept loaded from one test to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_processes import ForkedWithModels, in_place_of_subprocess

STUBS = Path(__file__).parent / "stubs"


@contextlib.contextmanager
def stubbed_vllm(forked: bool = True) -> Iterator[None]:
    """Engines that start meanwhile have tests/stubs/vllm.py in the place of vLLM; `forked` or started from nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(STUBS))
        patch.setattr("vpo.vllm.leases.check_installed", lambda: None)
        if forked:
            patch.setattr("problems.child_process.subprocess", in_place_of_subprocess(ForkedWithModels))
        yield


@contextlib.contextmanager
def engine_kept(address: str) -> Iterator[str]:
    """The address, whose engine stays loaded from test to test where they ask for one thread."""
    from vpo.policies.address import parse_address
    from vpo.policies.registry import PolicySettings
    from vpo.vllm.address import engine_settings
    from vpo.vllm.leases import lease, release

    engine = lease(engine_settings(parse_address(address), PolicySettings(threads=1)))
    try:
        engine.wait()
        yield address
    finally:
        release(engine)
