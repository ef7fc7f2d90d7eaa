"""Post-hoc calibration against independent optimisers and libraries, its warnings and errors."""

import gc
import json
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, minimize, minimize_scalar
from scipy.special import expit, log_softmax, logit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from calibkit import metrics, posthoc
from calibkit.arrays import softmax
from calibkit.estimators import CalibratedModel
from calibkit.posthoc import PosthocWarning, likelihood, search

pytestmark = pytest.mark.filterwarnings("error::calibkit.posthoc.PosthocWarning")

# What netcal has for arrays of `sampled`; benchmarks/netcal_values.py.
NETCAL = json.loads((Path(__file__).parent / "netcal.json").read_text())
METHODS = [
    posthoc.TemperatureScaling(),
    posthoc.TemperatureScaling("ece"),
    posthoc.FixedTemperature(1.5),
    posthoc.HistogramBinning(),
    posthoc.HistogramBinning(10, "equal_mass"),
    posthoc.IsotonicCalibration(),
    posthoc.BetaCalibration(),
    posthoc.TopVersusAll(),
    posthoc.VectorScaling(),
    posthoc.MatrixScaling(),
    posthoc.MatrixScaling(l2=0.01),
    posthoc.StructuredScaling(),
    posthoc.StructuredScaling("vector"),
]
ids = [repr(model) for model in METHODS]


def sampled(n=2000, k=5, temperature=1.0, scale=2.0, seed=0, dtype=np.float64):
    """Logits that are calibrated once divided by `temperature`, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k))
    labels = (rng.random((n, 1)) > softmax(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return (temperature * logits).astype(dtype), labels


def nll(logits, labels):
    """Mean NLL by torch, independent of the library."""
    scores = torch.as_tensor(logits, dtype=torch.float64)
    return torch.nn.functional.cross_entropy(scores, torch.as_tensor(labels))


def torch_minimum(function, start):
    """Minimise a function of a tensor by torch's L-BFGS and automatic gradients."""
    parameters = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [parameters],
        max_iter=2000,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-10,
        tolerance_change=1e-14,
    )

    def closure():
        optimiser.zero_grad()
        value = function(parameters)
        value.backward()
        return value

    optimiser.step(closure)
    return parameters.detach().numpy()


# --- temperature ----------------------------------------------------------------------------------


@pytest.mark.parametrize("true", [0.3, 1.0, 2.5, 8.0])
def test_nll_temperature_against_other_optimisers(true):
    logits, labels = sampled(temperature=true)
    model = posthoc.TemperatureScaling().fit(logits, labels)
    bounded = minimize_scalar(
        lambda x: nll(logits / np.exp(x), labels).item(),
        bounds=(-5, 5),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert model.temperature_ == pytest.approx(np.exp(bounded.x), rel=1e-6)
    z = torch.tensor(logits)
    by_torch = torch_minimum(lambda x: nll(z / x.exp(), labels), [0.0])
    assert model.temperature_ == pytest.approx(np.exp(by_torch[0]), rel=1e-6)
    value = posthoc.optimal_temperature(logits, labels, "nll")[1]
    assert value == pytest.approx(nll(logits / model.temperature_, labels).item(), rel=1e-12)


@pytest.mark.parametrize("objective", ["nll", "ece"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_known_temperature_is_found(objective, dtype):
    logits, labels = sampled(n=40_000, k=10, temperature=1.8, dtype=dtype)
    found, value = posthoc.optimal_temperature(logits, labels, objective)
    assert found == pytest.approx(1.8, abs=0.07)
    if objective == "ece":
        assert value < 0.01 < metrics.ece(softmax(logits), labels)


def test_scaling_keeps_predictions_and_is_the_softmax_of_scaled_logits():
    logits, labels = sampled(temperature=2.0)
    model = posthoc.TemperatureScaling().fit(logits, labels)
    probs = model.predict_proba(logits)
    assert (probs.argmax(axis=1) == logits.argmax(axis=1)).all()
    expected = torch.softmax(torch.tensor(logits) / model.temperature_, dim=1).numpy()
    np.testing.assert_allclose(probs, expected, rtol=1e-12)


def test_the_default_objective_is_the_same_everywhere():
    logits, labels = sampled(n=300, temperature=2.0)
    found, value = posthoc.optimal_temperature(logits, labels)
    assert posthoc.TemperatureScaling().fit(logits, labels).temperature_ == found
    assert value == pytest.approx(nll(logits / found, labels).item())
    assert value < nll(logits / (1.02 * found), labels) and value < nll(logits / 0.98, labels)


def full_grid(logits, labels, grid, bins=15):
    scores = [metrics.ece(softmax(logits / t), labels, bins) for t in grid]
    return grid[int(np.argmin(scores))], min(scores)


@given(
    st.integers(0, 10_000),
    st.integers(1, 60),
    st.integers(2, 6),
    st.floats(0.05, 6.0),
    st.floats(0.1, 10.0),
    st.integers(1, 20),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_ece_search_equals_the_full_grid(seed, n, k, scale, temperature, bins, ignorant):
    logits, labels = sampled(n, k, temperature, scale, seed)
    if ignorant:  # labels that have nothing to do with the logits: the search must go far
        labels = np.random.default_rng(seed).integers(k, size=n)
    grid = np.arange(1, 61) / 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "GRID", grid)
        found, value = posthoc.optimal_temperature(logits, labels, "ece", bins)
    expected, lowest = full_grid(logits, labels, grid, bins)
    assert value == pytest.approx(lowest, abs=1e-12)
    # Where the two disagree on T, the ECE is tied but for rounding.
    assert found == expected or metrics.ece(softmax(logits / found), labels, bins) == pytest.approx(
        lowest, abs=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ece_search_on_the_published_grid(dtype):
    logits, labels = sampled(n=1500, k=10, temperature=2.3, dtype=dtype)
    found, value = posthoc.optimal_temperature(logits, labels, "ece")
    expected, lowest = full_grid(logits, labels, posthoc.GRID.tolist())
    assert found == expected
    assert value == pytest.approx(lowest, abs=1e-6)
    assert type(found) is type(value) is float


def test_search_visits_few_temperatures(monkeypatch):
    """The point of the search: a hundredth of the grid would do, a fifth is the limit here."""
    visited = []
    ece = search.Scaled.ece
    monkeypatch.setattr(search.Scaled, "ece", lambda self, t: visited.append(t) or ece(self, t))
    posthoc.optimal_temperature(*sampled(n=5000, k=10, temperature=2.3), "ece")
    assert len(visited) < len(posthoc.GRID) / 5


def test_degenerate_logits_have_a_temperature():
    labels = np.array([0, 1, 1])
    assert posthoc.optimal_temperature(np.zeros((3, 2)), labels, "nll")[0] == 1.0
    found, value = posthoc.optimal_temperature(np.zeros((3, 2)), labels, "ece")
    assert found == posthoc.GRID[0]  # all the same: the smallest
    assert value == pytest.approx(0.5 - 1 / 3)
    saturated = np.where(np.eye(2)[labels] == 1, 1e4, -1e4)
    for objective in ("nll", "ece"):
        assert posthoc.optimal_temperature(saturated, labels, objective)[1] == 0
    assert np.isfinite(posthoc.optimal_temperature(-saturated, labels, "nll")[1])


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 5), st.floats(-4, 4))
@settings(max_examples=100, deadline=None)
def test_no_other_temperature_has_a_lower_nll(seed, n, k, scale):
    """From logits that are all but equal to saturated ones; most labels are right."""
    rng = np.random.default_rng(seed)
    logits = 10**scale * rng.normal(size=(n, k))
    labels = np.where(rng.random(n) < 0.8, logits.argmax(axis=1), rng.integers(k, size=n))
    found, value = posthoc.optimal_temperature(logits, labels)
    low, high = np.sort(logits, axis=1)[:, -2:].T
    size = np.median(high - low)
    others = [nll(logits / t, labels).item() for t in np.geomspace(*posthoc.RANGE, 200) * size]
    assert 0.999e-3 * size <= found <= 1001 * size
    assert value <= min(others) + 1e-9 * max(1, min(others))


def test_a_search_that_starts_on_a_part_ends_on_all(monkeypatch):
    logits, labels = sampled(n=3000, k=8, temperature=2.3)
    whole = posthoc.optimal_temperature(logits, labels)
    sizes = []
    monkeypatch.setattr(search, "MANY", 6000)
    init = search.Scaled.__init__
    monkeypatch.setattr(
        search.Scaled,
        "__init__",
        lambda self, z, y, **more: sizes.append(len(z)) or init(self, z, y, **more),
    )
    assert posthoc.optimal_temperature(logits, labels) == pytest.approx(whole, rel=1e-9)
    assert sizes == [3000, 188]


def test_a_confidence_on_an_edge_belongs_to_the_bin_below():
    logits = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1e4]])  # 1/3 sure and right, 1/2 sure and wrong
    value = posthoc.optimal_temperature(logits, [0, 1], "ece", bins=2)[1]
    assert value == pytest.approx((1 - 1 / 3 - 1 / 2) / 2)
    assert value == pytest.approx(metrics.ece(softmax(logits), [0, 1], bins=2))


