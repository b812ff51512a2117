"""Measures the round trip; the last line is the score. The candidate's own output goes to standard error."""

import json
import math
import os
import sys

TOWNS = [(2, 9), (14, 3), (7, 7), (1, 1), (11, 12), (5, 2), (9, 4), (3, 13), (12, 8), (8, 14), (15, 11), (6, 10)]

result = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from route import route  # noqa: E402

order = [int(i) for i in route(list(TOWNS))]
if sorted(order) != list(range(len(TOWNS))):
    sys.exit(f"no round trip: {order}")
steps = [math.dist(TOWNS[a], TOWNS[b]) for a, b in zip(order, [*order[1:], order[0]], strict=True)]
length = sum(steps)
print(json.dumps({"length": length, "different": min(steps) / max(steps), "fitness": 50 / length}), file=result)
