"""Coverage and power of paired differences, by simulation. bench/coverage.py has the scenarios, and runs more."""

import numpy as np
import pytest
from support.rows import yaml_rows

from bench.coverage import PROBLEMS, SCENARIOS, better, measure, measure_mean, rates
from evo.comparison.summary import describe_detectable
from evo.stats.differences import detectable, fewest_pairs, paired_difference, sign_flips

LEAST = 0.94
FEWEST_KNOWN = 0.2
"""Where fewer comparisons have an interval, their number is too small to say how often these hold the truth."""


def slack(runs):
    """A true coverage of LEAST falls this far below it once in some two hundred cases."""
    return 2.6 * (LEAST * (1 - LEAST) / runs) ** 0.5


@pytest.mark.parametrize("name", SCENARIOS)
def test_intervals_hold_the_truth_and_no_difference_is_called_one(name, runs=120, problems=(8,), seeds=(1, 3)):
    truth = SCENARIOS[name][1]
    for count in problems:
        for several in seeds:
            covered, shown, known = measure(name, count, several, runs, seed=3)
            if known >= FEWEST_KNOWN:
                assert covered >= LEAST - slack(runs * known), (count, several)
            assert truth or shown <= 1 - LEAST + slack(runs), (count, several)


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_for_more_problems_and_seeds(name):
    test_intervals_hold_the_truth_and_no_difference_is_called_one(name, 240, PROBLEMS, (1, 3, 5))


def test_means_of_skewed_values_are_covered_from_eight_problems_on():
    assert min(measure_mean(problems, 1_000, seed=1) for problems in PROBLEMS) >= LEAST - slack(1_000)


@pytest.mark.parametrize(
    ("base", "gain", "problems", "seeds"), [(0.3, 0.4, 10, 3), (0.1, 0.2, 20, 3), (0.3, 0.4, 12, 1)]
)
def test_rates_are_shown_nearly_as_often_as_by_the_exact_test(base, gain, problems, seeds):
    """The earlier padding of a whole problem showed the first in 39% of comparisons, the exact test in 79%."""
    rng = np.random.default_rng(5)
    shown = exact = 0
    for _ in range(200):
        first, second = better(rng, problems, seeds, base, gain)
        shown += paired_difference(first, second, rate=True).shown
        exact += sign_flips(first.mean(axis=1) - second.mean(axis=1))[2] <= 0.05
    assert exact - 0.06 * 200 <= shown <= exact and problems >= fewest_pairs()


@pytest.mark.parametrize(("problems", "seeds"), [(8, 1), (12, 3), (40, 1)])
def test_the_difference_that_a_comparison_can_show_is_shown_in_four_of_five(problems, seeds):
    gain, rng = detectable(problems, seeds), np.random.default_rng(2)
    found = [paired_difference(*rates(rng, problems, seeds, 0.5 - gain / 2, gain), rate=True) for _ in range(150)]
    assert 0.68 <= np.mean([one.shown for one in found]) <= 0.92
    assert detectable(problems, seeds, 3) > gain > detectable(2 * problems, seeds) and detectable(5, seeds) is None


@pytest.mark.parametrize(("size", "told"), yaml_rows(__file__, "a_comparison_says_before_it_starts_what_it_can_show"))
def test_a_comparison_says_before_it_starts_what_it_can_show(size, told):
    assert describe_detectable(*size).startswith(told)
