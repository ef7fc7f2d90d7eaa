"""Temperature scaling, and how well it can calibrate a model."""

from dataclasses import dataclass
from math import inf

import numpy as np

from calibkit.arrays import Array, ArrayLike, Kind, as_logits
from calibkit.posthoc import search
from calibkit.posthoc.recalibration import (
    EndOfRangeWarning,
    RaisedErrorWarning,
    Recalibration,
    checked,
    warn,
)
from calibkit.posthoc.rows import probs64
from calibkit.posthoc.search import Objective, Scaled, best_temperature, range_of


def optimal_temperature(
    logits: ArrayLike,
    labels: ArrayLike,
    objective: Objective = "nll",
    bins: int = 15,
    kind: Kind = "logits",
) -> tuple[float, float]:
    """Temperature T that minimises the NLL or the ECE of softmax(logits / T), and that minimum.

    The NLL (Guo et al. 2017) is convex in 1/T, so its minimum is where its slope is zero. The range
    of T is 0.001 to 1000 times the size of the scores: the median distance between the two largest
    scores of a row.

    The ECE can have several minima, so it is searched on the grid 0.01, 0.02, ..., 10, as in Wang
    et al. 2021 and 2023 and Lin et al. 2025. The result is that of the full grid (the smallest T if
    several are best), but few of its temperatures are computed. The ECE is at least the gap ``|mean
    confidence - accuracy|``, and each confidence falls as T rises. So the search begins where the
    gap is zero, and ends on either side where the gap exceeds the best ECE.

    Parameters
    ----------
    logits : array or tensor, shape (n, k)
        Scores before the softmax.
    labels : array or tensor of integers, shape (n,)
        True classes, 0 to k - 1.
    objective : {"nll", "ece"}
        What T minimises; the default is the same in `TemperatureScaling`.
    bins : int
        Number of bins of the ECE, as in `metrics.ece`. Not used for the NLL.
    kind : {"logits", "probs"}
        "probs" if `logits` are probabilities, which are refused otherwise.

    Returns
    -------
    temperature : float
        Above 1 for an overconfident model.
    value : float
        The minimum: nats for the NLL, a fraction in [0, 1] for the ECE.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, the objective is
        unknown, or `bins` is below 1.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])  # 98% sure, 75% right
    >>> temperature, nll = optimal_temperature(logits, labels)
    >>> round(4 / temperature, 3)  # the logit of 0.75
    1.099
    >>> optimal_temperature(logits, labels, "ece")[0]
    3.64
    """
    scaled, best = best_temperature(*checked(logits, labels, kind), objective, bins)
    return best, (scaled.ece if objective == "ece" else scaled.nll)(best)[0]


@dataclass
class TemperatureScaling(Recalibration):
    """Divide the logits by one number fitted to held-out data, softmax(z / T) (Guo et al. 2017).

    Predictions do not change, since the order of the logits stays. `fit` warns
    (`PosthocWarning`) if the temperature is at an end of its range. It also warns if T raises the
    ECE or the NLL of the data that it was fitted to by more than 0.01.

    Parameters
    ----------
    objective : {"nll", "ece"}
        What the temperature minimises: the NLL, as is usual, or the ECE, as in Wang et al. 2021 and
        2023 and Lin et al. 2025.

    Attributes
    ----------
    temperature_ : float
        Above 1 for an overconfident model.

    Examples
    --------
    >>> logits, labels = np.array([[4.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> TemperatureScaling().fit(logits, labels).predict_proba([[4.0, 0.0]]).round(3)
    array([[0.75, 0.25]])
    """

    objective: Objective = "nll"
    _map = "temperature"
    _kept = {"temperature": ()}

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        scaled, best = best_temperature(logits, labels, self.objective, weights=weights)
        self.temperature_: float = best
        if best in (
            range_of(logits, weights)
            if self.objective == "nll"
            else (search.GRID[0], search.GRID[-1])
        ):
            wrong = int((logits.argmax(axis=1) != labels).sum())
            warn(
                f"temperature {best:g} is an end of the range searched; "
                f"{wrong} of {len(labels)} held-out answers are wrong",
                kind=EndOfRangeWarning,
            )
        errors = [("ECE", scaled.ece), ("NLL", scaled.nll)]
        for name, at in errors[: 1 if self.objective == "nll" else 2]:  # the lowest NLL is no worse
            before, after = at(1.0)[0], at(best)[0]
            if after > before + 0.01:
                warn(
                    f"temperature {best:g} raises the {name} of the data it was fitted on "
                    f"from {before:.4f} to {after:.4f}",
                    kind=RaisedErrorWarning,
                )

    def _probs(self, logits: Array) -> Array:
        return probs64(logits, self.temperature_)