def test_fixed_temperature():
    logits, labels = sampled(n=50)
    model = posthoc.FixedTemperature(1.5)
    assert model.fit(logits, labels) is model and model.temperature_ == 1.5
    np.testing.assert_allclose(model.predict_proba(logits), softmax(logits / 1.5), rtol=1e-12)


def test_calibratability():
    val, val_labels = sampled(temperature=2.5, seed=1)
    test, test_labels = sampled(n=4000, temperature=2.5, seed=2)
    found = posthoc.calibratability(val, val_labels, test, test_labels)
    chosen, best = found["temperature"], found["optimal_temperature"]
    assert chosen == posthoc.TemperatureScaling("ece").fit(val, val_labels).temperature_
    assert found["before"] == pytest.approx(metrics.ece(softmax(test), test_labels))
    assert found["after"] == pytest.approx(metrics.ece(softmax(test / chosen), test_labels))
    assert found["optimal"] == pytest.approx(metrics.ece(softmax(test / best), test_labels))
    assert found["optimal"] <= found["after"] < found["before"]
    assert all(type(value) is float for value in found.values())


# --- histogram binning ----------------------------------------------------------------------------


def test_equal_width_values_against_netcal():
    logits, labels = sampled(n=3000, k=4, temperature=2.0)
    test, _ = sampled(n=500, k=4, temperature=2.0, seed=1)
    bins = (10 * softmax(test).max(axis=1)).astype(int)
    expected = np.array(NETCAL["histogram"])[bins]
    got = posthoc.HistogramBinning(10).fit(logits, labels).predict_proba(test)
    kept = expected > 0.25
    assert kept.sum() > 400
    np.testing.assert_allclose(got.max(axis=1)[kept], expected[kept], rtol=1e-12)


def test_equal_mass_values_are_accuracies_of_equal_parts():
    logits, labels = sampled(n=3000, k=4, temperature=2.0)
    model = posthoc.HistogramBinning(10, "equal_mass").fit(logits, labels)
    order = softmax(logits).max(axis=1).argsort()
    correct = (logits.argmax(axis=1) == labels)[order]
    np.testing.assert_allclose(model.values_, correct.reshape(10, 300).mean(axis=1))


def test_histogram_by_hand():
    logits = np.log([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.1, 0.3, 0.6], [0.25, 0.45, 0.3]])
    labels = np.array([0, 1, 2, 1])
    model = posthoc.HistogramBinning(2).fit(logits, labels)  # (0, 0.5] and (0.5, 1]
    np.testing.assert_allclose(model.edges_, [0.5])
    np.testing.assert_allclose(model.values_, [1.0, 2 / 3])
    got = model.predict_proba(np.log([[0.1, 0.6, 0.3], [0.4, 0.35, 0.25]]))
    np.testing.assert_allclose(got, [[1 / 12, 2 / 3, 1 / 4], [1, 0, 0]], atol=1e-12)


def test_histogram_flattens_the_rest_where_it_would_overtake():
    logits = np.log([[0.6, 0.35, 0.05]] * 5)
    model = posthoc.HistogramBinning(2).fit(logits, np.array([0, 0, 1, 1, 1]))  # right 0.4
    row = model.predict_proba(logits)[0]
    # In proportion the second class would have 0.6 * 0.875 = 0.525 and win.
    np.testing.assert_allclose(row, [0.4, 0.4, 0.2], atol=1e-5)
    assert row.argmax() == 0
    # Below 1/k nothing can be done: the rest is equal and wins.
    model = posthoc.HistogramBinning(2).fit(logits, np.array([0, 1, 1, 1, 1]))
    np.testing.assert_allclose(model.predict_proba(logits)[0], [0.2, 0.4, 0.4], atol=1e-12)


def test_empty_bins_leave_rows_alone_and_saturation_is_fine():
    logits = np.log([[0.9, 0.1]] * 4)
    model = posthoc.HistogramBinning().fit(logits, np.array([0, 0, 0, 1]))
    assert np.isnan(model.values_).sum() == 14
    test = np.log([[0.7, 0.3], [0.92, 0.08]])
    np.testing.assert_allclose(model.predict_proba(test), [[0.7, 0.3], [0.75, 0.25]])
    saturated = np.array([[1e4, 0.0, 0.0]] * 4)
    for scheme in ("equal_width", "equal_mass"):
        model = posthoc.HistogramBinning(5, scheme).fit(saturated, np.array([0, 0, 0, 1]))
        np.testing.assert_allclose(model.predict_proba(saturated), [[0.75, 0.125, 0.125]] * 4)


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 20), st.booleans())
@settings(max_examples=40, deadline=None)
def test_histogram_is_calibrated_on_its_own_data(seed, k, bins, by_mass):
    logits, labels = sampled(400, k, 2.0, 2.0, seed)
    model = posthoc.HistogramBinning(bins, "equal_mass" if by_mass else "equal_width")
    probs = model.fit(logits, labels).predict_proba(logits)
    confidence = softmax(logits).max(axis=1)
    value = model.values_[np.searchsorted(model.edges_, confidence)]
    kept = value > 1 / k + 1e-6
    top = logits.argmax(axis=1)
    np.testing.assert_allclose(probs[np.arange(400), top], value, atol=1e-12)
    assert (probs.argmax(axis=1) == top)[kept].all()
    for level in np.unique(value):
        assert (top == labels)[value == level].mean() == pytest.approx(level)


# --- one against the rest -------------------------------------------------------------------------


class Softmax(ClassifierMixin, BaseEstimator):
    """A classifier for scikit-learn whose features are logits."""

    def fit(self, logits, labels):
        self.classes_ = np.unique(labels)
        return self

    def predict_proba(self, logits):
        return softmax(logits)

    def predict(self, logits):
        return logits.argmax(axis=1)


@pytest.mark.parametrize("k", [2, 5])
def test_isotonic_against_scikit_learn(k):
    logits, labels = sampled(k=k, temperature=2.0)
    test, _ = sampled(k=k, temperature=2.5, seed=1)
    theirs = CalibratedClassifierCV(
        FrozenEstimator(Softmax().fit(logits, labels)), method="isotonic"
    ).fit(logits, labels)
    seen, _ = sampled(k=k, temperature=2.0)
    probs = softmax(seen)
    given = posthoc.IsotonicCalibration().fit(np.log(probs), labels)
    np.testing.assert_allclose(
        given.predict_proba(np.log(probs)), theirs.predict_proba(seen), atol=1e-9
    )
    # Between two fitted points ours is linear in the log-odds, theirs in the probability.
    got, expected = given.predict_proba(np.log(softmax(test))), theirs.predict_proba(test)
    assert np.quantile(np.abs(got - expected), 0.9) < 0.02


