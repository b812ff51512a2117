"""The sets of rules: schedules and bins against slow ones, published figures, and what the families promise."""

import subprocess
import sys

import numpy as np
import pytest

from evo.plugins.formulas.grammar import Formula
from evo.plugins.rules.binpacking import BIN_PACKING
from evo.plugins.rules.compiled import DELAY, arrays_of, pack_bins, rule_value, run_shops
from evo.plugins.rules.family import FAMILY
from evo.plugins.rules.jobshop import FEATURES, ShopFamily
from evo.plugins.rules.rule import RULE_FUNCTIONS, parse_rule, rank
from evo.plugins.rules.taillard import read_taillard
from evo.testing import ProblemContract
from problems import BadAddress, resolve

NAMES = tuple(FEATURES)
RULES = ("p", "left - rest + 100*(queue - next)", "load/(wait + 1) - idle*ops", "-rest", "idle/0 - p", "log(-p)")


class TestJobShops(ProblemContract):
    answers = ("p/(rest + 1)", "p + 1000000*idle", "1/(p - p)", "p + q")

    def problem(self):
        return resolve("rules:jobshop-train")[0]


class TestBins(ProblemContract):
    answers = ("room", "after - count", "log(room - capacity)", "-room")

    def problem(self):
        return resolve("rules:binpacking-train/1")[0]


def draw_rule(rng, depth=4):
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.2:
            return Formula((101,), (float(rng.integers(-3, 4)),))
        return Formula((1000 + int(rng.integers(len(NAMES))),))
    code = int(rng.choice(RULE_FUNCTIONS))
    parts = [draw_rule(rng, depth - 1) for _ in range(2 if code < 5 or code > 20 else 1)]
    return Formula(sum((part.codes for part in parts), ()) + (code,), sum((part.values for part in parts), ()))


def measure_textbook(problem):
    """The costs (families, instances) of each textbook rule, by its name."""
    rules = {name: parse_rule(text, problem.names) for name, text in problem.textbook.items()}
    return {name: problem.instance_costs(rule) for name, rule in rules.items()}


def test_compiled_values_are_those_of_the_grammar():
    rng = np.random.default_rng(0)
    features = rng.integers(-4, 5, (len(NAMES), 20)).astype(float)
    kinds = set()
    for _ in range(400):
        rule = draw_rule(rng)
        codes, numbers = arrays_of(rule)
        values = [rule_value(codes, numbers, np.ascontiguousarray(x), np.empty(len(codes))) for x in features.T]
        expected = rank(rule, features)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        kinds |= {"infinite" if np.isinf(one) else "finite" for one in expected} | set(rule.codes)
    assert kinds >= {"infinite", "finite", *RULE_FUNCTIONS}


def schedule(rule, times, machines, release, due):
    """Makespan, mean flow time and mean tardiness of one job shop; everything is counted again at every step."""
    jobs, operations = times.shape
    done, ready, free = [0] * jobs, list(release), dict.fromkeys(range(operations), 0.0)
    seen = -1.0
    for _ in range(jobs * operations):
        open_jobs = [j for j in range(jobs) if done[j] < operations]
        on = {j: machines[j, done[j]] for j in open_jobs}
        begin = {j: max(ready[j], free[on[j]]) for j in open_jobs}
        soonest = min(open_jobs, key=lambda j: begin[j] + times[j, done[j]])
        end, machine = begin[soonest] + times[soonest, done[soonest]], on[soonest]
        now = min(begin[j] for j in open_jobs if on[j] == machine)
        seen = max(seen, now)
        arrived = [j for j in open_jobs if release[j] <= seen]
        able = [j for j in open_jobs if on[j] == machine and release[j] <= now]
        able = [j for j in able if begin[j] <= now + DELAY * (end - now) + 1e-9]
        features = []
        for j in able:
            k = done[j]
            later = times[j, k + 1 :]
            queue = sum(times[i, done[i]] for i in arrived if k + 1 < operations and on[i] == machines[j, k + 1])
            load = sum(times[i, k] for i in arrived for k in range(done[i], operations) if machines[i, k] == machine)
            first = later[0] if len(later) else 0
            state = (max(0, now - ready[j]), due[j] - now, load, begin[j] - now)
            features.append((times[j, k], later.sum(), len(later), first, queue, *state))
        chosen = able[int(np.argmin(rank(rule, np.array(features, float).T)))]
        ready[chosen] = free[machine] = begin[chosen] + times[chosen, done[chosen]]
        done[chosen] += 1
    ends = np.array(ready)
    return ends.max(), (ends - release).mean(), np.maximum(0, ends - due).mean()


