"""Statistics of people's votes against hand-made examples, SciPy and known truths."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks import people
from calibkit import metrics, stats


@pytest.fixture
def drawn():
    """Images with a known η, votes drawn from it, and probabilities near it."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.full(4, 0.3), 4000)
    votes = rng.multinomial(50, eta)
    probs = 0.7 * eta + 0.3 * rng.dirichlet(np.full(4, 0.3), 4000)
    return eta, votes, probs


def test_weights_by_hand():
    probs = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    found = people.weights(probs, np.array([0, 1]))
    brier = [0.25 + 0.09 + 0.04, 0.04 + 0.64 + 0.36]
    expected = {
        "focal": [0.5, 0.8],
        "norm": np.sqrt(brier),
        "brier": brier,
        "bsce_gra": np.square(brier),
        "focal_2": [0.25, 0.64],
        "focal_3": [0.125, 0.512],
        "dual_other": [0.5 + 0.3, 0.8 + 0.6],
        "dual_below": [0.5 + 0.3, 0.8 + 0.0],  # nothing is less probable than the label
        "dual_second": [0.5 + 0.3, 0.8 + 0.2],
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name)


def test_the_brier_weight_exceeds_the_distance_by_what_depends_on_people_alone(drawn):
    """Lin et al., equation 12: with labels drawn from η, by 1 - Σ η² in the mean."""
    eta, _, probs = drawn
    expected = sum(
        eta[:, y] * people.weights(probs, np.full(len(eta), y))["brier"] for y in range(4)
    )
    distance = ((eta - probs) ** 2).sum(axis=1)
    np.testing.assert_allclose(expected - distance, 1 - (eta**2).sum(axis=1))


def test_squared_distance_is_unbiased_and_the_plain_one_is_not(drawn):
    eta, _, probs = drawn
    votes = np.random.default_rng(1).multinomial(5, eta)
    true = ((eta - probs) ** 2).sum(axis=1).mean()
    error = people.squared_distance(probs, votes).mean() - true
    plain = (people.distance(probs, votes) ** 2).mean() - true
    assert abs(error) < 0.004 < 0.05 < plain
    assert people.vote_noise(votes).mean() == pytest.approx(plain - error)


def test_distance_by_hand():
    votes, probs = np.array([[3, 1, 0], [0, 0, 8]]), np.array([[0.75, 0.25, 0], [1.0, 0, 0]])
    np.testing.assert_allclose(people.distance(probs, votes), [0, 2**0.5], atol=1e-12)
    np.testing.assert_allclose(people.vote_noise(votes), [(1 - 10 / 16) / 3, 0])
    np.testing.assert_allclose(people.squared_distance(probs, votes), [-1 / 8, 2])


def test_halves_share_the_votes_out_evenly_and_at_random():
    votes = np.array([[51, 0, 0], [30, 20, 0], [1, 1, 1]]).repeat(3000, axis=0)
    a, b = people.halves(votes, np.random.default_rng(0))
    np.testing.assert_array_equal(a + b, votes)
    assert a.min() >= 0 and b.min() >= 0
    assert a.sum(axis=1).tolist() == [25] * 6000 + [1] * 3000
    # Without replacement: 25 of 50 votes of which 30 are for the first class.
    first = a[3000:6000, 0]
    assert first.mean() == pytest.approx(15, abs=0.15)
    assert first.var() == pytest.approx(scipy_stats.hypergeom(50, 30, 25).var(), rel=0.1)


def test_correlation_against_numpy_and_on_resamples():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)) + 1e4, rng.normal(size=60)
    expected = [np.corrcoef(column, y)[0, 1] for column in x.T]
    np.testing.assert_allclose(people.correlation(x, y), expected)
    counts = people.resamples(60, 5)
    assert counts.shape == (5, 60) and (counts.sum(axis=1) == 60).all()
    for row, found in zip(counts, people.correlation(x, y, counts), strict=True):
        at = np.repeat(np.arange(60), row)
        expected = [np.corrcoef(column[at], y[at])[0, 1] for column in x.T]
        np.testing.assert_allclose(found, expected)
    ranked = people.correlation(people.ranks(x.round(0)), people.ranks(y[:, None])[:, 0])
    expected = [scipy_stats.spearmanr(column, y).statistic for column in x.round(0).T]
    np.testing.assert_allclose(ranked, expected)


def test_resamples_are_those_of_all_runs():
    """So that a difference to any number of a run's replicates is paired."""
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(40), rng.random(40) < 0.7
    answers = stats.Answers(confidence, correct)
    draws = stats.replicates([answers], None, ["accuracy"], n=6)[0, :, 0]
    np.testing.assert_allclose(people.resamples(40, 6) @ correct / 40, draws)


def test_true_correlation_recovers_what_few_votes_hide(drawn):
    eta, _, probs = drawn
    votes = np.random.default_rng(1).multinomial(40, eta)
    squared = ((eta - probs) ** 2).sum(axis=1)
    x = np.c_[squared, squared + 0.1 * np.random.default_rng(2).normal(size=len(squared))]
    expected = np.corrcoef(x.T)[0]
    hidden = people.correlation(x, people.squared_distance(probs, votes))
    assert (hidden < expected - 0.05).all()
    np.testing.assert_allclose(people.true_correlation(x, probs, votes), expected, atol=0.03)


def test_calibration_error_of_labels_is_the_ece():
    rng = np.random.default_rng(0)
    logits, labels = 2 * rng.normal(size=(3000, 5)), rng.integers(0, 5, 3000)
    each = metrics.per_sample(logits, labels)
    found = people.calibration_error(each["confidence"], each["correct"].astype(float))
    summary = metrics.summary(logits, labels)
    assert found.error == pytest.approx(summary["ece"])
    assert found.gap == pytest.approx(each["confidence"].mean() - summary["accuracy"])
    edges = people.calibration_error(np.array([0.0, 1.0, 1 / 15]), np.array([1.0, 0, 0]))
    assert edges.error == pytest.approx((14 / 15 + 1) / 3)  # 0 and 1/15 share the lowest bin


def test_floor_is_the_error_of_calibrated_shares():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.2, 1, 2000)
    for votes in (1, 20):  # a label, and the share of twenty people
        found = [
            people.calibration_error(confidence, rng.binomial(votes, confidence) / votes)
            for _ in range(200)
        ]
        errors, floors = np.array(found).T[:2]
        assert floors.mean() == pytest.approx(errors.mean(), rel=0.05)


def test_interval_and_auroc_without():
    draws = np.linspace(0, 1, 199)
    assert people.interval(0.6, draws) == pytest.approx((0.6, 0.6 - 0.48, 0.6 + 0.48), abs=0.01)
    confidence, correct = np.array([0.9, 0.8, 0.7, 0.6]), np.array([False, True, True, False])
    assert metrics.auroc(confidence, correct) == 0.5
    assert people.auroc_without(confidence, correct, [0]) == 1
