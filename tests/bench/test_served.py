"""The dry run of bench/served.py, whose parts bench/gpu.sh runs on a GPU too."""

import json
import sys

import pytest

from bench.gpu import tiny_model


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
