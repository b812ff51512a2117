"""Each folder in problems/plugins can be deleted: the core works without it, and its other plug-ins too."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("evo", "islands", "problems", "vpo")
PLUGINS = sorted(path.name for path in (ROOT / "problems" / "plugins").iterdir() if (path / "__init__.py").exists())
ADDRESSES = {"formulas": "formula:small/0", "maths": "maths:kissing_number", "text_tasks": "musique:synthetic/0"}
PUBLIC = {
    *("problems.address", "problems.contract", "problems.family", "problems.fingerprint", "problems.python_syntax"),
    *("problems.rows", "problems.sandbox.contract", "problems.sandbox.pool", "problems.types"),
    *("vpo.embedded.dialects", "vpo.embedded.lesson", "vpo.embedded.words"),
}
"""The modules of the core that a plug-in may use; a package of anyone else may rely on them too."""
IMPORTS = """
import importlib, pkgutil
for root in ("problems", "islands", "vpo", "evo"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, root + "."):
        skipped = (".shims.", ".alembic", ".sandbox.child", "__main__", ".vllm.", ".verl", ".trl", ".testing")
        if not any(part in module.name for part in skipped):
            importlib.import_module(module.name)
print(importlib.import_module("problems").__file__)
"""


@pytest.mark.long
@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_core_works_without_it(plugin, tmp_path):
    left_out = shutil.ignore_patterns("__pycache__", "*.safetensors")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=left_out)
    shutil.copytree(
        ROOT / "vpo/embedded/checkpoints/base", tmp_path / "vpo/embedded/checkpoints/base", dirs_exist_ok=True
    )
    points = tmp_path / "evo_search.dist-info"  # as pip would install it, with every plug-in listed still
    points.mkdir()
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: evo-search\nVersion: 0.1.0\n")
    (points / "entry_points.txt").write_text(_entry_points())
    assert run(tmp_path, "-m", "evo", "problems", ADDRESSES[plugin]).returncode == 0

    shutil.rmtree(tmp_path / "problems" / "plugins" / plugin)
    imported = run(tmp_path, "-c", IMPORTS)
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.strip() == str(tmp_path / "problems" / "__init__.py")
    listed = run(tmp_path, "-m", "evo", "problems")
    assert listed.returncode == 0, listed.stderr
    kinds = {name: name.partition(":")[0] for name in ADDRESSES.values()}
    for other, address in ADDRESSES.items():
        assert (f"{kinds[address]}:" in listed.stdout) == (other != plugin)
    gone = run(tmp_path, "-m", "evo", "problems", ADDRESSES[plugin])
    assert gone.returncode == 2 and len(gone.stderr.splitlines()) == 1 and "there is no problem" in gone.stderr
    searched = run(
        *(tmp_path, "-m", "evo", "run", "maze:test/0", "--policy", "embedded:base", "--iterations", "2", "--plain")
    )
    assert searched.returncode == 0, searched.stderr


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def _entry_points() -> str:
    import tomllib

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    sections = [
        "\n".join([f"[{group}]", *(f"{n} = {v}" for n, v in points.items())]) for group, points in groups.items()
    ]
    return "\n\n".join(sections) + "\n"


@pytest.mark.parametrize("plugin", PLUGINS)
def test_it_uses_public_modules_and_no_other_plug_in(plugin):
    """What it imports of the core is in PUBLIC, and no name begins with an underscore."""
    own = f"problems.plugins.{plugin}"
    for file in (ROOT / "problems" / "plugins" / plugin).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
                assert node.module in PUBLIC or f"{node.module}.".startswith(f"{own}."), f"{file}: {node.module}"
                assert not any(alias.name.startswith("_") for alias in node.names), f"{file}: {node.module}"
