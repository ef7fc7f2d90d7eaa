"""Metrics of a run on resamples of its test set, from which intervals are computed.

A replicate is the metric on one resample. The estimate is the metric on the whole test set. The
deviation is the replicate minus the estimate.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array, ArrayLike, Kind, as_labels, as_logits, log_odds, to_numpy
from calibkit.precision import log_of_map
from calibkit.stats.models import Answers, Model, Ranked
from calibkit.stats.resamples import evaluated, evaluator
from calibkit_companion.records.keys import BY_LOG_ODDS

# Metrics whose replicates every run keeps: COMPARED as trained and after each recalibration,
# RANKING also with the p-norm as the score, UNCHANGED only as trained.
COMPARED = (
    "accuracy", "ece", "adaptive_ece", "classwise_ece",
    "ece_floor", "excess_ece", "excess_adaptive_ece", "excess_classwise_ece",
    "nll", "brier", "auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr",
    *(f"risk_at_coverage_{share}" for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)),
)  # fmt: skip
RANKING = ("auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr")
UNCHANGED = ("confidence", "confidence_gap", "histogram_overlap", "ece_correct")


@dataclass(frozen=True, eq=False)
class Replicates:
    """Metrics of one run on n resamples of its test set, as deviations from the estimates.

    The resamples depend only on the size of the test set. So the i-th replicate of every run on a
    test set has the same samples, and the deviations of two runs are paired. `replicates_of_run`
    makes replicates, and `stats.mean_over_seeds` takes them. A file of them has some 30 KB.

    Attributes
    ----------
    names : tuple of str
        Names of the numbers. ``auroc`` is a metric as trained (`COMPARED` and `UNCHANGED`), and
        ``auroc_ts_nll`` a metric after a recalibration (`COMPARED`). ``auroc_p_norm`` takes the
        p-norm of the logits as the score (`RANKING`). ``auroc_log_odds`` and
        ``auroc_ts_nll_log_odds`` take the log-odds as the score; names without such an ending take
        the confidence. Older files have neither p-norm nor log-odds.
    estimates : array (names,)
        Values on the whole test set.
    deviations : array (names, n)
        Replicate minus estimate; NaN for a resample on which the metric is undefined.
    temperatures : dict of str to float
        Temperatures of the recalibrations ``ts_nll``, ``ts_ece`` and ``optimal``.
    p : float, optional
        The p of the p-norm: the one with the highest AUROC on the validation data.
    """

    names: tuple[str, ...]
    estimates: Array
    deviations: Array
    temperatures: dict[str, float]
    p: float | None = None

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def estimate(self, name: str) -> float:
        """A metric on the whole test set.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        float
            In the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return float(self.estimates[self._place[name]])

    def deviation(self, name: str) -> Array:
        """The deviations of a metric on all resamples.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        array of float64, shape (n,)
            Replicate minus estimate, in the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return self.deviations[self._place[name]].astype(np.float64)

    def save(self, path: str | Path) -> None:
        """Write the replicates to an ``.npz`` file of some 30 KB, without pickles.

        Deviations are rounded to 255 steps (see `quantised`). This changes their standard deviation
        by less than 0.1 %. With 200 replicates the standard deviation is uncertain by 5 % anyway.

        Parameters
        ----------
        path : path
            File to write, ending in ``.npz``.
        """
        steps, step = self.quantised()
        np.savez_compressed(
            path,
            names=np.array(self.names),
            estimates=self.estimates,
            steps=steps,
            step=step,
            recalibrations=np.array(list(self.temperatures), dtype=np.str_),
            temperatures=np.array(list(self.temperatures.values()), dtype=np.float64),
            p=np.array([] if self.p is None else [self.p], dtype=np.float64),
        )

    def quantised(self) -> tuple[Array, Array]:
        """Deviations rounded to multiples of a step, as files keep them.

        Returns
        -------
        steps : array (names, n) of int8
            Deviations divided by the step, from -127 to 127; -128 means undefined.
        step : array (names, 1) of float32
            Size of a step, in the units of the metric.

        Examples
        --------
        >>> kept = Replicates(("ece",), np.array([0.1]), np.array([[-0.02, 0.01]]), {})
        >>> kept.quantised()[0].tolist()
        [[-127, 64]]
        """
        most = np.nanmax(np.abs(self.deviations), axis=1, initial=0, keepdims=True)
        step = np.where(most > 0, most / 127, 1)
        steps = np.where(np.isnan(self.deviations), -128, np.rint(self.deviations / step))
        return steps.astype(np.int8), step.astype(np.float32)

    @classmethod
    def load(cls, path: str | Path) -> "Replicates":
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path
            The ``.npz`` file.

        Returns
        -------
        Replicates
            Its deviations are float32.
        """
        with np.load(path, allow_pickle=False) as file:
            of = zip(file["recalibrations"].tolist(), file["temperatures"].tolist(), strict=True)
            steps = file["steps"]
            deviations = np.where(steps == -128, np.nan, steps * file["step"]).astype(np.float32)
            p = next(iter(file["p"].tolist()), None) if "p" in file else None
            return cls(tuple(file["names"].tolist()), file["estimates"], deviations, dict(of), p)


