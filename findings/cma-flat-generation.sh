#!/usr/bin/env bash
# cma 4.5.0, numpy 2.4.6, 2026-11-28
# Behaviour: CMA-ES stops after its first generation if all values of that generation are equal, and names `tolfun`.
# A plateau at the start, as of a score that counts solved cases, ends the search at once.
# One would have guessed: it goes on for some generations, and stops by `tolflatfitness`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import cma

print("cma", cma.__version__)
search = cma.CMAEvolutionStrategy([1.0] * 3, 0.5, {"seed": 1, "verbose": -9})
search.tell(search.ask(), [1.0] * search.popsize)
print("after one flat generation, stop() is", search.stop())
assert set(search.stop()) == {"tolfun"}, "the behaviour has changed"
uneven = cma.CMAEvolutionStrategy([1.0] * 3, 0.5, {"seed": 1, "verbose": -9})
uneven.tell(uneven.ask(), [1.0] * (uneven.popsize - 1) + [2.0])
print("after one with a single other value, it is", uneven.stop())
assert not uneven.stop(), "the behaviour has changed"
PYTHON