@pytest.mark.parametrize("busy", [0.0, 1.2])
def test_schedules_are_those_of_a_slow_simulator(busy):
    family = ShopFamily("", "", "", 2, [(9, 5)], busy, (1, 2), slow=2, halves=bool(busy))
    (shops,) = family.draw(np.random.default_rng(1), 4)
    told = set()
    for text in RULES:
        rule = parse_rule(text, NAMES)
        found = run_shops(*arrays_of(rule), shops.times, shops.machines, shops.release, shops.due)
        shop_by_shop = zip(shops.times, shops.machines, shops.release, shops.due, strict=True)
        np.testing.assert_allclose(found, [schedule(rule, *one) for one in shop_by_shop])
        told.add(found.tobytes())
    assert len(told) >= len(RULES) - 1


@pytest.fixture(scope="module")
def taillard():
    return measure_textbook(resolve("rules:taillard")[0])


@pytest.mark.parametrize(
    "name, excess", [("SPT", 27.5), ("LPT", 43.1), ("MWKR", 19.6), ("MOPNR", 19.7), ("p/(rest+1)", 14.7)]
)
def test_rules_without_delay_give_on_taillards_instances_what_was_measured_elsewhere(taillard, name, excess):
    assert taillard[name].shape == (8, 10) and round(taillard[name].mean(), 1) == excess


def test_the_first_job_of_ta01_is_the_published_one():
    shops = read_taillard()[0].shops
    assert shops.times[0, 0].tolist() == [94, 66, 10, 53, 26, 15, 65, 82, 10, 27, 93, 92, 96, 70, 83]
    assert shops.machines[0, 0].tolist() == [6, 12, 4, 7, 3, 2, 10, 11, 8, 14, 9, 13, 5, 0, 1]


def test_no_textbook_rule_is_best_in_more_than_two_of_the_six_families():
    problem = resolve("rules:jobshop-test/0")[0]
    table = {name: costs.mean(1) for name, costs in measure_textbook(problem).items() if ", " not in name}
    best = [min(table, key=lambda name: table[name][place]) for place in range(len(problem.objectives))]
    assert max(map(best.count, best)) <= 2 and len(problem.kinds) == 6
    assert problem.known_answers(0)[0] != problem.textbook["SPT"]


def fill(items, capacity, value):
    """Bins filled when each item goes where `value` of (the bins' rooms, a bin's room) is least, the fullest first."""
    rooms = []
    for item in items:
        fit = sorted({room for room in [*rooms, capacity] if room >= item})
        room = min(fit, key=lambda room: value(rooms, room, item))
        if room < capacity:
            rooms.remove(room)
        rooms.append(room - item)
    return len(rooms)


def count_squares(rooms, room, item):
    """The sum over rooms of the squared number of bins that are neither full nor empty, after the item."""
    after = [*rooms, room - item]
    if room in rooms:
        after.remove(room)
    return sum(after.count(one) ** 2 for one in set(after) - {0})


@pytest.mark.parametrize(
    "name, value", [("best fit", lambda rooms, room, item: room), ("sum of squares", count_squares)]
)
def test_bins_are_those_of_a_slow_simulator(name, value):
    items = np.random.default_rng(2).integers(1, 12, (6, 60))
    rule = parse_rule(BIN_PACKING.textbook[name], tuple(BIN_PACKING.about))
    assert pack_bins(*arrays_of(rule), items, 15).tolist() == [fill(row.tolist(), 15, value) for row in items]


def test_sum_of_squares_is_ahead_on_long_rows_of_weibull_items():
    problem = resolve("rules:binpacking/0")[0]
    costs = {name: costs.mean(1)[-2] for name, costs in measure_textbook(problem).items()}
    assert costs["best fit"] == pytest.approx(4.16, abs=0.3)
    assert costs["sum of squares"] == pytest.approx(0.59, abs=0.15)


def test_sets_indices_and_held_out_instances_have_seeds_of_their_own():
    problems = [*resolve("rules:jobshop-train/0-3"), *resolve("rules:jobshop/0-1"), resolve("rules:makespan")[0]]
    drawn = {p.instances[held_out][0][0].times.tobytes() for p in problems for held_out in (False, True)}
    assert len(drawn) == 2 * len(problems) == len({p.fingerprint() for p in problems}) * 2
    one, same = resolve("rules:jobshop/0")[0], resolve("rules:jobshop/0")[0]
    assert one is not same and one.fingerprint() == same.fingerprint()
    assert one.score_held_out("p").values != one.score("p").values


@pytest.mark.parametrize("rest, part", [("jobshp", "mean rules:jobshop"), ("makespan/10", "rules:makespan/9 do")])
def test_what_names_no_problem_is_answered_in_one_line(rest, part):
    with pytest.raises(BadAddress, match=part):
        resolve(f"rules:{rest}")


def test_without_numba_one_line_says_what_to_install():
    code = "import sys; sys.modules['numba'] = None; from evo.cli import main; main(['problems', 'rules:jobshop/0'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1 and "evo-search[rules]" in ran.stderr


def test_the_list_of_sets_names_the_objectives_of_the_first_problem():
    for row in FAMILY.sets():
        assert tuple(row.objectives) == resolve(row.name, 1)[0].objectives