@given(st.integers(0, 10_000), st.integers(2, 300), st.integers(0, 4), st.booleans())
@settings(max_examples=100, deadline=None)
def test_isotonic_of_two_classes_is_scikit_learns_regression(seed, n, decimals, single):
    """Ties included: probabilities of few decimals, rights and wrongs among the same."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.7, n).round(decimals).clip(0.001, 0.999)
    labels = (rng.random(n) < p**2).astype(int)
    labels[:2] = 0, 1
    logits = np.column_stack([np.log1p(-p), np.log(p)])
    logits = logits.astype(np.float32) if single else logits

    def odds(z):
        return z[:, 1].astype(float) - z[:, 0]

    theirs = IsotonicRegression(out_of_bounds="clip").fit(odds(logits), labels)
    test = np.column_stack([np.zeros(200), rng.normal(size=200)]) + 1
    model = posthoc.IsotonicCalibration().fit(logits, labels)
    for z in (logits, test):
        expected = theirs.predict(odds(z))
        probs = model.predict_proba(z)
        np.testing.assert_allclose(probs, np.column_stack([1 - expected, expected]), atol=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(2, 5), st.floats(-1, 2.5))
@settings(max_examples=200, deadline=None)
def test_isotonic_corners_are_those_of_a_regression_on_every_value(seed, n, k, scale):
    """From rounded logits, which tie, and up to saturated ones."""
    rng = np.random.default_rng(seed)
    logits = (10**scale * rng.normal(size=(n, k))).round(seed % 3) + 5
    labels = rng.integers(k, size=n)
    labels[:k] = np.arange(min(n, k))
    model = posthoc.IsotonicCalibration()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosthocWarning)
        model.fit(logits, labels)
    scaled = logits / model.temperature_
    for c in np.unique(labels):
        odds = scaled[:, c] - logsumexp(np.delete(scaled, c, axis=1), axis=1)
        x, group, count = np.unique(odds.round(9), return_inverse=True, return_counts=True)
        y = isotonic_regression(np.bincount(group, labels == c) / count, weights=count).x
        level = np.r_[False, np.diff(y) == 0, False]
        corner = ~(level[:-1] & level[1:])
        np.testing.assert_allclose(model.points_[c][0], x[corner], rtol=1e-12, atol=2e-9)
        np.testing.assert_allclose(model.points_[c][1], y[corner], atol=1e-12)


def beta_features(logits):
    p = softmax(logits)[:, 1]
    return np.column_stack([np.log(p), -np.log(1 - p)])


def test_beta_against_scikit_learn():
    """Two classes, both slopes positive: an unregularised logistic regression of ln p, -ln(1-p)."""
    logits, labels = sampled(k=2, temperature=2.0)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    theirs.fit(beta_features(logits), labels)
    assert (theirs.coef_ > 0).all()
    model = posthoc.BetaCalibration().fit(np.log(softmax(logits)), labels)
    np.testing.assert_allclose(
        model.parameters_[1], [*theirs.coef_[0], theirs.intercept_[0]], atol=1e-4
    )
    test, _ = sampled(k=2, temperature=2.0, seed=1)
    expected = theirs.predict_proba(beta_features(test))
    np.testing.assert_allclose(model.predict_proba(np.log(softmax(test))), expected, atol=1e-5)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_beta_is_the_lowest_nll_to_nine_digits(k, temperature):
    """Against Newton's method of scikit-learn, on each class against the rest."""
    logits, labels = sampled(n=5000, k=k, temperature=temperature)
    p = softmax(logits)
    model = posthoc.BetaCalibration().fit(np.log(p), labels)
    expected = np.empty_like(p)
    for c in range(k):
        features = np.column_stack([np.log(p[:, c]), -np.log1p(-p[:, c])])
        theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
        theirs.fit(features, labels == c)
        assert (theirs.coef_ > 0).all()
        found = [*theirs.coef_[0], theirs.intercept_[0]]
        np.testing.assert_allclose(model.parameters_[c], found, atol=1e-9)
        expected[:, c] = theirs.predict_proba(features)[:, 1]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(np.log(p)), expected, atol=1e-9)


def test_beta_is_that_of_betacal():
    """Of version 1.1.0, with scikit-learn 1.9.1, whose optimiser stops at a gradient of 1e-4."""
    logits, labels = sampled(n=10_000, k=2, temperature=2.0)
    model = posthoc.BetaCalibration().fit(np.log(softmax(logits)), labels)
    theirs = [0.514184, 0.497118, -0.013484]
    np.testing.assert_allclose(model.parameters_[1], theirs, atol=3e-4)


