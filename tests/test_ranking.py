"""What ranks predictions: the log-odds of logits, and confidences as they are given."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score

from calibkit import confidence, metrics, stats
from calibkit.report import predictions

RANKED = [name for name in metrics.ranked_metrics() if metrics.ranks(name)]


def two_classes(spread, n=20_000):
    """Logits of two classes with log-odds of so large a spread, as of an over-confident network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    labels = (x + 0.3 * rng.normal(size=n) > 0).astype(int)
    return np.c_[np.zeros(n), spread * x].astype(np.float32), labels


def several(n=400, k=5):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, k, n)
    return rng.normal(0, 2, (n, k)) + 2 * np.eye(k)[labels], labels


def functions_of(score, correct):
    """Every metric that ranks, of a score as it is."""
    functions = {name: f for name, f in metrics.ranked_metrics().items() if name in RANKED}
    ranking = metrics.Ranking.of(np.asarray(score), correct)
    return {name: f(ranking) for name, f in functions.items()}


def test_log_odds_are_a_logit_less_the_logsumexp_of_the_others():
    logits, _ = several()
    top = logits.argmax(1)
    others = np.where(np.eye(5, dtype=bool)[top], -np.inf, logits)
    expected = logits.max(1) - logsumexp(others, axis=1)
    for given in (logits, 100 * logits):
        scale = given[0, 0] / logits[0, 0]
        exact = expected if scale == 1 else given.max(1) - logsumexp(scale * others, axis=1)
        found = confidence.log_odds(given)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    found = confidence.log_odds(torch.tensor(logits, dtype=torch.float32))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_report_ranks_by_the_same_numbers():
    logits, labels = several()
    data = predictions.from_arrays({"logits": logits, "labels": labels})
    np.testing.assert_array_equal(data.test.ranked(), confidence.log_odds(logits))


@pytest.mark.parametrize(("spread", "single", "double"), [(30, 0.888, 0.896), (300, 0.597, 0.689)])
def test_large_logits_are_ranked_where_a_softmax_saturates(spread, single, double):
    logits, labels = two_classes(spread)
    correct = logits.argmax(1) == labels
    exact = roc_auc_score(correct, np.abs(logits[:, 1]))
    assert exact == pytest.approx(0.896, abs=5e-4)
    assert metrics.summary(logits, labels)["auroc"] == pytest.approx(exact, abs=1e-12)
    found = stats.bootstrap(logits, labels, ["auroc"], n=2)["auroc"]
    assert found.estimate == pytest.approx(exact, abs=1e-12)
    # What ranks confidences ranks those it is given, ties and all.
    for kind, tied in ((np.float32, single), (np.float64, double)):
        p = softmax(logits.astype(kind), axis=1).max(axis=1)
        assert metrics.auroc(p, correct) == pytest.approx(tied, abs=5e-4)


def test_where_nothing_saturates_it_is_the_ranking_by_confidence():
    logits, labels = several()
    expected = functions_of(softmax(logits, axis=1).max(1), logits.argmax(1) == labels)
    found = metrics.summary(logits, labels)
    assert {name: found[name] for name in RANKED} == pytest.approx(expected, abs=1e-12)
    intervals = stats.bootstrap(logits, labels, RANKED, n=2)
    assert {m: x.estimate for m, x in intervals.items()} == pytest.approx(expected, abs=1e-12)


def test_a_shift_of_a_row_moves_no_rank():
    for logits, labels in (several(), two_classes(300, n=500)):
        shift = np.random.default_rng(2).integers(-1000, 1000, (len(logits), 1))
        before = metrics.summary(logits.astype(np.float64), labels)
        after = metrics.summary(logits.astype(np.float64) + shift, labels)
        assert {m: after[m] for m in RANKED} == pytest.approx({m: before[m] for m in RANKED})


def test_what_does_not_rank_takes_the_confidence():
    logits, labels = two_classes(300, n=500)
    known = metrics.per_sample(logits, labels)
    answers = stats.Answers(known["confidence"], known["correct"])
    names = [name for name in metrics.ranked_metrics() if name not in RANKED]
    found = stats.bootstrap(logits, labels, [*names, "auroc"], n=5)
    by_confidence = stats.bootstrap(answers, None, [*names, "auroc"], n=5)
    assert all(found[name] == by_confidence[name] for name in names)
    assert found["auroc"].estimate > by_confidence["auroc"].estimate + 0.1


def test_probabilities_rank_as_they_are():
    logits, labels = two_classes(30, n=500)
    probs = softmax(logits, axis=1)
    expected = functions_of(probs.max(1), probs.argmax(1) == labels)
    assert (probs.max(1) == 1).sum() > 100
    found = metrics.summary(probs, labels, kind="probs")
    assert {name: found[name] for name in RANKED} == pytest.approx(expected, abs=1e-9)
    interval = stats.bootstrap(probs, labels, ["auroc"], n=2, kind="probs")["auroc"]
    assert interval.estimate == pytest.approx(expected["auroc"], abs=1e-9)
