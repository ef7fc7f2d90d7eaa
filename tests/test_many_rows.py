import numpy as np
import pytest

from calibkit import many_rows, metrics, stats
from calibkit.arrays import log_odds

NAMES = [*metrics.ranked_metrics(), "nll", "brier"]


def model(n, seed=0, skill=3.0, k=5):
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(9).integers(0, k, n)
    logits = rng.normal(size=(n, k)).astype(np.float32) * 2
    logits[np.arange(n), labels] += skill
    its = metrics.per_sample(logits, labels)
    return stats.Samples(*(its[x] for x in ("confidence", "correct", "nll", "brier")),
                         log_odds(logits))  # fmt: skip


def row_by_row(monkeypatch):
    monkeypatch.setattr(many_rows, "MANY", np.inf)


def half_widths(found):
    """Half the width of each interval, that hardly depends on how skewed it is."""
    return np.array([(x.high - x.low) / 2 for x in found.values()])


def test_a_ranking_of_all_rows_has_the_counts_of_all_rows(monkeypatch):
    monkeypatch.setattr(many_rows, "BLOCKS", 50)
    its = model(1000)
    blocks = many_rows.Blocks(1000, n=120)
    *drawn, every = blocks.rankings(its.rank, its.correct)
    assert len(drawn) == 120
    assert (every.all_right, every.n) == (its.correct.sum(), 1000)
    assert {x.n for x in drawn} == {1000.0}
    exact = metrics.Ranking.of(its.rank, its.correct)
    for name in ("auroc", "aurc", "fpr_at_tpr"):  # with as many bins as rows nothing is lost
        found = metrics.ranked_metrics()[name]
        assert found(every) == pytest.approx(found(exact), abs=1e-12)


def test_counts_are_those_of_the_blocks_drawn(monkeypatch):
    """By brute force: every row as often as its block."""
    monkeypatch.setattr(many_rows, "BLOCKS", 20)
    its, weights = model(203), np.arange(203) % 4 / 2.0
    blocks = many_rows.Blocks(203, n=3, seed=1, weights=weights)
    assert (weights[blocks.rows] > 0).all()
    sums = blocks.sums(its.brier)
    for drawn, ranking, mean in zip(
        blocks.drawn, blocks.rankings(its.confidence, its.correct), sums, strict=False
    ):
        rows = np.repeat(blocks.rows, drawn[blocks.of])
        exact = metrics.Ranking.of(its.confidence[rows], its.correct[rows], weights[rows])
        assert ranking.n == pytest.approx(weights[rows].sum())
        assert mean == pytest.approx(weights[rows] @ its.brier[rows])
        for name in ("accuracy", "ece", "auroc"):
            of = metrics.ranked_metrics()[name]
            assert of(ranking) == pytest.approx(of(exact), abs=1e-7)


def test_a_bin_never_crosses_an_edge_of_the_calibration_error():
    its = model(60_000)
    for score in (its.confidence, its.confidence.astype(np.float64)):
        place = many_rows._places(score, its.correct)
        edges = np.linspace(0, 1, 16).astype(score.dtype)
        of_edge = np.searchsorted(edges, score)
        assert place.max() < 20_000
        assert (np.bincount(place) > 0).all()
        pairs = np.unique(np.stack([place, of_edge]), axis=1)
        assert len(pairs.T) == place.max() + 1
        assert (np.diff(pairs[1]) <= 0).all()  # from the highest on


def test_clusters_stay_in_one_block_and_few_are_blocks_themselves():
    groups = np.random.default_rng(0).integers(0, 12_000, 60_000)
    blocks = many_rows.Blocks(60_000, n=2, groups=groups)
    for_each = np.unique(np.stack([groups[blocks.rows], blocks.of]), axis=1)
    assert len(for_each.T) == len(np.unique(groups[blocks.rows]))
    few = many_rows.Blocks(60_000, n=2, groups=groups % 30)
    assert few.drawn.shape == (2, 30)
    assert (few.drawn.sum(axis=1) == 30).all()
    with pytest.raises(ValueError, match="got one group, expected at least two"):
        many_rows.Blocks(60_000, n=2, groups=np.zeros(60_000, int))


