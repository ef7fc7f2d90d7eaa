# pyright: strict
"""What goes in comes out: `make lint` checks the types that are stated here, pytest the values."""

from typing import assert_type

import numpy as np
import torch

from calibkit import confidence, losses, metrics, posthoc, stats
from calibkit.arrays import Array

LOGITS: Array = np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]], dtype=np.float32)
LABELS: Array = np.array([0, 1, 1, 1])
LISTED = [[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]]
PROBS: Array = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]])
TENSOR, TARGETS = torch.tensor(LISTED), torch.tensor([0, 1, 1, 1])


def test_a_map_gives_back_what_it_is_given():
    fitted = posthoc.TemperatureScaling().fit(TENSOR, TARGETS)
    assert_type(fitted, posthoc.TemperatureScaling)
    assert isinstance(assert_type(fitted.predict_proba(LOGITS), Array), np.ndarray)
    assert isinstance(assert_type(fitted.predict_proba(LISTED), Array), np.ndarray)
    assert isinstance(assert_type(fitted.predict_proba(TENSOR), torch.Tensor), torch.Tensor)
    assert isinstance(assert_type(fitted.predict(LOGITS), Array), np.ndarray)
    assert isinstance(assert_type(fitted.predict(TENSOR), torch.Tensor), torch.Tensor)
    assert isinstance(assert_type(fitted.temperature_, float), float)
    kinds = (posthoc.VectorScaling(), posthoc.HistogramBinning(), posthoc.IsotonicCalibration())
    for kind in kinds:
        assert isinstance(
            assert_type(kind.fit(LOGITS, LABELS).predict_proba(LOGITS), Array), np.ndarray
        )


def test_values_of_samples_are_of_the_kind_given():
    assert_type(metrics.per_sample(LOGITS, LABELS), dict[str, Array])
    assert_type(metrics.per_sample(TENSOR, TARGETS), dict[str, torch.Tensor])
    probs, right = metrics.top_label(PROBS, LABELS)
    assert_type(probs, Array)
    assert_type(metrics.risk_coverage(probs, right), tuple[Array, Array])
    tensors = torch.tensor([0.9, 0.6]), torch.tensor([True, False])
    assert_type(metrics.risk_coverage(*tensors), tuple[torch.Tensor, torch.Tensor])
    assert_type(metrics.reliability_bins(probs, right), dict[str, Array])
    table = metrics.reliability_bins(*tensors)
    assert isinstance(assert_type(table, dict[str, torch.Tensor])["count"], torch.Tensor)
    assert isinstance(assert_type(metrics.ece(TENSOR.softmax(1), TARGETS), float), float)


def test_scores_are_of_the_kind_given():
    for score in (confidence.margin, confidence.log_odds, confidence.p_norm):
        assert isinstance(assert_type(score(LOGITS), Array), np.ndarray)
        assert isinstance(assert_type(score(TENSOR), torch.Tensor), torch.Tensor)
    trust = confidence.TrustScore().fit(LOGITS, LABELS)
    assert isinstance(assert_type(trust.score(LOGITS, LABELS), Array), np.ndarray)


def test_a_loss_gives_values_or_with_options_alone_a_loss():
    assert isinstance(
        assert_type(losses.focal(TENSOR, TARGETS, gamma=2.0), torch.Tensor), torch.Tensor
    )
    assert isinstance(assert_type(losses.focal(gamma=2.0), losses.Loss), losses.Loss)
    gradient = losses.gradient_logits(losses.label_smoothing(epsilon=0.1), TENSOR, TARGETS)
    assert isinstance(assert_type(gradient, torch.Tensor), torch.Tensor)
    weighted = losses.gradient_weighted(TENSOR, TARGETS, losses.focal_weight)
    assert isinstance(assert_type(weighted, torch.Tensor), torch.Tensor)
    assert isinstance(assert_type(losses.focal_gradient_factor(0.3, 2.0), float), float)


def test_intervals_are_of_arrays_or_of_what_is_known_of_samples():
    names = ["accuracy", "auroc"]
    found = stats.bootstrap(LOGITS, LABELS, names, n=10)
    assert isinstance(assert_type(found, dict[str, stats.Interval])["auroc"].low, float)
    answers = stats.Answers([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1])
    assert stats.compare(answers, answers, None, names, n=10)["auroc"].estimate == 0
    own, differences = stats.compare_all([answers, answers], names, n=10)
    assert len(own) == 2 and len(differences) == 1
