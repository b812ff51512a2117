#!/usr/bin/env bash
# optuna 5.0.0, 2026-11-28
# Behaviour: an objective that returns a number as text ("3.5", as read from a command's output) ends the study with
# `AssertionError: Should not reach.`, also with `catch=(Exception,)`, and its trial stays RUNNING in the storage. `tell`
# of the same text raises a TypeError.
# One would have guessed: 3.5, as a value has to be castable to float, or a failed trial, as for "abc".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check optuna==5.0.0
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import optuna

print("optuna", version("optuna"))
optuna.logging.set_verbosity(optuna.logging.CRITICAL)
seen = []
for text in ("3.5", "abc"):
    study = optuna.create_study()
    try:
        study.optimize(lambda trial, text=text: text, n_trials=1, catch=(Exception,))
        end = "no error"
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
    seen.append((end, study.trials[0].state.name))
    print(repr(text), *seen[-1])
try:
    study.tell(study.ask(), "3.5")
except Exception as error:
    seen.append(type(error).__name__)
    print("tell:", seen[-1])
broken, failed, told = seen
assert broken == ("AssertionError: Should not reach.", "RUNNING"), "the behaviour has changed"
assert failed == ("no error", "FAIL") and told == "TypeError", "the behaviour has changed"
PYTHON
