#!/usr/bin/env bash
# statsmodels 0.15.0, numpy 2.4.6, 2026-11-29
# Behaviour: one NaN among the p-values of `multipletests`, as of a test of two equal samples: with `fdr_bh` each corrected
# p-value is NaN, while `reject` still rejects one; with `holm` the NaN counts as a fourth test; with `hommel` nothing is
# rejected. No warning.
# One would have guessed: NaN or an error for all, or the other three corrected as three.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import statsmodels
from statsmodels.stats.multitest import multipletests

print("statsmodels", statsmodels.__version__)
p_values = [0.01, np.nan, 0.03, 0.04]
seen = {}
for method in ("fdr_bh", "holm", "hommel"):
    reject, corrected = multipletests(p_values, method=method)[:2]
    alone = multipletests([0.01, 0.03, 0.04], method=method)[1]
    seen[method] = reject.tolist(), np.round(corrected, 3).tolist()
    print(f"{method}: rejects {seen[method][0]}, corrected {seen[method][1]}, without NaN {np.round(alone, 3).tolist()}")
first, none = [True, False, False, False], [False] * 4
expected = {"fdr_bh": (first, [np.nan] * 4), "holm": (first, [0.04, np.nan, 0.09, 0.09]), "hommel": (none, [np.nan] * 4)}
assert str(seen) == str(expected), "the behaviour has changed"
PYTHON
