"""What else a careful reader would ask about the data of a report."""

from dataclasses import dataclass

import numpy as np

from calibkit import posthoc
from calibkit.report.facts import Facts
from calibkit.report.predictions import Predictions
from calibkit.report.recalibration import guessing

IMPROBABLE = 85  # nats: a probability of the true class below 1e-37


@dataclass(frozen=True)
class Checks(Facts):
    """What a careful reader would ask.

    Attributes
    ----------
    overlap : int
        Test samples whose scores a validation sample has, too.
    tied : int
        Samples for which that is to be expected: see `_tied`.
    majority : float
        Share of the most common class.
    classes_seen : int
        Classes among the labels.
    saturated : float
        Share of confidences that are exactly 1.
    as_logits : bool
        Whether confidences are a softmax of logits.
    distinct : int
        Distinct confidences below 1, or of logits distinct log-odds.
    improbable : int
        Samples whose true class was given a probability below 1e-37, or 0.
    guessing : list of str
        The sets, "test" or "validation", whose labels the scores say nothing about: see
        `estimates.guessing`.
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
    """What else a careful reader would ask about the data.

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
    """How many test samples would share their scores with a validation sample by ties alone.

    Half of the test set is looked up in the other half, both of random samples: what two sets of
    different samples have in common. A tree has a few leaves, and all its scores are shared.
    """
    n, m = len(data.labels), len(data.val_labels)
    order = np.random.default_rng(0).permutation(n)
    half = min(n // 2, m)
    if not half:
        return 0
    shared = posthoc.check_overlap(data.logits[order[:half]], data.logits[order[half:]])
    return round(shared * n / (n - half))
