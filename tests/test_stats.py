import itertools
import math
import warnings
from functools import partial
from statistics import NormalDist

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from scipy.special import softmax
from sklearn.metrics import average_precision_score, roc_auc_score

from calibkit import confidence, metrics, posthoc, stats
from calibkit.metrics import UndefinedMetricWarning
from calibkit.stats import comparison
from calibkit_companion.records import deviations


def sample(n=400, k=5, seed=0, skill=3.0, decimals=8):
    """Logits and labels; with few decimals, many confidences tie."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(0, 2, (n, k))
    logits[np.arange(n), labels] += rng.exponential(skill, n)
    return logits.round(decimals), labels


def shifted(values, estimate, level=0.95):
    """Percentiles of replicates (n, metrics), their mean moved to the estimate."""
    values, estimate = np.asarray(values), np.asarray(estimate)
    ends = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    ends = (ends + estimate - values.mean(axis=0)).T
    return np.c_[np.minimum(ends[..., 0], estimate), np.maximum(ends[..., 1], estimate)]


def lowest(name):
    return -1 if name.startswith(("excess", "debiased", "confidence_gap")) else 0


@pytest.mark.parametrize("decimals", [0, 8])
def test_every_name_matches_summary_on_the_resampled_logits(decimals):
    logits, labels = sample(150, decimals=decimals)
    classwise = ["classwise_ece", "classwise_ece_floor", "excess_classwise_ece"]
    names = [*metrics.ranked_metrics(), "nll", "brier", *classwise]
    rng = np.random.default_rng(3)
    draws = [rng.integers(0, 150, 150) for _ in range(20)]
    summaries = [metrics.summary(logits[i], labels[i]) for i in draws]
    whole = metrics.summary(logits, labels)
    found = stats.bootstrap(logits, labels, names, n=20, seed=3)
    for name in names:
        ((low, high),) = shifted(np.array([[values[name]] for values in summaries]), [whole[name]])
        low, high = max(low, lowest(name)), min(high, 2 if name in ("nll", "brier") else 1)
        high = min(high, 0.5) if name == "augrc" else high
        assert found[name] == pytest.approx((whole[name], low, high), abs=1e-12)


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


def test_seed_level_and_kind_of_array():
    logits, labels = sample()
    again = stats.bootstrap(logits, labels, ["aurc"], n=40)
    assert stats.bootstrap(torch.tensor(logits), torch.tensor(labels), ["aurc"], n=40) == again
    other = stats.bootstrap(logits, labels, ["aurc"], n=40, seed=1)["aurc"]
    assert other != again["aurc"] and other.estimate == again["aurc"].estimate
    narrow = stats.bootstrap(logits, labels, ["aurc"], n=40, level=0.5)["aurc"]
    assert again["aurc"].low < narrow.low < narrow.high < again["aurc"].high


def test_several_models_are_compared_as_every_two_of_them_are():
    logits, labels = sample()
    models = [stats.Samples(**metrics.per_sample(z, labels)) for z in (logits, 2 * logits, -logits)]
    names = ["accuracy", "ece", "excess_ece", "nll"]
    own, differences = stats.compare_all(models, names, n=40, level=0.9)
    assert own == [stats.bootstrap(model, None, names, n=40, level=0.9) for model in models]
    level = 1 - (1 - 0.9) / 3  # three pairs
    assert differences == [
        stats.compare(a, b, None, names, n=40, level=level)
        for a, b in itertools.combinations(models, 2)
    ]


# --- weights and groups ---

EXACT = ("accuracy", "confidence", "ece", "excess_ece", "adaptive_ece", "auroc", "aupr_success")
EXACT += ("aupr_error", "aurc", "augrc", "fpr_at_tpr", "nll", "brier", "classwise_ece")


def clustered(seed=0, n=240):
    """Logits of two models, labels, whole-number weights with zeros among them, groups of text."""
    logits, labels = sample(n, seed=seed, decimals=1)
    rng = np.random.default_rng(seed + 100)
    other = logits + rng.normal(size=logits.shape).round(1)
    return logits, other, labels, rng.integers(0, 4, n), rng.choice(list("abcdefghijk"), n)


@pytest.mark.parametrize("by_group", [False, True])
def test_whole_number_weights_are_repeated_samples(by_group):
    """Of the same resamples: copies of a sample are drawn together, as one weighted sample is."""
    a, b, labels, weights, letters = clustered()
    own = letters if by_group else np.arange(len(labels))
    times, names = [np.repeat(x, weights, axis=0) for x in (a, b, labels, own)], list(EXACT)
    for models, repeated in (((a,), times[:1]), ((a, b), times[:2])):
        run = stats.bootstrap if len(models) == 1 else stats.compare
        found = run(*models, labels, names, n=30, sample_weight=weights, groups=own)
        expected = run(*repeated, times[2], names, n=30, groups=times[3])
        for name in names:
            assert found[name] == pytest.approx(expected[name], abs=1e-9, nan_ok=True), name


@pytest.mark.parametrize("by_group", [False, True])
def test_each_resample_by_brute_force(by_group):
    a, b, labels, weights, letters = clustered(3)
    names, drawn = ["accuracy", "ece", "auroc", "nll", "classwise_ece"], []
    there, rng = np.flatnonzero(weights), np.random.default_rng(5)
    parts = [there[letters[there] == x] for x in sorted(set(letters[there]))]
    for _ in range(25):
        if by_group:
            rows = np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))])
        else:
            rows = there[rng.integers(0, len(there), len(there))]
        rows = np.repeat(rows, weights[rows])
        both = [metrics.summary(x[rows], labels[rows]) for x in (a, b)]
        drawn.append([[of[name] for name in names] for of in both])
    rows = np.repeat(np.arange(len(labels)), weights)
    whole = np.array([[metrics.summary(x[rows], labels[rows])[y] for y in names] for x in (a, b)])
    more = {"sample_weight": weights, "groups": letters if by_group else None}
    options = {"n": 25, "seed": 5} | more
    expected = shifted(np.array(drawn)[:, 0], whole[0])
    found = stats.bootstrap(a, labels, names, **options)
    for name, estimate, (low, high) in zip(names, whole[0], expected, strict=True):
        assert found[name] == pytest.approx((estimate, max(low, 0), high), abs=1e-9)
    drawn, estimates = np.array(drawn)[:, 0] - np.array(drawn)[:, 1], whole[0] - whole[1]
    found = stats.compare(a, b, labels, names, **options)
    for name, estimate, ends in zip(names, estimates, shifted(drawn, estimates), strict=True):
        assert found[name] == pytest.approx((estimate, *ends), abs=1e-9)
    models = [stats.Samples(**metrics.per_sample(x, labels)) for x in (a, b)]
    own, (difference,) = stats.compare_all(models, ["auroc", "nll"], n=25, **more)
    assert own[0] == stats.bootstrap(models[0], None, ["auroc", "nll"], n=25, **more)
    assert difference == stats.compare(*models, None, ["auroc", "nll"], n=25, **more)


def test_equal_weights_and_groups_of_one_change_no_estimate():
    a, b, labels, *_ = clustered()
    for more in ({"sample_weight": np.full(240, 2.5)}, {"groups": np.arange(240)[::-1]}):
        for name in ("accuracy", "auroc", "nll", "ece"):
            plain, found = (stats.compare(a, b, labels, [name], n=20, **x) for x in ({}, more))
            assert found[name].estimate == pytest.approx(plain[name].estimate, abs=1e-12)
    weighted = stats.compare(a, b, labels, ["nll"], n=20, sample_weight=np.full(240, 2.5))
    plain = stats.compare(a, b, labels, ["nll"], n=20)
    assert weighted["nll"] == pytest.approx(plain["nll"], abs=1e-12)  # the same resamples


def test_weights_of_negatives_as_scikit_learn_has_them():
    rng = np.random.default_rng(1)
    p, weights = rng.random(500), rng.exponential(size=500)
    y = rng.random(500) < p**2
    names = ["auroc", "aupr_success", "accuracy"]
    found = stats.bootstrap(stats.Answers(p, y), None, names, n=5, sample_weight=weights)
    expected = roc_auc_score(y, p, sample_weight=weights)
    assert found["auroc"].estimate == pytest.approx(expected, abs=1e-9)
    expected = average_precision_score(y, p, sample_weight=weights)
    assert found["aupr_success"].estimate == pytest.approx(expected, abs=1e-9)
    assert found["accuracy"].estimate == pytest.approx(np.average(y, weights=weights), abs=1e-12)


def test_a_function_of_ones_own_gets_the_weights():
    def mean(confidence, correct, sample_weight=None):
        return np.average(confidence, weights=sample_weight)

    answers = stats.Answers([0.9, 0.5, 0.1], [1, 0, 0])
    found = stats.bootstrap(answers, None, [mean], n=5, sample_weight=[3, 1, 0])["mean"]
    assert found.estimate == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sample_weight": [1, 1]}, "sample_weight: got 2 values, expected 3"),
        ({"sample_weight": [1, -1, 1]}, "sample_weight: got -1, expected weights of at least 0"),
        ({"sample_weight": [0, 0, 0]}, "sample_weight: got weights that are all zero"),
        ({"groups": ["a", "a", "a"]}, "groups: got one group"),
        ({"groups": ["a", "b"]}, r"groups: got shape \(2,\)"),
        ({"groups": ["a", "b", "b"], "sample_weight": [0, 1, 1]}, "groups: got one group"),
    ],
)
def test_weights_and_groups_that_cannot_be(more, message):
    with pytest.raises(ValueError, match=message) as error:
        stats.bootstrap(stats.Answers([0.9, 0.5, 0.1], [1, 0, 0]), None, ["auroc"], n=5, **more)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_intervals_over_groups_cover_where_those_over_samples_do_not():
    """40 groups of 15 samples whose models share a group's luck: 95 of 100 hold the truth."""
    groups, missed = np.repeat(np.arange(40), 15), {"groups": 0, "samples": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        ease = rng.normal(0, 1.2, (2, 40))[:, groups]  # of each model, in each group
        right = rng.random((2, 600)) < 1 / (1 + np.exp(-ease))  # half on average, both
        a, b = (stats.Answers(np.full(600, 0.5), x) for x in right)
        for name, its in (("groups", groups), ("samples", None)):
            found = stats.compare(a, b, None, ["accuracy"], n=200, groups=its)["accuracy"]
            missed[name] += not found.low <= 0 <= found.high
    assert missed["groups"] <= 27 < 60 < missed["samples"]


def test_few_replicates_leave_as_much_outside_as_many():
    rng = np.random.default_rng(0)
    found = [comparison._ends(0.0, rng.standard_normal(40), 0.95) for _ in range(400)]
    inside = [NormalDist().cdf(x.high) - NormalDist().cdf(x.low) for x in found]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


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
        (ends,) = shifted(np.array([[x[name] - y[name]] for x, y in pairs]), [whole])
        assert found[name] == pytest.approx((whole, *ends), abs=1e-12)
    alone = [stats.bootstrap(x, labels, ["nll"], n=30)["nll"] for x in (a, b)]
    width = found["nll"].high - found["nll"].low
    assert width < min(interval.high - interval.low for interval in alone)


def test_seed_interval_is_students():
    values = [0.931, 0.935, 0.928, 0.94, 0.933]
    found = stats.seed_interval(torch.tensor(values, dtype=torch.float64), level=0.9)
    sem = scipy_stats.sem(values)
    assert found[1:] == pytest.approx(scipy_stats.t.interval(0.9, 4, np.mean(values), sem))
    assert found.estimate == pytest.approx(np.mean(values))


def test_one_seed_has_no_interval():
    single = stats.seed_interval([0.9])
    assert single.estimate == 0.9 and math.isnan(single.low) and math.isnan(single.high)


GOOD = [[2.0, 0.0], [0.0, 1.0]]


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
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


# --- intervals: where they lie, what they say, how they are written ---


@pytest.mark.parametrize("seed", range(12))
def test_intervals_stay_where_the_metric_lives_and_hold_their_estimate(seed):
    """Small sets, nearly always right: percentiles are skewed and their shift moves them out."""
    logits, labels = sample(40, seed=seed, skill=8.0)
    names = [*metrics.ranked_metrics(), "nll", "brier", "classwise_ece", "excess_classwise_ece"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for name, x in stats.bootstrap(logits, labels, names, n=40, seed=seed).items():
            top = {"nll": math.inf, "brier": 2, "augrc": 0.5}.get(name, 1)
            assert math.isnan(x.low) or lowest(name) <= x.low <= x.estimate <= x.high <= top, name
        other = np.roll(logits, 1, axis=1)
        for name, x in stats.compare(logits, other, labels, names, n=40, seed=seed).items():
            assert math.isnan(x.low) or x.low <= x.estimate <= x.high, name
            assert name == "nll" or not (x.low < -2 or x.high > 2)


def test_interval_that_a_shift_would_move_beyond_one():
    """Right and wrong answers equally sure: the false positive rate is 1 and cannot be more."""
    logits = np.c_[np.r_[np.full(30, 2.0), np.full(10, 1.0)], np.zeros(40)]
    labels = np.r_[np.zeros(30), np.ones(5), np.zeros(5)].astype(int)
    x = stats.bootstrap(logits, labels, ["fpr_at_tpr"], n=200)["fpr_at_tpr"]
    assert x.estimate == 1 and x.high == 1 and x.low < 1


@pytest.mark.parametrize("ends, margin, word", [
    ((0.1, 0.3), 0.0, "higher"), ((-0.3, -0.1), 0.05, "lower"), ((-0.3, 0.1), 0.2, "unclear"),
    ((0.1, 0.3), 0.2, "higher"), ((0.1, 0.3), 0.3, "no difference"),
    ((-0.3, 0.1), 0.3, "no difference"),
    ((0.0, 0.0), 0.0, "no difference"), ((math.nan, math.nan), 1.0, "unclear"),
])  # fmt: skip
def test_outcome_with_a_margin(ends, margin, word):
    assert stats.Interval(sum(ends) / 2, *ends).outcome(margin) == word


@pytest.mark.parametrize("interval, arguments, text", [
    ((0.5, 0.4, 0.6), {}, "0.50 [0.40, 0.60]"),
    ((0.5, math.nan, math.nan), {}, "0.500"),
    ((0.5, math.nan, math.nan), {"scale": 100, "unit": " %", "half": True}, "50.0 %"),
    ((math.nan,) * 3, {"scale": 100}, "–"),
    ((math.inf, math.nan, math.nan), {}, "∞"),
    ((-0.00001, -0.001, 0.001), {"scale": 100, "digits": 1}, "0.0 [−0.1, 0.1]"),
    ((0.1, -0.05, 0.25), {"sign": True, "half": True, "scale": 100}, "+10 ± 15"),
    ((1.0, 1.0, 1.0), {"scale": 100, "unit": " %"}, "100.0 % [100.0, 100.0]"),
])  # fmt: skip
def test_intervals_are_written_in_one_notation(interval, arguments, text):
    assert stats.Interval(*interval).format(**arguments) == text


def test_wilson_is_scipys_and_stays_in_range():
    for right, n, level in ((8, 10, 0.95), (0, 5, 0.9), (7, 7, 0.99)):
        expected = scipy_stats.binomtest(right, n).proportion_ci(level, "wilson")
        found = stats.wilson(right, n, level)
        assert found == pytest.approx((right / n, expected.low, expected.high))
    share, low, high = stats.wilson([0, 3, 0], [4, 3, 0])
    assert share[:2].tolist() == [0, 1]
    assert low[0] == 0 and high[1] == 1 and np.isnan([low[2], high[2]]).all()


# --- calibration errors are compared by what chance leaves of them ---


def answers(rng, n, accuracy, off=0.0):
    """Confidences of a model that is right `off` less often than it says."""
    spread = rng.beta(1.2, 0.133, n) if accuracy == 0.9 else 0.1 + 0.9 * rng.beta(1.0, 1.65, n)
    return stats.Answers(spread, rng.random(n) < spread - off)


def told_apart(off, *accuracies, sets):
    names = ["ece", "excess_ece", "excess_adaptive_ece"]
    found = []
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        a, b = (
            answers(rng, 10_000, accuracy, o)
            for accuracy, o in zip(accuracies, (off, 0.0), strict=True)
        )
        found.append(stats.compare(a, b, None, names, n=60, seed=seed))
    assert {type(x["ece"]) for x in found} == {stats.Unjudged}
    assert {x["ece"].outcome() for x in found} == {"unclear"}
    return {m: np.mean([not x[m].low <= 0 <= x[m].high for x in found]) for m in names}


def test_two_calibrated_models_of_unlike_accuracy_are_not_told_apart():
    share = told_apart(0.0, 0.44, 0.9, sets=60)
    assert share["excess_ece"] <= 0.07 and share["excess_adaptive_ece"] <= 0.07
    assert share["ece"] > 0.2  # which is why it gets no verdict


def test_two_points_of_miscalibration_are_found():
    assert told_apart(0.02, 0.9, 0.9, sets=30)["excess_ece"] >= 0.95
    assert 0.1 < told_apart(0.02, 0.44, 0.44, sets=30)["excess_ece"] < 0.6


def test_answers_give_what_their_logits_give():
    logits, labels = sample()
    known = metrics.per_sample(logits, labels)
    one = stats.Answers(known["confidence"], known["correct"])
    names = ["auroc", "ece", "risk_at_coverage_0.5", "coverage_at_risk_0.1"]
    assert stats.bootstrap(one, None, names, n=9) == stats.bootstrap(logits, labels, names, n=9)
    at = metrics.risk_at_coverage(*one, 0.5)
    assert stats.bootstrap(one, None, names, n=9)["risk_at_coverage_0.5"].estimate == at
    with pytest.raises(ValueError, match=r"^metric_names: got \['nll'\], expected a list of"):
        stats.bootstrap(one, None, ["nll"])
    with pytest.raises(ValueError, match=r"^logits: got \(2, 400\) samples, expected the same"):
        stats.compare(stats.Answers([0.5, 0.6], [0, 1]), one, None, ["auroc"])


def test_probabilities_are_refused_or_taken_as_such():
    logits, labels = sample()
    probs, names = softmax(logits, axis=1), ["ece", "nll", "auroc"]
    calls = [
        lambda x, **kind: stats.bootstrap(x, labels, names, n=9, **kind),
        lambda x, **kind: stats.compare(x, x[::-1], labels, names, n=9, **kind),
        lambda x, **kind: stats.replicates([x], labels, names, n=9, **kind),
        lambda x, **kind: deviations.replicates_of_run(x, labels, x, labels, n=3, **kind).estimates,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="logits: got probabilities .* np.log .* kind="):
            call(probs)
        taken, expected = call(probs, kind="probs"), call(logits)
        if isinstance(expected, dict):
            taken, expected = list(taken.values()), list(expected.values())
        # Rounding decides between temperatures of almost the same ECE.
        np.testing.assert_allclose(taken, expected, atol=0.02)
    with pytest.raises(ValueError, match="^val_logits: got probabilities"):
        deviations.replicates_of_run(logits, labels, probs, labels, n=3)


def test_functions_are_as_good_as_names():
    logits, labels = sample()
    names = ["auroc", "risk_at_coverage_0.5", "coverage_at_risk_0.1"]
    functions = [
        metrics.auroc,
        partial(metrics.risk_at_coverage, coverage=0.5),
        partial(metrics.coverage_at_risk, risk=0.1),
    ]
    labelled = ["auroc", "risk_at_coverage(coverage=0.5)", "coverage_at_risk(risk=0.1)"]
    other = logits + np.random.default_rng(0).normal(size=logits.shape)
    for given in (
        lambda which: stats.bootstrap(logits, labels, which, n=20),
        lambda which: stats.compare(logits, other, labels, which, n=20),
    ):
        named, called = given(names), given(functions)
        assert list(called) == labelled
        for x, y in zip(named.values(), called.values(), strict=True):
            assert y == pytest.approx(x)
    mixed = stats.bootstrap(logits, labels, ["nll", lambda c, z: -c.mean()], n=20)
    assert list(mixed) == ["nll", "<lambda>"] and mixed["<lambda>"].high < 0  # it has no range
    with pytest.raises(ValueError, match="^metric_names: got <function auroc"):
        stats.bootstrap(logits, labels, metrics.auroc)
    with pytest.warns(UndefinedMetricWarning, match="nan: auroc$") as caught:
        stats.bootstrap(logits, logits.argmax(1), [metrics.auroc], n=5)
    assert len(caught) == 1


def test_all_of_each_sample_gives_what_its_logits_give():
    logits, labels = sample()
    known, names = stats.Samples(**metrics.per_sample(logits, labels)), ["nll", "brier", "aurc"]
    assert stats.bootstrap(known, None, names, n=9) == stats.bootstrap(logits, labels, names, n=9)
    found = stats.compare(known, logits, labels, names, n=9)
    assert all(tuple(difference) == (0, 0, 0) for difference in found.values())
    with pytest.raises(ValueError, match="^metric_names: got"):
        stats.bootstrap(known, None, ["classwise_ece"])


# --- what a run keeps ---


def summary_by_both(logits, labels):
    """`metrics.summary` by the confidence, and what ranks by the log-odds under other names."""
    by_odds, known = metrics.summary(logits, labels), metrics.per_sample(logits, labels)
    ranking = metrics.Ranking.of(known["confidence"], known["correct"])
    shares = [float(m[17:]) for m in deviations.COMPARED if m.startswith("risk_at_coverage_")]
    functions = metrics.ranked_metrics(coverages=shares)
    order = metrics.Ranking.of(confidence.log_odds(logits), known["correct"])
    functions = {name: f for name, f in functions.items() if metrics.ranks(name)}
    by_odds |= {f"{name}_log_odds": f(order) for name, f in functions.items()}
    return by_odds | {name: f(ranking) for name, f in functions.items()}


def test_replicates_of_a_run_are_those_of_summary_and_shared_by_runs(tmp_path):
    (logits, labels), held_out = sample(200), sample(150, seed=9)
    found = deviations.replicates_of_run(logits, labels, *held_out, n=6, seed=4)
    assert found.deviations.shape == (len(found.names), 6) and found.deviations.dtype == np.float32
    rng = np.random.default_rng(4)
    draws = [rng.integers(0, 200, 200) for _ in range(6)]
    shown = {name: logits / t for name, t in found.temperatures.items()} | {"": logits}
    binned = posthoc.HistogramBinning().fit(*held_out).predict_proba(logits)
    shown["binned"] = np.log(np.maximum(binned, 1e-30))
    for after, its in shown.items():
        whole, *resampled = (summary_by_both(its[i], labels[i]) for i in (slice(None), *draws))
        by_odds = [
            f"{m}_log_odds" for m in deviations.COMPARED if metrics.ranks(m) and after != "binned"
        ]
        assert len(by_odds) == (0 if after == "binned" else 12)
        for metric in set([*deviations.COMPARED, *by_odds]) & set(whole):
            name = f"{metric}_{after}" if after else metric
            if after and metric in by_odds:
                name = f"{metric.removesuffix('_log_odds')}_{after}_log_odds"
            assert found.estimate(name) == pytest.approx(whole[metric], abs=1e-9), name
            expected = [values[metric] - whole[metric] for values in resampled]
            assert found.deviation(name) == pytest.approx(expected, abs=1e-6), name
    assert {"risk_at_coverage_0.5", "risk_at_coverage_0.95_ts_ece", "auroc_binned"} <= {
        *found.names
    }
    assert found.temperatures == {
        "ts_nll": posthoc.optimal_temperature(*held_out, "nll")[0],
        "ts_ece": posthoc.optimal_temperature(*held_out, "ece")[0],
        "optimal": posthoc.optimal_temperature(logits, labels, "ece")[0],
    }
    found.save(tmp_path / "replicates.npz")
    again = deviations.Replicates.load(tmp_path / "replicates.npz")
    assert again.names == found.names and again.temperatures == found.temperatures
    assert again.p == found.p
    np.testing.assert_array_equal(again.estimates, found.estimates)
    best = confidence.choose_p(*held_out)
    score, right = confidence.p_norm(logits, best), logits.argmax(1) == labels
    assert found.p == best
    for metric in ("auroc", "aurc"):
        value = getattr(metrics, metric)(score, right)
        assert found.estimate(f"{metric}_p_norm") == value
        expected = [getattr(metrics, metric)(score[i], right[i]) - value for i in draws]
        assert found.deviation(f"{metric}_p_norm") == pytest.approx(expected, abs=1e-6)
    most = np.abs(found.deviations).max(1, keepdims=True)  # kept in steps of 1/127 of it
    assert (np.abs(again.deviations - found.deviations) <= most / 250).all()
    assert "ece_binned" in again and "ece_ts" not in again
    assert (tmp_path / "replicates.npz").stat().st_size < 12_000


def test_a_run_without_validation_data_has_the_optimal_temperature_only():
    logits, labels = sample(100)
    found = deviations.replicates_of_run(logits, labels, n=3)
    assert list(found.temperatures) == ["optimal"]
    assert found.p is None and "auroc_p_norm" not in found


def test_no_p_is_chosen_where_every_one_is_as_good(tmp_path):
    logits, labels = sample(100)
    alike = deviations.replicates_of_run(logits, labels, logits, logits.argmax(1), n=3)  # no error
    two = deviations.replicates_of_run(logits[:, :2], labels % 2, logits[:, :2], labels % 2, n=3)
    alike.save(tmp_path / "replicates.npz")
    for found in (alike, two, deviations.Replicates.load(tmp_path / "replicates.npz")):
        assert found.p is None and "auroc_p_norm" not in found


def test_an_older_file_has_no_p(tmp_path):
    (logits, labels), held_out = sample(200), sample(150, seed=9)
    deviations.replicates_of_run(logits, labels, *held_out, n=3).save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        np.savez(tmp_path / "old.npz", **{k: file[k] for k in file.files if k != "p"})
    assert deviations.Replicates.load(tmp_path / "new.npz").p in range(1, 11)
    assert deviations.Replicates.load(tmp_path / "old.npz").p is None


# --- means over seeds, with the doubt of the test set ---


def test_mean_over_seeds_by_hand():
    values, draws = [1.0, 2.0, 4.0], np.array([[0.3, -0.3], [0.1, -0.1], [0.2, -0.2]])
    found = stats.mean_over_seeds(values, draws)
    of_mean, mean_of = 2 * 0.2**2, 2 * (0.09 + 0.01 + 0.04) / 3
    apart = 1.5 * (mean_of - of_mean)
    assert found.shared == pytest.approx(of_mean - apart / 3)
    assert found.own == pytest.approx(7 / 3) and found.seeds == 3
    variance = found.shared + 7 / 9
    freedom = 2 * (variance / (7 / 9)) ** 2
    half = scipy_stats.t.ppf(0.95, freedom) * math.sqrt(variance)
    assert found.interval(0.9) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-4)
    t, z = scipy_stats.t.ppf(0.995, 2), scipy_stats.norm.ppf(0.995)
    half = math.sqrt(z**2 * found.shared + t**2 * 7 / 9)
    assert found.interval(0.99) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-4)