def replicates_of_run(
    logits: ArrayLike,
    labels: ArrayLike,
    val_logits: "ArrayLike | None" = None,
    val_labels: "ArrayLike | None" = None,
    n: int = 200,
    seed: int = 0,
    kind: Kind = "logits",
) -> Replicates:
    """Compute all metrics of a run on resamples of its test set, as trained and recalibrated.

    There are four recalibrations. ``ts_nll`` and ``ts_ece`` are temperature scaling with the lowest
    NLL and the lowest ECE on the validation data. ``binned`` is histogram binning fitted on the
    validation data. ``optimal`` is the temperature with the lowest ECE on the test set itself.
    Ranking metrics are also computed with the p-norm of the logits as the score, for the p with the
    highest AUROC on the validation data.

    No recalibration is fitted again on a resample. So the replicates show the uncertainty of the
    test set alone, not that of training or of the fit.

    Parameters
    ----------
    logits : array or tensor, shape (m, k)
        Scores of the test samples before the softmax.
    labels : array or tensor of integers, shape (m,)
        True classes of the test samples, 0 to k - 1.
    val_logits : array or tensor, shape (v, k), optional
        Scores of the validation samples before the softmax. Without them the only recalibration is
        ``optimal``, and there is no p-norm.
    val_labels : array or tensor of integers, shape (v,), optional
        True classes of the validation samples.
    n : int
        Number of resamples, at least 2. Each draws m samples with replacement.
    seed : int
        Seed of the resamples. Only runs with equal `n` and `seed` can be compared.
    kind : {"logits", "probs"}
        "probs" if `logits` and `val_logits` are probabilities; "logits" refuses probabilities.

    Returns
    -------
    Replicates
        All metrics, as trained and after each recalibration.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or there are
        fewer than two replicates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 100)
    >>> logits = rng.normal(size=(100, 3)) + 2 * np.eye(3)[labels]
    >>> found = replicates_of_run(logits, labels, n=20)
    >>> found.deviation("auroc").shape, found.estimate("accuracy") == found.estimate(
    ...     "accuracy_optimal"
    ... )
    ((20,), True)
    """
    from calibkit import confidence, posthoc  # loaded late: only this function needs them

    given, logits = logits, as_logits(logits, kind=kind)
    labels = as_labels(labels, logits.shape[1], len(logits))
    temperatures, parts, p = {}, {"": (logits, (*COMPARED, *UNCHANGED))}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        if val_logits is not None:
            held_out = as_logits(val_logits, "val_logits", kind), val_labels
            right = held_out[0].argmax(axis=1) == to_numpy(val_labels, "val_labels")
            # With two classes every p ranks alike.
            if logits.shape[1] > 2 and right.any() and not right.all():
                p = confidence.choose_p(*held_out)
            for objective in ("nll", "ece"):
                best = posthoc.optimal_temperature(*held_out, objective)
                temperatures[f"ts_{objective}"] = best[0]
            binned = posthoc.HistogramBinning().fit(*held_out).predict_proba(logits)
            parts["_binned"] = log_of_map(binned), COMPARED
        temperatures["optimal"] = posthoc.optimal_temperature(logits, labels, "ece")[0]
    parts |= {f"_{name}": (logits / value, COMPARED) for name, value in temperatures.items()}
    for part in [part for part in parts if part != "_binned"]:  # binning ties confidences
        its = metrics.per_sample(parts[part][0], labels)
        odds = Ranked(its["confidence"], its["correct"], log_odds(parts[part][0]))
        parts[part + BY_LOG_ODDS] = odds, tuple(filter(metrics.ranks, COMPARED))
    if p is not None:
        scores = Answers(confidence.p_norm(logits, p), logits.argmax(axis=1) == labels)
        parts["_p_norm"] = scores, RANKING
    models = (
        Model(scores if part else given, labels, asked, "logits" if part else kind, True)
        for part, (scores, asked) in parts.items()
    )
    each = zip(models, parts.values(), strict=True)
    evaluators = [evaluator(model, asked) for model, (_, asked) in each]
    names = [metric + part for part, (_, asked) in parts.items() for metric in asked]
    estimates = np.concatenate([evaluate(None) for evaluate in evaluators])
    values = evaluated(evaluators, len(labels), n, seed)
    deviations = (np.concatenate(values, axis=1) - estimates).T.astype(np.float32)
    return Replicates(tuple(names), estimates, deviations, temperatures, p)
