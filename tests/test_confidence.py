"""Confidence scores against definitions written out, the 1-NN rule, plain Adam, and real digits."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import entropy
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from calibkit import arrays, confidence, metrics
from calibkit.confidence import ConfidNet, TrustScore

OF_LOGITS = [
    confidence.maximum_probability,
    confidence.margin,
    confidence.negative_entropy,
    confidence.maximum_logit,
]
seeds = st.integers(0, 2**32 - 1)
bounded = settings(max_examples=30, deadline=None)


def test_import_needs_neither_torch_nor_sklearn():
    code = "import calibkit.confidence, sys; assert not {'torch', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- functions of the logits ----------------------------------------------------------------------


def test_functions_of_logits_by_hand():
    logits = np.log([[0.5, 0.25, 0.125, 0.125], [0.25] * 4])
    logits[1] += 7  # no probability changes, the largest logit does
    assert confidence.maximum_probability(logits) == pytest.approx([0.5, 0.25])
    assert confidence.margin(logits) == pytest.approx([0.25, 0])
    assert confidence.negative_entropy(logits) == pytest.approx([-7 / 8, -1])  # 7/4 of 2 bits
    assert confidence.maximum_logit(logits) == pytest.approx([np.log(0.5), 7 + np.log(0.25)])


@bounded
@given(seed=seeds, k=st.integers(2, 60), scale=st.floats(0, 30), shift=st.floats(-50, 50))
def test_functions_of_logits_against_sorting_and_scipy(seed, k, scale, shift):
    rng = np.random.default_rng(seed)
    logits = shift + scale * rng.normal(size=(20, k))
    probs = torch.from_numpy(logits).softmax(1).numpy()
    ordered = np.sort(probs, axis=1)
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(confidence.maximum_probability(logits), ordered[:, -1], **close)
    np.testing.assert_allclose(confidence.margin(logits), ordered[:, -1] - ordered[:, -2], **close)
    np.testing.assert_allclose(
        confidence.negative_entropy(logits), -entropy(probs, axis=1, base=k), **close
    )
    assert np.array_equal(confidence.maximum_logit(logits), np.sort(logits, axis=1)[:, -1])


def test_functions_of_logits_rank_as_the_summary_does():
    rng = np.random.default_rng(0)
    logits = (4 * rng.normal(size=(500, 10))).astype(np.float32)
    labels = rng.integers(0, 10, 500)
    sample = metrics.per_sample(logits, labels)
    found = confidence.maximum_probability(logits)
    np.testing.assert_allclose(found, sample["confidence"], rtol=1e-6)


@pytest.mark.parametrize("score", OF_LOGITS)
def test_extreme_logits_give_the_limits(score):
    certain, even = score(np.array([[0.0, 1e30], [1e30, 1e30]]))
    limits = {"maximum_probability": (1, 0.5), "margin": (1, 0), "negative_entropy": (0, -1)}
    assert (certain, even) == limits.get(score.__name__, (1e30, 1e30))


@pytest.mark.parametrize("score", OF_LOGITS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_functions_of_logits_take_tensors(score, dtype):
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = score(logits.requires_grad_())
    assert isinstance(found, torch.Tensor) and found.shape == (7,) and not found.requires_grad
    expected = score(logits.detach().double().numpy())
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("score", OF_LOGITS)
@pytest.mark.parametrize("logits", [[], [1.0, 2.0], [[1.0]], [[np.nan, 0.0]], [[np.inf, 0.0]]])
def test_functions_of_logits_refuse_what_are_no_logits(score, logits):
    with pytest.raises(ValueError, match="^logits: got "):
        score(logits)


# --- p-norm ---------------------------------------------------------------------------------------


def test_p_norm_by_hand():
    logits = np.array([[4.0, 1, 1], [1, 0, -1]])  # centred: (2, -1, -1) and (1, 0, -1)
    for p, expected in {1: (2 / 4, 1 / 2), 2: (2 / 6**0.5, 1 / 2**0.5), np.inf: (1, 1)}.items():
        assert confidence.p_norm(logits, p) == pytest.approx(expected)
    assert confidence.p_norm(logits, 0.5) == pytest.approx([2 / (2**0.5 + 2) ** 2, 1 / 4])
    assert confidence.p_norm(logits) == pytest.approx(confidence.p_norm(logits, 2))


@bounded
@given(seed=seeds, k=st.integers(2, 60), p=st.floats(1, 200), scale=st.floats(1e-3, 1e30))
def test_p_norm_against_torch_and_unmoved_by_scale_and_shift(seed, k, p, scale):
    # Whole numbers: of logits that differ in the last digit only, a shift leaves nothing; and the
    # powers of torch neither vanish nor overflow.
    logits = np.random.default_rng(seed).integers(-9, 10, (20, k)).astype(float)
    centred = torch.from_numpy(logits - logits.mean(axis=1, keepdims=True))
    norm = torch.linalg.vector_norm(centred, p, dim=1)
    expected = torch.where(norm > 0.1, centred.amax(1) / norm, 0)
    found = confidence.p_norm(logits, p)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(confidence.p_norm(scale * (logits + 7), p), found, rtol=1e-8)


def test_p_norm_at_the_limits():
    logits = np.array([[0.1, 0.1, 0.1], [0, 0, 1e300], [0, 0, 5e-324]])
    # The least number that doubles hold has a mean of 0: it alone stands out.
    for p in (1e-3, 1, 10, 1e6, np.inf):
        even, large, small = confidence.p_norm(logits, p)
        assert even == 0 and 0 <= large <= 1 and small == 1
    assert confidence.p_norm([[0.0, 3], [1, 0]], 3) == pytest.approx([2 ** (-1 / 3)] * 2)
    tensor = confidence.p_norm(torch.tensor([[4.0, 1, 1]], dtype=torch.float16), 1)
    assert isinstance(tensor, torch.Tensor) and tensor.tolist() == pytest.approx([0.5], rel=1e-6)


def test_choose_p_takes_the_best_of_the_grid():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 400)
    logits = rng.normal(size=(400, 10)) + 2 * np.eye(10)[labels]
    correct = logits.argmax(1) == labels
    grid = [0.5, 1, 2, 3, 5, 8, np.inf]
    found = {p: metrics.auroc(confidence.p_norm(logits, p), correct) for p in grid}
    assert len(set(found.values())) > 3  # p matters
    assert confidence.choose_p(logits, labels, grid) == max(found, key=found.get)
    assert confidence.choose_p(logits, labels) in range(1, 11)
    assert confidence.choose_p(logits, labels, [7]) == 7
    # Every p ranks these two alike: the first one is taken.
    assert confidence.choose_p([[9.0, 0, 0], [2, 1, 0]], [0, 1], [4, 2]) == 4


@pytest.mark.parametrize("p", [0, -1, np.nan])
def test_p_norm_refuses_a_p_that_is_not_above_zero(p):
    with pytest.raises(ValueError, match="p: got"):
        confidence.p_norm([[1.0, 0]], p)


@pytest.mark.parametrize(
    ("labels", "grid", "words"),
    [
        ([0, 1], [1], "all predictions are right"),
        ([1, 0], [1], "all predictions are wrong"),
        ([0, 0], [], "grid: got no values"),
        ([0, 2], [1], "labels: got values from 0 to 2"),
    ],
)
def test_choose_p_refuses(labels, grid, words):
    with pytest.raises(ValueError, match=words):
        confidence.choose_p([[2.0, 0], [0, 1]], labels, grid)


# --- Trust Score ----------------------------------------------------------------------------------


def trust_by_hand(features, labels, new, predicted):
    """The definition, one prediction after the other."""
    kept = {c: features[labels == c].astype(float) for c in np.unique(labels)}
    scores = []
    for x, own in zip(new.astype(float), predicted, strict=True):
        nearest = {c: np.sqrt(((samples - x) ** 2).sum(1)).min() for c, samples in kept.items()}
        mine = nearest.pop(own)
        scores.append(min(nearest.values()) / mine)
    return np.array(scores)


def clouds(rng, n, d, classes=4):
    labels = rng.integers(0, classes, n)
    labels[:classes] = np.arange(classes)
    return rng.normal(size=(n, d)) + labels[:, None], labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3, 40])  # k-d tree up to 15 dimensions, products beyond
def test_trust_score_against_brute_force(d, dtype):
    rng = np.random.default_rng(d)
    features, labels = clouds(rng, 200, d)
    new, predicted = clouds(rng, 60, d)
    features, new = features.astype(dtype), new.astype(dtype)
    found = TrustScore().fit(features, labels).score(new, predicted)
    expected = trust_by_hand(features, labels, new, predicted)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found.dtype == np.float64


@bounded
@given(seed=seeds, d=st.sampled_from([2, 20]))
def test_above_one_means_nearest_neighbour_agrees(seed, d):
    rng = np.random.default_rng(seed)
    features, labels = clouds(rng, 80, d)
    new, predicted = clouds(rng, 30, d)
    score = TrustScore().fit(features, labels).score(new, predicted)
    neighbour = KNeighborsClassifier(1).fit(features, labels).predict(new)
    assert np.array_equal(score > 1, neighbour == predicted)


@bounded
@given(seed=seeds, scale=st.floats(1e-3, 1e3))
def test_trust_score_depends_on_ratios_of_distances_only(seed, scale):
    rng = np.random.default_rng(seed)
    features, labels = clouds(rng, 60, 5)
    new, predicted = clouds(rng, 20, 5)
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    order, names = rng.permutation(60), np.array([70, -3, 12, 5])
    expected = TrustScore().fit(features, labels).score(new, predicted)
    moved = TrustScore().fit((scale * features @ turn + 1)[order], names[labels][order])
    found = moved.score(scale * new @ turn + 1, names[predicted])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("d", [2, 40])
def test_zero_distances_are_exact_and_scores_finite(d):
    rng = np.random.default_rng(0)
    # Far from the origin, where products of matrices lose the small distances.
    features = (1000 + rng.normal(size=(20, d))).astype(np.float32)
    features[10] = features[0]  # the same point in both classes
    model = TrustScore().fit(features, np.repeat([0, 1], 10))
    own, both, other = model.score(features[[1, 0, 1]], [0, 0, 1])
    distance = cdist(features[[1]].astype(float), features[10:].astype(float)).min()
    assert own == pytest.approx(distance / 1e-12)
    assert both == 1
    assert other == pytest.approx(1e-12 / distance)


def test_trust_score_in_blocks_of_mixed_types(monkeypatch):
    rng = np.random.default_rng(1)
    features, labels = clouds(rng, 100, 20)
    new, predicted = clouds(rng, 50, 20)
    model = TrustScore().fit(features, labels)
    whole = model.score(new, predicted)
    monkeypatch.setattr(arrays, "BLOCK", 60)  # three rows
    assert np.array_equal(model.score(new, predicted), whole)
    narrow = TrustScore().fit(features.astype(np.float32), labels).score(new, predicted)
    np.testing.assert_allclose(narrow, whole, rtol=1e-5)


def test_trust_score_takes_tensors_and_lists():
    features, labels = clouds(np.random.default_rng(2), 30, 3)
    model = TrustScore().fit(torch.from_numpy(features), torch.from_numpy(labels))
    found = model.score(torch.from_numpy(features[:5] + 1), torch.from_numpy(labels[:5]))
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float64
    again = model.score((features[:5] + 1).tolist(), labels[:5].tolist())
    assert isinstance(again, np.ndarray) and np.array_equal(found.numpy(), again)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([1.0, 2.0], [0, 1], r"features: got shape \(2,\)"),
        (np.empty((0, 2)), [], r"features: got shape \(0, 2\)"),
        ([["a"], ["b"]], [0, 1], "features: got shape .* type <U1"),
        ([[np.nan], [1.0]], [0, 1], "features: got NaN"),
        ([[np.inf], [1.0]], [0, 1], "features: got NaN or infinity"),
        ([[0.0], [1.0]], [0], r"labels: got shape \(1,\) .* expected 2 integers"),
        ([[0.0], [1.0]], [0.0, 1.0], "labels: got shape .* type float64"),
        ([[0.0], [1.0]], [3, 3], "labels: got class 3 only"),
    ],
)
def test_trust_score_refuses_bad_training_data(features, labels, message):
    with pytest.raises(ValueError, match=message):
        TrustScore().fit(features, labels)


def test_trust_score_refuses_bad_predictions():
    with pytest.raises(ValueError, match="TrustScore: not fitted"):
        TrustScore().score([[0.0]], [0])
    model = TrustScore().fit([[0.0], [1.0]], [0, 2])
    with pytest.raises(ValueError, match="features: got 2 columns, expected 1"):
        model.score([[0.0, 1.0]], [0])
    with pytest.raises(ValueError, match="predicted: got class 1, expected one of the labels"):
        model.score([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="predicted: got shape"):
        model.score([[0.0]], [0, 2])


# --- ConfidNet ------------------------------------------------------------------------------------


def made_up(n, seed, k=4, d=6):
    """Features, logits and labels whose true-class probability is a known function of features."""
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(n, d)), rng.integers(0, k, n)
    true = 1 / (1 + np.exp(-3 * features[:, 0] * np.sign(features[:, 1])))
    probs = np.repeat((1 - true)[:, None] / (k - 1), k, axis=1)
    probs[np.arange(n), labels] = true
    return features, np.log(probs), labels


def right(logits, labels):
    return np.argmax(logits, axis=1) == labels


def plain_head(d, seed):
    """The network as darkside's source describes it, with torch's default initialisation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = []
        for before, after in zip((d, 400, 400, 400, 400), (400, 400, 400, 400, 1), strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.fixture(scope="module")
def learned():
    return ConfidNet(epochs=15, batch_size=64).fit(*made_up(1500, seed=0))


def test_confidnet_learns_the_true_class_probability(learned):
    features, logits, labels = made_up(2000, seed=1)
    true = torch.from_numpy(logits).softmax(1).numpy()[np.arange(2000), labels]
    score = learned.score(features)
    assert np.square(score - true).mean() < 0.25 * true.var()  # the best constant has 1
    assert metrics.auroc(score, right(logits, labels)) > 0.93
    assert ((score > 0) & (score < 1)).all()
    assert learned.epoch_ == 15


def test_confidnet_has_the_published_shape_and_gradients(learned):
    shapes = [tuple(layer.weight.shape) for layer in learned.head_ if isinstance(layer, nn.Linear)]
    assert shapes == [(400, 6), (400, 400), (400, 400), (400, 400), (1, 400)]
    head = ConfidNet(epochs=1).fit(*made_up(8, seed=0)).head_.double()
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert head(x).shape == (3,)
    assert torch.autograd.gradcheck(lambda x: head(x).sigmoid(), x)


def test_a_step_of_confidnet_is_adam_on_the_squares():
    features, logits, labels = made_up(40, seed=3)
    model = ConfidNet(epochs=3, batch_size=40, seed=7)
    model.fit(features, logits, labels)

    head = plain_head(6, seed=7)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-4, fused=False)
    x = torch.from_numpy(features).float()
    true = torch.from_numpy(np.exp(logits[np.arange(40), labels])).float()
    for _ in range(3):
        loss = ((torch.sigmoid(head(x)[:, 0]) - true) ** 2).sum() / 40
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # Adam's steps are 1e-4: an error in the gradient would show at that size.
    for found, expected in zip(model.head_.parameters(), head.parameters(), strict=True):
        assert (found - expected).abs().max() < 2e-5
        assert (found - expected).abs().mean() < 1e-7


