"""What a record says of its predictions, by both rankings.

Version 0.1 ranked by the confidence in single precision, and some records keep no logits. So all
have that ranking, under the usual names; those trained since also have the one by log-odds
(`calibkit.metrics.summary`), under names that end in `keys.BY_LOG_ODDS`.
"""

import numpy as np

from calibkit import metrics
from calibkit_companion.records.keys import BY_LOG_ODDS


def summary(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """`metrics.summary` by the confidence, and what ranks also by the log-odds.

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
