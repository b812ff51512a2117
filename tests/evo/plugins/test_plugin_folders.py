"""Each folder in evo/plugins can be deleted: the core and its tests work without it, and its other plug-ins too, save
those that NEEDED_BY names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGINS = sorted(path.name for path in (ROOT / "evo" / "plugins").iterdir() if (path / "__init__.py").exists())
ADDRESSES = {"formulas": "formula:small/0", "rules": "rules:jobshop-train/0", "text_tasks": "musique:synthetic/0"}
NEEDED_BY = {"formulas": ("rules",)}
PARTS = ("evo", "islands", "problems", "vpo", "tests", "bench", "docs", "examples", "pyproject.toml", "mkdocs.yml",
         "README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # fmt: skip
SUBSET = ("tests/structure/test_rules.py", "tests/problems/test_registry.py", "tests/evo/cli/test_help.py")


@pytest.fixture
def copy(tmp_path):
    """The checkout without what is not in the repository."""
    for part in PARTS:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        copier = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copier(ROOT / part, tmp_path / part, **({"ignore": ignored} if (ROOT / part).is_dir() else {}))
    return tmp_path


def run(folder, *arguments, most=600):
    """What an interpreter does that finds the packages in `folder`; an entry point of a missing module is left out."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=most)


@pytest.mark.long
@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_core_works_without_it(plugin, copy):
    assert run(copy, "-m", "evo", "problems", ADDRESSES[plugin]).returncode == 0
    gone_too = (plugin, *NEEDED_BY.get(plugin, ()))
    for name in gone_too:
        shutil.rmtree(copy / "evo" / "plugins" / name)
    where = run(copy, "-c", "import evo; print(evo.__file__)").stdout.strip()
    assert where == str(copy / "evo" / "__init__.py")
    listed = run(copy, "-m", "evo", "problems")
    assert listed.returncode == 0, listed.stderr
    for other, address in ADDRESSES.items():
        assert (f"{address.partition(':')[0]}:" in listed.stdout) == (other not in gone_too)
    assert ("  fit " in run(copy, "-m", "evo", "--help").stdout) == (plugin != "formulas")
    gone = run(copy, "-m", "evo", "problems", ADDRESSES[plugin])
    assert gone.returncode == 2 and len(gone.stderr.splitlines()) == 1 and "there is no problem" in gone.stderr
    exported = run(copy, "-c", "import evo; evo.FormulaRegressor")
    assert ("has no attribute 'FormulaRegressor'" in exported.stderr) == (plugin == "formulas")
    # the core's own tests: all can be collected, and some are run
    own = ("-p", "no:cacheprovider", "--ignore=tests/evo/plugins", "--ignore=tests/docs")
    collected = run(copy, "-m", "pytest", "--collect-only", "-q", "-m", "", *own)
    assert collected.returncode == 0, collected.stdout[-2000:]
    tested = run(copy, "-m", "pytest", "-q", *own, *SUBSET)
    assert tested.returncode == 0, tested.stdout[-2000:]
