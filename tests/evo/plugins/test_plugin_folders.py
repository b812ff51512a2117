"""Each folder in evo/plugins can be deleted: the core works without it, and its other plug-ins too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from warm_processes import Forked

ROOT = Path(__file__).parents[3]
PACKAGES = ("evo", "islands", "problems", "vpo")
PLUGINS = sorted(path.name for path in (ROOT / "evo" / "plugins").iterdir() if (path / "__init__.py").exists())
ADDRESSES = {"formulas": "formula:small/0", "maths": "maths:kissing_number", "text_tasks": "musique:synthetic/0"}
IMPORTS = """
import importlib, pkgutil
for root in ("problems", "islands", "vpo", "evo"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, root + "."):
        skipped = (".shims.", ".alembic", ".sandbox.child", "__main__", ".vllm.", ".trl", ".testing")
        if not any(part in module.name for part in skipped):
            importlib.import_module(module.name)
print(importlib.import_module("problems").__file__)
"""


LIBRARIES = (
    *(
        "torch",
        "torch._dynamo.config",
        "transformers",
        "transformers.models.llama.modeling_llama",
        "peft",
        "accelerate",
    ),
    *("transformers.models.qwen2.modeling_qwen2", "sqlalchemy", "psycopg", "alembic.command", "pandas", "scipy.stats"),
    *("matplotlib.pyplot", "openai", "ray", "textual.app", "pydantic", "rich", "yaml", "pygments.lexers.python"),
)
"""Of others, so that every process with a copy of the core need import nothing else."""


class ForkedWithLibraries(Forked):
    modules = LIBRARIES


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The four packages as pip would install them, with every plug-in listed, each file once: tests move them away."""
    folder = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.safetensors"))
    shutil.copytree(
        ROOT / "vpo/languages/checkpoints/base", folder / "vpo/languages/checkpoints/base", dirs_exist_ok=True
    )
    points = folder / "evo_search.dist-info"
    points.mkdir()
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: evo-search\nVersion: 0.1.0\n")
    (points / "entry_points.txt").write_text(_entry_points())
    return folder


@pytest.mark.long
@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_core_works_without_it(plugin, copy, tmp_path):
    assert run(copy, "-m", "evo", "problems", ADDRESSES[plugin]).returncode == 0

    folder = copy / "evo" / "plugins" / plugin
    folder.rename(tmp_path / plugin)
    try:
        imported = run(copy, "-c", IMPORTS)
        assert imported.returncode == 0, imported.stderr
        assert imported.stdout.strip() == str(copy / "problems" / "__init__.py")
        listed = run(copy, "-m", "evo", "problems")
        assert listed.returncode == 0, listed.stderr
        kinds = {name: name.partition(":")[0] for name in ADDRESSES.values()}
        for other, address in ADDRESSES.items():
            assert (f"{kinds[address]}:" in listed.stdout) == (other != plugin)
        assert ("  fit " in run(copy, "-m", "evo", "--help").stdout) == (plugin != "formulas")
        gone = run(copy, "-m", "evo", "problems", ADDRESSES[plugin])
        assert gone.returncode == 2 and len(gone.stderr.splitlines()) == 1 and "there is no problem" in gone.stderr
        command = ("run", "maze:test/0", "--policy", "embedded:base", "--iterations", "2", "--plain", "--name", plugin)
        searched = run(copy, "-m", "evo", *command)
        assert searched.returncode == 0, searched.stderr
    finally:
        (tmp_path / plugin).rename(folder)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What an interpreter does that finds the packages in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    with ForkedWithLibraries(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        out, err = child.communicate(timeout=300)
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def _entry_points() -> str:
    import tomllib

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    sections = [
        "\n".join([f"[{group}]", *(f"{n} = {v}" for n, v in points.items())]) for group, points in groups.items()
    ]
    return "\n\n".join(sections) + "\n"