def test_confidnet_is_deterministic_and_leaves_the_random_state_alone():
    data = made_up(200, seed=0)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = ConfidNet(epochs=2).fit(*data).score(data[0])
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    np.random.seed(6)
    assert np.array_equal(ConfidNet(epochs=2).fit(*data).score(data[0]), first)
    assert not np.array_equal(ConfidNet(epochs=2, seed=1).fit(*data).score(data[0]), first)


@pytest.mark.parametrize("errors", [True, False])
def test_validation_keeps_the_best_epoch(errors):
    train, (features, logits, labels) = made_up(150, seed=0), made_up(60, seed=1)
    train = (train[0][::-1].copy(), *train[1:])  # features of other samples: nothing to learn
    if not errors:
        labels = logits.argmax(axis=1)
    true = np.exp(logits[np.arange(60), labels])
    model = ConfidNet(epochs=6, batch_size=30, learning_rate=3e-3)
    # Without validation data, n epochs end where n epochs of a longer training are.
    scores = [ConfidNet(n, 30, learning_rate=3e-3).fit(*train).score(features) for n in range(1, 7)]
    if errors:
        quality = [metrics.aupr_error(score, right(logits, labels)) for score in scores]
    else:
        quality = [-np.square(score - true).mean() for score in scores]
    best = int(np.argmax(quality))
    assert best != 5  # or the last would do
    model.fit(*train, validation=(features, logits, labels))
    assert model.epoch_ == best + 1
    assert np.array_equal(model.score(features), scores[best])


