"""The confidence in the most probable class, and whether it is right."""

from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from calibkit.arrays import (
    Array,
    ArrayLike,
    ArrayOrTensor,
    Weights,
    as_confidence_correct,
    as_labels,
    like,
    prob_blocks,
)
from calibkit.metrics.bins import Bins, binned, binned_samples
from calibkit.metrics.ranking import Ranking, weights_of

if TYPE_CHECKING:
    import torch

FEW_CLASSES = 40  # up to here, reducing a turned copy is faster than reducing short rows


def top_ranking(probs: ArrayLike, labels: ArrayLike, sample_weight: Weights) -> Ranking:
    """Rank the top label of probabilities (n, k) by its confidence."""
    confidence, correct = top_of(probs, labels)
    return Ranking.of(confidence, correct, weights_of(sample_weight, len(correct)))


def top_bins(probs: ArrayLike, labels: ArrayLike, bins: int, sample_weight: Weights) -> Bins:
    """Bin the top label of probabilities (n, k) by its confidence, in bins of equal width."""
    if sample_weight is not None:
        return binned(top_ranking(probs, labels, sample_weight), bins)
    return binned_samples(*top_of(probs, labels), bins)


@overload
def top_label(probs: "torch.Tensor", labels: ArrayLike) -> "tuple[torch.Tensor, torch.Tensor]": ...
@overload
def top_label(probs: npt.ArrayLike, labels: ArrayLike) -> tuple[Array, Array]: ...
def top_label(probs: ArrayLike, labels: ArrayLike) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    """Return the confidence in the most probable class of each sample, and whether it is right.

    The same as ``probs.max(axis=1)`` and ``probs.argmax(axis=1) == labels``, and several times
    faster.

    Parameters
    ----------
    probs : array or tensor, shape (n, k)
        Predicted probabilities. Of equal ones in a row, the first is the prediction.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.

    Returns
    -------
    confidence : array (n,)
        The argument `confidence` of `auroc`, `aurc` and their relatives.
    correct : array (n,) of bool
        Their argument `correct`. Both are tensors if `probs` is one.

    Examples
    --------
    >>> confidence, correct = top_label([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    >>> confidence.tolist(), correct.tolist()
    ([0.9, 0.6], [True, False])
    """
    if np.ndim(probs) != 2:
        raise ValueError(f"probs: got shape {np.shape(probs)}, expected (n, k)")
    confidence, correct = top_of(probs, labels)
    return like(confidence, probs), like(correct, probs)


def top_of(probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Return confidence (n,) and correctness (n,) of the most probable class.

    If `probs` is (n,), it holds confidences already, and `labels` say which are right.
    """
    if np.ndim(probs) == 1 and np.ndim(labels) == 1 and np.size(probs):
        return as_confidence_correct(probs, labels, unit=True)
    array, checked = prob_blocks(probs)
    n, k = array.shape
    labels = as_labels(labels, k, n)
    confidence, correct = np.empty(n, array.dtype), np.empty(n, bool)
    if k <= FEW_CLASSES:
        for rows, columns in prob_blocks(probs, turned=True)[1]:
            top = confidence[rows] = columns.max(axis=0)
            correct[rows] = _of_labels(array[rows], labels[rows]) == top
            # An equal and earlier class may be the predicted one.
            equal = np.add.reduce((columns == top).view(np.uint8), axis=0, dtype=np.uint8)
            tied = rows.start + np.flatnonzero(equal > 1)
            if len(tied):
                correct[tied] = array[tied].argmax(axis=1) == labels[tied]
        return confidence, correct
    for rows, block in checked:
        label = labels[rows]
        true = _of_labels(block, label)
        sure = true > 0.51  # no other class of a row that sums to 1 can reach it
        confidence[rows], correct[rows] = true, sure
        # Looking for the largest only where it is in doubt pays if that is not often.
        doubt = np.flatnonzero(~sure)
        if len(doubt) > len(block) // 2:
            doubt = np.arange(len(block))
        else:
            block = block[doubt]
        predicted = block.argmax(axis=1)
        where = doubt + rows.start
        confidence[where] = block[np.arange(len(block)), predicted]
        correct[where] = predicted == label[doubt]
    return confidence, correct


def _of_labels(block: Array, labels: Array) -> Array:
    # Flat indices take half the time of block[row, label].
    return block.ravel()[np.arange(0, block.size, block.shape[1]) + labels]