def test_runs_that_spread_less_than_their_test_set_makes_them():
    """Three runs that happen to agree: the doubt is that of the mean over resamples."""
    draws = np.random.default_rng(0).normal(size=(3, 4000))
    found = stats.mean_over_seeds([1.0, 1.0, 1.0], draws)
    assert found.own == pytest.approx(1, rel=0.05) and found.shared == pytest.approx(0, abs=0.02)
    assert found.variance == pytest.approx(draws.mean(axis=0).var(ddof=1), rel=0.01)
    _, low, high = found.interval()
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(found.variance), rel=1e-3)


def test_one_run_has_an_interval_only_by_the_spread_of_others():
    draws = np.random.default_rng(0).normal(0, 1e-3, (1, 500))
    assert math.isnan(stats.mean_over_seeds([1.0], draws).interval().low)
    lent = stats.mean_over_seeds([1.0], draws, spread=[0.9, 1.1, 1.0]).interval()
    assert lent.high - 1 == pytest.approx(scipy_stats.t.ppf(0.975, 2) * 0.1, rel=0.01)
    nothing = stats.mean_over_seeds([math.nan, math.nan])
    assert nothing.seeds == 0 and math.isnan(nothing.interval().estimate)


@pytest.mark.parametrize("shared, apart, seeds_sd, k", [
    (1.0, 0.0, 0.0, 3), (0.3, 1.0, 0.0, 3), (0.0, 1.0, 0.5, 3), (0.5, 0.5, 1.0, 3),
    (0.3, 1.0, 0.3, 5), (0.0, 0.0, 1.0, 2),
])  # fmt: skip
def test_mean_over_seeds_covers_as_often_as_it_says(shared, apart, seeds_sd, k):
    """Runs differ by the test set that they share, by how each takes it, and by their seed."""
    rng, inside, trials, n = np.random.default_rng(k), 0, 1500, 100
    for _ in range(trials):
        values = rng.normal(0, shared) + rng.normal(0, math.hypot(apart, seeds_sd), k)
        draws = rng.normal(0, shared, n) + rng.normal(0, apart, (k, n))
        found = stats.mean_over_seeds(values, draws).interval()
        inside += found.low < 0 < found.high
    assert 0.93 < inside / trials < 0.985


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


@pytest.mark.parametrize("call, message", [
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aur"]), r"metric_names: got \['aur'\], exp.*auroc"),
    (lambda: stats.bootstrap(GOOD, [0, 1], "aurc"), "metric_names: got 'aurc', expected a list"),
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aurc"], n=1), "n: got 1, expected at least 2"),
    (lambda: stats.bootstrap(GOOD, [0, 1], ["aurc"], level=95), "level: got 95, expected"),
    (lambda: stats.compare(GOOD, [[2.0, 0.0]], [0, 1], ["aurc"]), "labels: got 2 values"),
    (lambda: stats.mean_over_seeds([1.0, 2.0], [[0.1, 0.2]]), r"deviations: got shape \(1, 2\)"),
    (lambda: stats.wilson(1, 2, level=95), "level: got 95, expected"),
    (lambda: stats.seed_interval([]), r"values: got shape \(0,\), expected"),
    (lambda: stats.seed_interval([1.0, 2.0], level=0), "level: got 0, expected"),
    (lambda: stats.replicates([], [0], ["aurc"]), "models: got no arrays, expected one for each"),
])  # fmt: skip
def test_bad_options_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
