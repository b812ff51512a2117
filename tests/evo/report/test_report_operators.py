"""The page's tables of operators say what the comparison's figures say."""

from evo.comparison.load import gather
from evo.comparison.operators import intervals, load_operators, refinement_differences
from evo.report.cells import NONE
from islands.store import Store


def test_every_rate_stands_there_with_its_interval(made, finished):
    report, _ = finished
    with Store.open(made, read_only=True) as store:
        operators = load_operators(store, gather(store, "made-up"))
    assert report.arms.operators is not None
    titles = [column.title for column in report.arms.operators.columns]
    for row, (arm, (one,)) in zip(report.arms.operators.rows, operators.items(), strict=True):
        known, cells = intervals(one, crossed_seeds=False), dict(zip(titles, row, strict=True))
        assert cells["operator"].text == arm and cells["answers"].text == "360"
        assert report.comparison.arms[cells["operator"].arm].name == arm
        for title, rate in (("better", "refined below"), ("at .5-.75", "refined .5-.75"), ("repeats", "repeats")):
            found = known[rate]
            assert (
                cells[title].text == f"{found.mean:.3f}" and cells[title].note == f"[{found.low:.3f}, {found.high:.3f}]"
            )
        assert cells["kept"].text != NONE and 0 < float(cells["alone"].text) < 0.2


def test_refinement_is_compared_with_the_reference(made, finished):
    report, _ = finished
    with Store.open(made, read_only=True) as store:
        gaps = refinement_differences(load_operators(store, gather(store, "made-up")), "grpo", crossed_seeds=False)
    assert report.arms.refinement is not None and len(report.arms.refinement.rows) == sum(map(len, gaps.values()))
    first = report.arms.refinement.rows[0]
    assert first[0].text == "base − grpo" and first[1].text == "all below the target"
    assert first[2].sort == round(gaps["base"]["refined below"].interval.mean, 9)
