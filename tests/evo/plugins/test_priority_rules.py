"""Rules: their language, genetic programming, sets against slow simulators and published figures, a user's own one."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from random import Random

import numpy as np
import pytest
import torch
from support import grammar_words
from support.rows import yaml_rows

from evo.plugins.formulas.grammar import Formula
from evo.plugins.formulas.operator import generate  # scripted:gp
from evo.plugins.rules.binpacking import BIN_PACKING
from evo.plugins.rules.compiled import DELAY, arrays_of, pack_bins, rule_value, run_shops
from evo.plugins.rules.dialect import DIALECT
from evo.plugins.rules.family import FAMILY
from evo.plugins.rules.jobshop import FEATURES, ShopFamily
from evo.plugins.rules.language import MOST_WORDS, QUALITY, encode_rule, read_prompt
from evo.plugins.rules.problem import RuleProblem
from evo.plugins.rules.rule import MOST_RULE_NODES, RULE_FUNCTIONS, parse_rule, rank
from evo.plugins.rules.taillard import read_taillard
from evo.testing import ProblemContract
from problems import BadAddress, ScorerFault, resolve
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import policy_at

RULE_WORDS = DIALECT.vocabulary()


class Queue(RuleProblem):
    """Jobs on one machine: the mean of completion times weighted by 1 and by w."""

    task, seed = "Choose over the features below. Which job comes next on a machine?", "p + 2*w"

    def __init__(self):
        super().__init__("queue", {"p": "time", "w": "weight"}, ("plain", "weighted"))
        self.kinds, self.simulated = ("flow", "other"), 0

    def costs(self, rule, held_out=False):
        self.simulated += 1
        jobs = np.random.default_rng(held_out).uniform(1, 9, (2, 30))
        p, w = jobs[:, np.argsort(rank(rule, jobs), kind="stable")]
        return np.array([np.cumsum(p).mean(), np.average(np.cumsum(p), weights=w)])


@pytest.fixture(scope="module")
def problem():
    return Queue()


def test_a_prompt_shows_the_features_the_kinds_and_the_parent_with_its_costs(problem):
    assert DIALECT.prompt(problem, "", 2) == "of:p,w rule x1 x2 flow other m2"
    shown = DIALECT.prompt(problem, "min(p, 2.0)/0.37", 4)
    words = r"x1 x2 flow other par n0 f:/ n1 f:min n2 x1 n3 2 n4 c\+-1 err e\d+ q\d e\d+ q\d m4"
    assert re.fullmatch(rf"of:p,w=min\(p,2\)/0.37 rule {words}", shown)
    assert set(shown.split()[1:]) <= set(RULE_WORDS)
    best, seed = (DIALECT.prompt(problem, text, 1).split()[-5:-1] for text in ("p/w", problem.seed))
    assert seed == ["e4", "q6", "e4", "q6"] and QUALITY.index(best[2]) > 4
    for unreadable in ("sin(p)", "p + ", " + ".join(["p"] * 17)):
        assert DIALECT.prompt(problem, unreadable, 2) == DIALECT.prompt(problem, "", 2)
    simulated = problem.simulated
    DIALECT.prompt(problem, "p/w", 3), problem.score("p / w")
    assert problem.simulated == simulated


def test_numbers_of_a_rule_make_a_difference(problem):
    prompt = DIALECT.prompt(problem, "0.37*p + 2*w", 1)
    shown = read_prompt(prompt)
    for child, words in (
        ("0.37*p + 3.0*w", "n5 3"),
        ("9.0*p + 2*w", "n2 c+2"),
        ("max(0.37*p, w)", "n0 f:max n1 x2"),
        ("max(0.37, w)", "n0 f:max n2 x2"),
        ("0.37*p + 2*(w + 0.37*p)", "n6 f:+ x2 n1"),
    ):
        assert encode_rule(shown.read(child), shown) == words.split()
        assert DIALECT.write(problem, [child], prompt) == f"> {words}"
        assert [problem.canonical(text) for text in DIALECT.read(f"> {words}", prompt)] == [problem.canonical(child)]
    assert DIALECT.write(problem, ["0.37*p + 15*w"], prompt) == "> n5 c+2"  # as good as 9*w there
    assert DIALECT.write(problem, ["(p + 0.6)/w"], DIALECT.prompt(problem, "p/w", 1)) is None  # 1 is worse
    for unwritten in ("0.37*p + 2*w", "sin(w)", " + ".join(["w"] * 40)):
        assert DIALECT.write(problem, [unwritten], prompt) is None


def test_the_grammar_has_the_functions_and_the_size_of_rules(problem):
    words_after = lambda prompt, chain: grammar_words.words_after(DIALECT, prompt, chain)  # noqa: E731
    fresh = DIALECT.prompt(problem, "", 2)
    assert {"f:min", "f:max", "f:+", "x2", "c+5"} <= words_after(fresh, ">")
    assert not {"f:sin", "f:**", "x3", "x10", "n0", "flow"} & words_after(fresh, ">")
    large = DIALECT.prompt(problem, " + ".join(["p"] * (MOST_RULE_NODES // 2 + 1)), 2)
    assert words_after(large, "> n0 f:+") >= {"x1", "n1"} and "n0" not in words_after(large, "> n0 f:+")
    ids = [grammar_words.ids_of(prompt, RULE_WORDS) for prompt in (fresh, large)]
    grammar, generator = DIALECT.grammar(ids, torch.arange(100) % 2), torch.Generator().manual_seed(0)
    weights = torch.tensor([20.0 if word.startswith("f:") else 1.0 for word in RULE_WORDS])
    written = [[] for _ in range(100)]
    for _ in range(2 * (MOST_WORDS + 2)):
        tokens = torch.multinomial(grammar.allowed() * weights, 1, generator=generator)[:, 0]
        grammar.advance(tokens)
        for words, token in zip(written, tokens.tolist(), strict=True):
            words.append(RULE_WORDS[token])
    for row, words in enumerate(written):
        chain = " ".join(words).partition(" <eos>")[0]
        rules = DIALECT.read(chain, (fresh, large)[row % 2])
        assert len(rules) == 2 and all(parse_rule(rule, problem.names) for rule in rules)


def test_the_policy_of_the_package_writes_as_many_rules_as_it_is_asked_for(problem):
    prompt = DIALECT.prompt(problem, "p/w", 4)
    (group,) = asyncio.run(policy_at("embedded:rules").sample([Prompt(prompt)], rollouts=2, answers=4, seed=0))
    assert all(len(DIALECT.read(rollout.text, prompt)) == 4 for rollout in group)


def test_genetic_programming_gives_different_rules_that_can_be_read(problem):
    assert problem.default_policy == "scripted:gp"
    for shown in ((), ("p/w",), ("p", "max(w, 3)"), (" + ".join(["p"] * 16), "p - w"), ("unreadable",)):
        prompt = Prompt(problem.statement(), shown=shown)
        written = [generate(prompt, "text", 5, bits) for bits in range(80)]
        assert written[0] == generate(prompt, "text", 5, 0)
        for children in written:
            assert len({problem.canonical(child) for child in (*children, *shown)}) == 5 + len(shown)
            assert all(parse_rule(child, problem.names).variables for child in children)
        together = " ".join(child for children in written for child in children)
        assert all(f"{name}" in together for name in ("min(", "max(", "w", "p"))
    with pytest.raises(PolicyUnavailable, match="formulas and rules only"):
        generate(Prompt("Write a poem."), "text", 1, 0)


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


FILE = """
import numpy as np
features = {"work": "hours of work", "value": "what it is worth"}
families = {"few": [[(1, 2), (3, 4)]], "many": [[(3, 1), (2, 5), (1, 1)], [(5, 1), (4, 8)]]}
held_out = {"few": [[(9, 1)]], "many": [[(1, 1), (2, 3)]]}
def simulate(rule, instance):
    work, value = np.array(instance).T
    order = np.argsort(rule(work, value))
    return float((np.cumsum(work[order]) * value[order]).sum())
