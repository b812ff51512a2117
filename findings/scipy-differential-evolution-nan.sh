#!/usr/bin/env bash
# scipy 1.17.1, numpy 2.4.6, 2026-11-28
# Behaviour: `differential_evolution` of a function that is NaN on half of its range ends with NaN as its best value,
# and a point of that half. With infinity instead of NaN it finds the minimum.
# One would have guessed: NaN counts as the worst value, so the result is finite.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

import numpy as np
import scipy
from scipy.optimize import differential_evolution

warnings.simplefilter("ignore")
print("scipy", scipy.__version__)
seen = {}
for failed in (float("nan"), float("inf")):
    found = differential_evolution(lambda x: failed if x[0] < 0 else x[0], [(-1, 1)], rng=1, maxiter=50)
    seen[failed] = found.fun
    print(f"failures are {failed}: best value {found.fun} at {found.x[0]:.3f}")
first, second = seen.values()
assert np.isnan(first) and abs(second) < 1e-3, "the behaviour has changed"
PYTHON
