"""Every bench starts: each module imports, and each that takes seconds measures something small."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu import STAGES, tiny_model

ROOT = Path(__file__).parents[2]
BENCHES = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
SMALL = {
    "fuzz": ["--outputs", "200", "--no-repetitions"],
    "hostile": ["--only", "exit", "--every", "9"],
    "malformed": ["--files", "10"],
    "sandbox": ["--seconds", "0.2", "--evaluations", "2"],
    "search_command": ["--iterations", "3", "--repeats", "1"],
}


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_imports(name):
    try:
        importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("evo.plugins."):
            raise
        pytest.skip(f"{error.name} is not there")


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_a_bench_measures_something_small(name, tmp_path):
    run([sys.executable, "-m", f"bench.{name}", *SMALL[name]])
    if name == "hostile":
        run([sys.executable, "-m", "bench.hostile", *SMALL[name], "--evaluator"])


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_for_a_gpu_has_a_dry_run(stage, tmp_path):
    run(["bash", "bench/gpu.sh", "--dry", "--only", stage, "--out", str(tmp_path)])
    found = json.loads((tmp_path / f"{stage}.json").read_text())
    if "skipped" in found:
        pytest.skip(found["skipped"])


@pytest.mark.long
def test_what_is_packed_for_a_bare_machine_is_unpacked_there(tmp_path):
    model, bare = tiny_model(tmp_path / "tiny"), tmp_path / "bare"
    run(["bash", "bench/gpu.sh", "--dry", "--pack", str(tmp_path / "pack"), "--model", model])
    run(["bash", "bench/gpu.sh", "--dry", "--unpack", str(tmp_path / "pack"), "--only", "lessons", "--out", str(bare)])
    assert (bare / "site" / "evo" / "py.typed").exists() and (bare / "model" / "config.json").exists()
    assert not (bare / "lessons.log").exists()  # they came along
    (tmp_path / "pack" / "operator.db").write_bytes(b"")
    with pytest.raises(AssertionError, match="could not unpack"):
        run(["bash", "bench/gpu.sh", "--dry", "--unpack", str(tmp_path / "pack"), "--out", str(tmp_path / "other")])


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.long
def test_the_dry_run_measures_agreement_and_new_adapters(tmp_path, monkeypatch):
    pytest.importorskip("peft")
    from bench import served

    file = tmp_path / "served.json"
    model = tiny_model(tmp_path / "tiny")
    monkeypatch.setattr(sys, "argv", ["served", model, "--parts", "logprobs,adapters", "--json", str(file), "--dry"])
    served.main()
    found = json.loads(file.read_text())
    assert all(found["logprobs"][f"temperature {t}"]["largest"] < 1e-4 for t in ("1", "0.7"))
    assert all(one["off_by"]["mean"] < 1e-4 < one["moved_by"]["mean"] for one in found["adapters"])
