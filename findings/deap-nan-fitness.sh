#!/usr/bin/env bash
# deap 1.4.4, numpy 2.4.6, 2026-11-29
# Behaviour: a NaN fitness in the middle of a population hides better individuals from `selBest`: the best two of 1, NaN
# and 2 are 1 and NaN. A hall of fame of two that saw 5, NaN, 1 and 9 holds 9 and NaN.
# One would have guessed: NaN ranks last, so that a failed evaluation is selected last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check deap==1.4.4 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import deap
from deap import base, creator, tools

print("deap", deap.__version__)
creator.create("Highest", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.Highest)


def individuals(values):
    made = [creator.Individual([number]) for number in range(len(values))]
    for individual, value in zip(made, values):
        individual.fitness.values = (value,)
    return made


nan = float("nan")
best = [individual.fitness.values[0] for individual in tools.selBest(individuals([1.0, nan, 2.0]), 2)]
fame = tools.HallOfFame(2)
for individual in individuals([5.0, nan, 1.0, 9.0]):
    fame.update([individual])
famous = [individual.fitness.values[0] for individual in fame]
print("the best two of 1, NaN, 2:", best, "and the hall of fame of 5, NaN, 1, 9:", famous)
assert list(map(str, best)) == ["1.0", "nan"] and list(map(str, famous)) == ["9.0", "nan"], "the behaviour has changed"
PYTHON
