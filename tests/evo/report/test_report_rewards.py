"""What a picture of reward space draws of many vectors."""

import numpy as np

from evo.report.charts import GRID, MOST_PLACES, drawn_places
from vpo.metrics import pareto_mask


def test_few_places_are_all_drawn_with_their_counts():
    points = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.2, 0.2]])
    places, often, front = drawn_places(points, np.array([1, 2, 3, 4]))
    assert places.tolist() == [[0.0, 1.0], [0.2, 0.2], [0.5, 0.5]]
    assert often.tolist() == [2, 4, 4]
    assert front.tolist() == [True, False, True]


def test_of_many_places_a_bounded_number_is_drawn_and_no_count_is_lost():
    rng = np.random.default_rng(0)
    inside = rng.random((30 * MOST_PLACES, 2)) * 0.5
    along = np.sort(rng.random(50))
    points = np.concatenate([inside, np.stack([along, 1.5 - along], axis=1)])
    counts = rng.integers(1, 5, len(points))
    places, often, front = drawn_places(points, counts)
    assert len(places) <= 2 * GRID**2
    assert often.sum() == counts.sum()
    kept, whole = {tuple(place) for place in places}, {tuple(point) for point in points}
    assert kept <= whole
    assert {tuple(place) for place in places[front]} <= {tuple(p) for p in points[pareto_mask(points)]}
    assert front.sum() >= 40  # a front's members that lie apart are all there


def test_a_million_places_on_one_line_are_bounded_too():
    along = np.linspace(0, 1, 50_000)
    places, often, front = drawn_places(np.stack([along, -along], axis=1), np.ones(50_000, dtype=int))
    assert len(places) <= 2 * GRID
    assert front.all()
    assert often.sum() == 50_000