def lowest_with_bounds(logits, labels):
    """The a, b and c of class 1 by a general optimiser with bounds, and their NLL."""
    features = np.column_stack([beta_features(logits), np.ones(len(labels))])

    def loss(parameters):
        score = features @ parameters
        residual = 1 / (1 + np.exp(-score)) - labels
        return (np.logaddexp(0, score) - labels * score).mean(), features.T @ residual / len(labels)

    bounds = [(0, None), (0, None), (None, None)]
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-8}
    found = minimize(loss, [1, 1, 0], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, found.fun, loss


@pytest.mark.parametrize(
    ("chance", "zero"),
    [
        (lambda p: 0.5 * np.exp(-6 * p) + 0.8 * p**6, [0]),
        (lambda p: 1 - 0.5 * np.exp(-6 * (1 - p)) - 0.8 * (1 - p) ** 6, [1]),
        (lambda p: 0.9 - 0.8 * p, [0, 1]),
        (lambda p: 0.2 + 0 * p, None),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_beta_at_its_bounds_is_that_of_a_general_optimiser(chance, zero, seed):
    """Where the free fit has a negative slope: each is held at 0 where, and only where, it must."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, size=3000)
    labels = (rng.random(3000) < chance(p)).astype(int)
    logits = np.column_stack([np.log1p(-p), np.log(p)])
    model = posthoc.BetaCalibration().fit(logits, labels)
    expected, lowest, loss = lowest_with_bounds(logits, labels)
    np.testing.assert_allclose(model.parameters_[1], expected, atol=1e-5)
    assert loss(model.parameters_[1])[0] <= lowest + 1e-12
    if zero is not None:
        assert np.flatnonzero(model.parameters_[1, :2] == 0).tolist() == zero
    if zero == [0, 1]:
        assert model.parameters_[1, 2] == pytest.approx(np.log(labels.mean() / (1 - labels.mean())))
    mirrored = model.parameters_[1, [1, 0, 2]] * [1, 1, -1]
    np.testing.assert_allclose(model.parameters_[0], mirrored, atol=1e-9)


@pytest.mark.parametrize("values", [[0.3], [0.3, 0.8]])
def test_beta_of_few_distinct_probabilities(values):
    """Fewer than the parameters, so that several fits are as good: the frequencies are met."""
    rng = np.random.default_rng(0)
    p = rng.choice(values, 400)
    labels = (rng.random(400) < p**2).astype(int)
    logits = np.column_stack([np.log1p(-p), np.log(p)])
    model = posthoc.BetaCalibration().fit(logits, labels)
    np.testing.assert_allclose(
        model.parameters_[1], lowest_with_bounds(logits, labels)[0], atol=1e-5
    )
    for value in values:
        found = model.predict_proba(logits)[p == value, 1]
        np.testing.assert_allclose(found, labels[p == value].mean(), atol=1e-6)


def test_beta_of_separable_data_nearly_reaches_an_nll_of_zero():
    logits = log_softmax(np.column_stack([np.zeros(40), np.linspace(-3, 3, 40)]), axis=1)
    labels = np.repeat([0, 1], 20)
    model = posthoc.BetaCalibration().fit(logits, labels)
    _, lowest, loss = lowest_with_bounds(logits, labels)
    assert max(lowest, loss(model.parameters_[1])[0]) < 1e-6
    probs = model.predict_proba(logits)
    np.testing.assert_allclose(probs, np.eye(2)[labels], atol=1e-5)


def test_beta_slopes_stay_nonnegative_and_optimal():
    """Labels that get rarer as p leaves 0: the free fit has a < 0, the constrained one a = 0."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, size=4000)
    eta = 0.5 * np.exp(-6 * p) + 0.8 * p**6
    labels = (rng.random(4000) < eta).astype(int)
    logits = np.column_stack([np.log1p(-p), np.log(p)])
    free = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    assert free.fit(beta_features(logits), labels).coef_.min() < 0
    model = posthoc.BetaCalibration().fit(logits, labels)
    a, b, c = model.parameters_[1]
    assert min(a, b) == 0

    def loss(parameters):
        score = beta_features(logits) @ parameters[:2] + parameters[2]
        return (np.logaddexp(0, score) - labels * score).mean()

    other = minimize(
        loss, [1, 1, 0], method="SLSQP", bounds=[(0, None)] * 2 + [(None, None)], tol=1e-12
    )
    assert loss([a, b, c]) == pytest.approx(other.fun, abs=1e-7)


def test_beta_recovers_its_own_family():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 1, size=60_000)
    score = 0.6 * np.log(p) - 1.4 * np.log1p(-p) + 0.3
    labels = (rng.random(len(p)) < 1 / (1 + np.exp(-score))).astype(int)
    model = posthoc.BetaCalibration().fit(np.column_stack([np.log1p(-p), np.log(p)]), labels)
    np.testing.assert_allclose(model.parameters_[1], [0.6, 1.4, 0.3], atol=0.05)
    np.testing.assert_allclose(model.parameters_[0], [1.4, 0.6, -0.3], atol=0.05)  # the mirror


def test_isotonic_between_probabilities_next_to_zero():
    """As rounded scores give them: some exactly 0, and the slope between two points infinite."""
    logits = np.array([[0, -708.39], [0, -708.36], [0, -5], [-5, 0]])
    model = posthoc.IsotonicCalibration().fit(logits, np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(model.predict_proba([[0, -708.38]]).sum(), 1)


def test_isotonic_row_of_zeros_becomes_uniform():
    probs = [[0.3, 0.3, 0.4], [0.3, 0.4, 0.3], [0.5, 0.1, 0.4], [0.9, 0.05, 0.05]]
    model = posthoc.IsotonicCalibration().fit(np.log(probs), np.array([2, 1, 2, 0]))
    got = model.predict_proba(np.log([[0.4, 0.3, 0.3]]))
    np.testing.assert_allclose(got, [[1 / 3] * 3])


def test_beta_takes_saturated_probabilities():
    logits, labels = sampled(k=3)
    logits[:5] = [1e4, 0, -1e4]
    labels[:5] = 0
    probs = posthoc.BetaCalibration().fit(logits, labels).predict_proba(logits)
    assert np.isfinite(probs).all() and (probs[:5, 0] > 0.99).all()


@pytest.mark.parametrize("model", [posthoc.IsotonicCalibration(), posthoc.BetaCalibration()])
def test_missing_classes_keep_their_probability(model):
    logits, labels = sampled(k=4)
    present = labels != 3
    with pytest.warns(PosthocWarning, match="1 of 4 classes have no held-out sample"):
        model.fit(logits[present], labels[present])
    probs = model.predict_proba(logits)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    # Unchanged before the row is normalised, so still in play.
    assert np.corrcoef(probs[:, 3], softmax(logits)[:, 3])[0, 1] > 0.9


def test_top_versus_all_is_the_binary_method_on_the_confidence():
    """As netcal's beta calibration of (confidence, correct) has it."""
    logits, labels = sampled(n=4000, k=20, temperature=2.0)
    probs = softmax(logits)
    found = posthoc.TopVersusAll().fit(np.log(probs), labels).predict_proba(np.log(probs))
    theirs = NETCAL["beta"]  # of the first rows
    np.testing.assert_allclose(found.max(axis=1)[: len(theirs)], theirs, atol=2e-3)
    assert (found.argmax(axis=1) == probs.argmax(axis=1)).all()
    others = probs.copy()
    others[np.arange(4000), probs.argmax(axis=1)] = 0
    kept = found.max(axis=1) > 0.6  # where none of the others has to be flattened
    np.testing.assert_allclose(
        np.where(others > 0, found, 0)[kept] / (1 - found.max(axis=1))[kept, None],
        others[kept] / others[kept].sum(axis=1, keepdims=True),
        atol=1e-9,
    )


# --- affine functions of the logits ---------------------------------------------------------------


def biased(n=3000, k=4, seed=0):
    """Logits with a different slope and shift in each class."""
    logits, labels = sampled(n, k, seed=seed)
    return logits * np.linspace(0.5, 2, k) + np.linspace(-1, 1, k), labels


def test_vector_scaling_against_torch():
    logits, labels = biased()
    model = posthoc.VectorScaling().fit(logits, labels)
    z = torch.tensor(logits)
    other = torch_minimum(lambda w: nll(z * w[0] + w[1], labels), [[1.0] * 4, [0.0] * 4])
    np.testing.assert_allclose(model.scale_, other[0], atol=1e-4)
    np.testing.assert_allclose(model.bias_, other[1], atol=1e-4)
    # What was done to the logits is undone: slopes 1 / linspace, up to what 3,000 samples tell.
    np.testing.assert_allclose(model.scale_, 1 / np.linspace(0.5, 2, 4), rtol=0.15)
    expected = softmax(logits * other[0] + other[1])
    np.testing.assert_allclose(model.predict_proba(logits), expected, atol=1e-5)


@pytest.mark.parametrize("k", [2, 4])
def test_matrix_scaling_against_scikit_learn(k):
    logits, labels = biased(k=k)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(logits, labels)
    model = posthoc.MatrixScaling().fit(logits, labels)
    test, _ = biased(k=k, seed=1)
    np.testing.assert_allclose(model.predict_proba(test), theirs.predict_proba(test), atol=1e-5)


def test_matrix_scaling_with_l2_against_torch():
    logits, labels = biased(n=300)
    model = posthoc.MatrixScaling(l2=0.02).fit(logits, labels)
    z = torch.tensor(logits)
    start = np.vstack([np.eye(4), np.zeros(4)])

    def loss(w):
        return nll(z @ w[:4].T + w[4], labels) + 0.02 * (w - torch.tensor(start)).square().sum()

    other = torch_minimum(loss, start)
    np.testing.assert_allclose(model.matrix_, other[:4], atol=1e-5)
    np.testing.assert_allclose(model.bias_, other[4], atol=1e-5)
    alone = posthoc.MatrixScaling(l2=1e6).fit(logits, labels)
    np.testing.assert_allclose(alone.predict_proba(logits), softmax(logits), atol=1e-5)


@pytest.mark.parametrize("structure", ["matrix", "vector"])
def test_structured_scaling_against_torch(structure):
    logits, labels = biased(n=300)
    n, k = logits.shape
    model = posthoc.StructuredScaling(structure).fit(logits, labels)
    temperature = posthoc.TemperatureScaling().fit(logits, labels).temperature_
    assert model.temperature_ == pytest.approx(temperature, rel=1e-9)
    x = torch.log((n * torch.softmax(torch.tensor(logits) / temperature, 1) + 1 / k) / (n + 1))
    diagonal = torch.eye(k, dtype=torch.bool)

    def scores(w):
        change = torch.where(diagonal | (structure == "matrix"), w[:k], 0.0)
        return x + x @ change.T + w[k], change

    def loss(w):
        scaled, change = scores(w)
        square = change.square()
        penalty = (w[k].square().sum() + square[diagonal].sum()) * k / n
        return nll(scaled, labels) + penalty + square[~diagonal].sum() * k * (k - 1) / n

    best = torch.tensor(torch_minimum(loss, np.zeros((k + 1, k))))
    expected = torch.softmax(scores(best)[0], dim=1)
    np.testing.assert_allclose(model.predict_proba(logits), expected, atol=1e-5)
    np.testing.assert_allclose(model.matrix_ - np.eye(k), scores(best)[1], atol=1e-4)


def test_structured_scaling_is_a_temperature_on_few_samples_and_a_matrix_on_many():
    few, labels = biased(n=10)
    close = posthoc.StructuredScaling().fit(few, labels)
    assert np.abs(close.matrix_ - np.eye(4)).max() < 0.2
    logits, labels = biased(n=20_000)
    test, test_labels = biased(n=5000, seed=1)
    values = [
        metrics.nll(model.fit(logits, labels).predict_proba(test), test_labels)
        for model in (
            posthoc.MatrixScaling(),
            posthoc.StructuredScaling(),
            posthoc.TemperatureScaling(),
        )
    ]
    assert values[0] < values[1] < values[0] + 0.3 * (values[2] - values[0])


def test_more_parameters_fit_the_held_out_data_better():
    logits, labels = biased(n=500)
    values = [
        metrics.nll(model.fit(logits, labels).predict_proba(logits), labels)
        for model in (
            posthoc.FixedTemperature(1.0),
            posthoc.TemperatureScaling(),
            posthoc.VectorScaling(),
            posthoc.MatrixScaling(),
        )
    ]
    assert values == sorted(values, reverse=True)


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", METHODS, ids=ids)
@pytest.mark.parametrize("k", [2, 5])
def test_probabilities_come_back_as_the_kind_given(model, k):
    logits, labels = sampled(n=400, k=k, temperature=1.5, dtype=np.float32)
    assert model.fit(logits, labels) is model
    probs = model.predict_proba(logits)
    assert probs.shape == logits.shape and (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-6)
    before = torch.tensor(logits), torch.tensor(labels)
    tensor = model.fit(*before).predict_proba(before[0])
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), probs, atol=1e-6)
    assert torch.equal(before[0], torch.tensor(logits))  # nothing is written to
    half = model.predict_proba(before[0].bfloat16())
    np.testing.assert_allclose(half.numpy(), probs, atol=0.3)


@pytest.mark.parametrize("model", [m for m in METHODS if "Fixed" not in repr(m)], ids=repr)
def test_all_lower_the_ece_of_an_overconfident_network(model):
    logits, labels = sampled(n=4000, temperature=2.5)
    test, test_labels = sampled(n=4000, temperature=2.5, seed=1)
    after = metrics.ece(model.fit(logits, labels).predict_proba(test), test_labels)
    assert after < 0.25 * metrics.ece(softmax(test), test_labels)


# --- as scikit-learn handles them -----------------------------------------------------------------


def test_import_needs_neither_torch_nor_sklearn():
    code = "import calibkit.posthoc, sys; assert not {'torch', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("model", METHODS, ids=repr)
def test_clone_copies_the_options_and_nothing_fitted(model):
    logits, labels = sampled(n=300, temperature=1.5)
    copy = clone(model.fit(logits, labels))
    assert type(copy) is type(model) and copy == model and copy is not model
    assert set(vars(copy)) == set(model.get_params())
    np.testing.assert_array_equal(
        copy.fit(logits, labels).predict_proba(logits), model.predict_proba(logits)
    )


def test_every_method_is_a_recalibration_that_is_cloned_here():
    classes = {c for c in vars(posthoc).values() if isinstance(c, type) and hasattr(c, "fit")}
    assert classes == {type(model) for model in METHODS} | {posthoc.Recalibration}


def test_set_params_changes_what_the_constructor_accepts():
    model = posthoc.HistogramBinning()
    assert model.set_params(bins=10, scheme="equal_mass") is model
    assert model == posthoc.HistogramBinning(10, "equal_mass")
    fixed = posthoc.FixedTemperature(1.5).set_params(temperature=2.0)
    np.testing.assert_allclose(fixed.predict_proba(Z), softmax(Z / 2))
    for change, message in (
        ({"bins": 0}, "bins: got 0"),
        ({"bins": 5, "width": 3}, "width: no option of HistogramBinning, which has bins, scheme"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**change)
        assert model.bins == 10


def test_scikit_learn_finds_the_penalty_of_matrix_scaling():
    """By cross-validation on few samples, neither no penalty nor nothing but penalty is best."""
    logits, labels = biased(n=120)
    values, folds = [1e-6, 0.01, 1e3], StratifiedKFold(3)
    search = GridSearchCV(posthoc.MatrixScaling(), {"l2": values}, scoring="neg_log_loss", cv=folds)
    search.fit(logits, labels)
    assert search.best_params_ == {"l2": 0.01}
    for l2, found in zip(values, search.cv_results_["mean_test_score"], strict=True):
        by_hand = []
        for train, test in folds.split(logits, labels):
            model = posthoc.MatrixScaling(l2).fit(logits[train], labels[train])
            by_hand.append(metrics.nll(model.predict_proba(logits[test]), labels[test]))
        assert found == pytest.approx(-np.mean(by_hand))


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_predict_and_score_as_scikit_learn_would(model):
    logits, labels = sampled(n=300, temperature=1.5)
    found = model.fit(logits, labels).predict(logits)
    np.testing.assert_array_equal(found, model.predict_proba(logits).argmax(axis=1))
    assert model.score(logits, labels) == pytest.approx(accuracy_score(labels, found))
    tensor = model.predict(torch.tensor(logits))
    assert isinstance(tensor, torch.Tensor) and (tensor.numpy() == found).all()
    scores = cross_val_score(model, logits, labels, cv=3)  # no scoring named
    assert scores.shape == (3,) and (scores > 0.5).all()


def test_a_search_without_a_scoring_runs():
    search = GridSearchCV(posthoc.HistogramBinning(), {"bins": [5, 10]}, cv=3)
    assert search.fit(*sampled(n=300, temperature=1.5)).best_params_["bins"] in (5, 10)


def animals(n=600, seed=0):
    """Inputs, and names of classes that they suggest."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, 4))
    scores = inputs[:, :3] + rng.gumbel(size=(n, 3))
    return inputs, np.array(["dog", "ant", "cat"])[scores.argmax(axis=1)]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_calibrated_model_equals_scikit_learns(classes):
    inputs, names = (part[:900] for part in animals(1400))
    if classes == 2:
        names = np.where(names == "ant", "ant", "other")
    base = LogisticRegression(C=100).fit(inputs[:400], names[:400])
    for estimator, rest in ((base, slice(400, 900)), (clone(base), slice(0, 900))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosthocWarning)
            ours = CalibratedModel(estimator).fit(inputs[rest], names[rest])
        theirs = CalibratedClassifierCV(
            FrozenEstimator(base) if estimator is base else clone(base),
            method="temperature",
            ensemble=False,
        ).fit(inputs[rest], names[rest])
        assert ours.classes_.tolist() == theirs.classes_.tolist() == sorted(set(names))
        probs, expected = (model.predict_proba(inputs) for model in (ours, theirs))
        # Their search stops at a relative 1e-4 of the temperature; its NLL is not below ours.
        np.testing.assert_allclose(probs, expected, atol=2e-4)
        assert ours.predict(inputs).tolist() == theirs.predict(inputs).tolist()
        if estimator is base:
            values = [log_loss(names[rest], p[rest]) for p in (probs, expected)]
            assert values[0] <= values[1] + 1e-12


def test_a_calibrated_model_is_scored_searched_and_cloned():
    inputs, names = animals()
    fitted = LogisticRegression().fit(inputs[:300], names[:300])
    model = CalibratedModel(FrozenEstimator(fitted), posthoc.HistogramBinning())
    assert clone(model).map == model.map
    assert cross_val_score(model, inputs[300:], names[300:], cv=3).min() > 0.4
    search = GridSearchCV(model, {"map__bins": [2, 30]}, scoring="neg_log_loss", cv=3)
    with np.errstate(divide="ignore"):
        search.fit(inputs[300:], names[300:])
    assert search.best_params_["map__bins"] in (2, 30)
    assert search.best_estimator_.score(inputs, names) > 0.4
    other = np.where(names == "cat", "cow", names)
    with pytest.raises(ValueError, match="y: got .*cow.*, expected classes the estimator knows"):
        CalibratedModel(fitted).fit(inputs, other)


# --- weights --------------------------------------------------------------------------------------

# What L-BFGS fits, to a gradient of 1e-8; the others have a closed form, a root or three numbers.
ITERATED = (
    posthoc.BetaCalibration,
    posthoc.VectorScaling,
    posthoc.MatrixScaling,
    posthoc.StructuredScaling,
)


@pytest.mark.parametrize("model", METHODS, ids=ids)
@pytest.mark.parametrize(("k", "n"), [(2, 300), (3, 500), (10, 2000)])
def test_whole_number_weights_are_repeated_rows(model, k, n):
    logits, labels = sampled(n=n, k=k, temperature=2.0)
    weights = np.random.default_rng(1).integers(0, 5, size=n)
    repeated = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    found, expected = clone(model).fit(logits, labels, weights), clone(model).fit(*repeated)
    close = 1e-7 if isinstance(model, ITERATED) else 1e-9
    test = sampled(n=1000, k=k, temperature=2.0, seed=2)[0]
    for scores in (logits, test):
        probs = found.predict_proba(scores)
        np.testing.assert_allclose(probs, expected.predict_proba(scores), rtol=0, atol=close)
    if "Fixed" not in repr(model) and "ece" not in repr(model):  # which is one of a grid
        plain = clone(model).fit(logits, labels).predict_proba(test)
        assert np.abs(plain - found.predict_proba(test)).max() > 1e-4  # they count


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_weights_of_one_are_none_and_rows_of_none_are_not_there(model):
    logits, labels = sampled(n=600, temperature=2.0)
    plain = clone(model).fit(logits, labels).predict_proba(logits)
    for ones in (np.ones(600), [1] * 600, torch.ones(600), np.ones(600, bool)):
        found = clone(model).fit(logits, labels, sample_weight=ones).predict_proba(logits)
        np.testing.assert_allclose(found, plain, rtol=0, atol=1e-7)
    spoilt, wrong = np.append(logits, logits[:50] * -9, axis=0), np.append(labels, labels[:50])
    found = clone(model).fit(spoilt, wrong, np.repeat([1, 0], [600, 50])).predict_proba(logits)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-7)
    by_sum = (posthoc.StructuredScaling(s) for s in ("matrix", "vector"))
    if model not in (*by_sum, posthoc.HistogramBinning(10, "equal_mass")):
        some = np.random.default_rng(0).uniform(0.1, 3, 600)
        one, ten = (clone(model).fit(logits, labels, c * some) for c in (1, 10))
        np.testing.assert_allclose(
            one.predict_proba(logits), ten.predict_proba(logits), rtol=0, atol=1e-6
        )


def test_weighted_fits_have_the_lowest_weighted_loss():
    """By scipy and scikit-learn, which share nothing with them."""
    from sklearn.isotonic import IsotonicRegression

    logits, labels = sampled(n=800, k=3, temperature=1.7)
    weights = np.random.default_rng(3).gamma(0.5, size=800)
    every = np.arange(800)

    def loss(scores):
        return -weights @ log_softmax(scores, axis=1)[every, labels] / weights.sum()

    found = posthoc.TemperatureScaling().fit(logits, labels, weights).temperature_
    best = minimize_scalar(lambda t: loss(logits / t), bounds=(0.1, 10), options={"xatol": 1e-10})
    assert found == pytest.approx(best.x, abs=1e-6)
    vector = posthoc.VectorScaling().fit(logits, labels, weights)
    start = np.repeat([1.0, 0.0], 3)
    best = minimize(lambda p: loss(logits * p[:3] + p[3:]), start, tol=1e-10)
    assert loss(logits * vector.scale_ + vector.bias_) <= best.fun + 1e-9
    matrix = posthoc.MatrixScaling().fit(logits, labels, weights)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    theirs.fit(logits, labels, sample_weight=weights)
    np.testing.assert_allclose(
        matrix.predict_proba(logits), theirs.predict_proba(logits), atol=1e-5
    )
    probs = softmax(logits)
    isotonic = posthoc.IsotonicCalibration().fit(np.log(probs), labels, weights)
    theirs = IsotonicRegression().fit(probs[:, 1], labels == 1, sample_weight=weights)
    np.testing.assert_allclose(
        np.interp(logit(probs[:, 1]), *isotonic.points_[1]), theirs.predict(probs[:, 1]), atol=1e-9
    )
    p, right = probs.max(axis=1), probs.argmax(axis=1) == labels

    def of_beta(parameters):
        q = expit(np.column_stack([np.log(p), -np.log1p(-p), np.ones(800)]) @ parameters)
        return -weights @ np.log(np.where(right, q, 1 - q)) / weights.sum()

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(of_beta, [1, 1, 0], bounds=bounds, method="SLSQP", options={"ftol": 1e-14})
    top = posthoc.TopVersusAll().fit(np.log(probs), labels, weights)
    assert of_beta(top.parameters_) <= best.fun + 1e-9
    one = posthoc.BetaCalibration().fit(np.log(probs), labels, weights)
    p, right = probs[:, 1], labels == 1
    best = minimize(of_beta, [1, 1, 0], bounds=bounds, method="SLSQP", options={"ftol": 1e-14})
    assert of_beta(one.parameters_[1]) <= best.fun + 1e-9


def test_weighted_bins_by_hand():
    logits = np.array([[4.0, 0.0]] * 4)
    model = posthoc.HistogramBinning().fit(logits, [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0])
    assert model.values_[-1] == 3 / 8


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 6)), min_size=1, max_size=12))
def test_weighted_quantiles_are_those_of_repeated_values(rows):
    values, weights = np.array(rows).T
    shares = np.linspace(0, 1, 8)[1:-1]
    expected = np.quantile(np.repeat(values, weights.astype(int)), shares)
    np.testing.assert_allclose(search.quantiles(values, shares, weights), expected, atol=1e-12)
    tiny = search.quantiles(values, shares, weights / 1e6)  # still in order, and inside
    assert (np.diff(tiny) >= 0).all() and values.min() <= tiny[0] and tiny[-1] <= values.max()


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_bad_weights_are_refused_by_every_map(model):
    logits, labels = sampled(n=30)
    for weights, message in (
        (np.zeros(30), "got weights that are all zero"),
        (np.full(30, -1.0), "got -1, expected weights of at least 0"),
        (np.ones(29), "got 29 values, expected 30"),
        (np.full(30, np.nan), "got NaN"),
    ):
        with pytest.raises(ValueError, match=f"^sample_weight: {message}"):
            clone(model).fit(logits, labels, weights)
    if model._needs_two_classes:
        with pytest.raises(ValueError, match="got class 0 only"):
            clone(model).fit(logits, labels, labels == 0)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", METHODS, ids=ids)
@pytest.mark.parametrize("k", [2, 5])
def test_a_saved_map_gives_the_same_probabilities(model, k, tmp_path):
    logits, labels = sampled(n=300, k=k, temperature=1.5)
    model.fit(logits, labels).save(tmp_path / "map.json", class_names=list("abcde")[:k])
    kept = posthoc.load(tmp_path / "map.json")
    assert kept == model and kept.about_ == {"class_names": list("abcde")[:k]}
    test = sampled(n=500, k=k, scale=5, seed=1)[0]
    np.testing.assert_array_equal(kept.predict_proba(test), model.predict_proba(test))
    assert list(tmp_path.iterdir()) == [tmp_path / "map.json"]
    fresh = type(model)(**model.get_params())
    if "Fixed" not in repr(model):
        with pytest.raises(ValueError, match="not fitted"):
            fresh.save(tmp_path / "map.json")


def test_an_isotonic_map_keeps_its_corners_only():
    """And is the function through all points that the regression gives."""
    from sklearn.isotonic import IsotonicRegression

    logits, labels = sampled(n=3000, k=2, temperature=2.0)
    model = posthoc.IsotonicCalibration().fit(logits, labels)
    odds = (logits[:, 1] - logits[:, 0]) / model.temperature_
    assert len(model.points_[1][0]) < 200
    theirs = IsotonicRegression().fit(odds, labels == 1)
    test = np.random.default_rng(0).uniform(odds.min(), odds.max(), 1000)
    np.testing.assert_allclose(np.interp(test, *model.points_[1]), theirs.predict(test), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calibkit_map": 3}, "later version"),
        ({"map": "pickle"}, "map: got another name, expected one of temperature"),
        ({"map": []}, "unhashable"),
        ({"classes": 1}, "classes: got 1"),
        ({"classes": "2"}, "classes: got '2'"),
        ({"classes": 3}, r"scale: got shape \(2,\), expected \(3,\)"),
        ({"options": {"power": 2}}, "unexpected keyword"),
        ({"options": 3}, "mapping"),
        ({"fitted": {"scale": [1, 2]}}, "no 'bias'"),
        ({"fitted": {"scale": [1, None], "bias": [0, 0]}}, "scale: got null"),
        ({"fitted": {"scale": ["a", 1], "bias": [0, 0]}}, "could not convert"),
        ({"map": "temperature", "fitted": {"temperature": 0}}, "expected a positive number"),
        ({"map": "histogram", "fitted": {"edges": [0.5], "values": [1]}}, "one more than edges"),
        ({"map": "isotonic", "fitted": {"points": [None]}}, "got 1 classes, expected 2"),
        (
            {"map": "isotonic", "fitted": {"points": [None, [[1, 0], [0, 1]]]}},
            "got points that do not rise",
        ),
    ],
)
def test_a_damaged_map_is_refused_in_one_line(change, message, tmp_path):
    file = tmp_path / "map.json"
    logits, labels = sampled(n=50, k=2)
    posthoc.VectorScaling().fit(logits, labels).save(file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=f"map.json: .*{message}") as error:
        posthoc.load(file, edited=True)
    assert "\n" not in str(error.value)


def test_what_is_no_map_is_refused(tmp_path):
    file = tmp_path / "map.json"
    for text, message in (
        ("{", "Expecting"),
        ("[1]", "no key 'calibkit_map'"),
        ("[" * 100_000, "recursion|Expecting"),
        ("\x00", "Expecting"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=f"map.json: .*({message})"):
            posthoc.load(file)
    with pytest.raises(OSError):
        posthoc.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match="about: got map"):
        posthoc.FixedTemperature(2.0).save(file, map="mine")


def test_maps_saved_before_version_0_2_give_what_they_gave(tmp_path):
    """Their isotonic corners are probabilities, and their beta maps knew no temperature."""
    file, z = tmp_path / "old.json", np.array([[2.0, 0.0], [0.0, 1.0], [0.3, 0.0]])
    p = 1 / (1 + np.exp(-(z[:, 1] - z[:, 0])))
    both = [[[0.1, 0.5, 0.9], [0.2, 0.4, 0.8]]] * 2
    old = {"calibkit_map": 1, "map": "isotonic", "options": {}, "classes": 2}
    file.write_text(json.dumps(old | {"fitted": {"points": both}}))
    ends = np.stack([np.interp(x, *both[0]) for x in (1 - p, p)], axis=1)
    expected = ends / ends.sum(axis=1, keepdims=True)
    with pytest.warns(posthoc.PosthocWarning, match="a map of version 0.1"):
        kept = posthoc.load(file)
    np.testing.assert_allclose(kept.predict_proba(z), expected, atol=1e-12)
    kept.save(file)
    np.testing.assert_array_equal(posthoc.load(file).predict_proba(z), kept.predict_proba(z))
    fitted = {"parameters": [[2.0, 1.0, 0.5], [1.0, 2.0, -0.5]]}
    file.write_text(json.dumps(old | {"map": "beta", "fitted": fitted}))
    q = np.log(p) - 2 * np.log(1 - p) - 0.5
    with pytest.warns(posthoc.PosthocWarning, match="a map of version 0.1"):
        kept = posthoc.load(file)
    np.testing.assert_allclose(kept.predict_proba(z)[:, 1], 1 / (1 + np.exp(-q)))


# --- scores of any size ---------------------------------------------------------------------------

OF_ANY_SCALE = ["temperature", "structured", "vector", "matrix", "beta", "top", "isotonic"]


@pytest.mark.parametrize("scale", [1e-4, 1e3, 1e5])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", OF_ANY_SCALE)
def test_scores_on_another_scale_give_the_same_probabilities(name, k, scale):
    """As the decision values of a linear machine on unscaled features are."""
    logits, labels = sampled(n=1000, k=k, temperature=1.7)
    test, truth = sampled(n=1000, k=k, temperature=1.7, seed=1)
    plain = posthoc.MAPS[name]().fit(logits, labels).predict_proba(test)
    scaled = posthoc.MAPS[name]().fit(scale * logits, labels).predict_proba(scale * test)
    np.testing.assert_allclose(scaled, plain, atol=1e-4 if name in ("vector", "matrix") else 1e-6)
    if name != "isotonic":  # a 0 of which may be the truth
        assert metrics.nll(scaled, truth) < 1.1 * metrics.nll(softmax(test / 1.7), truth)


def test_isotonic_tells_apart_scores_that_are_saturated_as_probabilities():
    """Above a logit of 37 every probability is 1 in double precision."""
    logits = np.array([[0.0, z] for z in (-60.0, -50.0, 50.0, 60.0) for _ in range(4)])
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1])
    found = posthoc.IsotonicCalibration().fit(logits, labels).predict_proba(logits)[::4, 1]
    np.testing.assert_allclose(found, [0, 0.25, 0.75, 1])


def test_equal_probabilities_are_one_point_of_an_isotonic_map():
    """Also where the other classes of their rows differ, and so the last digits."""
    rng = np.random.default_rng(0)
    votes = rng.multinomial(10, [0.5, 0.3, 0.2], size=2000) / 10
    probs = np.maximum(votes, 1e-3) / np.maximum(votes, 1e-3).sum(axis=1, keepdims=True)
    keep = (votes > 0).all(axis=1)
    for dtype in (np.float32, np.float64):
        logits = np.log(probs[keep].astype(dtype))
        labels = np.array([rng.choice(3, p=row) for row in votes[keep]])
        model = posthoc.IsotonicCalibration().fit(logits, labels)
        assert all(len(x) <= 8 for x, _ in model.points_)


# --- warnings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "temperature", "end"),
    [
        (posthoc.TemperatureScaling("ece"), 100.0, 10.0),
        (posthoc.TemperatureScaling("nll"), None, 1000 * 3.0),
    ],
)
def test_temperature_at_the_end_of_its_range_warns(model, temperature, end):
    """The range follows the size of the scores: here the two largest are 3 apart."""
    wrong = np.array([[3.0, 0.0, -1.0]] * 20), np.array([1, 2] * 10)
    data = sampled(temperature=temperature) if temperature else wrong
    with pytest.warns(posthoc.EndOfRangeWarning, match="end of the range"):
        model.fit(*data)
    assert model.temperature_ == pytest.approx(end)


def test_separable_data_warn():
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    with pytest.warns(PosthocWarning, match="0.0015 is an end of the range"):
        posthoc.TemperatureScaling().fit(logits, [0, 1])
    with pytest.warns(PosthocWarning, match="1500 is an end of the range"):
        posthoc.TemperatureScaling().fit(logits, [1, 0])


@pytest.mark.filterwarnings("always")
def test_warnings_point_to_the_line_of_the_call():
    z, y = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]), [0, 2]
    for call in (
        lambda: posthoc.TemperatureScaling().fit(z, y),
        lambda: posthoc.BetaCalibration().fit(z, y),
        lambda: posthoc.check_overlap(z, z),
    ):
        with pytest.warns(PosthocWarning) as caught:
            call()
        assert {w.filename for w in caught} == {__file__}


def test_a_fit_that_makes_things_worse_warns(monkeypatch):
    monkeypatch.setattr(search, "GRID", np.array([3, 4, 5]))
    logits, labels = sampled()
    with pytest.warns(PosthocWarning) as caught:
        posthoc.TemperatureScaling("ece").fit(logits, labels)
    messages = " ".join(str(w.message) for w in caught)
    before, after = softmax(logits), softmax(logits / 3)
    for name, error in (("ECE", metrics.ece), ("NLL", metrics.nll)):
        old, new = error(before, labels), error(after, labels)
        assert f"raises the {name} of the data it was fitted on from {old:.4f} to {new:.4f}" in (
            messages
        )


def test_overlap_warns_and_counts():
    val, _ = sampled(n=300)
    test, _ = sampled(n=300, seed=1)
    assert posthoc.check_overlap(val, test) == 0
    leaky = np.concatenate([test, val[:2]])
    assert posthoc.check_overlap(val, leaky) == 2  # under 1%: counted in silence
    leaky = np.concatenate([test, val[:30]])
    with pytest.warns(PosthocWarning, match="30 of 330 test samples"):
        assert posthoc.check_overlap(val, torch.tensor(leaky)) == 30
    labels = sampled(n=300)[1]
    with pytest.warns(PosthocWarning, match="300 of 300"):
        posthoc.calibratability(val, labels, val, labels)


def test_calibratability_warns_at_the_end_of_the_grid():
    val, test = sampled(temperature=30.0), sampled(temperature=30.0, seed=1)
    with pytest.warns(PosthocWarning) as caught:
        posthoc.calibratability(*val, *test)
    assert {str(w.message).split(" of the ")[1] for w in caught} == {
        "validation set is an end",
        "test set is an end",
    }


def test_a_fit_that_does_not_end_warns(monkeypatch):
    monkeypatch.setattr(
        likelihood,
        "minimize",
        lambda *args, **rest: minimize(*args, **{**rest, "options": {"maxiter": 2}}),
    )
    with pytest.warns(PosthocWarning, match="no convergence in 2 iterations"):
        posthoc.MatrixScaling().fit(*biased())


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_a_fit_lets_go_of_the_data_at_once(model):
    """No cycle around a copy of the logits, which would live until the collector comes by."""
    logits, labels = sampled(temperature=2.0, dtype=np.float32)
    model.fit(logits, labels)  # whatever is kept from a first call, is kept before
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        model.fit(logits, labels)
        after = tracemalloc.get_traced_memory()[0]
        gc.collect()
        in_cycles = after - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert in_cycles < logits.nbytes / 2


# --- errors ---------------------------------------------------------------------------------------

Z, Y = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0]]), np.array([0, 1, 2])
BAD_DATA = {
    "NaN": (Z * np.nan, Y, "logits: got NaN"),
    "infinity": (Z + np.inf, Y, "logits: got infinity"),
    "one axis": (Z[0], Y, r"logits: got shape \(3,\)"),
    "one class": (Z[:, :1], Y, r"logits: got shape \(3, 1\)"),
    "empty": (Z[:0], Y[:0], "logits: got an empty array"),
    "too few labels": (Z, Y[:2], "labels: got 2 values, expected 3"),
    "two axes of labels": (Z, Y[:, np.newaxis], r"labels: got shape \(3, 1\)"),
    "label too large": (Z, Y + 1, "labels: got values from 1 to 3"),
    "label negative": (Z, Y - 1, "labels: got values from -1 to 1"),
    "labels not integers": (Z, Y.astype(float), "labels: got type float64"),
}
FITS = [
    *(model.fit for model in METHODS),
    posthoc.optimal_temperature,
    lambda logits, labels: posthoc.optimal_temperature(logits, labels, "ece"),
    lambda logits, labels: posthoc.calibratability(Z + 1, Y, logits, labels),
]


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_are_refused(fit, case):
    logits, labels, message = BAD_DATA[case]
    with pytest.raises(ValueError, match=message.replace("logits", "(test_)?logits")) as error:
        fit(logits, labels)
    assert "\n" not in str(error.value)


# The methods that fit something to the labels of each class.
OF_CLASSES = (
    posthoc.BetaCalibration,
    posthoc.IsotonicCalibration,
    posthoc.MatrixScaling,
    posthoc.StructuredScaling,
    posthoc.VectorScaling,
)


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_labels_of_a_single_class(model):
    logits, _ = sampled(n=50, k=3)
    labels = np.zeros(50, dtype=int)
    if not isinstance(model, OF_CLASSES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosthocWarning)
            probs = model.fit(logits, labels).predict_proba(logits)
        np.testing.assert_allclose(probs.sum(axis=1), 1)
    else:
        with pytest.raises(ValueError, match="labels: got class 0 only, expected at least two"):
            model.fit(logits, labels)


@pytest.mark.parametrize("model", METHODS, ids=ids)
def test_bad_logits_are_refused_by_predict_proba(model):
    model.fit(*sampled(n=60, k=3, temperature=1.5))
    for logits, message in ((Z * np.nan, "got NaN"), (Z[:0], "got an empty"), (Z[0], "got shape")):
        with pytest.raises(ValueError, match="logits: " + message):
            model.predict_proba(logits)
    if "Fixed" not in repr(model):
        with pytest.raises(ValueError, match="logits: got 2 classes, expected 3 as in fit"):
            model.predict_proba(Z[:, :2])
        fresh = type(model)()
        with pytest.raises(ValueError, match=f"{type(model).__name__}: not fitted"):
            fresh.predict_proba(Z)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: posthoc.optimal_temperature(Z, Y, "auc"), "objective: got 'auc'"),
        (lambda: posthoc.TemperatureScaling("auc").fit(Z, Y), "objective: got 'auc'"),
        (lambda: posthoc.optimal_temperature(Z, Y, bins=0), "bins: got 0"),
        (lambda: posthoc.optimal_temperature(Z, Y, "ece", bins=0), "bins: got 0"),
        (lambda: posthoc.FixedTemperature(0), "temperature: got 0"),
        (lambda: posthoc.FixedTemperature(float("nan")), "temperature: got nan"),
        (lambda: posthoc.HistogramBinning(bins=0), "bins: got 0"),
        (lambda: posthoc.HistogramBinning(bins=1.5), "bins: got 1.5"),
        (lambda: posthoc.HistogramBinning(scheme="equal"), "scheme: got 'equal'"),
        (lambda: posthoc.MatrixScaling(l2=-1), "l2: got -1"),
        (lambda: posthoc.check_overlap(Z * np.nan, Z), "val_logits: got NaN"),
        (lambda: posthoc.check_overlap(Z, Z[:0]), "test_logits: got an empty"),
        (lambda: posthoc.check_overlap(Z, Z[:, :2]), "test_logits: got 2 classes, expected 3"),
        (lambda: posthoc.calibratability(Z, Y, Z[:, :2], Y), "test_logits: got 2 classes"),
        (lambda: posthoc.calibratability(Z, Y + 1, Z + 1, Y), "labels: got values from 1 to 3"),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
