#!/usr/bin/env bash
# safetensors 0.8.0, numpy 2.4.6, 2026-11-29
# Behaviour: `safetensors.numpy` writes the memory of an array in its own order and the shape of the view: a transposed
# array, one in Fortran's order and every second column come back with other values, in silence. A tensor of torch that
# is not contiguous is refused.
# One would have guessed: an error, as for torch, or the right values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import safetensors
from safetensors.numpy import load, save

print("safetensors", safetensors.__version__)
table = np.arange(6.0).reshape(2, 3)
arrays = {
    "as made": table,
    "transposed": table.T,
    "Fortran's order": np.asfortranarray(table),
    "every second column": table[:, ::2],
    "transposed, copied": np.ascontiguousarray(table.T),
}
equal = {}
for name, array in arrays.items():
    read = load(save({"a": array}))["a"]
    equal[name] = np.array_equal(read, array)
    print(f"{name}: {array.tolist()} is read as {read.tolist()}")
assert list(equal.values()) == [True, False, False, False, True], "the behaviour has changed"
PYTHON
