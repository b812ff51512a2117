"""Which order does a repair shop with two benches take next? The best rule depends on the day.

evo run examples/rules/shop.py             # one rule for all days
evo run examples/rules/shop.py --set 3     # three rules, and each day takes the best of them
"""

import numpy as np

task = "When a bench of a repair shop is free, the rule says which of the waiting orders it takes."
features = {
    "work": "hours of work",
    "left": "hours until it is due; below 0 it is late",
    "wait": "hours since it came in",
    "value": "what the customer pays, 1 to 9",
}
seed_answer = "-wait"  # first come, first served
ORDERS = 40


def day(kind, seed):
    """An instance: the kind of day; when orders come, their work, due times and values; the hours of power cuts."""
    draw = np.random.default_rng(seed)
    come = np.cumsum(draw.exponential({"calm": 1.2, "rush": 0.6, "breakdowns": 1.2}[kind], ORDERS))
    work = draw.exponential(2, ORDERS) + 0.2
    due, cuts = come + work + draw.exponential(8, ORDERS), np.cumsum(draw.exponential(6, 200))
    return kind, come, work, due, draw.integers(1, 10, ORDERS), cuts


kinds = ("calm", "rush", "breakdowns")
families = {kind: [day(kind, seed) for seed in range(8)] for kind in kinds}
held_out = {kind: [day(kind, seed) for seed in range(100, 108)] for kind in kinds}


def simulate(rule, instance):
    """Calm: hours of lateness, times the value. Rush: the value of the customers who leave after 5 hours.
    Breakdowns: hours in the shop, where a power cut makes the order on the bench start again."""
    kind, come, work, due, value, cuts = instance
    free, waiting, cost = [0.0, 0.0], np.ones(ORDERS, bool), 0.0
    while waiting.any():
        bench = int(free[1] < free[0])
        now = max(free[bench], come[waiting].min())
        if kind == "rush":
            gone = waiting & (come + 5 < now)
            cost, waiting = cost + value[gone].sum(), waiting & ~gone
        here = np.flatnonzero(waiting & (come <= now))
        if not len(here):
            continue
        order = here[np.argmin(rule(work[here], due[here] - now, now - come[here], value[here]))]
        waiting[order] = False
        end = now + work[order]
        if kind == "breakdowns":
            while (cut := cuts[np.searchsorted(cuts, now, "right")]) < end:
                now, end = cut, cut + work[order]
            cost += end - come[order]
        if kind == "calm":
            cost += value[order] * max(0.0, end - due[order])
        free[bench] = end
    return cost / ORDERS
