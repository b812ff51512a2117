#!/usr/bin/env bash
# PuLP 3.3.2, 2026-11-29
# Behaviour: `load += x` changes an expression in place, and with it each constraint that was made from it before: a
# running sum that is bounded step by step gives every step the sum of all steps, and the optimum is another.
# `load = load + x` gives the steps their own sums.
# One would have guessed: `load <= 5` copies the expression, as highspy and OR-Tools do.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check PuLP==3.3.2
"$folder/venv/bin/python" - <<'PYTHON'
import pulp

print("PuLP", pulp.__version__)


def best(add):
    problem = pulp.LpProblem("days", pulp.LpMaximize)
    made = [pulp.LpVariable(f"day{day}", 0, 10) for day in range(3)]
    problem += made[2]
    load = pulp.LpAffineExpression()
    for day, variable in enumerate(made):
        load = add(load, variable)
        problem += load <= 2 * (day + 1)
    problem.solve(pulp.PULP_CBC_CMD(msg=0))
    print("bounds:", "; ".join(map(str, problem.constraints.values())))
    return pulp.value(problem.objective)


def in_place(load, variable):
    load += variable
    return load


seen = best(in_place), best(lambda load, variable: load + variable)
print("most on the last day: with +=", seen[0], "with a new expression", seen[1])
assert seen == (2.0, 6.0), "the behaviour has changed"
PYTHON