"""


@pytest.fixture
def opened(tmp_path):
    """The problem in a file that differs from FILE by replacements."""

    def write(*changes):
        text = FILE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "mine.py"
        path.write_text(text)
        (problem,) = resolve(str(path))
        return problem

    return write


def test_costs_are_the_means_of_families_and_lower_is_better(opened):
    problem = opened()
    assert problem.names == ("work", "value") and problem.objectives == ("few", "many")
    assert problem.seed_answer() == "work" and set(problem.directions.values()) == {"min"}
    smith = problem.score("(work / value)")
    assert smith.values == (18.0, (19.0 + 41.0) / 2) and smith.features == {"size": 3.0}
    assert smith.fitness > problem.score("work").fitness == 0.5 > problem.score("-work/value").fitness
    assert problem.score_held_out("work/value").values == (9.0, 9.0)
    assert problem.score(problem.random_answer(Random(1))).error is None
    assert problem.canonical("```\nwork/value\n```") == problem.canonical("work / value")
    assert problem.picture("work + (value + (work - value)) + 0") == "simplified: 2*work"
    assert problem.picture("work / value") == problem.picture("work /") == "", "nothing is shorter, or no rule"
    stated = problem.statement()
    assert "  value: what it is worth\n" in stated and "Lower is better in few, many." in stated


CONSUMING = """
features = {"hours": "of work", "weight": "price of an hour"}
jobs = [(2, 1), (1, 3)]
families = {"calm": [jobs, jobs], "rush": [[(4, 1), (1, 1)]], "all": [jobs, [(4, 1), (1, 1)]]}
held_out = {"calm": [jobs], "rush": [jobs], "all": [jobs]}
def simulate(rule, jobs):
    now = cost = 0
    while jobs:
        hours, weight = jobs.pop(min(range(len(jobs)), key=lambda job: rule(*jobs[job])))
        now += hours
        cost += weight * now
    return cost
