"""Does a map make the probabilities of new samples worse, beyond what fitting costs by chance?"""

from typing import Any

import numpy as np

from calibkit import posthoc
from calibkit.arrays import Array, row_sums
from calibkit.report.design import Design


def harm(
    before: Array,
    after: Array,
    labels: Array,
    fitted: int,
    samples: int,
    floor: float = 0.0,
    design: Design | None = None,
) -> dict[str, Any]:
    """Test whether a map makes the probabilities of new samples worse than chance explains.

    Even a good map, fitted to calibrated scores, makes new samples a little worse: the expected NLL
    rises by about p / 2n for p fitted numbers and n samples. So a map does harm only if the lower
    end of the 95 % interval of the paired difference, after minus before, exceeds a margin: 2p / n
    for the NLL, p / n for the Brier score.

    Parameters
    ----------
    before : array (n, k)
        Probabilities, without the map, of samples that the map was not fitted to.
    after : array (n, k)
        Probabilities of the same samples with the map.
    labels : array (n,) of int
        True classes.
    fitted : int
        How many numbers the map consists of: see `parameters`.
    samples : int
        How many samples the map was fitted to. Clusters count as one sample each, and weighted
        samples as many as their effective size.
    floor : float
        A lower probability of the true class counts as this much, before and after. If it is 0 and
        a map gives the true class a probability of 0, the NLL is infinite, which is harm.
    design : Design, optional
        Weights and clusters of the n samples.

    Returns
    -------
    dict
        - ``nll`` (nats) and ``brier``: the differences as [estimate, low, high]; None if infinite.
        - ``nll_by_chance`` and ``brier_by_chance``: the margins.
        - ``fitted`` and ``samples``: as given.
        - ``never``: to how many samples' true class the map gave a probability of 0.
        - ``harmful``: the names of the differences that exceed their margin.

    Examples
    --------
    >>> labels = np.arange(100) % 2
    >>> good, bad = np.eye(2)[labels] * 0.8 + 0.1, np.full((100, 2), 0.5)
    >>> harm(good, bad, labels, fitted=1, samples=100)["harmful"]
    ['nll', 'brier']
    """
    rows, least = np.arange(len(labels)), max(floor, 1e-300)

    def costs(probs: Array) -> tuple[Array, Array]:
        squares = row_sums(probs**2) - 2 * probs[rows, labels] + 1
        return -np.log(np.maximum(probs[rows, labels], least)), squares

    lost = (after[rows, labels] == 0) & (before[rows, labels] > least)
    found: dict[str, Any] = {"fitted": fitted, "samples": samples, "harmful": []}
    found["never"] = int(lost.sum()) if not floor else 0
    margins = {"nll": 2 * fitted / samples, "brier": fitted / samples}
    for (name, margin), old, new in zip(margins.items(), costs(before), costs(after), strict=True):
        interval = (design or Design(len(labels))).mean(new - old)
        infinite = name == "nll" and found["never"]
        found[name] = [None] * 3 if infinite else list(interval)
        found[f"{name}_by_chance"] = margin
        if infinite or interval.low > margin:
            found["harmful"].append(name)
    return found


def parameters(model: posthoc.Recalibration) -> int:
    """Count the numbers that a fitted map consists of.

    For isotonic regression these are the levels of each class, for histogram binning the bins that
    hold samples. Two classes count as one, since the second follows from the first.

    >>> parameters(posthoc.FixedTemperature(2.0)), posthoc.VectorScaling().fit(
    ...     [[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 1, 1]
    ... ).scale_.size
    (0, 2)
    """
    if isinstance(model, posthoc.FixedTemperature):
        return 0
    kept = {name: getattr(model, f"{name}_") for name in model._kept}
    scaled = int(kept.pop("temperature", 1.0) != 1.0)
    if isinstance(model, posthoc.IsotonicCalibration):
        levels = [len(np.unique(pair[1])) for pair in model.points_ if pair is not None]
        return scaled + (max(levels) if len(model.points_) == 2 else sum(levels))
    if isinstance(model, posthoc.HistogramBinning):
        return int(np.isfinite(model.values_).sum())
    if isinstance(model, posthoc.TemperatureScaling):
        return 1
    if isinstance(model, posthoc.BetaCalibration):
        return scaled + (3 if len(model.parameters_) == 2 else model.parameters_.size)
    return scaled + sum(np.size(values) for name, values in kept.items() if name != "smoothing")
