#!/usr/bin/env bash
# gepa 0.1.4, 2026-11-28
# Behaviour: `max_metric_calls=7` makes 18 calls: the budget is looked at between iterations only, and an iteration
# that is accepted calls the metric for two minibatches and the whole validation set.
# One would have guessed: at most one call beyond the budget.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check gepa==0.1.4
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import gepa

print("gepa", version("gepa"))
calls = []


class Adapter:
    propose_new_texts = None

    def evaluate(self, batch, candidate, capture_traces=False):
        calls.extend(batch)
        scores = [len(candidate["prompt"]) / 10] * len(batch)
        return gepa.EvaluationBatch(outputs=scores, scores=scores, trajectories=[{}] * len(batch))

    def make_reflective_dataset(self, candidate, batch, components):
        return {name: [{"Feedback": "longer"}] for name in components}


class Silent:
    def log(self, *_, **__):
        pass


result = gepa.optimize(
    {"prompt": "a"}, trainset=list(range(6)), adapter=Adapter(), max_metric_calls=7, logger=Silent(),
    reflection_lm=lambda _: "```\naaa\n```",
)
print("budget 7, calls of the metric:", len(calls), "scores:", result.val_aggregate_scores)
assert len(calls) == 18 and len(result.candidates) == 2, "the behaviour has changed"
PYTHON