def test_confidnet_takes_tensors_of_any_precision(learned, monkeypatch):
    features, logits, labels = (torch.from_numpy(a) for a in made_up(100, seed=2))
    score = learned.score(features.requires_grad_())
    assert isinstance(score, torch.Tensor) and score.dtype == torch.float64
    assert not score.requires_grad
    expected = learned.score(features.detach().numpy())
    assert np.array_equal(score.numpy(), expected)
    halved = learned.score(features.detach().bfloat16())
    np.testing.assert_allclose(halved.numpy(), expected, atol=0.05)
    monkeypatch.setattr(confidence, "ROWS", 7)
    np.testing.assert_allclose(learned.score(features).numpy(), expected, rtol=1e-4)
    of_tensors = ConfidNet(epochs=1).fit(features, logits, labels)
    assert features.grad is None
    of_arrays = ConfidNet(epochs=1).fit(*(a.detach().numpy() for a in (features, logits, labels)))
    assert torch.equal(of_tensors.score(features), of_arrays.score(features))


def test_scores_near_one_do_not_tie():
    features = np.ones((64, 1))
    model = ConfidNet(epochs=1).fit(features, np.tile([9.0, 0.0], (64, 1)), np.zeros(64, int))
    with torch.no_grad():
        model.head_[-2].weight.zero_()
        model.head_[-2].bias.fill_(25.0)  # rounds to 1 in single precision
    assert 1 - 1e-10 < model.score(features)[0] < 1


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0},
        {"batch_size": 2.5},
        {"learning_rate": 0.0},
        {"learning_rate": np.nan},
    ],
)
def test_confidnet_refuses_bad_options(options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))}: got "):
        ConfidNet(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(9)}, r"features: got shape \(9,\)"),
        ({"features": np.full((9, 6), np.nan)}, "features: got NaN"),
        ({"logits": np.zeros((8, 4))}, "logits: got 8 rows, expected 9"),
        ({"logits": np.full((9, 4), np.inf)}, "logits: got infinity"),
        ({"labels": np.zeros(8, int)}, "labels: got 8 values, expected 9"),
        ({"labels": np.full(9, 4)}, "labels: got values from 4 to 4"),
        ({"validation": made_up(5, 0, d=7)}, "features: got 7 columns, expected 6"),
    ],
)
def test_confidnet_refuses_bad_data(change, message):
    data = dict(zip(("features", "logits", "labels"), made_up(9, seed=0), strict=True))
    with pytest.raises(ValueError, match=message):
        ConfidNet(epochs=1).fit(**(data | change))