"""


def test_a_simulator_may_change_an_instance_that_stands_in_two_families(tmp_path):
    path = tmp_path / "consuming.py"
    path.write_text(CONSUMING)
    (problem,) = resolve(str(path))
    # by hours: 3*1 + 1*3 = 6 for jobs, 1*1 + 1*5 = 6; by -hours: 1*2 + 3*3 = 11, 1*4 + 1*5 = 9
    assert problem.score("hours").values == (6.0, 6.0, 6.0)
    assert problem.score("-hours").values == (11.0, 9.0, 10.0)
    assert problem.score_held_out("-hours").values == (11.0, 11.0, 11.0)


def test_an_instance_that_cannot_be_copied_stands_once(tmp_path):
    path = tmp_path / "generators.py"
    once = CONSUMING.replace("jobs = [(2, 1), (1, 3)]", "source = (job for job in [(2, 1), (1, 3)])")
    once = once.replace("def simulate(rule, jobs):", "def simulate(rule, jobs):\n    jobs = list(jobs)")
    once = once[: once.index("families")] + "families = {FAMILIES}\n" + once[once.index("def simulate") :]
    path.write_text(once.replace("FAMILIES", '"calm": [source]'))
    (problem,) = resolve(str(path))
    assert problem.score("hours").values == (6.0,)
    path.write_text(once.replace("FAMILIES", '"calm": [source], "all": [source]'))
    with pytest.raises(
        ScorerFault, match="families holds .* twice, and it cannot be copied .*make an instance for each"
    ):
        resolve(str(path))[0].score("hours")


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (("held_out = ", "heldout = "), "held_out"),
        (("import numpy", "targets = 3\nimport numpy"), "target"),
        (("import numpy", "weight = [1, 2]\nimport numpy"), "weights"),
        (("import numpy", "tasks = 'Sort.'\nimport numpy"), "task"),
    ],
)
def test_a_misspelt_declaration_is_refused(opened, change, near):
    with pytest.raises(BadAddress, match=rf"nothing reads \w+; did you mean {near}\?$"):
        opened(change)
    assert opened(("import numpy", "best = due_date = kinds = weighting = 3\nimport numpy")).fault is None


def test_what_is_no_rule_fails_and_what_is_no_simulator_is_told(opened, tmp_path):
    score = opened().score("work + weight")
    assert score.error.startswith("there is no variable 'weight'; there is work, value") and score.fitness == 0.0
    with pytest.raises(BadAddress, match=r"did you mean .*/mine\.py"):
        resolve(str(tmp_path))
    problem = opened(("def simulate", "def score(answer):\n    return 1.0\ndef simulate"))
    assert problem.objectives == ("score",), "a file that defines score stays a scorer file"


def test_a_rule_is_called_with_arrays_or_numbers_by_place_or_by_name(opened):
    expected = opened().score("work - value").values
    for call in ("rule(value=value, work=work)", "[rule(w, value=v) for w, v in instance]", "rule(work - value, 0)"):
        assert opened(("rule(work, value)", call)).score("work - value").values == expected, call


def test_costs_by_name_and_one_list(opened):
    by_name = ("return float(", "return {'late': len(instance), 'sum': 0.5} if True else float(")
    assert opened(by_name).objectives == ("few late", "few sum", "many late", "many sum")
    one_list = ("families = {", "families = [[(1, 2)], [(2, 3)]]\nheld = {"), ("held_out = ", "held_back = ")
    assert opened(by_name, *one_list).objectives == ("late", "sum")
    problem = opened(*one_list)
    assert problem.objectives == ("cost",) and problem.score("work").values == (4.0,)


@pytest.mark.parametrize(("change", "says"), yaml_rows(__file__, "a_fault_of_the_file_is_one_line_that_says_where"))
def test_a_fault_of_the_file_is_one_line_that_says_where(opened, change, says):
    problem = opened(change)
    with pytest.raises(ScorerFault, match=says) as fault:
        problem.score("work")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("change", "says"), yaml_rows(__file__, "a_file_that_lacks_a_name_is_refused_in_one_line"))
def test_a_file_that_lacks_a_name_is_refused_in_one_line(opened, change, says):
    with pytest.raises(BadAddress, match=says) as refused:
        opened(change)
    assert "\n" not in str(refused.value)
