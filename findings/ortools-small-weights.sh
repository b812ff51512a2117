#!/usr/bin/env bash
# ortools 9.15.6755, 2026-11-29
# Behaviour: CP-SAT drops a term of a float objective whose weight is 1e-6 or less, and says OPTIMAL: for x to 10 the
# greatest z + 1e-6 x has x = 0, and so has the greatest 1e-7 x alone. Only the bound (5.00001) shows it.
# `mip_wanted_precision` in sat_parameters.proto names the number.
# One would have guessed: floats are scaled to integers, so that an optimum is one of both terms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check ortools==9.15.6755
"$folder/venv/bin/python" - <<'PYTHON'
import ortools
from ortools.sat.python import cp_model

print("ortools", ortools.__version__)
seen = {}
for large, small in ((1, 1e-5), (1, 1e-6), (0, 1e-7)):
    model = cp_model.CpModel()
    z, x = model.new_int_var(0, 5, "z"), model.new_int_var(0, 10, "x")
    model.maximize(large * z + small * x)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.status_name(solver.solve(model))
    seen[large, small] = status, solver.value(x)
    print(f"max {large} z + {small} x: {status}, x = {solver.value(x)}, bound {solver.best_objective_bound:.8g}")
assert list(seen.values()) == [("OPTIMAL", 10), ("OPTIMAL", 0), ("OPTIMAL", 0)], "the behaviour has changed"
PYTHON
