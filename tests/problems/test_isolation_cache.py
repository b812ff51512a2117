"""A mode that was seen to confine is not tried again until something that decides it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from problems.sandbox import isolation


@pytest.fixture(autouse=True)
def _a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def _try(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> tuple[str | None, list[str]]:
    """What a new process finds of landlock mode, and which modes it tried."""
    tried: list[str] = []
    monkeypatch.setattr(isolation, "find_refusal", lambda mode: tried.append(mode) or reason)
    isolation._probe.cache_clear()
    isolation._circumstances.cache_clear()
    try:
        return isolation.probe("landlock"), tried
    finally:
        isolation._probe.cache_clear()
        isolation._circumstances.cache_clear()


def test_only_that_a_mode_confines_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not isolation.confinement.landlock_abi():
        pytest.skip("the kernel has no Landlock")
    assert _try(monkeypatch, "it leaks") == ("it leaks", ["landlock"])
    assert _try(monkeypatch, None) == (None, ["landlock"])
    assert _try(monkeypatch, None) == (None, [])
    (kept,) = (tmp_path / "evo" / "sandbox").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    isolation.clear_isolation_cache()
    assert _try(monkeypatch, "it leaks") == ("it leaks", ["landlock"])


@pytest.mark.parametrize("changed", ["boot", "code", "rights"])
def test_what_decides_it_is_part_of_what_it_is_kept_under(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    if not isolation.confinement.landlock_abi():
        pytest.skip("the kernel has no Landlock")
    assert _try(monkeypatch, None) == (None, ["landlock"])
    real = isolation._text
    if changed == "boot":
        monkeypatch.setattr(isolation, "_text", lambda file: "another" if file.endswith("boot_id") else real(file))
    elif changed == "rights":
        monkeypatch.setattr(isolation, "_text", lambda file: real(file).replace("NoNewPrivs:\t", "NoNewPrivs:\t1"))
    else:
        stat = os.stat
        other = {str(Path(isolation.__file__)): "/"}
        monkeypatch.setattr(os, "stat", lambda file, **more: stat(other.get(str(file), file), **more))
    assert _try(monkeypatch, None) == (None, ["landlock"])
