#!/usr/bin/env bash
# gepa 0.1.4, 2026-11-28
# Behaviour: continuing a run whose budget is spent (the same `run_dir` and `max_metric_calls`) calls the metric for the
# seed on the whole validation set each time, and counts none of these calls: 5 more calls, and still 30 reported.
# One would have guessed: no call, as the stored state has these scores and the budget is spent.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check gepa==0.1.4
"$folder/venv/bin/python" -W ignore - "$folder/run" <<'PYTHON'
import sys
from importlib.metadata import version

import gepa

print("gepa", version("gepa"))
calls = []


class Adapter:
    propose_new_texts = None

    def evaluate(self, batch, candidate, capture_traces=False):
        calls.extend(candidate["prompt"] for _ in batch)
        scores = [len(candidate["prompt"]) / 10 for _ in batch]
        return gepa.EvaluationBatch(outputs=scores, scores=scores, trajectories=[{}] * len(batch))

    def make_reflective_dataset(self, candidate, batch, components):
        return {name: [{"Feedback": "longer"}] for name in components}


class Silent:
    def log(self, *_, **__):
        pass


seen = []
for _ in range(3):
    calls.clear()
    result = gepa.optimize(
        {"prompt": "a"}, trainset=list(range(5)), adapter=Adapter(), max_metric_calls=30, logger=Silent(),
        reflection_lm=lambda _: "```\naa\n```", run_dir=sys.argv[1], reflection_minibatch_size=2,
    )
    seen.append((len(calls), set(calls), result.total_metric_calls))
    print("calls of the metric:", seen[-1][0], "for", sorted(seen[-1][1]), "reported in all:", seen[-1][2])
first, *later = seen
assert all(made == 5 and texts == {"a"} and total == first[2] for made, texts, total in later), "the behaviour has changed"
PYTHON