@pytest.mark.parametrize(("skill", "right"), [(1.9, 0.48), (2.2, 0.53), (8.0, 0.99)])
def test_bins_move_no_end_of_an_interval_by_3_percent_of_its_width(skill, right):
    """Beside the same resamples counted row by row, of every metric of a ranking."""
    its, of = model(400_000, skill=skill), metrics.ranked_metrics()
    assert its.correct.mean() == pytest.approx(right, abs=0.01)
    blocks = many_rows.Blocks(400_000, n=40)
    names = [x for x in of if x != "overconfidence_error"]  # which has jumps, see there
    fast = [[of[x](ranking) for x in names] for ranking in blocks.rankings(its.rank, its.correct)]
    score, place = np.unique(-its.rank[blocks.rows], return_inverse=True)
    correct, slow = its.correct[blocks.rows], []
    for drawn in [*blocks.drawn, np.ones(blocks.drawn.shape[1], int)]:
        times = drawn[blocks.of].astype(float)
        right, every = (np.bincount(place, x, len(score)) for x in (times * correct, times))
        ranking = metrics.Ranking(-score, right.astype(int), (every - right).astype(int))
        slow.append([of[x](ranking) for x in names])
    away = [np.array(x)[:-1] - np.array(x)[-1] for x in (fast, slow)]
    ends = [np.quantile(x, [0.025, 0.975], axis=0) for x in away]
    off = np.abs(ends[0] - ends[1]) / np.maximum(np.ptp(ends[1], axis=0), 1e-12)
    assert off.max() < 0.03, dict(zip(names, off.max(0), strict=True))


@pytest.mark.parametrize("skill", [3.0, 8.0])
def test_intervals_are_those_of_drawing_row_by_row(skill, monkeypatch):
    names = [x for x in NAMES if not x.startswith("coverage_at") and x != "overconfidence_error"]
    its = model(many_rows.MANY, skill=skill)
    fast = stats.bootstrap(its, None, names, n=1500)
    row_by_row(monkeypatch)
    slow = stats.bootstrap(its, None, names, n=600, seed=1)
    assert [x.estimate for x in fast.values()] == [x.estimate for x in slow.values()]
    ratio = half_widths(fast) / half_widths(slow)
    # 600 resamples know a width to some 4 %; all metrics together to far less.
    assert np.abs(ratio - 1).max() < 0.17
    assert np.median(ratio) == pytest.approx(1, abs=0.03)


def test_a_difference_too_and_by_weights_and_clusters(monkeypatch):
    n = many_rows.MANY
    models = [model(n, seed) for seed in (0, 1)]
    rng = np.random.default_rng(5)
    drawing = {"sample_weight": rng.random(n) * 3, "groups": rng.integers(0, 3000, n)}
    names = ["accuracy", "ece", "excess_ece", "auroc", "aurc", "nll", "brier"]
    fast = stats.compare(*models, None, names, n=1500, **drawing)
    row_by_row(monkeypatch)
    slow = stats.compare(*models, None, names, n=250, seed=1, **drawing)
    exact = [[x.estimate for x in found.values()] for found in (fast, slow)]
    assert exact[0] == pytest.approx(exact[1], abs=1e-12)
    assert half_widths(fast) == pytest.approx(half_widths(slow), rel=0.25)


def test_fewer_rows_are_drawn_one_by_one(monkeypatch):
    its = model(many_rows.MANY - 1)
    before = stats.bootstrap(its, None, ["auroc", "ece", "nll"], n=3)
    row_by_row(monkeypatch)
    assert stats.bootstrap(its, None, ["auroc", "ece", "nll"], n=3) == before