@dataclass
class FixedTemperature(Recalibration):
    """Divide the logits by a temperature chosen beforehand, softmax(z / T) (Singh et al. 2021).

    `fit` checks the data and learns nothing; `predict_proba` works without it.

    Parameters
    ----------
    temperature : float
        Positive. The paper uses 1.5 on CIFAR and 1.1 on ImageNet.

    Examples
    --------
    >>> FixedTemperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    temperature: float
    _map = "fixed"
    _kept = {"temperature": ()}

    def __post_init__(self) -> None:
        if not 0 < self.temperature < inf:
            raise ValueError(f"temperature: got {self.temperature}, expected a positive number")

    @property
    def temperature_(self) -> float:
        """The temperature in use, under the same name as in `TemperatureScaling`."""
        return self.temperature

    def _fit(self, logits: Array, labels: Array, weights: Array | None = None) -> None:
        pass

    def _check_fitted(self, k: int) -> None:
        pass

    def _probs(self, logits: Array) -> Array:
        return probs64(logits, self.temperature)


def calibratability(
    val_logits: ArrayLike,
    val_labels: ArrayLike,
    test_logits: ArrayLike,
    test_labels: ArrayLike,
    bins: int = 15,
) -> dict[str, float]:
    """Measure how well temperature scaling can calibrate a model: three ECEs of the test set.

    Wang et al. 2021 compare these ECEs between training methods: of two models, the one with the
    higher ECE before scaling may have the lower ECE after it. Both temperatures minimise the ECE on
    the grid 0.01, 0.02, ..., 10.

    Parameters
    ----------
    val_logits : array or tensor, shape (m, k)
        Scores before the softmax of the samples on which the temperature is chosen.
    val_labels : array or tensor of integers, shape (m,)
        Their true classes, 0 to k - 1.
    test_logits : array or tensor, shape (n, k)
        Scores before the softmax of the samples on which the ECE is measured.
    test_labels : array or tensor of integers, shape (n,)
        Their true classes, 0 to k - 1.
    bins : int
        Number of bins of every ECE, as in `metrics.ece`.

    Returns
    -------
    dict
        ``before``: the ECE without temperature scaling. ``after``: the ECE with ``temperature``,
        the temperature of lowest validation ECE. ``optimal``: the ECE with ``optimal_temperature``,
        the temperature of lowest test ECE; no temperature on the grid has a lower one. ECEs are
        fractions in [0, 1].

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, the numbers of
        classes differ, or `bins` is below 1.

    Warns
    -----
    PosthocWarning
        If validation and test sets share samples, or a temperature is at an end of the grid.

    Examples
    --------
    >>> val, test = np.array([[4.0, 0.0]] * 4), np.array([[3.0, 0.0]] * 5)
    >>> found = calibratability(val, [0, 0, 0, 1], test, [0, 0, 0, 0, 1])
    >>> {name: round(value, 3) for name, value in found.items() if "temp" not in name}
    {'before': 0.153, 'after': 0.105, 'optimal': 0.0}
    >>> found["temperature"], found["optimal_temperature"]
    (3.64, 2.16)
    """
    check_overlap(val_logits, test_logits)
    temperature, _ = optimal_temperature(val_logits, val_labels, "ece", bins=bins)
    best, optimal = optimal_temperature(test_logits, test_labels, "ece", bins=bins)
    for name, value in (("validation", temperature), ("test", best)):
        if value in (search.GRID[0], search.GRID[-1]):
            warn(f"temperature {value:g} of the {name} set is an end of the range searched", 3)
    test_logits, test_labels = checked(test_logits, test_labels)
    scaled = Scaled(test_logits, test_labels, test_logits.dtype, bins)
    return {
        "before": scaled.ece(1.0)[0],
        "after": scaled.ece(temperature)[0],
        "optimal": optimal,
        "temperature": temperature,
        "optimal_temperature": best,
    }


def check_overlap(val_logits: ArrayLike, test_logits: ArrayLike) -> int:
    """Count the test samples that are also validation samples, and warn if they are more than 1%.

    The ECE after a temperature that was fitted to the same samples is too low. This happens if a
    data set has no labelled test split, and both loaders read the validation split (Tiny-ImageNet
    in the code of Lin et al. 2025).

    Parameters
    ----------
    val_logits : array or tensor, shape (m, k)
        Scores before the softmax of the validation samples.
    test_logits : array or tensor, shape (n, k)
        Scores before the softmax of the test samples.

    Returns
    -------
    int
        Rows of `test_logits` with an identical row in `val_logits`, compared in float32. Up to 1%
        give no warning: with two classes in half precision, rows coincide by chance.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, or the numbers of classes differ.

    Warns
    -----
    PosthocWarning
        If more than 1% of the test samples are validation samples.

    Examples
    --------
    >>> check_overlap([[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0]])
    0
    """
    val, test = as_logits(val_logits, "val_logits"), as_logits(test_logits, "test_logits")
    if val.shape[1] != test.shape[1]:
        raise ValueError(f"test_logits: got {test.shape[1]} classes, expected {val.shape[1]}")
    val_rows = {row.tobytes() for row in val.astype(np.float32)}
    shared = sum(row.tobytes() in val_rows for row in test.astype(np.float32))
    if shared > 0.01 * len(test):
        warn(f"{shared} of {len(test)} test samples are in the validation set too", 3)
    return shared
