"""Weights of samples: whole numbers are repeated rows, and what scikit-learn has is as there."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from calibkit import metrics, resampling, stats

pytestmark = pytest.mark.filterwarnings("ignore::calibkit.metrics.UndefinedMetricWarning")
quick = settings(max_examples=60, deadline=None)
NEAR = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}

OF_PROBS = {
    "ece": {},
    "adaptive_ece": {"bins": 7},
    "mce": {},
    "overconfidence_error": {},
    "debiased_ece": {"bins": 4},
    "smooth_ece": {},
    "nll": {},
    "brier": {},
    "classwise_ece": {},
    "brier_decomposition": {},
    "ece_floor": {},
    "excess_ece": {"of": "adaptive_ece"},
}
OF_PROBS_TOO = {
    "ece_floor": {"of": "classwise_ece"},
    "excess_ece": {"of": "classwise_ece", "bins": 5},
    "adaptive_ece": {"bins": 2},
}
OF_RANKING = {
    "auroc": {},
    "aupr_success": {},
    "aupr_error": {},
    "aurc": {},
    "eaurc": {},
    "augrc": {},
    "fpr_at_tpr": {},
    "risk_coverage": {},
    "risk_at_coverage": {"coverage": 0.6},
    "coverage_at_risk": {"risk": 0.25},
    "threshold_at_risk": {"risk": 0.25},
    "refinement_decomposition": {},
    "confidence_gap": {},
    "histogram_overlap": {},
    "ece_correct": {},
    "reliability_bins": {"scheme": "equal_mass", "bins": 6},
}
OF_RANKING_TOO = {
    "fpr_at_tpr": {"tpr": 0.7, "convention": "nearest"},
    "reliability_bins": {},
}


def numbers(value):
    """Any result as one flat array."""
    if isinstance(value, dict):
        value = list(value.values())
    parts = value if isinstance(value, list | tuple) else [value]
    return np.concatenate([np.atleast_1d(np.asarray(x, float)) for x in parts])


def same(value, expected):
    assert numbers(value) == pytest.approx(numbers(expected), **NEAR)


def calls(probs, labels):
    """Every metric, as a function of rows and their weights."""
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    for kinds, arrays in (
        ((OF_PROBS, OF_PROBS_TOO), (probs, labels)),
        ((OF_RANKING, OF_RANKING_TOO), (confidence, correct)),
    ):
        for name, options in (pair for kind in kinds for pair in kind.items()):
            yield partial(_call, getattr(metrics, name), arrays, options)
    yield partial(_call, metrics.summary, (probs, labels), {"kind": "probs"})


def _call(function, arrays, options, rows=slice(None), weights=None):
    own = {} if weights is None else {"sample_weight": weights}
    return function(*(x[rows] for x in arrays), **options, **own)


def drawn(seed, n, k, decimals=None, dtype=np.float64):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.5), n)
    if decimals is not None:
        probs = np.floor(probs * 10**decimals) / 10**decimals
        probs[:, 0] = np.clip(1 - probs[:, 1:].sum(axis=1), 0, 1)
    labels = np.array([rng.choice(k, p=p / p.sum()) for p in probs])
    return probs.astype(dtype), labels, rng


# --- metrics ---


def test_every_metric_takes_weights():
    without = {
        "per_sample",
        "top_label",
        "mean_deviation",
        "ranked_metrics",
        "ranks",
    }  # of samples; counts
    public = {*OF_PROBS, *OF_RANKING, "summary"} | without
    found = {name for name in metrics.__all__ if name.islower()}
    assert found == public


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.integers(2, 4),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([np.float64, np.float32]),
)
@quick
def test_whole_numbers_are_repeated_rows(seed, n, k, decimals, dtype):
    probs, labels, rng = drawn(seed, n, k, decimals, dtype)
    weights = rng.integers(0, 4, n)
    weights[rng.integers(n)] = 2
    rows = np.repeat(np.arange(n), weights)
    for call in calls(probs, labels):
        same(call(weights=weights), call(rows=rows))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from([0.1, 1 / 3, 1e-6, 7.7]))
@quick
def test_equal_weights_change_nothing(seed, n, weight):
    probs, labels, _ = drawn(seed, n, 3, 2)
    for call in calls(probs, labels):
        same(call(weights=np.full(n, weight)), call())


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from([1e-9, 0.37, 1e6]))
@quick
def test_only_ratios_of_fractions_matter(seed, n, scale):
    probs, labels, rng = drawn(seed, n, 3, 2)
    weights = rng.lognormal(0, 1.5, n)
    for call in calls(probs, labels):
        same(call(weights=scale * weights), call(weights=weights))


@given(st.integers(0, 2**32 - 1), st.integers(10, 300), st.sampled_from([None, 1]))
@quick
def test_weighted_metrics_are_those_of_scikit_learn(seed, n, decimals):
    probs, labels, rng = drawn(seed, n, 2, decimals)
    weights = rng.lognormal(0, 1.5, n) * (rng.random(n) > 0.1)
    weights[:2], labels[:2] = 1.0, (0, 1)
    p, y, own = probs[:, 1], labels == 1, {"sample_weight": weights}
    for ours, theirs in (
        (metrics.auroc(p, y, **own), sk.roc_auc_score(y, p, **own)),
        (metrics.aupr_success(p, y, **own), sk.average_precision_score(y, p, **own)),
        (metrics.aupr_error(p, y, **own), sk.average_precision_score(~y, -p, **own)),
        (metrics.brier(probs, labels, **own), 2 * sk.brier_score_loss(y, p, **own)),
    ):
        assert ours == pytest.approx(theirs, **NEAR)
    inside = probs.clip(1e-6, 1 - 1e-6)
    theirs = sk.log_loss(labels, inside, sample_weight=weights)
    assert metrics.nll(inside, labels, **own) == pytest.approx(theirs, **NEAR)
    found = metrics.summary(probs, labels, kind="probs", **own)["accuracy"]
    theirs = sk.accuracy_score(labels, probs.argmax(axis=1), **own)
    assert found == pytest.approx(theirs, **NEAR)
    fpr, tpr, _ = sk.roc_curve(y, p, drop_intermediate=False, **own)
    wanted = fpr[np.flatnonzero(tpr >= 0.95 - 1e-9)[0]]
    assert metrics.fpr_at_tpr(p, y, **own) == pytest.approx(wanted, **NEAR)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 15]))
@quick
def test_weighted_errors_follow_their_formulas(seed, bins):
    """Sums over bins, with `numpy.average` in place of means and weight in place of counts."""
    probs, labels, rng = drawn(seed, 60, 3)
    weights = rng.lognormal(0, 1, 60)
    c, z = probs.max(axis=1), probs.argmax(axis=1) == labels
    gaps, sizes = [], []
    for i in range(bins):
        inside = (c > i / bins) & (c <= (i + 1) / bins)
        if inside.any():
            sizes.append(weights[inside].sum() / weights.sum())
            gaps.append(abs(np.average(c[inside] - z[inside], weights=weights[inside])))
    found = metrics.ece(probs, labels, bins, sample_weight=weights)
    assert found == pytest.approx(np.dot(sizes, gaps), **NEAR)
    assert metrics.mce(probs, labels, bins, sample_weight=weights) == pytest.approx(
        max(gaps), **NEAR
    )
    # Bins of equal weight: a sample is in the bin that the weight below it says.
    order = np.argsort(c)
    below = np.cumsum(weights[order]) - weights[order]
    place = np.minimum((below / weights.sum() * bins + 1e-9).astype(int), bins - 1)
    residual = np.bincount(place, (weights * (c - z))[order], bins)
    expected = np.abs(residual).sum() / weights.sum()
    found = metrics.adaptive_ece(probs, labels, bins, sample_weight=weights)
    assert found == pytest.approx(expected, **NEAR)
    by_class = [
        np.abs(np.bincount((np.ceil(p * bins) - 1).clip(0).astype(int), weights * (p - t), bins))
        for p, t in zip(probs.T, np.eye(3)[labels].T, strict=True)
    ]
    expected = np.sum(by_class) / 3 / weights.sum()
    found = metrics.classwise_ece(probs, labels, bins, sample_weight=weights)
    assert found == pytest.approx(expected, **NEAR)


def test_the_weighted_area_is_by_hand():
    # A row of weight 2 that is wrong, then one of weight 1 that is right: risks 1, 1 and 2/3.
    found = metrics.aurc([0.9, 0.8], [False, True], sample_weight=[2, 1])
    assert found == pytest.approx((1 + 1 + 2 / 3) / 3)


def test_the_floor_of_fractions_is_that_of_as_many_equal_samples():
    """A calibrated model of two kinds of rows: simulated labels, with their weights."""
    rng = np.random.default_rng(0)
    c, weights = np.full(400, 0.7), np.where(np.arange(400) % 2, 0.5, 4.5)
    probs = np.stack([c, 1 - c], axis=1)
    draws = rng.random((4000, 400)) < c
    shown = np.abs((draws - c) @ weights).mean() / weights.sum()
    floor = metrics.ece_floor(probs, sample_weight=weights)
    assert floor == pytest.approx(shown, rel=0.05)
    assert metrics.ece_floor(probs) < 0.8 * shown


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0, 2.0], "sample_weight: got 2 values, expected 3"),
        ([1, -1, 1], "sample_weight: got -1, expected weights of at least 0"),
        ([0, 0, 0], "sample_weight: got weights that are all zero"),
        ([1, math.nan, 1], "sample_weight: got NaN"),
    ],
)
def test_bad_weights_are_refused_by_every_metric(weights, message):
    probs, labels = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]]), np.array([0, 0, 1])
    for call in calls(probs, labels):
        with pytest.raises(ValueError, match=message):
            call(weights=np.array(weights))


# --- resamples and intervals ---


def test_bootstrap_of_weighted_samples_estimates_what_the_metrics_are():
    probs, labels, rng = drawn(3, 300, 3)
    weights = rng.lognormal(0, 1, 300)
    names = ["ece", "adaptive_ece", "excess_ece", "auroc", "aurc", "fpr_at_tpr", "nll", "brier"]
    names += ["classwise_ece", "excess_classwise_ece", "debiased_ece"]
    own = {"sample_weight": weights, "kind": "probs"}
    found = stats.bootstrap(probs, labels, names, n=50, **own)
    expected = metrics.summary(probs, labels, **own)
    for name in names:
        assert found[name].estimate == pytest.approx(expected[name], **NEAR), name
        assert found[name].low < found[name].estimate < found[name].high


def test_resamples_keep_groups_whole():
    for rows in resampling.draws(6, 50, groups=["b", "a", "b", "c", "c", "c"]):
        count = np.bincount(rows, minlength=6)
        assert count[0] == count[2] and count[3] == count[4] == count[5]
        assert count[[0, 1, 3]].sum() == 3
    plain = [rows.tolist() for rows in resampling.draws(6, 3, seed=1)]
    rng = np.random.default_rng(1)
    assert plain == [rng.integers(0, 6, 6).tolist() for _ in range(3)]
    for rows in resampling.draws(4, 20, sample_weight=[0, 2, 0, 1]):
        assert len(rows) == 2 and set(rows) <= {1, 3}


@pytest.mark.parametrize("icc", [0.0, 0.3, 1.0])
def test_an_interval_over_groups_covers_whatever_they_share(icc):
    """40 groups of 10; the accuracy is that of a new group, and its interval by bootstrap."""
    rng, hits, rows = np.random.default_rng(7), [], 10
    clusters, truth = np.repeat(np.arange(40), rows), 0.7
    for _ in range(150):
        shared = np.repeat(rng.random(40), rows)
        alone = rng.random(40 * rows)
        correct = np.where(rng.random(40 * rows) < icc**0.5, shared, alone) < truth
        answers = stats.Answers(np.full(len(correct), 0.7), correct)
        found = stats.bootstrap(answers, None, ["accuracy"], n=200, groups=clusters)["accuracy"]
        hits.append(found.low <= truth <= found.high)
    assert np.mean(hits) > 0.88, np.mean(hits)


def test_effective_size_by_hand():
    assert resampling.effective_size(np.array([1.0, 3.0])) == pytest.approx(16 / 10)
    # Copies within clusters of 4: as many samples as clusters. Rows of their own: as many as rows.
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(500), 4)
    copies = np.repeat(rng.random(500) < 0.5, 4).astype(float)
    assert resampling.effective_size(groups=clusters, residual=copies) == pytest.approx(500)
    alone = rng.random(2000)
    assert resampling.effective_size(groups=clusters, residual=alone) > 1700
