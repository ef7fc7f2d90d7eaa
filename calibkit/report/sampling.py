"""Decide how rows count before anything is measured: weights, clusters, repeated rows."""

from dataclasses import replace

import numpy as np

from calibkit.arrays import Array
from calibkit.report.estimates import FEW, LEAST
from calibkit.report.predictions import Predictions
from calibkit.resampling import effective_size


def counted(
    data: Predictions, against: Predictions | None = None
) -> tuple[Predictions, Predictions | None]:
    """Leave out rows of weight 0, find copies, and note how weights and clusters count.

    Parameters
    ----------
    data : Predictions
    against : Predictions, optional
        The predictions of a second model for the same samples.

    Returns
    -------
    data, against : Predictions
        Without the rows of weight 0. `data` has the notes, and copies as its clusters.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> arrays = {"probs": [[0.9, 0.1], [0.6, 0.4]] * 40, "labels": [0, 1] * 40}
    >>> found, _ = counted(from_arrays(arrays | {"weights": [3, 1] * 40}))
    >>> found.notes[0][:67]
    'Samples are weighted: means, shares and metrics use the weights, co'
    """
    notes = []
    for which, weights in (("test", data.weights), ("validation", data.val_weights)):
        if weights is None:
            continue
        some = np.flatnonzero(weights)
        gone = f" {len(weights) - len(some):,} rows of weight 0 are left out."
        notes.append(
            "Samples are weighted: means, shares and metrics use the weights, counts are of rows. "
            f"For intervals, the {len(weights):,} rows of the {which} set are worth "
            f"{round(effective_size(weights)):,} rows of equal weight."
            f"{gone if len(some) < len(weights) else ''}"
        )
        if len(some) == len(weights):
            continue
        if which == "validation":
            data = data.take(val_rows=some)
        else:
            data, against = data.take(some), against and against.take(some)
    if data.clusters is None and (kind := repeated(data)):
        copies = of_copies(data.logits) if kind == "copies" else None
        data = replace(data, clusters=copies)
        notes += [_of_copies(copies) if kind == "copies" else NEARLY]
    else:
        notes += _of_clusters(data)
    if notes:  # otherwise keep the object, which caches what it has computed
        data = replace(data, notes=(*data.notes, *notes))
    return data, against


NEARLY = (
    "Rows with nearly the same scores are right or wrong together far more often than chance "
    "explains: are they copies, or of one patient, film or document? Then intervals are too "
    "narrow, and cross-fitting shows gains that are none: --cluster COLUMN names the column that "
    "says which rows belong together."
)


def _of_copies(clusters: Array) -> str:
    """The note on copies; `clusters` (n,) numbers the different rows."""
    return (
        f"Of {len(clusters):,} rows only {clusters.max() + 1:,} differ in their scores, and rows "
        "with equal scores are right or wrong together. So equal rows count as copies, and folds, "
        "resamples and intervals go over the different rows. If more rows belong together, as "
        "those of one patient, film or document do, --cluster COLUMN names the column that says "
        "which."
    )


def _of_clusters(data: Predictions) -> list[str]:
    """The notes on the clusters of the file; empty without clusters."""
    if data.clusters is None:
        return []
    several, rows = len(np.unique(data.clusters)), len(data.labels)
    name = data.cluster_name or "cluster"
    notes = [
        f"Rows with the same {name!r} may depend on each other: folds, resamples and intervals go "
        f"over its {several:,} values, not over the {rows:,} rows."
    ]
    if several < FEW:
        notes.append(f"With only {several} values of {name!r}, intervals are rough.")
    if data.val_clusters is not None:
        both = len(np.intersect1d(data.clusters, data.val_clusters))
        if both:
            notes.append(
                f"{both:,} values of {name!r} are in the test set and in the validation set, so "
                "what was fitted or chosen on the one is not new to the other."
            )
    return notes


# --- rows that occur more than once ---

LOOKED = 5000  # rows that are examined: the least confident ones, whose outcome is least certain
COLUMNS = 8  # columns of scores that are compared, at most
BLOCK = 50  # rows of similar confidence from which a rate of right answers is taken
SURE = 1e-6  # chance of so much agreement between different samples, below which rows are copies


