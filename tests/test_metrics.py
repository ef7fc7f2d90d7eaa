import inspect
import itertools
import json
import math
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn import metrics as sk

from calibkit import metrics
from calibkit.arrays import BLOCK, MOST_BINS
from calibkit.metrics import UndefinedMetricWarning

# What netcal has for `sample(2000)`; benchmarks/netcal_values.py.
NETCAL = json.loads((Path(__file__).parent / "netcal.json").read_text())
quick = settings(max_examples=60, deadline=None)
undefined = pytest.mark.filterwarnings("ignore::calibkit.metrics.UndefinedMetricWarning")

# ------------------------------------------------------------------------------- data


def sample(n=500, k=10, seed=0, dtype=np.float64, skill=3.0):
    """Logits of a fallible, over-confident model and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(0, 2, (n, k))
    logits[np.arange(n), labels] += rng.exponential(skill, n)
    return logits.astype(dtype), labels


def ranked(n=400, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5, 2, n)
    correct = rng.random(n) < confidence
    return (confidence if decimals is None else confidence.round(decimals)), correct


# Few distinct values, 0 and 1 among them: ties and saturation are the rule here.
scores = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5 + 2**-40, 0.9, 1 - 2**-50, 1.0])
judged = st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=40).map(
    lambda pairs: (np.array([c for c, _ in pairs]), np.array([z for _, z in pairs]))
)
judged_both = judged.filter(lambda data: 0 < data[1].sum() < len(data[1]))


@st.composite
def classified(draw):
    """Probabilities with exact zeros and ones, and labels of which some classes may be missing."""
    n, k = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = rng.dirichlet(np.full(k, draw(st.sampled_from([0.02, 0.3, 2.0]))), n)
    sure = rng.random(n) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    probs[sure] = np.eye(k)[rng.integers(0, k, sure.sum())]
    return probs, rng.integers(0, draw(st.integers(1, k)), n)


# ------------------------------------------------------------- oracles, as slow as the formulas


def top(probs, labels):
    return probs.max(axis=1), probs.argmax(axis=1) == labels


def slow_bins(confidence, correct, bins):
    """Yield (size, confidence, accuracy) of each non-empty bin (lo, hi], 0 in the first."""
    edges = np.linspace(0, 1, bins + 1)
    for i in range(bins):
        inside = (confidence > edges[i]) & (confidence <= edges[i + 1])
        if i == 0:
            inside |= confidence == 0
        if inside.any():
            yield inside.sum(), confidence[inside].mean(), correct[inside].mean()


def slow_ece(confidence, correct, bins=15):
    n = len(confidence)
    return sum(size / n * abs(a - c) for size, c, a in slow_bins(confidence, correct, bins))


def slow_aurc(confidence, correct):
    """Average over every order of the tied samples (one order per arrangement of a small group)."""
    order = np.argsort(-confidence, kind="stable")
    confidence, wrong = confidence[order], ~correct[order]
    risks, accepted, failed = [], 0, 0
    for value in dict.fromkeys(confidence):
        group = wrong[confidence == value]
        orders = np.array(list(itertools.permutations(group)))
        steps = accepted + np.arange(1, len(group) + 1)
        risks += list(((failed + orders.cumsum(axis=1)) / steps).mean(axis=0))
        accepted, failed = accepted + len(group), failed + group.sum()
    return np.mean(risks)


def slow_brier_parts(probs, labels, bins):
    n, k = probs.shape
    parts = dict.fromkeys(("calibration", "uncertainty", "resolution", "within_bin"), 0.0)
    edges = np.linspace(0, 1, bins + 1)
    for j in range(k):
        p, t = probs[:, j], (labels == j).astype(float)
        parts["uncertainty"] += t.mean() * (1 - t.mean())
        for i in range(bins):
            inside = (p > edges[i]) & (p <= edges[i + 1]) | ((i == 0) & (p == 0))
            if inside.any():
                q, s, w = p[inside], t[inside], inside.mean()
                parts["calibration"] += w * (q.mean() - s.mean()) ** 2
                parts["resolution"] += w * (s.mean() - t.mean()) ** 2
                covariance = ((q - q.mean()) * (s - s.mean())).mean()
                parts["within_bin"] += w * (q.var() - 2 * covariance)
    return parts


# ------------------------------------------------------------------------- calibration


def test_ece_by_hand():
    # Bins of 0.5: (0.5, 1] holds all three, two of which are right at 0.9, 0.6 and 0.6.
    probs = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]])
    labels = [0, 0, 0]
    assert metrics.ece(probs, labels, bins=2) == pytest.approx(abs(2 / 3 - 0.7))
    # Bins of 0.2: (0.4, 0.6] is right once in two at 0.6, (0.8, 1] is right at 0.9.
    assert metrics.ece(probs, labels, bins=5) == pytest.approx((2 * 0.1 + 0.1) / 3)
    assert metrics.mce(probs, labels, bins=5) == pytest.approx(0.1)
    assert metrics.overconfidence_error(probs, labels, bins=5) == pytest.approx(2 / 3 * 0.6 * 0.1)


@given(classified(), st.sampled_from([1, 2, 7, 10, 15, 100]))
@quick
def test_top_label_metrics_follow_their_formulas(data, bins):
    probs, labels = data
    confidence, correct = top(probs, labels)
    table, n = list(slow_bins(confidence, correct, bins)), len(labels)
    expected = {
        "ece": sum(size / n * abs(a - c) for size, c, a in table),
        "mce": max(abs(a - c) for _, c, a in table),
        "overconfidence_error": sum(size / n * c * max(c - a, 0) for size, c, a in table),
    }
    for name, value in expected.items():
        assert getattr(metrics, name)(probs, labels, bins) == pytest.approx(value, abs=1e-12)


def test_edges_belong_to_the_bin_below_in_every_precision():
    # 0.07 * 100 is above 7 and 0.29 * 100 below 29 in floating point: no arithmetic on the edges.
    for bins in (5, 10, 15, 20, 100):
        for value in np.linspace(0, 1, bins + 1)[1:]:
            for dtype in (np.float32, np.float64):
                counts = metrics.reliability_bins(dtype([value]), [1], bins)["count"]
                assert counts.argmax() == round(value * bins) - 1
    above = np.nextafter(0.2, 1)
    assert metrics.reliability_bins([above], [1], 5)["count"].tolist() == [0, 1, 0, 0, 0]
    assert metrics.reliability_bins([0.0, 1.0], [1, 1], 5)["count"].tolist() == [1, 0, 0, 0, 1]


def test_ece_agrees_with_torchmetrics_and_netcal():
    pytest.importorskip("calibkit_companion.data.torchvision")  # torchmetrics imports torchvision
    from torchmetrics.functional.classification import multiclass_calibration_error

    logits, labels = sample(2000)
    probs = softmax(logits, axis=1)
    for bins in (10, 15, 37):
        for name, norm in (("ece", "l1"), ("mce", "max")):
            value = getattr(metrics, name)(probs, labels, bins)
            assert value == pytest.approx(NETCAL[name][str(bins)])
            tensors = torch.tensor(probs), torch.tensor(labels)
            other = multiclass_calibration_error(*tensors, 10, n_bins=bins, norm=norm)
            assert value == pytest.approx(float(other), abs=1e-6)


@pytest.mark.parametrize("n, bins", [(300, 15), (301, 15), (314, 15), (10, 3), (5, 15)])
def test_adaptive_ece_cuts_at_equal_counts(n, bins):
    logits, labels = sample(n)
    probs = softmax(logits, axis=1)
    confidence, correct = top(probs, labels)
    order = np.argsort(confidence)
    # With n below a multiple of the bins, sample i (from 0) is in bin floor(i * bins / n).
    groups = [order[np.arange(n) * bins // n == i] for i in range(bins)]
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    expected = sum(abs(confidence[g].sum() - correct[g].sum()) for g in groups) / n
    assert metrics.adaptive_ece(probs, labels, bins) == pytest.approx(expected, abs=1e-12)
    table = metrics.reliability_bins(confidence, correct, bins, scheme="equal_mass")
    assert table["count"].tolist() == [len(g) for g in groups]
    assert table["edges"][0] == confidence.min() and table["edges"][-1] == confidence.max()


def test_adaptive_ece_is_that_of_the_papers_code_but_for_the_lowest_sample():
    logits, labels = sample(3000)
    probs = softmax(logits, axis=1)
    confidence, correct = top(probs, labels)
    edges = np.interp(np.linspace(0, 3000, 16), np.arange(3000), np.sort(confidence))
    theirs = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        theirs += abs(correct[inside].sum() - confidence[inside].sum()) / 3000
    assert metrics.adaptive_ece(probs, labels) == pytest.approx(theirs, abs=16 / 3000)


@given(judged, st.sampled_from([1, 3, 15]))
@quick
def test_equal_mass_bins_keep_ties_together(data, bins):
    confidence, correct = data
    table = metrics.reliability_bins(confidence, correct, bins, scheme="equal_mass")
    edges = table["edges"]
    assert table["count"].sum() == len(confidence)
    assert (np.diff(edges) >= 0).all() and len(edges) == bins + 1
    # The edges say the same as the counts.
    index = np.searchsorted(edges[1:-1], confidence)
    assert np.bincount(index, minlength=bins).tolist() == table["count"].tolist()
    assert (np.isnan(table["accuracy"]) == (table["count"] == 0)).all()


@given(judged, st.sampled_from([1, 5, 15, 100]))
@quick
def test_reliability_bins_hold_the_ece(data, bins):
    confidence, correct = data
    table = metrics.reliability_bins(confidence, correct, bins)
    assert len(table["edges"]) == bins + 1 and table["count"].sum() == len(confidence)
    gap = np.nansum(table["count"] * np.abs(table["accuracy"] - table["confidence"]))
    assert gap / len(confidence) == pytest.approx(slow_ece(confidence, correct, bins), abs=1e-12)


@given(classified())
@quick
def test_nll_and_brier_follow_their_formulas(data):
    probs, labels = data
    n, k = probs.shape
    assert metrics.brier(probs, labels) == pytest.approx(
        ((probs - np.eye(k)[labels]) ** 2).sum(axis=1).mean(), abs=1e-14
    )
    if (probs[np.arange(n), labels] > 1e-15).all():
        expected = sk.log_loss(labels, probs / probs.sum(1, keepdims=True), labels=np.arange(k))
        assert metrics.nll(probs, labels) == pytest.approx(expected, abs=1e-9)
    elif (probs[np.arange(n), labels] == 0).any():
        assert metrics.nll(probs, labels) == math.inf


@given(classified(), st.sampled_from([1, 2, 5, 15]))
@quick
def test_classwise_ece_follows_its_formula(data, bins):
    probs, labels = data
    k = probs.shape[1]
    expected = np.mean([slow_ece(probs[:, j], labels == j, bins) for j in range(k)])
    assert metrics.classwise_ece(probs, labels, bins) == pytest.approx(expected, abs=1e-12)


@given(classified(), st.sampled_from([1, 2, 5, 15]))
@quick
def test_brier_parts_are_those_of_murphy_and_stephenson_and_add_up(data, bins):
    probs, labels = data
    parts = metrics.brier_decomposition(probs, labels, bins)
    expected = slow_brier_parts(probs, labels, bins)
    for name, value in expected.items():
        assert parts[name] == pytest.approx(value, abs=1e-12)
    total = metrics.brier(probs, labels)
    assert parts["brier"] == pytest.approx(total, abs=1e-12)
    assert parts["calibration"] + parts["refinement"] == pytest.approx(total, abs=1e-12)
    assert parts["refinement"] == pytest.approx(
        parts["uncertainty"] - parts["resolution"] + parts["within_bin"], abs=1e-14
    )


def test_brier_parts_add_up_in_float32_over_several_blocks():
    logits, labels = sample(2000, 200, dtype=np.float32)
    assert logits.size > 2 * BLOCK
    probs = softmax(logits, axis=1)
    parts = metrics.brier_decomposition(probs, labels)
    assert parts["calibration"] + parts["refinement"] == pytest.approx(parts["brier"], abs=1e-12)
    assert parts["brier"] == pytest.approx(metrics.brier(probs, labels), rel=1e-6)


@pytest.mark.parametrize("k", [2, 10, 40, 41, 70])  # few classes and many go different ways
def test_of_tied_classes_the_first_is_predicted(k):
    rng = np.random.default_rng(k)
    probs = rng.integers(0, 3, size=(3000, k)) + 1e-3  # ties in most rows
    probs /= probs.sum(1, keepdims=True)
    labels = rng.integers(k, size=3000)
    correct = probs.argmax(1) == labels
    mean = correct.mean() - probs.max(1).mean()
    assert metrics.ece(probs, labels, bins=1) == pytest.approx(abs(mean), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 400), st.floats(0.05, 6.0), st.sampled_from([2, 9]))
def test_smooth_ece_is_relplots(seed, n, scale, k):
    relplot = pytest.importorskip("relplot")
    logits, labels = sample(n, k, seed)
    probs = softmax(scale * logits, axis=1)
    confidence, correct = top(probs, labels)
    expected = relplot.smECE(confidence, correct.astype(float))
    assert metrics.smooth_ece(probs, labels) == pytest.approx(expected, rel=1e-9)


def test_smooth_ece_of_a_calibrated_model_is_small():
    relplot = pytest.importorskip("relplot")
    confidence = np.random.default_rng(0).uniform(0.5, 1, 40_000)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    labels = (np.random.default_rng(1).random(40_000) > confidence).astype(int)
    found = metrics.smooth_ece(probs, labels)  # in a kernel so narrow that the grid is finer
    assert found < 0.01
    assert found == pytest.approx(relplot.smECE(confidence, 1.0 - labels), rel=1e-9)


# ------------------------------------------------------------------------ failure prediction


@given(judged_both)
@quick
def test_ranking_metrics_agree_with_scikit_learn(data):
    confidence, correct = data
    fpr, tpr, _ = sk.roc_curve(correct, confidence)
    expected = {
        "auroc": sk.roc_auc_score(correct, confidence),
        "aupr_success": sk.average_precision_score(correct, confidence),
        "aupr_error": sk.average_precision_score(~correct, -confidence),
    }
    for name, value in expected.items():
        assert getattr(metrics, name)(confidence, correct) == pytest.approx(value, abs=1e-12)
    for level in (0.3, 0.5, 0.95, 1.0):
        nearest = fpr[np.argmin(np.abs(tpr - level))]
        assert metrics.fpr_at_tpr(confidence, correct, level, "nearest") == pytest.approx(nearest)
        thresholds = np.unique(confidence)
        enough = [t for t in thresholds if (confidence[correct] >= t).mean() >= level]
        exact = (confidence[~correct] >= max(enough)).mean()
        assert metrics.fpr_at_tpr(confidence, correct, level) == pytest.approx(exact, abs=1e-15)


def test_conventions_differ_as_surveyed_and_by_no_more():
    rng = np.random.default_rng(0)
    correct = rng.random(10_000) < 0.95
    confidence = np.where(correct, rng.beta(8, 1, 10_000), rng.beta(4, 2, 10_000))
    exact = metrics.fpr_at_tpr(confidence, correct)
    assert 0 < abs(exact - metrics.fpr_at_tpr(confidence, correct, convention="nearest")) < 0.006
    precision, recall, _ = sk.precision_recall_curve(correct, confidence)  # by straight lines
    gap = metrics.aupr_success(confidence, correct) - sk.auc(recall, precision)
    assert 0 < abs(gap) < 1e-3


def test_aurc_by_hand():
    # Risks at coverage 1/4, 2/4, 3/4, 1: 0, 0, 1/3, 1/4.
    data = [0.9, 0.8, 0.7, 0.6], [True, True, False, True]
    assert metrics.aurc(*data) == pytest.approx((1 / 3 + 1 / 4) / 4)
    optimal = 1 / 4 + 3 / 4 * math.log(3 / 4)
    assert metrics.eaurc(*data) == pytest.approx((1 / 3 + 1 / 4) / 4 - optimal)
    # Trapezoids under (0, 0), (1/4, 0), (2/4, 0), (3/4, 1/4), (1, 1/4).
    assert metrics.augrc(*data) == pytest.approx(1 / 4 * (1 / 8 + 1 / 4))


@given(st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=7))
@quick
def test_aurc_is_the_mean_over_all_orders_of_ties(pairs):
    confidence, correct = (np.array(column) for column in zip(*pairs, strict=True))
    expected = slow_aurc(confidence, correct)
    assert metrics.aurc(confidence, correct) == pytest.approx(expected, abs=1e-12)


def test_aurc_is_that_of_the_papers_code_without_ties():
    confidence, correct = ranked(1000)
    assert len(np.unique(confidence)) == 1000
    wrong = ~correct[np.argsort(-confidence)]
    expected = np.mean(np.cumsum(wrong) / np.arange(1, 1001))
    assert metrics.aurc(confidence, correct) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [1, 3, 12])
def test_areas_of_many_predictions_with_ties(dtype, decimals):
    """Group by group: every order of a tie has the same risk on average, at each of its places."""
    confidence, correct = ranked(5000, decimals=decimals)
    confidence = confidence.astype(dtype)
    risks, accepted, failed, caught = [], 0, 0, 0.0
    for value in np.unique(confidence)[::-1]:
        wrong = ~correct[confidence == value]
        step = np.arange(1, len(wrong) + 1)
        risks += list((failed + wrong.mean() * step) / (accepted + step))
        caught += (failed + wrong.sum() / 2) * (len(wrong) - wrong.sum())
        accepted, failed = accepted + len(wrong), failed + wrong.sum()
    area = 1 - caught / (failed * (accepted - failed))
    expected = {
        "aurc": np.mean(risks),
        "auroc": area,
        "augrc": (1 - area) * (failed / 5000) * (1 - failed / 5000) + (failed / 5000) ** 2 / 2,
    }
    for name, value in expected.items():
        assert getattr(metrics, name)(confidence, correct) == pytest.approx(value, abs=1e-13), name


@given(judged, st.integers(0, 2**32 - 1))
@quick
@undefined
def test_areas_of_a_ranking_are_those_of_its_samples(data, seed):
    """Also of a replicate, which has no sample at some confidences."""
    confidence, correct = data
    drawn = np.random.default_rng(seed).integers(0, 2, len(correct)) > 0
    drawn[0] = True
    distinct, place = np.unique(-confidence, return_inverse=True)
    right, wrong = (np.bincount(place[drawn & z], minlength=len(distinct))
                    for z in (correct, ~correct))  # fmt: skip
    ranking = metrics.Ranking(-distinct, right, wrong)
    for name in ("auroc", "aurc", "eaurc", "augrc"):
        value = getattr(metrics, name)(confidence[drawn], correct[drawn])
        expected = metrics.ranked_metrics()[name](ranking)
        assert value == pytest.approx(expected, abs=1e-15, nan_ok=True), name


@given(judged)
@quick
def test_augrc_is_the_trapezoid_area(data):
    confidence, correct = data
    coverage, risk = metrics.risk_coverage(confidence, correct)
    coverage, joint = np.r_[0, coverage], np.r_[0, coverage * risk]
    expected = np.trapezoid(joint, coverage)
    assert metrics.augrc(confidence, correct) == pytest.approx(expected, abs=1e-12)


@given(judged)
@quick
def test_risk_coverage_has_one_point_per_threshold(data):
    confidence, correct = data
    coverage, risk = metrics.risk_coverage(confidence, correct)
    thresholds = np.unique(confidence)[::-1]
    accepted = [correct[confidence >= t] for t in thresholds]
    np.testing.assert_allclose(coverage, [len(a) / len(correct) for a in accepted], atol=1e-15)
    np.testing.assert_allclose(risk, [1 - a.mean() for a in accepted], atol=1e-15)


@given(judged, st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.sampled_from([0.01, 0.5, 0.95, 1.0]))
@quick
def test_operating_points_lie_on_the_curve(data, risk_wanted, coverage_wanted):
    coverage, risk = metrics.risk_coverage(*data)
    kept = coverage[risk <= risk_wanted]
    best = kept.max() if len(kept) else 0
    assert metrics.coverage_at_risk(*data, risk=risk_wanted) == best
    at = risk[coverage >= coverage_wanted][0]
    assert metrics.risk_at_coverage(*data, coverage=coverage_wanted) == at
    threshold = metrics.threshold_at_risk(*data, risk=risk_wanted)
    assert np.mean(data[0].astype(np.float64) >= threshold) == best
    assert (threshold == np.inf) == (best == 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_threshold_is_printed_in_few_digits_that_accept_the_same(dtype):
    rng = np.random.default_rng(0)
    for sharp in (1, 30, 3000):  # confidences up to 0.99999
        confidence = (1 - rng.random(500) / sharp).astype(dtype)
        correct = rng.random(500) < 0.9
        for risk in (0.08, 0.1, 0.12):
            threshold = metrics.threshold_at_risk(confidence, correct, risk)
            accept = confidence >= float(str(threshold))
            assert accept.mean() == metrics.coverage_at_risk(confidence, correct, risk)
            if 0 < accept.mean() < 1:
                assert len(str(threshold)) <= 8 + np.log10(sharp)
    for step in (0.01, 1e-4):  # as read from a file: no 0.89 comes through for a 0.90
        printed = np.arange(0.5, 1, step).round(4)
        read = np.exp(np.log(printed)).astype(dtype)
        threshold = metrics.threshold_at_risk(read, printed > 0.78, 0.1)
        assert ((printed >= threshold) == (read >= threshold)).all()
    exact = metrics.threshold_at_risk([12.25, 3.5, 1.75], [1, 1, 0], 0.2)  # no probability
    assert exact == 3.5


@given(judged)
@quick
def test_aurc_is_never_below_that_of_a_perfect_ranking(data):
    confidence, correct = data
    assert metrics.aurc(*data) >= metrics.aurc(correct.astype(float), correct) - 1e-12
    oracle = np.mean(np.cumsum(~np.sort(correct)[::-1]) / np.arange(1, len(correct) + 1))
    assert metrics.aurc(*data) >= oracle - 1e-12
    assert metrics.eaurc(*data) >= -1e-12


@given(judged, st.sampled_from([1, 10, 100]))
@quick
def test_refinement_decomposition_adds_up_to_the_ece(data, bins):
    confidence, correct = data
    parts = metrics.refinement_decomposition(confidence, correct, bins)
    n, right = len(correct), correct.sum()
    wrong = n - right
    assert parts["ece"] == pytest.approx(slow_ece(confidence, correct, bins), abs=1e-12)
    assert parts["confidence"] == pytest.approx(confidence.mean(), abs=1e-12)
    assert parts["constant"] == pytest.approx((right**2 + wrong**2) / (2 * n**2))
    if right and wrong:
        area = sk.roc_auc_score(correct, confidence)
        assert parts["refinement"] == pytest.approx(area * 2 * right * wrong / n**2, abs=1e-12)
    total = parts["confidence"] - parts["refinement"] - parts["constant"] + parts["residual"]
    assert total == pytest.approx(parts["ece"], abs=1e-12)


def test_eq9_does_not_hold_for_an_accurate_network_even_if_overconfident():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.8, 1, 10_000)
    correct = rng.random(10_000) < confidence - 0.1
    parts = metrics.refinement_decomposition(confidence, correct, bins=20)
    # Over-confident in every bin, so ECE is mean confidence minus accuracy (eq. 7) ...
    assert parts["ece"] == pytest.approx(confidence.mean() - correct.mean(), abs=1e-9)
    # ... but eq. 8 puts the accuracy near a half, and the residual has to make up for it.
    assert parts["residual"] < -0.2


def test_confidence_gap_overlap_and_ece_correct_by_hand():
    confidence = [0.95, 0.85, 0.85, 0.65, 0.95]
    correct = [1, 1, 0, 0, 1]
    assert metrics.confidence_gap(confidence, correct) == pytest.approx(2.75 / 3 - 0.75)
    # Right: 2/3 in (0.9, 1], 1/3 in (0.8, 0.9]; wrong: 1/2 in (0.8, 0.9], 1/2 in (0.6, 0.7].
    assert metrics.histogram_overlap(confidence, correct, bins=10) == pytest.approx(1 / 3)
    assert metrics.histogram_overlap(confidence, correct, bins=1) == 1
    assert metrics.ece_correct(confidence, correct) == pytest.approx(1 - 2.75 / 3)


@given(judged_both, st.sampled_from([1, 10, 15]))
@quick
def test_confidence_gap_overlap_and_ece_correct_follow_their_formulas(data, bins):
    confidence, correct = data
    right, wrong = confidence[correct], confidence[~correct]
    gap = metrics.confidence_gap(confidence, correct)
    assert gap == pytest.approx(right.mean() - wrong.mean(), abs=1e-12)
    expected = slow_ece(right, np.ones(len(right), bool), bins)
    assert metrics.ece_correct(confidence, correct) == pytest.approx(expected, abs=1e-12)
    edges = np.r_[-1, np.linspace(0, 1, bins + 1)[1:]]
    shares = [[((c > lo) & (c <= hi)).mean() for lo, hi in itertools.pairwise(edges)]
              for c in (right, wrong)]  # fmt: skip
    overlap = metrics.histogram_overlap(confidence, correct, bins)
    assert overlap == pytest.approx(np.minimum(*shares).sum(), abs=1e-12)


# --------------------------------------------------------------------- what must not matter


@given(classified(), st.integers(0, 2**32 - 1))
@quick
@undefined
def test_the_order_of_the_samples_does_not_matter(data, seed):
    probs, labels = data
    shuffle = np.random.default_rng(seed).permutation(len(labels))
    logits = np.log(np.maximum(probs, 1e-30))
    before, after = (
        metrics.summary(logits, labels),
        metrics.summary(logits[shuffle], labels[shuffle]),
    )
    assert before == pytest.approx(after, abs=1e-9, nan_ok=True)


@given(st.lists(st.integers(-8, 8), min_size=2, max_size=40), st.sampled_from([0.5, 2.0, 4.0]))
@quick
@undefined
def test_temperature_moves_neither_accuracy_nor_for_two_classes_the_ranking(gaps, temperature):
    logits = np.c_[np.array(gaps, float), np.zeros(len(gaps))] - 9  # no row is a distribution
    labels = np.arange(len(gaps)) % 2
    before, after = metrics.summary(logits, labels), metrics.summary(logits / temperature, labels)
    same = ("accuracy", "auroc", "aurc", "eaurc", "augrc", "aupr_success", "aupr_error")
    for name in (*same, "fpr_at_tpr", "risk_at_coverage_0.8", "coverage_at_risk_0.05"):
        assert before[name] == pytest.approx(after[name], abs=1e-12, nan_ok=True)


def test_temperature_moves_the_ranking_for_more_classes():
    logits, labels = sample()
    before, after = metrics.summary(logits, labels), metrics.summary(logits / 4, labels)
    assert before["accuracy"] == after["accuracy"]
    assert before["auroc"] != after["auroc"]


@given(judged_both)
@quick
def test_failure_prediction_sees_only_the_order_of_the_confidences(data):
    confidence, correct = data
    place = np.unique(confidence, return_inverse=True)[1] * 7.0 - 100
    for name in ("auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr"):
        f = getattr(metrics, name)
        assert f(confidence, correct) == pytest.approx(f(place, correct), abs=1e-12)


KINDS = [
    np.asarray,
    np.float32,
    lambda x: x.tolist(),
    torch.tensor,
    lambda x: torch.tensor(x, requires_grad=True),
    lambda x: torch.tensor(x, dtype=torch.float32),
]


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_array_gives_the_same_floats(kind):
    logits, labels = sample(300)
    probs = softmax(logits, axis=1)
    confidence, correct = top(probs, labels)
    for name in (
        "ece",
        "adaptive_ece",
        "classwise_ece",
        "mce",
        "overconfidence_error",
        "nll",
        "brier",
    ):
        value = getattr(metrics, name)(kind(probs), torch.tensor(labels))
        assert type(value) is float
        assert value == pytest.approx(getattr(metrics, name)(probs, labels), rel=1e-4)
    for name in ("auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr"):
        value = getattr(metrics, name)(kind(confidence), torch.tensor(correct))
        assert type(value) is float
        assert value == pytest.approx(getattr(metrics, name)(confidence, correct), rel=1e-4)
    values = metrics.summary(kind(logits), labels)
    assert values == pytest.approx(metrics.summary(logits, labels), rel=1e-4, abs=1e-6)
    assert all(type(v) is (int if name == "n" else float) for name, v in values.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_near_enough(dtype):
    logits, labels = sample(2000)
    exact = metrics.summary(logits, labels)
    half = metrics.summary(torch.tensor(logits, dtype=dtype), labels)
    for name in ("accuracy", "ece", "nll", "brier", "auroc", "aurc"):
        assert half[name] == pytest.approx(exact[name], abs=0.01)
    probs = torch.softmax(torch.tensor(logits), dim=1).to(dtype)
    assert metrics.ece(probs, labels) == pytest.approx(exact["ece"], abs=0.01)


def test_arrays_come_back_as_the_kind_given():
    confidence, correct = ranked(50)
    tensor = torch.tensor(confidence)
    for x, kind in ((confidence, np.ndarray), (tensor, torch.Tensor)):
        assert all(type(a) is kind for a in metrics.risk_coverage(x, correct))
        assert all(type(a) is kind for a in metrics.reliability_bins(x, correct).values())
        logits = (
            x[:, None] * np.array([[1.0, -1.0]]) if kind is np.ndarray else torch.stack([x, -x], 1)
        )
        labels = correct.astype(int)
        assert all(type(a) is kind for a in metrics.per_sample(logits, labels).values())


@given(classified())
@quick
def test_top_label_is_the_first_of_the_largest(data):
    probs, labels = data
    for kind in (np.asarray, torch.tensor):
        confidence, correct = metrics.top_label(kind(probs), kind(labels))
        assert type(confidence) is type(correct) is type(kind(probs))
        assert confidence.tolist() == probs.max(axis=1).tolist()
        assert correct.tolist() == (probs.argmax(axis=1) == labels).tolist()


def test_top_label_refuses_what_is_no_matrix():
    with pytest.raises(ValueError, match=r"got shape \(2,\), expected \(n, k\)"):
        metrics.top_label([0.2, 0.8], [0, 1])


# ------------------------------------------------- what chance alone shows, and what is left


def brute_force_floor(confidence, bins):
    """E[ECE] of a calibrated model by adding up all 2^n outcomes."""
    total = 0.0
    for outcome in itertools.product([0, 1], repeat=len(confidence)):
        right = np.array(outcome)
        chance = np.where(right, confidence, 1 - confidence).prod()
        total += chance * ece_by_hand(confidence, right, bins)
    return total


def ece_by_hand(confidence, right, bins):
    m = np.ceil(confidence * bins).clip(1).astype(int)
    return sum(abs((right - confidence)[m == b].sum()) for b in set(m)) / len(confidence)


@pytest.mark.parametrize("confidence, exact", [
    ([0.9] * 8, True), ([0.5, 0.7, 0.8, 0.97], True), ([1.0, 1.0, 0.6], True),
    ([0.95, 0.96, 0.97, 0.99, 0.998, 0.55, 0.57, 0.59], False),
])  # fmt: skip
def test_floor_is_the_expectation_over_all_outcomes(confidence, exact):
    c = np.array(confidence)
    expected = brute_force_floor(c, 15)
    found = metrics.ece_floor(np.c_[c, 1 - c])
    assert found == pytest.approx(expected, rel=1e-9 if exact else 1e-3)


@pytest.mark.parametrize("edges, size, room", [
    ((0.0, 1.0), 10, 0.03), ((0.0, 1.0), 40, 0.015), ((0.93, 1.0), 3, 2e-4),
    ((0.4, 0.467), 2, 2e-3), ((0.6, 0.667), 300, 1e-4), ((0.999, 1.0), 1000, 1e-4),
])  # fmt: skip
def testmean_deviation_of_a_bin_is_near_the_exact_one(edges, size, room):
    """Against the distribution of a Poisson-binomial sum, built up draw by draw."""
    rng = np.random.default_rng(size)
    for _ in range(20):
        p = rng.uniform(*edges, size)
        chances = np.ones(1)
        for x in p:
            chances = np.convolve(chances, [1 - x, x])
        exact = np.abs(np.arange(size + 1) - p.sum()) @ chances
        doubt = 1 - p
        for total, squares in ((p.sum(), p @ p), (doubt.sum(), doubt @ doubt)):
            assert metrics.mean_deviation([size], [total], [squares]) == pytest.approx(
                exact, rel=room
            )


def calibrated(n, k, spread, seed):
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    probs = softmax(logits, axis=1)
    return logits, probs, (probs.cumsum(1) > rng.random((n, 1))).argmax(1)


@pytest.mark.parametrize("n, k, spread", [(300, 4, 1.0), (2000, 10, 4.0)])
@pytest.mark.parametrize("of", ["ece", "adaptive_ece", "classwise_ece"])
def test_floor_is_what_simulated_labels_show_on_average(n, k, spread, of):
    _, probs, _ = calibrated(n, k, spread, seed=0)
    rng = np.random.default_rng(1)
    shown = [
        getattr(metrics, of)(probs, (probs.cumsum(1) > rng.random((n, 1))).argmax(1))
        for _ in range(150)
    ]
    error = np.std(shown) / math.sqrt(len(shown))
    assert abs(metrics.ece_floor(probs, of=of) - np.mean(shown)) < 4 * error
    assert error < 0.03 * np.mean(shown)  # so that the line above can fail


def test_a_bin_of_two_samples_counts_in_the_debiased_error_and_one_of_a_single_does_not():
    """Two: (0.9 - 0.5)^2 less 0.25 / 1, of a mean over both, is -0.09."""
    assert metrics.debiased_ece([[0.9, 0.1]] * 2, [0, 1], bins=1) == pytest.approx(-0.3)
    assert metrics.debiased_ece([[0.9, 0.1], [0.8, 0.2]], [0, 1], bins=2) == 0


def test_excess_and_debiased_error_are_near_zero_for_the_calibrated_and_near_the_truth_else():
    excess, squares, off = [], [], []
    for seed in range(60):
        logits, probs, labels = calibrated(1000, 5, 1.5, seed)
        excess.append(metrics.excess_ece(probs, labels))
        root = metrics.debiased_ece(probs, labels)
        squares.append(math.copysign(root**2, root))  # unbiased is the square, not its root
        sharp = softmax(3 * logits, axis=1)
        off.append([metrics.excess_ece(sharp, labels), metrics.debiased_ece(sharp, labels)])
    for values in (excess, squares):
        assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(60)
    assert abs(np.mean(excess)) < 0.1 * metrics.ece_floor(probs)
    logits, probs, _ = calibrated(100_000, 5, 1.5, 99)
    sharp = softmax(3 * logits, axis=1)
    gap = sharp.max(1) - probs[np.arange(len(probs)), logits.argmax(1)]
    true, floor = abs(gap.mean()), metrics.ece_floor(sharp[:1000])
    found, debiased = np.mean(off, axis=0)
    assert true - 1.2 * floor < found < true  # where noise is hidden, its floor is still taken off
    assert debiased == pytest.approx(math.sqrt((gap**2).mean()), rel=0.05)


def test_floor_of_certainty_is_zero_and_an_unknown_error_is_refused():
    assert metrics.ece_floor([[1.0, 0.0], [0.0, 1.0]]) == 0
    assert metrics.ece_floor([[1.0, 0.0], [0.0, 1.0]], of="classwise_ece") == 0
    for call in (metrics.ece_floor, metrics.excess_ece):
        with pytest.raises(ValueError, match="^of: got 'mce', expected one of ece, adaptive_ece"):
            call([[1.0, 0.0]], [0], of="mce")


# ------------------------------------------------------------------------------ summary


@pytest.mark.parametrize("n, k, dtype", [
    (400, 2, np.float64), (500, 10, np.float64), (3000, 120, np.float64), (3000, 120, np.float32)
])  # fmt: skip
def test_summary_is_every_metric_by_itself(n, k, dtype):
    logits, labels = sample(n, k, dtype=dtype)
    probs = softmax(logits.astype(float), axis=1)
    values = metrics.summary(logits, labels, bins=12)
    confidence, correct = top(probs, labels)
    expected = {"n": n, "accuracy": correct.mean(), "confidence": confidence.mean()}
    for name in ("ece", "adaptive_ece", "classwise_ece", "mce", "overconfidence_error"):
        expected[name] = getattr(metrics, name)(probs, labels, 12)
        if name in ("ece", "adaptive_ece", "classwise_ece"):
            expected[f"{name}_floor"] = metrics.ece_floor(probs, bins=12, of=name)
            expected[f"excess_{name}"] = metrics.excess_ece(probs, labels, 12, of=name)
    expected["debiased_ece"] = metrics.debiased_ece(probs, labels, 12)
    for name in ("nll", "brier"):
        expected[name] = getattr(metrics, name)(probs, labels)
    for name in ("ece_correct", "auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc",
                 "confidence_gap", "fpr_at_tpr"):  # fmt: skip
        expected[name] = getattr(metrics, name)(confidence, correct)
    expected["histogram_overlap"] = metrics.histogram_overlap(confidence, correct, 12)
    expected["risk_at_coverage_0.8"] = metrics.risk_at_coverage(confidence, correct, 0.8)
    expected["coverage_at_risk_0.05"] = metrics.coverage_at_risk(confidence, correct, 0.05)
    parts = metrics.brier_decomposition(probs, labels, 12)
    expected |= {f"brier_{name}": v for name, v in parts.items() if name != "brier"}
    eq9 = metrics.refinement_decomposition(confidence, correct)
    expected |= {f"eq9_{name}": v for name, v in eq9.items()}
    assert values == pytest.approx(expected, abs=1e-12 if dtype is np.float64 else 1e-3)


@pytest.mark.parametrize("view", [np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])
def test_memory_layout_does_not_matter(view):
    logits, labels = sample(3000, 100)
    assert logits.size > 2 * BLOCK and not view(logits).flags["C_CONTIGUOUS"]
    probs = softmax(logits, axis=1)
    assert metrics.summary(view(logits), labels) == pytest.approx(metrics.summary(logits, labels))
    for name in ("ece", "brier", "classwise_ece", "nll"):
        f = getattr(metrics, name)
        assert f(view(probs), labels) == pytest.approx(f(probs, labels), abs=1e-12)


def test_summary_of_huge_logits_is_exact():
    values = metrics.summary([[1e4, -1e4], [-1e4, 1e4], [3e4, 0.0]], [0, 1, 1])
    assert values["nll"] == pytest.approx(1e4)
    assert values["accuracy"] == pytest.approx(2 / 3) and values["brier"] == pytest.approx(2 / 3)
    assert values["auroc"] == 0 and values["ece"] == pytest.approx(1 / 3)  # the wrong one is surest


def test_summary_needs_less_memory_than_its_input_and_leaves_it_alone():
    logits, labels = sample(5000, 400, dtype=np.float32)
    before = logits.copy()
    tracemalloc.start()
    metrics.summary(logits, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * logits.nbytes
    np.testing.assert_array_equal(logits, before)


def test_calibration_metrics_leave_their_input_alone():
    probs = softmax(sample()[0], axis=1)
    before, labels = probs.copy(), sample()[1]
    for name in ("ece", "classwise_ece", "brier", "brier_decomposition", "nll"):
        getattr(metrics, name)(probs, labels)
    np.testing.assert_array_equal(probs, before)


def test_per_sample_values_average_to_the_metrics():
    logits, labels = sample(3000, 100)
    values = metrics.per_sample(logits, labels)
    probs = softmax(logits, axis=1)
    np.testing.assert_allclose(values["confidence"], probs.max(axis=1))
    np.testing.assert_array_equal(values["correct"], logits.argmax(axis=1) == labels)
    np.testing.assert_allclose(values["nll"], -np.log(probs[np.arange(3000), labels]), atol=1e-12)
    expected = ((probs - np.eye(100)[labels]) ** 2).sum(axis=1)
    np.testing.assert_allclose(values["brier"], expected, atol=1e-12)


# ---------------------------------------------------------------- published cross-check

# fmfp table 1: AURC and E-AURC (x1000, mean of three runs). The paper prints no accuracy; the one
# in the last column solves r + (1 - r) ln(1 - r) = (AURC - E-AURC) / 1000.
PUBLISHED = [
    ("cifar10 resnet110 erm", 9.94, 7.94, 93.74),
    ("cifar10 resnet110 mixup", 15.05, 13.31, 94.16),
    ("cifar10 wrn erm", 4.89, 3.93, 95.65),
    ("cifar10 densenet erm", 6.20, 4.66, 94.50),
    ("cifar10 convmixer erm", 8.33, 6.29, 93.68),
    ("cifar100 resnet110 erm", 93.90, 50.88, 72.14),
    ("cifar100 resnet110 mixup", 95.03, 57.57, 73.91),
    ("cifar100 wrn erm", 51.97, 30.18, 79.86),
    ("cifar100 densenet erm", 67.41, 35.82, 75.94),
    ("cifar100 convmixer erm", 76.96, 41.20, 74.48),
]


@pytest.mark.parametrize("row, aurc, eaurc, accuracy", PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_published_aurc_and_eaurc_differ_as_ours_at_that_accuracy(row, aurc, eaurc, accuracy):
    n = 10_000  # the test sets of CIFAR
    correct = np.arange(n) < round(accuracy / 100 * n)
    confidence = np.random.default_rng(0).random(n)  # any ranking: the difference is of r only
    ours = 1000 * (metrics.aurc(confidence, correct) - metrics.eaurc(confidence, correct))
    assert ours == pytest.approx(aurc - eaurc, abs=0.03)  # half a unit of the last digit of each
    # A perfect ranking has next to no excess: the closed form is its limit.
    assert 0 <= 1000 * metrics.eaurc(correct.astype(float) - confidence / 2, correct) < 0.05


# ------------------------------------------------------------------- what is undefined


@pytest.mark.parametrize("correct, names", [
    ([1, 1, 1], {"auroc", "aupr_error", "fpr_at_tpr", "confidence_gap", "histogram_overlap"}),
    ([0, 0, 0], {"auroc", "aupr_success", "fpr_at_tpr", "confidence_gap", "histogram_overlap",
                 "ece_correct"}),
])  # fmt: skip
def test_undefined_is_nan_with_one_warning(correct, names):
    confidence = np.array([0.6, 0.9, 0.9])
    every = ("auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr",
             "confidence_gap", "histogram_overlap", "ece_correct")  # fmt: skip
    for name in every:
        f = getattr(metrics, name)
        if name in names:
            with pytest.warns(UndefinedMetricWarning, match=f"nan: {name}$") as caught:
                assert math.isnan(f(confidence, correct))
            assert len(caught) == 1 and caught[0].filename == __file__
        else:
            assert math.isfinite(f(confidence, correct))
    logits = np.log(np.c_[confidence, 1 - confidence])
    with pytest.warns(UndefinedMetricWarning) as caught:
        values = metrics.summary(logits, 1 - np.array(correct))
    assert len(caught) == 1 and caught[0].filename == __file__
    assert {name for name, value in values.items() if math.isnan(value)} == names


def test_all_right_and_all_wrong_have_their_limits():
    confidence = [0.6, 0.9, 0.9]
    assert metrics.aurc(confidence, [1, 1, 1]) == metrics.eaurc(confidence, [1, 1, 1]) == 0
    assert metrics.augrc(confidence, [1, 1, 1]) == 0
    assert metrics.aupr_success(confidence, [1, 1, 1]) == 1
    assert metrics.coverage_at_risk(confidence, [1, 1, 1], 0) == 1
    assert metrics.aurc(confidence, [0, 0, 0]) == pytest.approx(1)
    assert metrics.eaurc(confidence, [0, 0, 0]) == pytest.approx(0)
    assert metrics.augrc(confidence, [0, 0, 0]) == 0.5
    assert metrics.aupr_error(confidence, [0, 0, 0]) == 1
    assert metrics.coverage_at_risk(confidence, [0, 0, 0], 0.5) == 0


def test_saturated_confidences_are_one_tie():
    confidence, correct = np.ones(10), np.arange(10) < 7
    assert metrics.auroc(confidence, correct) == 0.5
    assert metrics.aurc(confidence, correct) == pytest.approx(0.3)
    assert metrics.aupr_success(confidence, correct) == pytest.approx(0.7)
    assert metrics.fpr_at_tpr(confidence, correct) == 1
    assert [a.tolist() for a in metrics.risk_coverage(confidence, correct)] == [[1], [0.3]]


def test_a_class_without_samples_is_no_trouble():
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = [getattr(metrics, name)(probs, [0, 1, 1]) for name in ("classwise_ece", "nll")]
        assert metrics.summary(np.log(probs), [0, 1, 1])["classwise_ece"] == pytest.approx(
            values[0]
        )
    assert all(map(math.isfinite, values))


# --------------------------------------------------------------------- what is refused

GOOD_PROBS, GOOD_LABELS = [[0.9, 0.1], [0.4, 0.6]], [0, 0]
GOOD_LOGITS = [[0.9, 2.1], [0.4, -0.6]]
FROM_PROBS = [metrics.ece, metrics.adaptive_ece, metrics.classwise_ece, metrics.mce, metrics.nll,
              metrics.overconfidence_error, metrics.brier, metrics.brier_decomposition,
              metrics.smooth_ece]  # fmt: skip
FROM_LOGITS = [metrics.summary, metrics.per_sample]
FROM_RANKING = [metrics.auroc, metrics.aupr_success, metrics.aupr_error, metrics.aurc,
                metrics.eaurc, metrics.augrc, metrics.fpr_at_tpr, metrics.risk_coverage,
                metrics.refinement_decomposition, metrics.reliability_bins, metrics.ece_correct,
                metrics.confidence_gap, metrics.histogram_overlap,
                lambda c, z: metrics.risk_at_coverage(c, z, 0.5),
                lambda c, z: metrics.coverage_at_risk(c, z, 0.5),
                lambda c, z: metrics.threshold_at_risk(c, z, 0.5)]  # fmt: skip


@pytest.mark.parametrize("f", FROM_PROBS + FROM_LOGITS)
@pytest.mark.parametrize("matrix, labels, culprit", [
    ([[np.nan, 0.1], [0.4, 0.6]], GOOD_LABELS, "(probs|logits): got NaN"),
    ([[np.inf, 0.1], [0.4, 0.6]], GOOD_LABELS, "(probs|logits): got infinity"),
    ([1.9, 0.1], GOOD_LABELS, r"(probs|logits): got shape \(2,\)|confidence: got values from"),
    ([[[0.9, 0.1]]], GOOD_LABELS, r"(probs|logits): got shape \(1, 1, 2\)"),
    ([[1.0], [1.0]], GOOD_LABELS, r"(probs|logits): got shape \(2, 1\)"),  # a single class
    (np.zeros((0, 2)), [], "(probs|logits): got an empty array"),
    (GOOD_PROBS, [0, 2], "labels: got values from 0 to 2"),
    (GOOD_PROBS, [0, -1], "labels: got values from -1 to 0"),
    (GOOD_PROBS, [0.0, 1.0], "labels: got type float64"),
    (GOOD_PROBS, [0], "labels: got 1 values"),
    (GOOD_PROBS, [[0, 1]], r"labels: got shape \(1, 2\)"),
    (GOOD_PROBS, [], r"labels: got shape \(0,\)"),
])  # fmt: skip
def test_bad_arrays_are_refused_by_name(f, matrix, labels, culprit):
    if f in FROM_LOGITS and matrix is GOOD_PROBS:
        matrix = GOOD_LOGITS
    with pytest.raises(ValueError, match=f"^({culprit}).*expected"):
        f(matrix, labels)


@pytest.mark.parametrize("f", [
    metrics.summary,
    metrics.per_sample,
])  # fmt: skip
@pytest.mark.parametrize("kind", [np.array, np.float32, torch.tensor])
def test_probabilities_are_not_taken_for_logits(f, kind):
    logits, labels = sample(50, 4)
    probs = kind(softmax(logits, axis=1))
    with pytest.raises(ValueError, match=r'^logits: got probabilities .* np.log .* kind="probs"'):
        f(probs, labels)
    found, expected = f(probs, labels, kind="probs"), f(logits, labels)
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_probability_of_zero_is_almost_zero():
    values = metrics.summary([[1.0, 0.0], [0.5, 0.5]], [1, 0], kind="probs")
    assert math.isfinite(values["nll"]) and values["nll"] > 300


@pytest.mark.parametrize("f", [metrics.ece, metrics.adaptive_ece, metrics.mce, metrics.excess_ece,
                               metrics.debiased_ece, metrics.overconfidence_error])  # fmt: skip
def test_errors_of_the_top_label_take_confidence_and_correctness(f):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 200), rng.integers(3, size=200)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    assert f(confidence, correct) == f(confidence, correct.astype(int)) == f(probs, labels)
    with pytest.raises(ValueError, match="correct: got 199 values, expected 200"):
        f(confidence, correct[1:])


@pytest.mark.parametrize("f", FROM_PROBS)
@pytest.mark.parametrize("row", [[0.9, 0.2], [1.5, -0.5], [3.0, -4.0], [0.0, 0.0]])
def test_rows_that_are_not_probabilities_are_refused(f, row):
    with pytest.raises(ValueError, match="^probs: got .* expected"):
        f([row, [0.4, 0.6]], GOOD_LABELS)


@pytest.mark.parametrize("f", FROM_RANKING)
@pytest.mark.parametrize("confidence, correct, culprit", [
    ([0.5, np.nan], [1, 0], "confidence: got NaN"),
    ([0.5, np.inf], [1, 0], "confidence: got infinity"),
    ([[0.5, 0.6]], [1, 0], r"confidence: got shape \(1, 2\)"),
    ([], [], "confidence: got an empty array"),
    ([0.5, 0.6], [1], "correct: got 1 values"),
    ([0.5, 0.6], [1, 3], "correct: got values of type int64 other than 0 and 1"),
    ([0.5, 0.6], [1, np.nan], "correct: got values of type float64 other than 0 and 1"),
    ([0.5, 0.6], [[1, 0]], r"correct: got shape \(1, 2\)"),
])  # fmt: skip
def test_bad_confidences_are_refused_by_name(f, confidence, correct, culprit):
    with pytest.raises(ValueError, match=f"^{culprit}.*expected"):
        f(confidence, correct)


@pytest.mark.parametrize("f", [metrics.reliability_bins, metrics.refinement_decomposition,
                               metrics.histogram_overlap, metrics.ece_correct])  # fmt: skip
def test_scores_that_are_no_probabilities_are_refused_where_they_are_binned(f):
    with pytest.raises(
        ValueError, match=r"^confidence: got values from -3 to 0.5, expected \[0, 1"
    ):
        f([0.5, -3.0], [1, 0])


@pytest.mark.parametrize("call, message", [
    (lambda: metrics.ece(GOOD_PROBS, GOOD_LABELS, bins=0), "bins: got 0, expected"),
    (lambda: metrics.ece(GOOD_PROBS, GOOD_LABELS, bins=10**9), "bins: got 1000000000, expected a"),
    (lambda: metrics.reliability_bins([0.5], [1], bins=100_001), ".* from 1 to 100,000"),
    (lambda: metrics.classwise_ece(GOOD_PROBS, GOOD_LABELS, bins=2.5), "bins: got 2.5, expected"),
    (lambda: metrics.summary(GOOD_LOGITS, GOOD_LABELS, bins=-1), "bins: got -1, expected"),
    (lambda: metrics.fpr_at_tpr([0.5], [1], convention="x"), "convention: got 'x', expected"),
    (lambda: metrics.fpr_at_tpr([0.5], [1], tpr=0), r"tpr: got 0, expected a number in \(0, 1\]"),
    (lambda: metrics.risk_at_coverage([0.5], [1], 95), r"coverage: got 95, expected"),
    (lambda: metrics.coverage_at_risk([0.5], [1], -1), r"risk: got -1, expected"),
    (lambda: metrics.reliability_bins([0.5], [1], scheme="x"), "scheme: got 'x', expected"),
])  # fmt: skip
def test_bad_options_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_the_numbers_per_class_and_bin_are_bounded_together():
    """And the most that is allowed takes well under a second."""
    probs = np.full((10, 400), 1 / 400)
    for f in (metrics.classwise_ece, metrics.brier_decomposition, metrics.ece_floor):
        more = {"of": "classwise_ece"} if f is metrics.ece_floor else {}
        with pytest.raises(
            ValueError, match="^bins: got 60000 for 400 classes, expected at most 50,"
        ):
            f(probs, np.arange(10), bins=60_000, **more)
    with pytest.raises(ValueError, match="^bins: got 60000 for 400 classes, expected at most 50,"):
        metrics.summary(np.log(probs), np.arange(10), bins=60_000)
    started = time.process_time()
    confidence, correct = np.linspace(0, 1, 1000), np.arange(1000) % 2
    # A bin for each: the mean of the gaps.
    gaps = np.abs(confidence - correct).mean()
    assert metrics.ece(confidence, correct, bins=MOST_BINS) == pytest.approx(gaps)
    assert time.process_time() - started < 1


# ------------------------------------------------------------------------- contract

SIGNATURES = {
    "ece": "probs labels bins=15 sample_weight=None",
    "adaptive_ece": "probs labels bins=15 sample_weight=None",
    "classwise_ece": "probs labels bins=15 sample_weight=None",
    "ece_floor": "probs labels=None bins=15 of='ece' sample_weight=None",
    "excess_ece": "probs labels bins=15 of='ece' sample_weight=None",
    "debiased_ece": "probs labels bins=15 sample_weight=None",
    "mce": "probs labels bins=15 sample_weight=None",
    "overconfidence_error": "probs labels bins=15 sample_weight=None",
    "nll": "probs labels sample_weight=None",
    "brier": "probs labels sample_weight=None",
    "brier_decomposition": "probs labels bins=15 sample_weight=None",
    "auroc": "confidence correct sample_weight=None",
    "aupr_success": "confidence correct sample_weight=None",
    "aupr_error": "confidence correct sample_weight=None",
    "aurc": "confidence correct sample_weight=None",
    "eaurc": "confidence correct sample_weight=None",
    "augrc": "confidence correct sample_weight=None",
    "fpr_at_tpr": "confidence correct tpr=0.95 convention='exact' sample_weight=None",
    "risk_coverage": "confidence correct sample_weight=None",
    "risk_at_coverage": "confidence correct coverage sample_weight=None",
    "coverage_at_risk": "confidence correct risk sample_weight=None",
    "threshold_at_risk": "confidence correct risk sample_weight=None",
    "refinement_decomposition": "confidence correct bins=100 sample_weight=None",
    "summary": "logits labels bins=15 kind='logits' sample_weight=None",
    "confidence_gap": "confidence correct sample_weight=None",
    "histogram_overlap": "confidence correct bins=15 sample_weight=None",
    "ece_correct": "confidence correct sample_weight=None",
    "mean_deviation": "count total squares",
    "reliability_bins": "confidence correct bins=15 scheme='equal_width' sample_weight=None",
    "smooth_ece": "probs labels sample_weight=None",
    "per_sample": "logits labels kind='logits'",
    "top_label": "probs labels",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_and_defaults_are_a_contract(name):
    parameters = inspect.signature(getattr(metrics, name)).parameters.values()
    found = " ".join(
        p.name + (f"={p.default!r}" if p.default is not p.empty else "") for p in parameters
    )
    assert found == SIGNATURES[name]


def test_every_public_function_is_under_contract_and_has_an_example():
    public = {
        name
        for name, f in inspect.getmembers(metrics, inspect.isfunction)
        if name in metrics.__all__
    }
    assert public == {*SIGNATURES, "ranked_metrics", "ranks"}
    assert all(">>>" in getattr(metrics, name).__doc__ for name in public)


def test_import_is_light():
    heavy = ("torch", "matplotlib", "pandas", "scipy", "sklearn", "relplot")
    code = f"import sys, calibkit.metrics; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
