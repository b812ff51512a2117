#!/usr/bin/env bash
# nevergrad 1.0.12, hyperopt 0.3.0, numpy 2.4.6, 2026-11-29
# Behaviour: integers are rounded floats of the given range, so both ends come half as often as the others
# (`Scalar(lower=0, upper=3).set_integer_casting()`, `hp.quniform(0, 3, 1)`), and a step can leave
# the range: `hp.quniform(0, 11, 4)` gives 12. hyperopt's page on search spaces has the formula.
# One would have guessed: each integer of the range is as likely, and none lies outside.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check nevergrad==1.0.12 hyperopt==0.3.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
from collections import Counter
from importlib.metadata import version

import nevergrad
import numpy as np
from hyperopt import hp
from hyperopt.pyll.stochastic import sample

print("nevergrad", nevergrad.__version__, "hyperopt", version("hyperopt"))
scalar = nevergrad.p.Scalar(lower=0, upper=3).set_integer_casting()
scalar.random_state.seed(1)
search = nevergrad.optimizers.RandomSearch(scalar, budget=2000)
drawn = {"nevergrad": [search.ask().value for _ in range(2000)]}
random = np.random.default_rng(1)
spaces = {"quniform": hp.quniform("x", 0, 3, 1), "by four": hp.quniform("x", 0, 11, 4)}
for name, space in spaces.items():
    drawn[name] = [int(sample(space, rng=random)) for _ in range(2000)]
counts = {name: dict(sorted(Counter(values).items())) for name, values in drawn.items()}
print(counts)
assert list(counts.pop("by four")) == [0, 4, 8, 12], "the behaviour has changed"
for count in counts.values():
    assert 0.4 < (count[0] + count[3]) / (count[1] + count[2]) < 0.6, "the behaviour has changed"
PYTHON
