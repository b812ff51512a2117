"""Simulators that run as machine code: numba compiles each once, and keeps it next to this file.

A rule comes in as the arrays that `arrays_of` makes. Of what waits the smallest value goes first; on equal values what
is looked at first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.grammar import Formula
from problems.contract import BadAddress

try:
    from numba import njit
except ImportError:
    raise BadAddress("the problems rules: need numba: pip install 'evo-search[rules]'") from None

Integers = npt.NDArray[np.int64]
DELAY = 0.3
"""Of schedules: the share of the time until the first end in which the next operation of a machine begins."""
_compiled = njit(cache=True, nogil=True, error_model="numpy")
_VARIABLE, _NUMBER = g.VARIABLE, g.CONSTANT
_ADD, _SUB, _MUL, _DIV, _MIN, _MAX = g.ADD, g.SUB, g.MUL, g.DIV, g.MIN, g.MAX
_NEG, _SQUARE, _SQRT, _EXP, _LOG = g.NEG, g.SQUARE, g.SQRT, g.EXP, g.LOG


def arrays_of(rule: Formula) -> tuple[Integers, Reals]:
    """The codes and the numbers of a rule."""
    return np.array(rule.codes, np.int64), np.array(rule.values, np.float64)


@_compiled
def rule_value(codes: Integers, numbers: Reals, features: Reals, stack: Reals) -> float:
    """The value of a rule, +inf if it is not a number. stack: room for as many numbers as the rule has nodes"""
    top, number = -1, 0
    for code in codes:
        if code >= _VARIABLE:
            top += 1
            stack[top] = features[code - _VARIABLE]
        elif code >= _NUMBER:
            top += 1
            stack[top] = numbers[number]
            number += 1
        elif code <= _DIV or code >= _MIN:
            b = stack[top]
            top -= 1
            a = stack[top]
            if code == _ADD:
                a += b
            elif code == _SUB:
                a -= b
            elif code == _MUL:
                a *= b
            elif code == _DIV:
                a /= b
            elif code == _MIN:
                a = a if a <= b or a != a else b
            else:
                a = a if a >= b or a != a else b
            stack[top] = a
        else:
            a = stack[top]
            if code == _NEG:
                a = -a
            elif code == _SQUARE:
                a *= a
            elif code == _SQRT:
                a = np.sqrt(a)
            elif code == _EXP:
                a = np.exp(a)
            elif code == _LOG:
                a = np.log(a)
            else:
                a = abs(a)
            stack[top] = a
    return np.inf if stack[0] != stack[0] else stack[0]


@_compiled
def run_shops(codes: Integers, numbers: Reals, times: Reals, machines: Integers, release: Reals, due: Reals) -> Reals:
    """(n, 3) the makespan, mean flow time and mean tardiness of n job shops under a rule.

    times, machines: (n, jobs, operations) in the order of processing; release, due: (n, jobs), release ascending
    The schedules are hybrid (Bierwirth and Mattfeld 1999): the operation that can end first tells the machine, and the
    rule chooses among those of its operations that can begin in the first DELAY of the time until then.
    """
    shops, jobs, operations = times.shape
    results = np.zeros((shops, 3))
    stack, x = np.empty(len(codes)), np.empty(9)
    waiting = np.empty(jobs, np.int64)
    for shop in range(shops):
        time, route, arrive = times[shop], machines[shop], release[shop]
        step, on = np.zeros(jobs, np.int64), route[:, 0].copy()
        ready, begin, end, rest = arrive.copy(), arrive.copy(), arrive + time[:, 0], time.sum(1)
        free, load, queue = np.zeros(operations), np.zeros(operations), np.zeros(operations)
        entered = 0
        for _ in range(jobs * operations):
            soonest, machine = np.inf, -1
            for job in range(jobs):
                if end[job] < soonest:
                    soonest, machine = end[job], on[job]
            now = soonest
            for job in range(jobs):
                if on[job] == machine and begin[job] < now:
                    now = begin[job]
            while entered < jobs and arrive[entered] <= now:
                queue[on[entered]] += time[entered, 0]
                for k in range(operations):
                    load[route[entered, k]] += time[entered, k]
                entered += 1
            latest, count = now + DELAY * (soonest - now) + 1e-9, 0
            for job in range(entered):
                if on[job] == machine and begin[job] <= latest and arrive[job] <= now:
                    waiting[count] = job
                    count += 1
            chosen, least = waiting[0], np.inf
            for place in range(count if count > 1 else 0):
                job = waiting[place]
                k = step[job]
                x[0], x[1], x[2] = time[job, k], rest[job] - time[job, k], operations - 1 - k
                x[3] = x[4] = 0.0
                if k + 1 < operations:
                    x[3], x[4] = time[job, k + 1], queue[route[job, k + 1]]
                x[5], x[6] = max(0.0, now - ready[job]), due[shop, job] - now
                x[7], x[8] = load[machine], begin[job] - now
                value = rule_value(codes, numbers, x, stack)
                if value < least:
                    chosen, least = job, value
            k, needs, done = step[chosen], time[chosen, step[chosen]], end[chosen]
            free[machine] = done
            for job in range(jobs):
                if on[job] == machine and begin[job] < done:
                    begin[job], end[job] = done, done + time[job, step[job]]
            rest[chosen] -= needs
            load[machine] -= needs
            queue[machine] -= needs
            step[chosen] = k + 1
            if k + 1 < operations:
                then, needs = route[chosen, k + 1], time[chosen, k + 1]
                queue[then] += needs
                on[chosen], ready[chosen], begin[chosen] = then, done, max(done, free[then])
                end[chosen] = begin[chosen] + needs
            else:
                on[chosen], end[chosen] = -1, np.inf
                results[shop, 0] = max(results[shop, 0], done)
                results[shop, 1] += (done - arrive[chosen]) / jobs
                results[shop, 2] += max(0.0, done - due[shop, chosen]) / jobs
    return results


@_compiled
def pack_bins(codes: Integers, numbers: Reals, items: Integers, capacity: int) -> Integers:
    """(n,) the bins that a rule fills. items: (n, length), each of n instances in the order in which they come"""
    instances, length = items.shape
    bins = np.zeros(instances, np.int64)
    stack, x = np.empty(len(codes)), np.empty(6)
    x[5] = capacity
    for instance in range(instances):
        # bins by their room; neither full bins nor empty ones are counted
        count = np.zeros(capacity + 1, np.int64)
        for seen in range(length):
            item = items[instance, seen]
            chosen, least = -1, np.inf
            for room in range(item, capacity + 1):
                if count[room] > 0 or room == capacity:
                    x[0], x[1], x[2], x[3], x[4] = room, count[room], count[room - item], item, seen
                    value = rule_value(codes, numbers, x, stack)
                    if chosen < 0 or value < least:
                        chosen, least = room, value
            if chosen == capacity:
                bins[instance] += 1
            else:
                count[chosen] -= 1
            if chosen > item:
                count[chosen - item] += 1
    return bins
