import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from scipy.special import softmax
from sklearn import metrics as sk

from calibkit import metrics, stats
from calibkit.metrics import UndefinedMetricWarning

FAILURE = ["auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr"]


def sample(n=400, k=5, seed=0, skill=3.0, decimals=8):
    """Logits and labels; with few decimals, many confidences tie."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(0, 2, (n, k))
    logits[np.arange(n), labels] += rng.exponential(skill, n)
    return logits.round(decimals), labels


def by_scikit_learn(confidence, correct):
    """All failure-prediction metrics, as a user without this library would write them."""
    fpr, tpr, _ = sk.roc_curve(correct, confidence, drop_intermediate=False)
    order = np.argsort(-confidence, kind="stable")
    risks = np.cumsum(~correct[order]) / np.arange(1, len(correct) + 1)
    r = 1 - correct.mean()
    area = sk.roc_auc_score(correct, confidence)
    return [
        area,
        sk.average_precision_score(correct, confidence),
        sk.average_precision_score(~correct, -confidence),
        risks.mean(),
        risks.mean() - (r + (1 - r) * np.log(1 - r)),
        (1 - area) * r * (1 - r) + r**2 / 2,
        fpr[np.searchsorted(tpr, 0.95)],
    ]


def shifted(values, estimate, level=0.95):
    """Percentiles of replicates (n, metrics), their mean moved to the estimate; not below zero."""
    values = np.asarray(values)
    ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    ends = ends + np.asarray(estimate) - values.mean(axis=0)
    return np.where(values.min(axis=0) >= 0, np.maximum(ends, 0), ends).T


def test_replicates_are_the_metrics_of_resampled_arrays():
    logits, labels = sample()
    rng = np.random.default_rng(7)
    probs = softmax(logits, axis=1)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    draws = [rng.integers(0, 400, 400) for _ in range(50)]
    resampled = [by_scikit_learn(confidence[i], correct[i]) for i in draws]
    expected = shifted(resampled, by_scikit_learn(confidence, correct), 0.9)
    found = stats.bootstrap(logits, labels, FAILURE, n=50, seed=7, level=0.9)
    for name, ends in zip(FAILURE, expected, strict=True):
        assert found[name][1:] == pytest.approx(ends, abs=1e-12)
    estimates = [found[name].estimate for name in FAILURE]
    assert estimates == pytest.approx(by_scikit_learn(confidence, correct), abs=1e-12)


@pytest.mark.parametrize("decimals", [0, 8])
def test_every_name_matches_summary_on_the_resampled_logits(decimals):
    logits, labels = sample(150, decimals=decimals)
    names = [*metrics.ranked_metrics(), "nll", "brier", "classwise_ece"]
    rng = np.random.default_rng(3)
    draws = [rng.integers(0, 150, 150) for _ in range(20)]
    summaries = [metrics.summary(logits[i], labels[i]) for i in draws]
    whole = metrics.summary(logits, labels)
    found = stats.bootstrap(logits, labels, names, n=20, seed=3)
    for name in names:
        ends = shifted([values[name] for values in summaries], whole[name])
        assert found[name] == pytest.approx((whole[name], *ends), abs=1e-12)


def test_the_noise_of_resampling_is_not_counted_as_calibration_error():
    """Percentiles alone would leave out the estimate of a calibrated model, and what is usual."""
    names, usual, found = ["ece", "adaptive_ece"], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logits = 1.5 * rng.normal(size=(400, 5))
        labels = (softmax(logits, axis=1).cumsum(1) > rng.random((400, 1))).argmax(1)
        summary = metrics.summary(logits, labels)
        usual.append([summary[name] for name in names])
        if seed < 30:
            found.append(stats.bootstrap(logits, labels, names, n=60, seed=seed))
    usual = dict(zip(names, np.mean(usual, axis=0), strict=True))
    for name in names:
        assert all(interval[name].low < interval[name].estimate for interval in found)
        covered = [interval[name].low < usual[name] < interval[name].high for interval in found]
        assert np.mean(covered) >= 0.9


def test_the_interval_covers_the_truth_as_often_as_it_says():
    inside = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels = (rng.random(200) < 0.3).astype(int)  # class 0 is always predicted: accuracy 0.7
        logits = np.c_[rng.random(200) + 1, np.zeros(200)]
        interval = stats.bootstrap(logits, labels, ["accuracy"], n=100, seed=seed, level=0.9)
        inside += interval["accuracy"].low <= 0.7 <= interval["accuracy"].high
    assert 80 <= inside <= 98


def test_seed_level_and_kind_of_array():
    logits, labels = sample()
    again = stats.bootstrap(logits, labels, ["aurc"], n=40)
    assert stats.bootstrap(torch.tensor(logits), torch.tensor(labels), ["aurc"], n=40) == again
    other = stats.bootstrap(logits, labels, ["aurc"], n=40, seed=1)["aurc"]
    assert other != again["aurc"] and other.estimate == again["aurc"].estimate
    narrow = stats.bootstrap(logits, labels, ["aurc"], n=40, level=0.5)["aurc"]
    assert again["aurc"].low < narrow.low < narrow.high < again["aurc"].high


def test_a_metric_never_defined_is_nan_with_one_warning():
    logits, labels = np.array([[2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]), [0, 0, 0]
    with pytest.warns(UndefinedMetricWarning, match="auroc, fpr_at_tpr") as caught:
        found = stats.bootstrap(logits, labels, ["auroc", "aurc", "fpr_at_tpr"], n=10)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert all(map(math.isnan, found["auroc"] + found["fpr_at_tpr"]))
    assert found["aurc"] == (0, 0, 0)


def test_replicates_without_a_wrong_prediction_are_left_out():
    logits, labels = sample(30, seed=5)
    labels = logits.argmax(axis=1)
    labels[np.argmin(softmax(logits, axis=1).max(axis=1))] += 1  # one wrong, of lowest confidence
    labels %= 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = stats.bootstrap(logits, labels, ["auroc"], n=100)["auroc"]
    assert found == (1, 1, 1)


def test_a_metric_that_no_replicate_defines_has_no_interval():
    logits, labels = [[2.0, 0.0], [3.0, 0.0]], [1, 0]  # one wrong, one right

    def draws_one_sample_twice(seed):
        rng = np.random.default_rng(seed)
        return all(len(set(rng.integers(0, 2, 2))) == 1 for _ in range(2))

    seed = next(filter(draws_one_sample_twice, range(50)))
    found = stats.bootstrap(logits, labels, ["auroc"], n=2, seed=seed)["auroc"]
    assert found.estimate == 1 and math.isnan(found.low) and math.isnan(found.high)
    parts = stats.variance_parts([logits, logits], labels, ["auroc"], n=2, seed=seed)["auroc"]
    assert parts[:2] == (1, 0) and math.isnan(parts.sample_sd)


def test_compare_uses_the_same_resamples_for_both():
    a, labels = sample(seed=0)
    b = a + np.random.default_rng(1).normal(0, 1, a.shape)
    names = ["accuracy", "aurc", "nll", "classwise_ece"]
    rng = np.random.default_rng(2)
    draws = [rng.integers(0, 400, 400) for _ in range(30)]
    pairs = [(metrics.summary(a[i], labels[i]), metrics.summary(b[i], labels[i])) for i in draws]
    found = stats.compare(a, b, labels, names, n=30, seed=2)
    for name in names:
        whole = metrics.summary(a, labels)[name] - metrics.summary(b, labels)[name]
        ends = shifted([x[name] - y[name] for x, y in pairs], whole)
        assert found[name] == pytest.approx((whole, *ends), abs=1e-12)
    alone = [stats.bootstrap(x, labels, ["nll"], n=30)["nll"] for x in (a, b)]
    width = found["nll"].high - found["nll"].low
    assert width < min(interval.high - interval.low for interval in alone)


def test_a_model_differs_from_itself_by_nothing():
    logits, labels = sample()
    for interval in stats.compare(
        logits, logits, labels, [*FAILURE, "ece", "brier"], n=20
    ).values():
        assert interval == (0, 0, 0)


def test_seed_interval_is_students():
    values = [0.931, 0.935, 0.928, 0.94, 0.933]
    found = stats.seed_interval(torch.tensor(values, dtype=torch.float64), level=0.9)
    sem = scipy_stats.sem(values)
    assert found[1:] == pytest.approx(scipy_stats.t.interval(0.9, 4, np.mean(values), sem))
    assert found.estimate == pytest.approx(np.mean(values))


def test_one_seed_has_no_interval():
    single = stats.seed_interval([0.9])
    assert single.estimate == 0.9 and math.isnan(single.low) and math.isnan(single.high)


def test_welch_by_hand_and_by_scipy():
    a, b = np.array([94.0, 94.4, 93.9, 94.1, 94.2]), np.array([93.5, 94.1, 92.7, 93.9, 93.4])
    found = stats.welch(a, b)
    squares = a.var(ddof=1) / 5, b.var(ddof=1) / 5
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert found.t == pytest.approx(found.difference / math.sqrt(sum(squares)))
    freedom = sum(squares) ** 2 / sum(s**2 / 4 for s in squares)
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(abs(found.t), freedom))
    assert stats.welch(b, a).p == pytest.approx(found.p)


@pytest.mark.parametrize(
    "a, b", [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0, 1.0], [2.0, 2.0])]
)
def test_welch_says_nothing_without_variance(a, b):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = stats.welch(a, b)
    assert found.difference < 0 and math.isnan(found.t) and math.isnan(found.p)


def test_welch_with_variance_on_one_side_only():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = stats.welch([0.9, 0.9, 0.9], [0.8, 0.9, 0.7])
    assert found.t == pytest.approx(0.1 / (0.1 / math.sqrt(3)))
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(found.t, 2))


def test_variance_parts_separates_seeds_from_samples():
    rng = np.random.default_rng(0)
    base, labels = sample(500)
    trainings = [base + rng.normal(0, 0.3, base.shape) for _ in range(4)]
    parts = stats.variance_parts(trainings, labels, ["accuracy", "nll"], n=400)
    accuracy = [metrics.summary(x, labels)["accuracy"] for x in trainings]
    assert parts["accuracy"].mean == pytest.approx(np.mean(accuracy))
    assert parts["accuracy"].seed_sd == pytest.approx(np.std(accuracy, ddof=1))
    binomial = math.sqrt(np.mean(accuracy) * (1 - np.mean(accuracy)) / 500)
    assert parts["accuracy"].sample_sd == pytest.approx(binomial, rel=0.15)
    nll = metrics.per_sample(trainings[0], labels)["nll"]
    assert parts["nll"].sample_sd == pytest.approx(nll.std() / math.sqrt(500), rel=0.2)
    assert math.isnan(stats.variance_parts(trainings[:1], labels, ["nll"], n=5)["nll"].seed_sd)


def test_variance_parts_of_an_undefined_metric_are_nan_with_one_warning():
    logits = np.array([[2.0, 0.0], [3.0, 0.0]])
    with pytest.warns(UndefinedMetricWarning, match="nan: auroc$") as caught:
        parts = stats.variance_parts([logits, logits], [0, 0], ["auroc", "aurc"], n=5)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert all(map(math.isnan, parts["auroc"])) and parts["aurc"] == (0, 0, 0)


@pytest.mark.parametrize("values, verdict", [
    ([0.1, 0.11, 0.12], "higher"),
    ([-0.1, -0.11, -0.12], "lower"),
    ([-0.1, 0.2, 0.0], "no clear difference"),
    ([0.1], "cannot be told"),
    ([np.nan], "cannot be told"),
])  # fmt: skip
def test_verdict_of_a_difference(values, verdict):
    assert stats.seed_interval(values).verdict == verdict


GOOD = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("logits, labels, message", [
    ([[np.nan, 0.0], [0.0, 1.0]], [0, 1], "logits: got NaN"),
    ([[1.0], [2.0]], [0, 0], r"logits: got shape \(2, 1\)"),
    (np.zeros((0, 2)), [], "logits: got an empty array"),
    (GOOD, [0, 2], "labels: got values from 0 to 2"),
    (GOOD, [0], "labels: got 1 values"),
])  # fmt: skip
def test_bad_arrays_are_refused_by_name(logits, labels, message):
    for call in (
        lambda: stats.bootstrap(logits, labels, ["aurc"]),
        lambda: stats.compare(logits, logits, labels, ["aurc"]),
        lambda: stats.variance_parts([logits], labels, ["aurc"]),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


# --- many methods at once ---


def test_replicates_are_those_of_the_bootstrap_and_shared_by_the_models():
    (a, labels), (b, _) = sample(), sample(seed=1)
    names = ["auroc", "ece"]
    draws = stats.replicates([a, b], labels, names, n=150, seed=3)
    assert draws.shape == (2, 150, 2)
    for values, found in (
        (draws[0], stats.bootstrap(a, labels, names, n=150, seed=3)),
        (draws[0] - draws[1], stats.compare(a, b, labels, names, n=150, seed=3)),
    ):
        low, high = shifted(values, [found[m].estimate for m in names]).T
        np.testing.assert_allclose([found[m].low for m in names], low)
        np.testing.assert_allclose([found[m].high for m in names], high)


def test_two_methods_have_the_standard_error_of_welchs_test_and_a_wider_interval():
    a, b = np.random.default_rng(0).normal(size=(2, 4)) * [[1.0], [3.0]]
    estimate, low, high = stats.seed_means([a, b], np.zeros((2, 5))).contrast([1, -1])
    welch = stats.welch(a, b)
    assert estimate == pytest.approx(welch.difference)
    half = scipy_stats.t.ppf(0.975, 3) * abs(welch.difference / welch.t)
    assert (high - estimate, estimate - low) == pytest.approx((half, half))
    oracle = scipy_stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert low < oracle.low and high > oracle.high


def test_methods_that_spread_alike_are_pooled():
    spread = np.array([-1.0, 0.0, 1.0])
    values = np.arange(5.0)[:, np.newaxis] + spread
    values[0] = values[0, ::-1]
    found = stats.seed_means(values, np.zeros((5, 4)))
    np.testing.assert_array_equal(found.freedom, 10)
    np.testing.assert_allclose(found.variance, 1 / 3)
    weights = np.array([1, -1, -1, 1, 0])  # a difference of differences
    half = scipy_stats.t.ppf(0.995, 10) * np.sqrt(4 / 3)
    expected = [weights @ np.arange(5.0) + sign * half for sign in (0, -1, 1)]
    np.testing.assert_allclose(found.contrast(weights, 0.99), expected, atol=1e-4)


def test_usual_variance_and_its_weight_are_recovered():
    rng = np.random.default_rng(1)
    variances = 4.0 / (rng.chisquare(6, 4000) / 6)  # scaled inverse chi-square: s_0² = 4, d_0 = 6
    values = rng.normal(0, np.sqrt(variances), (3, 4000)).T
    found = stats.seed_means(values, np.zeros((4000, 2)))
    prior = found.freedom[0] - 2
    assert 5 < prior < 7.2
    own = values.var(axis=1, ddof=1)
    usual = (3 * found.variance * found.freedom - 2 * own) / prior
    np.testing.assert_allclose(usual, usual[0])
    assert usual[0] == pytest.approx(4, rel=0.08)


def test_doubt_of_the_test_set_is_added_and_what_is_common_cancels():
    rng = np.random.default_rng(2)
    values, common = rng.normal(size=(3, 3)), rng.normal(size=50)
    alone = stats.seed_means(values, np.zeros((3, 50)))
    shared = stats.seed_means(values, np.tile(common, (3, 1)))
    np.testing.assert_allclose(shared.contrast([1, -1, 0]), alone.contrast([1, -1, 0]))
    resampled = np.array([common, -common, common])
    certain = stats.SeedMeans(values[:, 0], np.zeros(3), np.ones(3), resampled)
    estimate, _, high = certain.contrast([1, -1, 0])
    half = scipy_stats.norm.ppf(0.975) * 2 * common.std(ddof=1)
    assert high - estimate == pytest.approx(half, rel=1e-4)


def test_contrast_covers_as_often_as_it_says_with_spreads_and_seeds_unequal():
    rng, hits, wide = np.random.default_rng(3), 0, 0
    for _ in range(800):
        spread = np.sqrt(1 / (rng.chisquare(4, (20, 1)) / 4))
        values = rng.normal(size=(20, 3)) * spread
        values[0, 2] = values[5, 1] = np.nan
        weights = np.r_[1, -1, np.zeros(18)]
        found = stats.seed_means(values, np.zeros((20, 2))).contrast(weights)
        pair = values[:2, :2]
        wide += stats.seed_means(pair, np.zeros((2, 2))).contrast([1, -1]).high - found.high > 0
        hits += found.low < 0 < found.high
    assert 0.93 < hits / 800 < 0.975
    assert wide > 600  # the same two alone would mostly have a wider interval


def test_contrast_says_nothing_where_nothing_can_be_told():
    nothing = [np.nan, np.nan, np.nan]
    missing = stats.seed_means([[1.0, 2.0], [np.nan] * 2], np.zeros((2, 3))).contrast([1, -1])
    np.testing.assert_array_equal(missing, nothing)
    one_seed = stats.seed_means([[1.0], [2.0]], np.zeros((2, 3))).contrast([1, -1])
    np.testing.assert_array_equal(one_seed, [-1, np.nan, np.nan])
    assert one_seed.verdict == "cannot be told"


@pytest.mark.parametrize("call, message", [
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aur"]), r"metric_names: got \['aur'\], exp.*auroc"),
    (lambda: stats.bootstrap(GOOD, [0, 1], "aurc"), "metric_names: got 'aurc', expected a list"),
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aurc"], n=1), "n: got 1, expected at least 2"),
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aurc"], level=95), "level: got 95, expected"),
    (lambda: stats.compare(GOOD, [[1.0, 0.0]], [0, 1], ["aurc"]), "labels: got 2 values"),
    (lambda: stats.seed_interval([]), r"values: got shape \(0,\), expected"),
    (lambda: stats.seed_interval([1.0, 2.0], level=0), "level: got 0, expected"),
    (lambda: stats.welch([[1.0]], [1.0]), r"a: got shape \(1, 1\), expected"),
    (lambda: stats.welch([1.0], []), r"b: got shape \(0,\), expected"),
    (lambda: stats.variance_parts([], [0], ["aurc"]), "logits_by_seed: got no arrays, expected"),
    (lambda: stats.replicates([], [0], ["aurc"]), "models: got no arrays, expected one for each"),
    (lambda: stats.seed_means([1.0], [[1.0]]), r"values: got shape \(1,\) with draws \(1, 1\), ex"),
    (lambda: stats.seed_means([[1.0]], [[1.0]]).contrast([1, -1]), r"weights: got shape \(2"),
])  # fmt: skip
def test_bad_options_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