def test_confidnet_refuses_bad_scoring(learned):
    with pytest.raises(ValueError, match="ConfidNet: not fitted"):
        ConfidNet().score([[0.0]])
    with pytest.raises(ValueError, match="features: got 2 columns, expected 6"):
        learned.score([[0.0, 1.0]])


# --- a real case ----------------------------------------------------------------------------------


def test_handwritten_digits():
    """A short-trained network of one hidden layer: both scores find its errors."""
    inputs, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs, labels = inputs[order] / 16, labels[order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, and should not
        network = MLPClassifier(32, max_iter=15, random_state=0, learning_rate_init=3e-3)
        network.fit(inputs[:700], labels[:700])
    features = np.maximum(inputs @ network.coefs_[0] + network.intercepts_[0], 0)
    logits = features @ network.coefs_[1] + network.intercepts_[1]
    predicted, correct = logits.argmax(axis=1)[700:], right(logits, labels)[700:]
    assert np.array_equal(predicted, network.predict(inputs[700:]))
    assert 0.8 < correct.mean() < 0.95

    trust = TrustScore().fit(features[:700], labels[:700])
    net = ConfidNet(epochs=30, batch_size=64)
    net.fit(
        features[:600],
        logits[:600],
        labels[:600],
        validation=tuple(a[600:700] for a in (features, logits, labels)),
    )
    auroc = {
        "trust": metrics.auroc(trust.score(features[700:], predicted), correct),
        "net": metrics.auroc(net.score(features[700:]), correct),
    } | {f.__name__: metrics.auroc(f(logits[700:]), correct) for f in OF_LOGITS}
    assert 0.95 < auroc["trust"] < 1
    assert 0.8 < auroc["net"] < 0.99
    assert all(0.75 < value < 0.99 for name, value in auroc.items() if name != "trust"), auroc