def repeated(data: Predictions) -> str:
    """Test whether rows with equal scores, or with nearly equal scores, are the same samples.

    Equal scores alone prove little: a decision tree gives the same scores to many samples. But
    different samples with the same confidence are right or wrong independently of each other.
    Copies are always right or wrong together.

    Parameters
    ----------
    data : Predictions

    Returns
    -------
    str
        "copies" if rows with equal scores are copies, "nearly" if rows with nearly equal scores
        agree too often, "" otherwise.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(200, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> once = {"logits": logits, "labels": labels}
    >>> twice = {name: np.tile(x.T, 2).T for name, x in once.items()}
    >>> [repeated(from_arrays(x)) for x in (once, twice)]
    ['', 'copies']
    """
    rank, correct = data.test.outcomes.rank, data.test.outcomes.correct
    if len(rank) > LOOKED:
        rows = np.argpartition(rank, LOOKED)[:LOOKED]
    else:
        rows = np.arange(len(rank))
    from scipy.spatial import cKDTree

    points, correct = _features(data.logits[rows]), correct[rows]
    if len(rows) < 2 or correct.all():
        return ""
    distance, other = cKDTree(points).query(points, k=2)
    own = other[:, 0] == np.arange(len(rows))
    distance, other = distance[:, 1], np.where(own, other[:, 1], other[:, 0])
    rate = _rates(data.logits[rows].argmax(axis=1), rank[rows], correct)
    expected = rate + rate[other] - 2 * rate * rate[other]
    differ = correct != correct[other]
    if _agree(differ, expected, distance <= EQUAL):
        # A model with only a few different rows of scores repeats them for different samples.
        return "copies" if of_copies(data.logits[rows]).max() >= LEAST else ""
    near = distance <= np.quantile(distance, 0.25)
    return "nearly" if _agree(differ, expected, near) else ""


EQUAL = 1e-9  # distance up to which rows of scores count as equal, in standard deviations


def _features(logits: Array) -> Array:
    """Scores (n, k) in at most `COLUMNS` columns, scaled to a standard deviation of about 1."""
    points = logits.astype(np.float64)
    points -= points.mean(axis=1, keepdims=True)
    if points.shape[1] > COLUMNS:
        points = points @ np.random.default_rng(0).normal(size=(points.shape[1], COLUMNS))
    return points / max(float(points.std()), 1e-300)


def _rates(answer: Array, rank: Array, correct: Array) -> Array:
    """For each row (n,), the share of right answers among rows of the same answer and a similar
    confidence.
    """
    order = np.lexsort((rank, answer))
    start = np.flatnonzero(np.r_[True, np.diff(answer[order]) != 0])
    within = np.arange(len(order)) - np.repeat(start, np.diff(np.r_[start, len(order)]))
    block = np.cumsum(within % BLOCK == 0) - 1
    rate = np.bincount(block, correct[order]) / np.bincount(block)
    found = np.empty(len(order))
    found[order] = rate[block]
    return found


def _agree(differ: Array, expected: Array, some: Array) -> bool:
    """Whether outcomes of neighbouring rows differ far less often than chance explains.

    `differ` says where they differ, `expected` how probable this is for different samples, `some`
    which rows count; all are (n,).
    """
    from scipy.special import pdtr

    several, mean = int(differ[some].sum()), float(expected[some].sum())
    return some.mean() >= 0.05 and several < 0.3 * mean and pdtr(several, mean) < SURE


def of_copies(logits: Array) -> Array:
    """Number the different rows of scores: rows (n, k) with equal scores get the same number.

    >>> of_copies(np.array([[0.5, 0.1], [0.2, 0.4], [0.5, 0.1]])).tolist()
    [0, 1, 0]
    """
    points = _features(logits)
    along = np.einsum("ij,j->i", points, np.random.default_rng(1).normal(size=points.shape[1]))
    order = np.argsort(along, kind="stable")
    apart = np.abs(np.diff(points[order], axis=0)).max(axis=1) > EQUAL
    place = np.empty(len(order), int)
    place[order] = np.r_[0, np.cumsum(apart)]
    return place
