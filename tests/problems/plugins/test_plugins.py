"""Plug-ins: the core imports none of them, and each folder can be deleted."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("problems", "vpo", "islands", "evo")
FOLDERS = sorted(path.name for path in (ROOT / "problems" / "plugins").iterdir() if (path / "__init__.py").is_file())
LOST = {"maths": "maths:circle_packing_26", "text_tasks": "musique:synthetic/0"}
CORE = """
import importlib, pkgutil
for name in ("problems", "vpo", "islands", "evo"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not any(part in module.name for part in (".shims.", ".alembic.", "__main__", "vpo.verl", "vpo.vllm")):
            importlib.import_module(module.name)
from evo.cli import invoke
assert invoke(["problems"]) == 0
assert invoke(["run", "maze:test", "--limit", "1", "--iterations", "2", "--policy", "scripted:classic", "--plain"]) == 0
"""


def test_the_core_imports_no_plugin():
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if "plugins" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                assert not any(name.startswith("problems.plugins") for name in names), f"{file}:{node.lineno}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_can_be_deleted(folder, tmp_path):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "problems" / "plugins" / folder)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "EVO_DB": f"sqlite:///{tmp_path}/evo.db"}

    def python(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300
        )

    whole = python(CORE)
    assert whole.returncode == 0, whole.stderr
    assert f"{LOST[folder].partition(':')[0]}:" not in whole.stdout.replace("toolrl:FILE", "")
    lost = python(f"from evo.cli import invoke; raise SystemExit(invoke(['problems', {LOST[folder]!r}]))")
    assert lost.returncode == 2 and "there is no problem" in lost.stderr
