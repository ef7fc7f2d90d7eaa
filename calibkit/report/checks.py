"""Check the data of a report for what would mislead: shared samples, ties, zeros, guessing."""

from dataclasses import dataclass

import numpy as np

from calibkit import posthoc
from calibkit.report.facts import Facts
from calibkit.report.predictions import Predictions
from calibkit.report.recalibration import guessing

IMPROBABLE = 85  # nats: a probability of the true class below 1e-37


@dataclass(frozen=True)
class Checks(Facts):
    """The results of the checks.

    Attributes
    ----------
    overlap : int
        Number of test samples with exactly the scores of a validation sample.
    tied : int
        Number of test samples that would have the scores of a validation sample by chance, since
        many samples have equal scores, as those of a decision tree.
    majority : float
        Share of the most common class, a fraction of 1.
    classes_seen : int
        Number of different classes among the labels.
    saturated : float
        Share of confidences that are exactly 1.
    as_logits : bool
        Whether confidences are a softmax of logits.
    distinct : int
        Number of different confidences below 1, or, for logits, of different log-odds.
    improbable : int
        Number of samples whose true class got a probability below 1e-37, or 0.
    guessing : list of str
        Those of the sets "test" and "validation" in which the scores say nothing about the labels:
        see `estimates.guessing`.
    """

    overlap: int
    tied: int
    majority: float
    classes_seen: int
    saturated: float
    as_logits: bool
    distinct: int
    improbable: int
    guessing: list[str]


def checks(data: Predictions) -> Checks:
    """Run all checks on predictions.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> numbers = checks(from_arrays(scores))
    >>> round(numbers.majority, 2), numbers.distinct
    (0.67, 3)
    """
    found, held = data.test.outcomes, data.validation is not None
    known = found.rank if data.own is None else found.rank[found.rank < 1]
    return Checks(
        overlap=posthoc.check_overlap(data.val_logits, data.logits) if held else 0,
        tied=_tied(data) if held else 0,
        majority=float(np.bincount(data.labels).max() / len(data.labels)),
        classes_seen=len(np.unique(data.labels)),
        saturated=float((found.confidence >= 1).mean()),
        as_logits=data.own is None,
        distinct=len(np.unique(known)),
        improbable=int((found.nll > IMPROBABLE).sum()),
        guessing=guessing(data),
    )


def _tied(data: Predictions) -> int:
    """How many test samples would have the scores of a validation sample by chance.

    A decision tree, for instance, gives the same scores to many samples. So the test set is split
    at random into halves of different samples, and one half is looked up in the other.
    """
    n, m = len(data.labels), len(data.val_labels)
    order = np.random.default_rng(0).permutation(n)
    half = min(n // 2, m)
    if not half:
        return 0
    shared = posthoc.check_overlap(data.logits[order[:half]], data.logits[order[half:]])
    return round(shared * n / (n - half))
