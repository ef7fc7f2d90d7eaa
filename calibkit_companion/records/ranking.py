"""The metrics that a record keeps of its predictions, with two scores.

The AUROC and other metrics rank samples by a score. In version 0.1 the score was the confidence in
single precision. Records of that version without logits cannot be ranked again, so all records keep
the metrics by the confidence under the usual names. Newer records also keep the metrics by the
log-odds, as `calibkit.metrics.summary` computes them, under names that end in `keys.BY_LOG_ODDS`.
"""

import numpy as np

from calibkit import metrics
from calibkit_companion.records.keys import BY_LOG_ODDS


def summary(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Compute all metrics by the confidence, and those that rank samples also by the log-odds.

    Parameters
    ----------
    logits : float array (n, k)
    labels : integer array (n,)

    Examples
    --------
    >>> logits = np.array([[0.0, 60.0], [0.0, 50.0], [0.0, 40.0]], np.float32)
    >>> found = summary(logits, np.array([1, 1, 0]))
    >>> found["auroc"], found["auroc_log_odds"]
    (0.5, 1.0)
    """
    by_odds, known = metrics.summary(logits, labels), metrics.per_sample(logits, labels)
    ranking = metrics.Ranking.of(known["confidence"], known["correct"])
    functions = metrics.ranked_metrics().items()
    by_confidence = {name: f(ranking) for name, f in functions if metrics.ranks(name)}
    also = {f"{name}{BY_LOG_ODDS}": by_odds[name] for name in by_confidence}
    return by_odds | by_confidence | also
